package frames

import (
	"time"

	"sightline/frames/internal/depdesc"
)

// spatial is the choice among the layers in space of one stream (VP9 and AV1 SVC): the smallest whose longer side is at least the wanted one,
// else the largest; the lowest where the sender does not tell their sizes. A higher one begins at a key frame; a lower one with any picture,
// after layerLower in which it would have been enough. Pure; time is passed in.
type spatial struct {
	sizes [8][2]int // width and height, pixels
	n     int       // layers that the sender told sizes of
	side  int       // wanted, pixels; 0: nothing is wanted
	use   uint8     // what is above is left out
	lower time.Time // since when a lower one would do; zero: it would not
}

func (s *spatial) best() uint8 {
	for i, size := range s.sizes[:s.n] {
		if s.side > 0 && max(size[0], size[1]) >= s.side {
			return uint8(i)
		}
	}
	return uint8(max(s.n-1, 0))
}

// begin settles the layer of a picture that starts.
func (s *spatial) begin(key bool, at time.Time) {
	best := s.best()
	switch {
	case best >= s.use:
		s.lower = time.Time{}
		if key {
			s.use = best
		}
	case s.lower.IsZero() && int(s.use) < s.n:
		s.lower = at
	case int(s.use) >= s.n || at.Sub(s.lower) >= layerLower:
		s.use, s.lower = best, time.Time{}
	}
}

// wantsKey reports whether a key frame would give a better picture.
func (s *spatial) wantsKey() bool { return s.best() > s.use }

// wake is for a stream of which nothing is decoded.
func (s *spatial) wake() { s.use, s.lower = s.best(), time.Time{} }

// numbers remembers which of a stream's newest frames were taken, by the numbers that dependency descriptors give them.
type numbers struct {
	taken [256]uint16
	has   [256]bool
	cur   [8]uint16 // those of the picture in work
	n     int
}

func (g *numbers) known(number uint16) bool {
	for _, c := range g.cur[:g.n] {
		if c == number {
			return true
		}
	}
	i := number & 255
	return g.has[i] && g.taken[i] == number
}

// intact reports whether all that a frame refers to was taken.
func (g *numbers) intact(f *depdesc.Frame) bool {
	for _, d := range f.Diffs() {
		if d > 255 || !g.known(f.Number-d) {
			return false
		}
	}
	return true
}

func (g *numbers) add(number uint16) {
	if g.n < len(g.cur) {
		g.cur[g.n] = number
		g.n++
	}
}

// settle ends the picture in work.
func (g *numbers) settle(whole bool) {
	for _, c := range g.cur[:g.n] {
		i := c & 255
		g.taken[i], g.has[i] = c, whole
	}
	g.n = 0
}

// layered is what the assembler knows of layers in space.
type layered struct {
	spatial
	numbers   numbers
	structure *depdesc.Structure // in force; nil: no dependency descriptors
	last      packet             // the last one taken that has a payload, without it
	lastEnd   bool               // it had the marker
	picTS     uint32             // of the picture that the last packet was of
	picKnown  bool
	top       uint8 // the highest layer in the frame in work
}

// learn takes what a packet says of the layers' sizes. A key frame that has no layers takes it back.
func (a *assembler) learn(p *packet) {
	switch {
	case len(p.sizes) > 0:
		a.lay.n = 0
		for b := p.sizes; len(b) >= 4 && a.lay.n < len(a.lay.sizes); b = b[4:] {
			a.lay.sizes[a.lay.n] = [2]int{int(b[0])<<8 | int(b[1]), int(b[2])<<8 | int(b[3])}
			a.lay.n++
		}
	case p.key && !p.layered && len(p.dependency) == 0:
		a.lay.n = 0
	}
	if p.width > 0 && a.lay.n < 2 {
		a.width, a.height = int(p.width), int(p.height)
	} else if p.key && !a.active && a.lay.n > 1 {
		best := a.lay.sizes[a.lay.best()]
		a.width, a.height = best[0], best[1]
	}
}

// depends reads a packet's dependency descriptor, which makes it one of a layer if there are any. adopt: the packet is next in order, what it
// says of the stream holds from now on. ok is false where there is none that can be read.
func (a *assembler) depends(p *packet, adopt bool) (f depdesc.Frame, ok bool) {
	if len(p.dependency) == 0 {
		return f, false
	}
	f, err := depdesc.Parse(p.dependency, a.lay.structure)
	if err != nil {
		return f, false
	}
	s := a.lay.structure
	if f.Structure != nil {
		s = f.Structure
	}
	if adopt && f.Structure != nil {
		a.lay.structure, a.lay.n = s, 0
		for i := 0; i < s.Spatial && s.Sizes[i][0] > 0; i++ {
			a.lay.sizes[i] = s.Sizes[i]
			a.lay.n++
		}
	}
	p.temporal.known, p.temporal.id = true, f.Temporal
	p.layered, p.numbered = s.Spatial > 1, true
	p.sid, p.number, p.begins, p.end = f.Spatial, f.Number, f.Start, f.End
	return f, true
}

// above reports whether a packet is of a layer that is left out. The picture is whole for us when the first of these comes.
func (a *assembler) above(s *slot) bool {
	first := !a.lay.picKnown || a.lay.picTS != s.ts
	if first {
		a.lay.picTS, a.lay.picKnown = s.ts, true
		a.lay.begin(s.pkt.key, s.at)
	}
	if s.pkt.sid <= a.lay.use {
		return false
	}
	if a.cur != nil {
		a.finish()
	}
	if first && !a.ids.follows(&s.pkt) {
		a.breakChain()
	}
	return true
}

// intact reports whether all that a layer's frame refers to was taken, as far as a dependency descriptor tells.
func (a *assembler) intact(s *slot, f *depdesc.Frame) bool {
	if !f.Start || s.pkt.key {
		return true
	}
	return a.lay.numbers.intact(f)
}

// passable reports whether what is missing before n, the next packet that is there, is certainly of no layer that is wanted: either the picture
// before is done as far as it is wanted and n is of its upper layers or begins the very next one, or nothing but padding is missing.
func (a *assembler) passable(n *slot) bool {
	l := &a.lay.last
	if !a.prev || a.cur != nil || n.bad || n.pad {
		return false
	}
	use, same := a.lay.use, n.ts == a.prevTS
	done := l.layered && (l.sid > use || l.sid == use && l.end)
	if same && !done {
		return false
	}
	if l.hasPictureID && n.pkt.hasPictureID && l.pictureMask == n.pkt.pictureMask && n.ext-a.scan < 0x7f {
		if same {
			return l.pictureID == n.pkt.pictureID && n.pkt.layered && n.pkt.sid > use
		}
		return (done || a.lay.lastEnd) && n.pkt.start && (l.pictureID+1)&l.pictureMask == n.pkt.pictureID
	}
	f, ok := a.depends(&n.pkt, false)
	if !ok || !l.numbered {
		return false
	}
	if same {
		return n.pkt.layered && n.pkt.sid > use
	}
	if !n.pkt.begins || n.pkt.sid > 0 || !n.pkt.start {
		return false
	}
	missing := int(n.pkt.number - l.number - 1)
	if a.lay.lastEnd {
		return missing == 0
	}
	return done && missing <= a.lay.structure.Spatial-1-int(l.sid) && a.lay.numbers.intact(&f)
}
