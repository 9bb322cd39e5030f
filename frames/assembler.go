package frames

import (
	"time"

	"github.com/pion/rtp"
)

const (
	ringPackets   = 1024                   // a gap this wide is given up at once
	ringBytes     = 4 << 20                // so is one with this many bytes waiting behind it
	frameBytes    = 4 << 20                // a frame longer than this is dropped
	framePackets  = 2048                   // likewise
	holeWait      = 150 * time.Millisecond // how long a missing packet is waited for
	videoClock    = 90000                  // RTP ticks a second of every video codec
	timestampLeap = 10 * time.Second       // timestamps and arrivals disagreeing by more: another stream
)

// slot is one packet waiting in the ring for those before it.
type slot struct {
	ext    int64
	full   bool
	pad    bool // no payload: counts for continuity only
	bad    bool // payload that does not parse: a hole that will not be filled
	marker bool
	ts     uint32
	at     time.Time
	pkt    packet
}

// assembler orders packets and puts frames together: packets and time in; frames, counters and the wish for a key frame out. It is a
// pure state machine: no clock, no goroutine, no lock. A frame comes out the moment it is whole and everything before it was whole; after
// a hole nothing comes out until a whole key frame (G10).
type assembler struct {
	depay depacketizer

	// inputs
	seq    sequencer
	active bool // false: only sequence numbers and key frame sizes are looked at

	// order
	ring      []slot    // ringPackets of them while active
	held      int       // slots full
	heldBytes int       // their payload
	scan      int64     // next number to be taken; everything before is done with
	scanKnown bool      // false: the next fresh packet sets scan
	holeAt    time.Time // when scan's absence was noticed; zero: nothing waits behind it
	stray     *rtp.Packet
	strayAt   time.Time
	lastTS    uint32 // of the newest packet with payload, and when it came
	lastTSAt  time.Time

	// the frame in work
	cur     *frame
	packets int  // in cur
	doubt   bool // packets from before cur came while it was in work: what follows it may be of a sender that has begun anew
	skip    bool // the rest of this frame is not wanted
	prev    bool // the packet before scan was taken
	prevTS  uint32
	needKey bool
	ids     pictureIDs

	lay layered

	clock captureClock
	said  saying
	meter meter

	// outputs
	out           []*frame
	spare         []*frame
	width, height int // of the newest key frame whose size is in bounds
	pdrops        PacketDrops
	fdrops        FrameDrops
	resets        uint64
	frames, keys  uint64
}

func newAssembler(c Codec) (assembler, error) {
	d, err := newDepacketizer(c)
	return assembler{depay: d}, err
}

// push takes one packet; the frames it completes are in order and the slice is good until the next call.
func (a *assembler) push(p *rtp.Packet, at time.Time) []*frame {
	a.out = a.out[:0]
	ext, v := a.seq.observe(p.SequenceNumber, at)
	switch v {
	case verdictDuplicate:
		a.pdrops.Duplicate++
	case verdictLate:
		a.pdrops.Late++
		a.doubt = true
	case verdictStray:
		if a.stray != nil {
			a.pdrops.Stray++
		}
		a.stray, a.strayAt = p, at
	case verdictRestart:
		a.restart()
		a.accept(ext-1, a.stray, a.strayAt)
		a.stray = nil
		a.accept(ext, p, at)
	case verdictFresh:
		if a.stray != nil {
			a.stray = nil
			a.pdrops.Stray++
		}
		a.accept(ext, p, at)
	}
	return a.out
}

// holds reports whether a packet that was pushed last may be looked at again.
func (a *assembler) holds(p *rtp.Packet) bool { return a.active || a.stray == p }

// tick lets time pass when no packet comes.
func (a *assembler) tick(at time.Time) []*frame {
	a.out = a.out[:0]
	a.giveUp(at)
	return a.out
}

// wake starts assembling; the next key frame is the first to come out.
func (a *assembler) wake() {
	a.active, a.needKey, a.scanKnown, a.skip, a.prev = true, true, false, true, false
	a.lay.wake()
	if a.ring == nil {
		a.ring = make([]slot, ringPackets)
	}
}

// sleep stops assembling and forgets what it held.
func (a *assembler) sleep() {
	a.flush()
	a.active, a.ring, a.spare, a.out = false, nil, nil, nil
}

// recycle takes a frame back.
func (a *assembler) recycle(f *frame) {
	if a.active && len(a.spare) < spareFrames && cap(f.data) <= spareBytes {
		a.spare = append(a.spare, f)
	}
}

// breakChain says that what comes next must be a key frame: a frame was thrown away behind the assembler, or is missing before it.
func (a *assembler) breakChain() {
	a.needKey = true
	a.ids.skip()
	if a.cur != nil && !a.cur.key {
		a.dropCur(&a.fdrops.NeedKey)
	}
}

// anotherStream says that the next packet is of another stream, whose numbers and timestamps begin anew.
func (a *assembler) anotherStream() {
	a.restart()
	a.seq.started, a.stray = false, nil
}

func (a *assembler) restart() {
	a.resets++
	if a.active {
		a.flush()
		a.breakChain()
	}
	a.lastTSAt = time.Time{}
	a.clock.restart()
}

// flush empties the ring and the frame in work.
func (a *assembler) flush() {
	if a.cur != nil {
		a.dropCur(&a.fdrops.Incomplete)
	}
	if a.held > 0 {
		clear(a.ring)
	}
	a.held, a.heldBytes, a.scanKnown, a.skip, a.prev, a.holeAt = 0, 0, false, true, false, time.Time{}
	a.lay.picKnown = false
	a.ids = pictureIDs{}
}

// accept files one fresh packet and moves on as far as it goes.
func (a *assembler) accept(ext int64, p *rtp.Packet, at time.Time) {
	s := slot{ext: ext, full: true, marker: p.Marker, ts: p.Timestamp, at: at}
	if len(p.Payload) == 0 {
		s.pad = true
	} else if !a.describe(&s, p) {
		a.pdrops.Malformed++
	}
	newest := ext == a.seq.high
	a.meter.add(len(p.Payload), newest && !s.pad && (a.lastTSAt.IsZero() || p.Timestamp != a.lastTS), at)
	if !s.pad {
		if newest {
			a.watchTimestamp(p.Timestamp, at)
		}
		a.clock.observe(p.Timestamp, at)
		a.said.read(p, s.pkt.key, &a.clock, at)
	}
	if !a.active {
		a.depay.keep(s.pkt)
		a.depends(&s.pkt, true)
		return
	}
	if !a.scanKnown {
		a.scan, a.scanKnown = ext, true
	}
	if ext < a.scan {
		a.pdrops.Late++
		a.doubt = true
		return
	}
	if ext-a.scan >= ringPackets {
		a.abandonTo(ext)
	}
	a.store(&s)
	a.advance()
	a.giveUp(at)
}

// describe reads the payload and notes the size of a key frame that starts here.
func (a *assembler) describe(s *slot, p *rtp.Packet) bool {
	var err error
	if s.pkt, err = a.depay.parse(p.Payload); err != nil {
		s.bad, s.pkt = true, packet{}
		return false
	}
	s.pkt.dependency = a.said.value(p, a.said.ids.Dependency)
	a.learn(&s.pkt)
	return !s.pkt.unknown
}

// watchTimestamp restarts when timestamps and arrivals part by more than timestampLeap. A long pause alone is none: both go on.
func (a *assembler) watchTimestamp(ts uint32, at time.Time) {
	if !a.lastTSAt.IsZero() {
		media := time.Duration(int32(ts-a.lastTS)) * time.Second / videoClock
		if d := media - at.Sub(a.lastTSAt); d > timestampLeap || d < -timestampLeap {
			a.restart()
		}
	}
	a.lastTS, a.lastTSAt = ts, at
}

func (a *assembler) store(s *slot) {
	a.ring[s.ext&(ringPackets-1)] = *s
	a.held++
	a.heldBytes += len(s.pkt.data)
	if a.needKey && s.ext > a.scan && !s.bad && s.pkt.key {
		a.jump(s.ext) // nothing before this key frame is needed any more
	}
	for a.heldBytes > ringBytes {
		a.hole()
	}
}

// at returns the slot of number n if its packet is there.
func (a *assembler) at(n int64) *slot {
	if s := &a.ring[n&(ringPackets-1)]; s.full && s.ext == n {
		return s
	}
	return nil
}

func (a *assembler) remove(s *slot) {
	a.held--
	a.heldBytes -= len(s.pkt.data)
	*s = slot{}
}

// advance takes packets in order until one is missing that may be wanted.
func (a *assembler) advance() {
	for {
		s := a.at(a.scan)
		if s == nil {
			if a.held == 0 || a.cur != nil || !a.prev {
				return
			}
			if s := a.nextFilled(); s != nil && a.passable(s) {
				a.scan, a.holeAt = a.nextHeld(), time.Time{}
				continue
			}
			return
		}
		a.take(s)
		a.remove(s)
		a.scan++
		a.holeAt = time.Time{}
	}
}

// giveUp ends the wait for packets that are overdue.
func (a *assembler) giveUp(at time.Time) {
	for a.held > 0 {
		if a.holeAt.IsZero() {
			a.holeAt = a.ring[a.nextHeld()&(ringPackets-1)].at
		}
		if at.Sub(a.holeAt) < holeWait {
			return
		}
		a.hole()
	}
	a.holeAt = time.Time{}
}

// hole gives up what is missing at scan and goes on behind it.
func (a *assembler) hole() {
	if a.cur != nil {
		a.dropCur(&a.fdrops.Incomplete)
	} else if !a.skip {
		a.fdrops.Incomplete++ // nothing of it came
	}
	a.breakChain()
	to := a.nextHeld()
	for n := to; n <= a.seq.high; n++ {
		if s := a.at(n); s != nil && !s.bad && s.pkt.key {
			to = n
			break
		}
	}
	a.jump(to)
	a.advance()
}

// nextHeld is the lowest number in the ring; call it only when there is one.
func (a *assembler) nextHeld() int64 {
	n := a.scan
	for a.at(n) == nil {
		n++
	}
	return n
}

// nextFilled is the first packet in the ring that has payload; nil if there is none. Senders probe with bursts of packets without.
func (a *assembler) nextFilled() *slot {
	for n := a.scan; n <= a.seq.high; n++ {
		if s := a.at(n); s != nil && !s.pad {
			return s
		}
	}
	return nil
}

// jump moves scan forward to n; what is passed over is dropped.
func (a *assembler) jump(n int64) {
	if a.cur != nil {
		a.dropCur(&a.fdrops.Incomplete)
	}
	for ; a.held > 0 && a.scan < n; a.scan++ {
		if s := a.at(a.scan); s != nil {
			if !s.bad && (s.pkt.start && !s.pkt.loose || s.pkt.loose && s.marker) {
				a.fdrops.NeedKey++
			}
			a.depay.keep(s.pkt)
			a.remove(s)
		}
	}
	a.scan, a.skip, a.prev, a.holeAt = n, true, false, time.Time{}
}

// abandonTo makes room for number n: nothing ringPackets or more before it can wait.
func (a *assembler) abandonTo(n int64) {
	for a.held > 0 && n-a.scan >= ringPackets {
		a.hole()
	}
	if n-a.scan >= ringPackets {
		a.breakChain()
		a.jump(n)
	}
}
