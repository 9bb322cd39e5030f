package frames

import (
	"errors"

	"sightline/frames/internal/depdesc"
)

// take adds the next packet in order to the frame in work.
func (a *assembler) take(s *slot) {
	if s.pad {
		return
	}
	a.depay.keep(s.pkt)
	d, _ := a.depends(&s.pkt, true)
	a.put(s, &d)
	a.prev, a.prevTS = true, s.ts
	a.lay.last, a.lay.lastEnd = s.pkt, s.marker
	a.lay.last.data, a.lay.last.sizes, a.lay.last.dependency = nil, nil, nil
}

func (a *assembler) put(s *slot, d *depdesc.Frame) {
	if s.bad {
		a.broken(s)
		return
	}
	above := s.pkt.layered && a.above(s)
	drop := s.pkt.drop || above
	switch {
	case drop:
	case !a.intact(s, d):
		a.broken(s)
		return
	case a.starts(s):
		a.begin(s)
	case a.cur == nil && !a.skip || a.cur != nil && a.cur.ts != s.ts:
		a.broken(s) // no start: the sender left it out, or the last frame had no end
		return
	}
	if a.cur != nil && !drop {
		a.add(s)
	}
	if a.cur != nil && !drop && s.pkt.layered && s.pkt.end && s.pkt.sid == a.lay.use {
		a.finish()
	}
	if s.marker {
		a.skip = false
		if a.cur != nil {
			a.finish()
		}
	}
}

// starts reports whether a frame starts with this packet. Where the codec does not say so, it does behind a frame's end; and where the end
// was not seen, with what begins a key frame or is of another time than the packet right before it.
func (a *assembler) starts(s *slot) bool {
	switch {
	case s.pkt.begins && s.pkt.sid > 0 && !s.pkt.loose: // of a picture without its lower layers
		return a.cur == nil && !a.skip && !(a.prev && a.prevTS == s.ts)
	case !s.pkt.loose || !s.pkt.start:
		return s.pkt.start
	case a.cur != nil:
		return a.cur.ts != s.ts
	case a.skip:
		return s.pkt.key || a.prev && a.prevTS != s.ts
	}
	return true
}

// begin opens a frame, and closes one that had no marker: it is whole if nothing between it and this start is in doubt. Two
// starts in one timestamp are: one of them is not what it says.
func (a *assembler) begin(s *slot) {
	if a.cur != nil {
		if a.cur.ts != s.ts && !a.doubt {
			a.finish()
		} else {
			a.dropCur(&a.fdrops.Incomplete)
			a.breakChain()
		}
	}
	a.skip = false
	key := s.pkt.key || s.pkt.maybe
	if !a.ids.follows(&s.pkt) && !key {
		a.breakChain()
	}
	if a.needKey && !key {
		a.fdrops.NeedKey++
		a.skip = true
		return
	}
	a.cur = a.newFrame()
	a.cur.key, a.cur.ts, a.cur.temporal = key, s.ts, s.pkt.temporal
	a.depay.begin()
	if s.pkt.key {
		a.lay.numbers = numbers{}
	}
}

func (a *assembler) add(s *slot) {
	if a.packets == framePackets || len(a.cur.data)+len(s.pkt.data) > frameBytes {
		a.tooBig()
		return
	}
	a.packets++
	if s.pkt.layered {
		a.lay.top = s.pkt.sid
	}
	if s.pkt.numbered && s.pkt.begins {
		a.lay.numbers.add(s.pkt.number)
	}
	var err error
	if a.cur.data, err = a.depay.add(a.cur.data, s.pkt); err != nil {
		a.pdrops.Malformed++
		a.broken(s)
		return
	}
	if s.at.After(a.cur.receivedAt) {
		a.cur.receivedAt = s.at
	}
}

func (a *assembler) tooBig() {
	a.dropCur(&a.fdrops.TooBig)
	a.breakChain()
	a.skip = true
}

// finish checks the frame in work as far as a header can be checked and puts it out.
func (a *assembler) finish() {
	f := a.cur
	data, h, err := a.depay.finish(f.data)
	f.data = data
	switch {
	case errors.Is(err, errNoFrame), errors.Is(err, errLeftOut):
		if errors.Is(err, errLeftOut) {
			a.fdrops.Refused++
		}
		a.lay.numbers.settle(false)
		a.recycle(f)
		a.cur = nil
		return
	case err != nil:
		a.dropCur(&a.fdrops.Refused)
		a.breakChain()
		return
	case len(data) > frameBytes:
		a.tooBig()
		return
	case a.needKey && !h.key:
		a.dropCur(&a.fdrops.NeedKey)
		return
	}
	a.cur = nil
	f.key, f.width, f.height = h.key, h.width, h.height
	a.lay.numbers.settle(true)
	if f.spatial = a.lay.top; f.key && int(f.spatial) < a.lay.n && a.lay.n > 1 {
		f.width, f.height = a.lay.sizes[f.spatial][0], a.lay.sizes[f.spatial][1]
		a.width, a.height = f.width, f.height
	}
	f.temporal.unreferenced = f.temporal.unreferenced || h.unreferenced
	f.captured, f.colour = a.clock.capturedAt(f.ts, f.receivedAt), a.said.colourFor(f.ts)
	if f.key {
		a.needKey = false
		a.keys++
		if a.width == 0 { // no packet said it alone
			a.width, a.height = f.width, f.height
		}
	}
	a.frames++
	a.out = append(a.out, f)
}

// broken handles a packet that can belong to no whole frame.
func (a *assembler) broken(s *slot) {
	if a.cur != nil {
		a.dropCur(&a.fdrops.Incomplete)
	} else if !a.skip {
		a.fdrops.Incomplete++
	}
	a.breakChain()
	a.skip = !s.marker
}

func (a *assembler) dropCur(counter *uint64) {
	*counter++
	a.lay.numbers.settle(false)
	a.recycle(a.cur)
	a.cur, a.skip = nil, true
}

func (a *assembler) newFrame() *frame {
	a.packets, a.doubt, a.lay.top = 0, false, 0
	n := len(a.spare)
	if n == 0 {
		return &frame{data: make([]byte, 0, 16<<10)}
	}
	f := a.spare[n-1]
	a.spare[n-1] = nil
	a.spare = a.spare[:n-1]
	*f = frame{data: f.data[:0]}
	return f
}
