// Package depdesc reads the dependency descriptor, the RTP header extension by which a sender says what each frame of a layered stream refers
// to (AV1 RTP payload specification, appendix A). It decides nothing.
package depdesc

import (
	"errors"

	"sightline/frames/internal/coded"
)

const (
	maxTemplates = 64
	maxSpatial   = 4
)

// What a descriptor may be wrong with.
var (
	ErrShort     = errors.New("dependency descriptor: cut short")
	ErrStructure = errors.New("dependency descriptor: a structure over its bounds")
	ErrTemplate  = errors.New("dependency descriptor: of a template that the structure does not have")
)

// Structure is what the templates say; it comes with a key frame and holds until the next one.
type Structure struct {
	offset    int
	templates []template
	targets   int // decode targets
	chains    int
	Spatial   int                // layers in space, 1 to 4
	Sizes     [maxSpatial][2]int // width and height of each in pixels; 0: not said
}

type template struct {
	spatial, temporal uint8
	diffs             []uint16
}

// Frame is the descriptor of one packet.
type Frame struct {
	Start, End        bool   // the packet is the first, the last of its frame
	Number            uint16 // of the frame: layers of one picture count on their own
	Spatial, Temporal uint8
	Structure         *Structure // a new one, that this frame is the first of; nil: none
	diffs             [16]uint16
	n                 int
}

// Diffs gives how many frames before this one each of its references is.
func (f *Frame) Diffs() []uint16 { return f.diffs[:f.n] }

// Parse reads a descriptor. s is the structure in force, which may be nil: then only a frame that brings one can be read.
func Parse(data []byte, s *Structure) (f Frame, err error) {
	if len(data) < 3 {
		return f, ErrShort
	}
	b := coded.NewBits(data)
	f.Start, f.End = b.Flag(), b.Flag()
	id := int(b.Read(6))
	f.Number = uint16(b.Read(16))
	var targets, dtis, diffs bool
	if len(data) > 3 {
		structure := b.Flag()
		targets = b.Flag()
		dtis, diffs = b.Flag(), b.Flag()
		b.Skip(1) // chains of its own: not read
		if structure {
			if f.Structure, err = readStructure(b); err != nil {
				return f, err
			}
			s = f.Structure
		}
	}
	if s == nil {
		return f, ErrTemplate
	}
	if targets {
		b.Skip(s.targets)
	}
	i := (id + maxTemplates - s.offset) % maxTemplates
	if i >= len(s.templates) {
		return f, ErrTemplate
	}
	t := &s.templates[i]
	f.Spatial, f.Temporal = t.spatial, t.temporal
	f.n = copy(f.diffs[:], t.diffs)
	if dtis {
		b.Skip(2 * s.targets)
	}
	if diffs {
		f.n = 0
		for size := b.Read(2); size > 0 && !b.Short; size = b.Read(2) {
			if f.n == len(f.diffs) {
				return f, ErrStructure
			}
			f.diffs[f.n] = uint16(b.Read(int(4*size)) + 1)
			f.n++
		}
	}
	if b.Short {
		return f, ErrShort
	}
	return f, nil
}

func readStructure(b *coded.Bits) (*Structure, error) {
	s := &Structure{offset: int(b.Read(6)), targets: int(b.Read(5)) + 1}
	if err := s.layers(b); err != nil {
		return nil, err
	}
	b.Skip(2 * s.targets * len(s.templates)) // what each is to each decode target
	for i := range s.templates {
		for t := &s.templates[i]; b.Flag() && !b.Short; {
			if len(t.diffs) == 16 {
				return nil, ErrStructure
			}
			t.diffs = append(t.diffs, uint16(b.Read(4)+1))
		}
	}
	if s.chains = nonSymmetric(b, s.targets+1); s.chains > 0 {
		for range s.targets {
			nonSymmetric(b, s.chains)
		}
		b.Skip(4 * s.chains * len(s.templates))
	}
	if b.Flag() {
		for i := range s.Spatial {
			s.Sizes[i] = [2]int{int(b.Read(16)) + 1, int(b.Read(16)) + 1}
		}
	}
	if b.Short {
		return nil, ErrShort
	}
	return s, nil
}

// layers reads which template is of which layer.
func (s *Structure) layers(b *coded.Bits) error {
	var t template
	for {
		if len(s.templates) == maxTemplates {
			return ErrStructure
		}
		s.templates = append(s.templates, t)
		switch b.Read(2) {
		case 1:
			t.temporal++
		case 2:
			t.spatial++
			t.temporal = 0
		case 3:
			s.Spatial = int(t.spatial) + 1
			return nil
		}
		if b.Short {
			return ErrShort
		}
		if t.spatial >= maxSpatial || t.temporal >= 8 {
			return ErrStructure
		}
	}
}

// nonSymmetric reads a number below n in as few bits as it takes (§A.8.1).
func nonSymmetric(b *coded.Bits, n int) int {
	w := 0
	for x := n; x != 0; x >>= 1 {
		w++
	}
	m := 1<<w - n
	v := int(b.Read(w - 1))
	if v < m {
		return v
	}
	return v<<1 - m + int(b.Read(1))
}
