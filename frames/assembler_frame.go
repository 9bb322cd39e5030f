package frames

import "sightline/frames/internal/vp8hdr"

// take adds the next packet in order to the frame in work.
func (a *assembler) take(s *slot) {
	if s.pad {
		return
	}
	if s.bad {
		a.broken(s)
		return
	}
	if s.vp8.start {
		a.begin(s)
	} else if a.cur == nil && !a.skip || a.cur != nil && a.cur.ts != s.ts {
		a.broken(s) // no start: the sender left it out, or the last frame had no end
		return
	}
	if a.cur != nil {
		a.add(s)
	}
	if s.marker {
		a.skip = false
		if a.cur != nil {
			a.finish()
		}
	}
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
	key := s.vp8.key()
	if !a.ids.follows(s.vp8) && !key {
		a.breakChain()
	}
	if a.needKey && !key {
		a.fdrops.NeedKey++
		a.skip = true
		return
	}
	a.cur = a.newFrame()
	a.cur.key, a.cur.ts = key, s.ts
}

func (a *assembler) add(s *slot) {
	if a.packets == framePackets || len(a.cur.data)+len(s.vp8.data) > frameBytes {
		a.dropCur(&a.fdrops.TooBig)
		a.breakChain()
		a.skip = true
		return
	}
	a.packets++
	a.cur.data = append(a.cur.data, s.vp8.data...)
	if s.at.After(a.cur.receivedAt) {
		a.cur.receivedAt = s.at
	}
}

// finish checks the frame in work as far as a header can be checked and puts it out.
func (a *assembler) finish() {
	f := a.cur
	h, err := vp8hdr.Parse(f.data)
	if err == nil {
		err = h.CheckSize()
	}
	if err == nil {
		err = h.CheckComplete(len(f.data))
	}
	if err != nil {
		a.dropCur(&a.fdrops.Refused)
		a.breakChain()
		return
	}
	a.cur = nil
	f.width, f.height = h.Width, h.Height
	f.capturedAt = a.clock.capturedAt(f.ts, f.receivedAt)
	if f.key {
		a.needKey = false
		a.keys++
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
	a.recycle(a.cur)
	a.cur, a.skip = nil, true
}

func (a *assembler) newFrame() *frame {
	a.packets, a.doubt = 0, false
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
