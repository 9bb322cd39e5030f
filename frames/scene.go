package frames

import (
	"encoding/binary"
	"time"

	"sightline/frames/internal/yuv"
)

// A scene is compared by the means of its luma in a grid of cells; 20×20 pixels each at 720p.
const (
	sceneColumns = 64
	sceneRows    = 36

	sceneCell = 12 // levels of 255: a picture has changed when the mean of a cell has by so much (a word, a hand, a cursor does) …
	sceneMean = 4  // … or the cells together by so much in the mean (light, exposure)

	sameCell    = 6                // a picture is as before while no cell differs by more: key frames of one still at a low rate differ by 5
	frozenAfter = 15 * time.Second // pictures that keep coming and are all as before for so long are told as frozen
	frozenLooks = 3                // and were looked at so often at least
	frozenEvery = 500 * time.Millisecond
)

// scene is a picture's luma as far as comparing needs it.
type scene struct {
	width, height int // of the picture; 0: there is none
	cells         [sceneColumns * sceneRows]uint8
}

// of looks at every second row of a picture: 0.11 ms of CPU at 720p, where an image costs 2 to 3.
func (s *scene) of(p *Picture) {
	s.width, s.height = p.Width, p.Height
	columns, rows := min(sceneColumns, p.Width), min(sceneRows, p.Height)
	words := p.Width / 8
	var evens, odds [yuv.MaxSide / 8]uint64 // sums of every other byte, 16 bits each
	var sums [yuv.MaxSide]uint16
	even, odd := evens[:words], odds[:words]
	for cy := range rows {
		from, to := cy*p.Height/rows, (cy+1)*p.Height/rows
		clear(even)
		clear(odd)
		clear(sums[words*8 : p.Width])
		for y := from; y < to; y += 2 {
			row := p.Y[y*p.YStride : y*p.YStride+p.Width]
			for i, v := range row[words*8:] {
				sums[words*8+i] += uint16(v)
			}
			for i := range even {
				v := binary.LittleEndian.Uint64(row[i*8:])
				even[i] += v & 0x00ff00ff00ff00ff
				odd[i] += v >> 8 & 0x00ff00ff00ff00ff
			}
		}
		for i, e := range even {
			o, to := odd[i], sums[i*8:i*8+8]
			to[0], to[2], to[4], to[6] = uint16(e), uint16(e>>16), uint16(e>>32), uint16(e>>48)
			to[1], to[3], to[5], to[7] = uint16(o), uint16(o>>16), uint16(o>>32), uint16(o>>48)
		}
		n := (to - from + 1) / 2
		for cx := range columns {
			left, right := cx*p.Width/columns, (cx+1)*p.Width/columns
			sum := 0
			for _, v := range sums[left:right] {
				sum += int(v)
			}
			s.cells[cy*sceneColumns+cx] = uint8(sum / (n * (right - left)))
		}
	}
}

// apart says by how much two scenes differ: in the cell that differs most, and in the mean. Of another size is wholly other.
func (s *scene) apart(o *scene) (most int, mean float64) {
	if s.width != o.width || s.height != o.height {
		return 255, 255
	}
	sum := 0
	for i, v := range s.cells {
		d := int(v) - int(o.cells[i])
		if d < 0 {
			d = -d
		}
		sum += d
		most = max(most, d)
	}
	return most, float64(sum) / float64(min(sceneColumns, max(s.width, 1))*min(sceneRows, max(s.height, 1)))
}

// changed reports whether what is seen is another thing to an eye.
func (s *scene) changed(o *scene) bool {
	most, mean := s.apart(o)
	return most >= sceneCell || mean >= sceneMean
}

// stillness finds pictures that keep coming and in which nothing changes. A camera that hangs looks so; a room in which nothing moves may, too:
// at common bitrates an encoder smooths the noise away that would tell the two apart, so it is told as a fact. Pure; time is passed in.
type stillness struct {
	first  scene     // how it has looked
	since  time.Time // since when; zero: not known
	looked time.Time // last
	looks  int
}

// due reports whether a decoded picture is to be looked at.
func (s *stillness) due(at time.Time) bool { return at.Sub(s.looked) >= frozenEvery }

// look compares a picture.
func (s *stillness) look(p *scene, at time.Time) {
	s.looked = at
	if most, _ := p.apart(&s.first); s.since.IsZero() || most > sameCell {
		s.first, s.since, s.looks = *p, at, 0
	}
	s.looks++
}

// frozen reports whether nothing has changed for long enough.
func (s *stillness) frozen() bool {
	return s.looks >= frozenLooks && s.looked.Sub(s.since) >= frozenAfter
}

// changeGate withholds images of a subscription that wants changes only. What it compares with is the picture of the last image that it let
// through, so that a slow change adds up. Pure; time is passed in.
type changeGate struct {
	last  scene
	at    time.Time     // of that picture; zero: there was none yet
	force bool          // let the next one through
	gap   time.Duration // let one through after so long, whatever it shows; 0: never
}

// passes reports whether a picture, if it is known how that looks, is let through; early is how much before the gap's end a picture is due
// that would be followed by one too late.
func (g *changeGate) passes(p *scene, at time.Time, early time.Duration) bool {
	return g.at.IsZero() || g.force || p == nil || g.gap > 0 && at.Sub(g.at) >= g.gap-early || p.changed(&g.last)
}

// took says that a picture was let through.
func (g *changeGate) took(p *scene, at time.Time) {
	g.at, g.force = at, false
	if p != nil {
		g.last = *p
	}
}
