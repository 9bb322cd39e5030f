package sound

import "time"

// lateBounds are the upper bounds of EgressStats.Late, in ascending order; its last count is of what is later still.
var lateBounds = [...]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond}

// EgressStats counts since the egress was made. Times are of sound where nothing else is said.
type EgressStats struct {
	Packets        uint64        // sent
	Bytes          uint64        // of their payload
	Played         time.Duration // heard
	Queued         time.Duration // waiting now
	OpenTurns      int           // now
	Underruns      uint64        // turns' sound that went on after it had run out while it was heard
	LateSound      uint64        // pieces dropped: their turn was over or of an older epoch
	LateTime       time.Duration // of them
	StoppedTime    time.Duration // thrown away by Stop or by a newer epoch
	WriteErrors    uint64        // packets that the writer refused, each time
	SkippedSlots   uint64        // given up since the clock was more than three packets late
	ReportsDropped uint64        // reports that nobody read, progress not counted
	Connected      bool          // there is a writer
	// Late counts packets by how long after their time they were sent: at most 1, 2, 5, 10, 20, 40, 60 ms, later. Packets
	// whose sound came late do not count.
	Late    [len(lateBounds) + 1]uint64
	MaxLate time.Duration
}

func (s *EgressStats) late(d time.Duration) {
	at := 0
	for at < len(lateBounds) && d > lateBounds[at] {
		at++
	}
	s.Late[at]++
	s.MaxLate = max(s.MaxLate, d)
}

// LateAtMost gives the bound that the share q (0 to 1) of the packets kept; 0 when it is more than the largest of Late.
func (s EgressStats) LateAtMost(q float64) time.Duration {
	var all, sum uint64
	for _, n := range s.Late {
		all += n
	}
	for i, n := range s.Late[:len(lateBounds)] {
		if sum += n; float64(sum) >= q*float64(all) {
			return lateBounds[i]
		}
	}
	return 0
}
