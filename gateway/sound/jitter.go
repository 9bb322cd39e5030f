package sound

import (
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
)

const (
	clockRate   = opus.ClockRate         // ticks a second
	maxTicks    = opus.MaxSamples        // of a packet
	slots       = 256                    // packets that may wait; at 2.5 ms each more than maxHeld
	maxHeld     = 400 * time.Millisecond // sound that may wait; beyond it the oldest is dropped
	maxConceal  = 100 * time.Millisecond // of missing sound is made up; then there is silence
	maxGap      = 2 * time.Second        // a longer step of timestamps over a loss is not filled
	leap        = time.Second            // timestamps and arrivals disagreeing by more: timestamps have begun anew
	farSequence = 3000                   // a longer step of sequence numbers is another stream or a stray packet
	grain       = 6                      // ticks, 1/8 ms: whole samples at every rate that is given out
	concealUnit = 120                    // ticks, 2.5 ms: what the decoder makes up comes in multiples of it
	trimLeast   = 10 * time.Millisecond  // a smaller excess of delay is let be
)

// stepKind is where the next piece of sound comes from.
type stepKind uint8

const (
	stepSilence stepKind = iota
	stepPacket           // decode payload
	stepRepair           // what is missing is in the packet behind it, payload (in-band FEC)
	stepConceal          // the decoder makes it up
)

// step is the next piece of sound.
type step struct {
	kind    stepKind
	payload []byte
	ticks   int
	excess  int // ticks that the sound is later than need be and may be shortened by; for stepPacket
}

// slot is a packet that waits.
type slot struct {
	packet *rtp.Packet // nil: empty
	ext    int64       // extended sequence number
	ts     int64       // extended timestamp
	ticks  int         // 0: padding only
	fresh  bool        // timestamps begin anew with it
}

// jitter puts packets in order and decides what is played when: packets and time in, pieces of sound without a gap out. A
// pure state machine: no clock, no goroutine, no lock.
type jitter struct {
	delay  delays
	counts Counts

	started bool
	ssrc    uint32
	origin  time.Time // zero of every duration here
	high    int64     // newest extended sequence number
	lastTS  int64     // of it
	lastAt  time.Duration
	freshAt int64 // extended number of the packet that timestamps began anew with
	stray   *rtp.Packet
	strayAt time.Time

	ring    [slots]slot
	held    int          // packets
	waiting int64        // ticks of them
	played  [slots]int64 // extended number of the packet that was played or thrown away in this place
	nextSeq int64
	nextTS  int64 // of the next piece that is put out

	behind    time.Duration // how long after the fastest way the newest packet was played
	concealed int           // ticks made up since the last packet
	idle      bool          // nothing but silence or made-up sound since: the next packet may choose its time
}

func newJitter(low, high time.Duration) *jitter {
	return &jitter{delay: delays{low: low, high: high}, idle: true}
}

// A tick is 62500/3 ns.
func span(ticks int64) time.Duration { return time.Duration(ticks * 62500 / 3) }
func toTicks(d time.Duration) int64  { return int64(d) * 3 / 62500 }

// down rounds down to a multiple.
func down[T int | int64](n, unit T) T { return n - n%unit }

// push takes a packet, which is kept, and the time of its arrival.
func (j *jitter) push(p *rtp.Packet, at time.Time) {
	j.counts.Packets++
	if !j.started {
		j.start(p, at)
		j.accept(p, at)
		return
	}
	step := int64(int16(p.SequenceNumber - uint16(j.high)))
	if p.SSRC == j.ssrc && step <= farSequence && step > -farSequence {
		if j.stray != nil {
			j.stray = nil
			j.counts.Stray++
		}
		j.accept(p, at)
		return
	}
	// Two neighbours far away are the stream's new beginning, one is a stray.
	if s := j.stray; s != nil && s.SSRC == p.SSRC && s.SequenceNumber+1 == p.SequenceNumber {
		j.stray = nil
		j.counts.Restarts++
		j.flush()
		j.start(s, j.strayAt)
		j.accept(s, j.strayAt)
		j.accept(p, at)
		return
	}
	if j.stray != nil {
		j.counts.Stray++
	}
	j.stray, j.strayAt = p, at
}

// start begins a stream with its first packet.
func (j *jitter) start(p *rtp.Packet, at time.Time) {
	if !j.started {
		j.origin = at
	}
	j.started, j.ssrc, j.idle = true, p.SSRC, true
	j.delay.reset()
	j.high += 1 << 17 // no number of before is met again
	j.high = j.high&^0xffff | int64(p.SequenceNumber)
	j.nextSeq = j.high
	j.high--
	j.lastTS, j.lastAt = int64(p.Timestamp), at.Sub(j.origin)
	j.nextTS = j.lastTS
}

// flush forgets the packets that wait.
func (j *jitter) flush() {
	j.counts.Dropped += uint64(j.held)
	j.ring, j.held, j.waiting = [slots]slot{}, 0, 0
}

func (j *jitter) accept(p *rtp.Packet, at time.Time) {
	ext := j.high + int64(int16(p.SequenceNumber-uint16(j.high)))
	s := &j.ring[ext&(slots-1)]
	switch {
	case ext < j.nextSeq-slots:
		j.counts.Late++
		return
	case ext < j.nextSeq:
		if j.played[ext&(slots-1)] == ext {
			j.counts.Duplicates++
		} else {
			j.counts.Late++
		}
		return
	case s.packet != nil && s.ext == ext:
		j.counts.Duplicates++
		return
	}
	ticks := 0
	if len(p.Payload) > 0 {
		var err error
		if ticks, err = opus.Samples(p.Payload, clockRate); err != nil {
			j.counts.Malformed++
		}
	}
	for ext-j.nextSeq >= slots {
		j.skip()
	}

	now := at.Sub(j.origin)
	fresh := false
	ts := j.lastTS
	if ticks > 0 {
		ts += int64(int32(p.Timestamp - uint32(j.lastTS)))
		if ext > j.high {
			if fresh = j.anew(ts, now); fresh {
				j.delay.reset()
				j.freshAt = ext
			}
			j.lastTS, j.lastAt = ts, now
		}
		if ext >= j.freshAt {
			j.delay.observe(now-span(ts), now)
		}
	}
	j.high = max(j.high, ext)
	*s = slot{packet: p, ext: ext, ts: ts, ticks: ticks, fresh: fresh}
	j.held++
	j.waiting += int64(ticks)
}

// anew tells whether timestamps begin anew with the newest packet.
func (j *jitter) anew(ts int64, now time.Duration) bool {
	off := now - j.lastAt - span(ts-j.lastTS)
	return off >= leap || off <= -leap
}

// skip gives up the oldest number.
func (j *jitter) skip() {
	if s := &j.ring[j.nextSeq&(slots-1)]; s.packet != nil && s.ext == j.nextSeq {
		j.counts.Dropped++
		j.take(s)
		return
	}
	j.counts.Lost++
	j.nextSeq++
}

// take takes the packet out that is next.
func (j *jitter) take(s *slot) {
	j.played[s.ext&(slots-1)] = s.ext
	j.nextSeq = s.ext + 1
	if s.ticks > 0 {
		j.nextTS = s.ts + int64(s.ticks)
	}
	j.held--
	j.waiting -= int64(s.ticks)
	*s = slot{}
}

// upcoming is the oldest packet that waits, nil when none does.
func (j *jitter) upcoming() *slot {
	if j.held == 0 {
		return nil
	}
	for n := j.nextSeq; ; n++ {
		if s := &j.ring[n&(slots-1)]; s.packet != nil && s.ext == n {
			return s
		}
	}
}

// next is the sound that is to be played from now on, at least a grain of it and at most want ticks, unless what there is
// cannot be divided.
func (j *jitter) next(now time.Time, want int) step {
	if !j.started {
		return j.silence(want)
	}
	j.relieve()
	for {
		s := j.upcoming()
		switch {
		case s == nil:
			return j.bridge(want)
		case s.ticks == 0: // counts for continuity only
			j.counts.Lost += uint64(s.ext - j.nextSeq)
			j.take(s)
			continue
		}
		if missing := s.ext - j.nextSeq; missing > 0 {
			if st, ok := j.mend(s, missing); ok {
				return st
			}
			j.counts.Lost += uint64(missing)
			j.nextSeq = s.ext
		}
		if s.ts-j.nextTS >= grain || s.fresh {
			j.idle = true // a pause of the sender (DTX): its length is in the timestamps
		}
		if j.idle {
			// What is here came no faster than the fastest: it never waits longer than target, or it is from before
			// timestamps began anew.
			target := j.delay.target()
			due := toTicks(now.Sub(j.origin) - j.delay.fastest() - target)
			if pause := down(s.ts-due, grain); pause > 0 && pause <= toTicks(target)+grain {
				return j.fill(int(min(pause, int64(want))))
			}
		}
		return j.play(s, now)
	}
}

// play takes out a packet that is to be decoded.
func (j *jitter) play(s *slot, now time.Time) step {
	st := step{kind: stepPacket, payload: s.packet.Payload, ticks: s.ticks}
	j.behind = now.Sub(j.origin) - j.delay.fastest() - span(s.ts)
	others := span(j.waiting - int64(s.ticks))
	if excess := min(j.behind-j.delay.target(), others); excess >= trimLeast {
		st.excess = int(toTicks(excess))
	}
	j.take(s)
	j.counts.Played++
	j.concealed, j.idle = 0, false
	return st
}

// mend fills in for the first of the missing packets before s; not ok when there is nothing to fill, or too much.
func (j *jitter) mend(s *slot, missing int64) (step, bool) {
	gap := s.ts - j.nextTS
	piece := int(down(gap/missing, concealUnit))
	if s.fresh || piece <= 0 || gap > toTicks(maxGap) || piece > min(maxTicks, j.concealable()) {
		return step{}, false
	}
	j.counts.Lost++
	j.nextSeq++
	if missing == 1 && opus.HasFEC(s.packet.Payload) {
		j.nextTS += int64(piece)
		j.counts.Repaired += span(int64(piece))
		return step{kind: stepRepair, payload: s.packet.Payload, ticks: piece}, true
	}
	return j.conceal(piece), true
}

// bridge is what is heard while no packet is there.
func (j *jitter) bridge(want int) step {
	j.idle = true
	if j.counts.Played > 0 && j.concealable() > 0 {
		return j.conceal(min(down(want+concealUnit-1, concealUnit), j.concealable()))
	}
	return j.silence(want)
}

// fill is what is heard before a packet whose time has not come: more of what was made up, if that is where we are.
func (j *jitter) fill(ticks int) step {
	if made := min(down(ticks, concealUnit), j.concealable()); made > 0 && j.concealed > 0 {
		return j.conceal(made)
	}
	return j.silence(ticks)
}

// concealable is how many ticks may still be made up.
func (j *jitter) concealable() int {
	return down(int(toTicks(maxConceal))-j.concealed, concealUnit)
}

func (j *jitter) conceal(ticks int) step {
	j.counts.Concealed += span(int64(ticks))
	j.nextTS += int64(ticks)
	j.concealed += ticks
	return step{kind: stepConceal, ticks: ticks}
}

func (j *jitter) silence(ticks int) step {
	j.counts.Silence += span(int64(ticks))
	j.nextTS += int64(ticks)
	return step{kind: stepSilence, ticks: ticks}
}

// relieve drops the oldest sound where more waits than may.
func (j *jitter) relieve() {
	if j.waiting <= toTicks(maxHeld) {
		return
	}
	for j.held > 1 && j.waiting > toTicks(j.delay.target()) {
		s := j.upcoming()
		j.counts.Lost += uint64(s.ext - j.nextSeq)
		j.counts.Dropped++
		j.take(s)
	}
	j.idle = true
}

// came is when the sound came in, or would have come the fastest way, of which behind ticks are put out but not given yet.
// now is when it is given.
func (j *jitter) came(now time.Time, behind int) time.Time {
	if !j.started {
		return now.Add(-j.delay.low)
	}
	at := j.origin.Add(j.delay.fastest() + span(j.nextTS-int64(behind)))
	if earliest := now.Add(-maxHeld - leap); at.Before(earliest) { // timestamps have begun anew and this is from before
		return earliest
	}
	if at.After(now) {
		return now
	}
	return at
}
