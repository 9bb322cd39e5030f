package frames

import "time"

const (
	seqWindow    = 1024                   // packets back for which duplicates are known as such
	seqJump      = 3000                   // a longer step, or one back out of the window, is another stream or a stray packet
	settleBehind = 128                    // this many newer packets: what is missing is lost
	settleAfter  = 500 * time.Millisecond // or this much later
)

// verdict is what sequencer says of a packet.
type verdict uint8

const (
	verdictFresh     verdict = iota
	verdictDuplicate         // came before
	verdictLate              // already counted as lost
	verdictStray             // far away: keep it until the next packet confirms it or not
	verdictRestart           // the stray before and this one are neighbours: the stream goes on from there
)

// sequencer extends 16-bit sequence numbers (RFC 3550 §A.1 in spirit), finds duplicates and counts what never came. Pure; time is passed in.
type sequencer struct {
	started bool
	high    int64                  // newest extended number
	seen    [seqWindow / 64]uint64 // bit n&1023: extended number n, high-1023 to high, has come
	settled int64                  // every number below is decided: came or lost
	mark    int64                  // high when the oldest open gap was noticed
	markAt  time.Time              // zero: no gap is open
	lost    uint64

	stray     bool
	strayNext uint16
}

func (s *sequencer) bit(n int64) (word *uint64, mask uint64) {
	i := uint64(n) & (seqWindow - 1)
	return &s.seen[i>>6], 1 << (i & 63)
}

func (s *sequencer) has(n int64) bool { w, m := s.bit(n); return *w&m != 0 }
func (s *sequencer) set(n int64)      { w, m := s.bit(n); *w |= m }
func (s *sequencer) unset(n int64)    { w, m := s.bit(n); *w &^= m }

// start begins anew at extended number n.
func (s *sequencer) start(n int64) {
	s.started, s.high, s.settled = true, n, n+1
	s.seen = [seqWindow / 64]uint64{}
	s.set(n)
	s.markAt, s.stray = time.Time{}, false
}

// observe places one packet. ext is its extended number, which only grows across restarts; it means nothing for a stray.
func (s *sequencer) observe(seq uint16, at time.Time) (ext int64, v verdict) {
	if !s.started {
		s.start(1<<16 | int64(seq)) // never negative, whatever comes reordered
		return s.high, verdictFresh
	}
	d := int64(int16(seq - uint16(s.high)))
	if d > seqJump || d <= -seqWindow {
		if s.stray && seq == s.strayNext {
			s.start(s.high&^0xffff + 1<<17 | int64(seq))
			s.set(s.high - 1) // the stray itself
			return s.high, verdictRestart
		}
		s.stray, s.strayNext = true, seq+1
		return 0, verdictStray
	}
	s.stray = false
	ext = s.high + d
	switch {
	case d > 0:
		s.advance(ext)
		v = verdictFresh
	case s.has(ext):
		v = verdictDuplicate
	default:
		s.set(ext)
		v = verdictFresh
		if ext < s.settled {
			v = verdictLate
		}
	}
	s.settle(at)
	return ext, v
}

// advance moves the window so that ext is its newest.
func (s *sequencer) advance(ext int64) {
	s.settleTo(min(s.high+1, ext-settleBehind)) // while their bits are there
	if ext-s.high >= seqWindow {
		s.seen = [seqWindow / 64]uint64{}
	} else {
		for n := s.high + 1; n < ext; n++ {
			s.unset(n)
		}
	}
	s.high = ext
	s.set(ext)
	s.settleTo(ext - settleBehind)
}

// settle decides the numbers whose time is up.
func (s *sequencer) settle(at time.Time) {
	for s.settled <= s.high && s.has(s.settled) {
		s.settled++
	}
	if s.settled > s.high {
		s.markAt = time.Time{}
		return
	}
	if s.markAt.IsZero() {
		s.mark, s.markAt = s.high, at
		return
	}
	if at.Sub(s.markAt) >= settleAfter {
		s.settleTo(s.mark)
		s.mark, s.markAt = s.high, at
	}
}

func (s *sequencer) settleTo(n int64) {
	for ; s.settled < n; s.settled++ {
		if !s.has(s.settled) {
			s.lost++
		}
	}
}
