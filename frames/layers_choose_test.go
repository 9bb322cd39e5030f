package frames

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Sizes decide, not the order or the names.
func TestTheSmallestLayerThatIsEnoughIsChosen(t *testing.T) {
	for _, c := range []struct {
		name  string
		sides []int // 0: not known, under 0: silent
		side  int
		want  int
	}{
		{"small is enough", []int{320, 640, 1280}, 300, 0},
		{"just enough", []int{320, 640, 1280}, 640, 1},
		{"one pixel more", []int{320, 640, 1280}, 641, 2},
		{"none is enough: the largest", []int{320, 640, 960}, 1024, 2},
		{"upside down", []int{1280, 640, 320}, 500, 1},
		{"the best is silent", []int{320, 640, -1280}, 1024, 1},
		{"all larger ones are silent", []int{320, -640, -1280}, 1024, 0},
		{"one is not known", []int{320, 0, 1280}, 500, 2},
		{"none is known: the first that is sent", []int{-1, 0, 0}, 500, 1},
		{"two of a size: the first", []int{640, 640}, 500, 0},
		{"nobody wants anything", []int{320, 640}, 0, 0},
		{"none is sent", []int{-320, -640}, 500, -1},
	} {
		var views []layerView
		for _, s := range c.sides {
			views = append(views, layerView{side: max(s, -s), alive: s >= 0, steady: true})
		}
		if got := (&layerChooser{}).choose(views, -1, c.side, t0); got != c.want {
			t.Errorf("%s: layer %d, want %d", c.name, got, c.want)
		}
	}
}

// stage plays layers against the chooser as a track does: every 50 ms, with a key frame wait later.
type stage struct {
	c        layerChooser
	views    []layerView
	pulses   []pulse
	cur      int
	side     int
	at       time.Time
	frames   uint64
	sent     []bool
	switches []string // "second:layer"
}

func newStage(side int, sides ...int) *stage {
	s := &stage{cur: -1, side: side, at: t0, views: make([]layerView, len(sides)), pulses: make([]pulse, len(sides)), sent: make([]bool, len(sides))}
	for i, side := range sides {
		s.views[i].side, s.sent[i] = side, true
	}
	return s
}

func (s *stage) step() (switched bool) {
	s.at = s.at.Add(50 * time.Millisecond)
	for i := range s.views {
		if s.sent[i] {
			s.frames++
			s.pulses[i].beat(s.at, s.frames)
		}
	}
	for i := range s.views {
		s.views[i].alive = s.pulses[i].look(s.at, s.frames)
		s.views[i].steady = s.views[i].alive && s.pulses[i].steady(s.at)
	}
	got := s.c.choose(s.views, s.cur, s.side, s.at)
	if got == s.cur {
		return false
	}
	s.cur = got
	s.views[got].used = true
	s.c.took(s.at)
	s.switches = append(s.switches, fmt.Sprintf("%.2f:%d", s.at.Sub(t0).Seconds(), got))
	return true
}

func (s *stage) run(d time.Duration) {
	for end := s.at.Add(d); s.at.Before(end); {
		s.step()
	}
}

func (s *stage) want(t *testing.T, switches ...string) {
	t.Helper()
	if fmt.Sprint(s.switches) != fmt.Sprint(switches) {
		t.Errorf("switches %v, want %v", s.switches, switches)
	}
}

func TestLayersAreSwitchedWithPatience(t *testing.T) {
	t.Run("layers appear one after the other", func(t *testing.T) {
		s := newStage(1000, 320, 640, 1280)
		s.sent[1], s.sent[2] = false, false
		s.run(time.Second)
		s.sent[1] = true
		s.run(time.Second)
		s.sent[2] = true
		s.run(10 * time.Second)
		s.want(t, "0.05:0", "1.05:1", "2.05:2")
	})
	t.Run("a smaller wish must last", func(t *testing.T) {
		s := newStage(1000, 320, 640, 1280)
		s.run(10 * time.Second)
		s.side = 300
		s.run(2 * time.Second)
		s.side = 1000
		s.run(2 * time.Second)
		s.side = 300
		s.run(10 * time.Second)
		s.want(t, "0.05:2", "17.05:0")
	})
	t.Run("wishes that go to and fro", func(t *testing.T) {
		s := newStage(1280, 320, 1280)
		for range 300 { // 30 s
			s.side = 1580 - s.side
			s.run(100 * time.Millisecond)
		}
		s.want(t, "0.05:0", "0.15:1")
	})
	t.Run("the bandwidth falls and comes back", func(t *testing.T) {
		s := newStage(1000, 320, 640, 1280)
		s.run(10 * time.Second)
		s.sent[2] = false
		s.run(10 * time.Second) // silent from 11 on
		s.sent[1] = false
		s.run(10 * time.Second)
		s.sent[1], s.sent[2] = true, true
		s.run(10 * time.Second)
		s.want(t, "0.05:2", "11.00:1", "21.00:0", "33.05:2")
	})
	t.Run("a layer that comes and goes is trusted less each time", func(t *testing.T) {
		s := newStage(1000, 320, 1280)
		s.run(10 * time.Second)
		for range 20 { // 4 s with, 4 s without
			s.sent[1] = false
			s.run(4 * time.Second)
			s.sent[1] = true
			s.run(4 * time.Second)
		}
		if n := len(s.switches); n > 8 {
			t.Errorf("%d switches: %v", n, s.switches)
		}
	})
	t.Run("one picture a second is no silence", func(t *testing.T) {
		s := newStage(1000, 320, 1280)
		s.run(2 * time.Second)
		for i := range 600 { // the layers' pictures are a little apart
			s.sent[0], s.sent[1] = i%20 == 0, i%20 == 3
			s.step()
		}
		s.want(t, "0.05:1")
	})
	t.Run("nothing moves", func(t *testing.T) {
		s := newStage(1000, 320, 1280)
		s.run(2 * time.Second)
		s.sent[0], s.sent[1] = false, false
		s.run(time.Minute)
		s.want(t, "0.05:1")
	})
	t.Run("sizes change places", func(t *testing.T) {
		s := newStage(500, 320, 640)
		s.run(10 * time.Second)
		for range 300 {
			s.views[0].side, s.views[1].side = s.views[1].side, s.views[0].side
			s.run(100 * time.Millisecond)
		}
		if n := len(s.switches); n > 1+30/3+1 {
			t.Errorf("%d switches in 30 s: %v", n, s.switches)
		}
	})
}

// Whatever layers and wishes do: two switches are layerDwell apart unless the layer left was silent or the one taken never used before; the
// layer in use is one that is sent if any is; and when nothing changes any more, the best one is in use in the end.
func TestLayersUnderAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sides := rapid.SliceOfN(rapid.SampledFrom([]int{0, 160, 320, 640, 640, 1280, 1920}), 1, 5).Draw(t, "sides")
		s := newStage(640, sides...)
		var last time.Time
		step := func() {
			before := s.cur
			var left, used bool
			if before >= 0 {
				left = !s.pulses[before].look(s.at.Add(50*time.Millisecond), s.frames)
			}
			wasUsed := make([]bool, len(s.views))
			for i, v := range s.views {
				wasUsed[i] = v.used
			}
			if !s.step() {
				return
			}
			used = wasUsed[s.cur]
			if before >= 0 {
				left = left || !s.views[before].alive
				if !left && used && s.at.Sub(last) < layerDwell {
					t.Fatalf("from %d to %d only %v after the last: %v", before, s.cur, s.at.Sub(last), s.switches)
				}
				if !left && s.views[s.cur].side == s.views[before].side {
					t.Fatalf("from %d to %d, which is no other size", before, s.cur)
				}
			}
			last = s.at
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			i := rapid.IntRange(0, len(sides)-1).Draw(t, "layer")
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				s.sent[i] = !s.sent[i]
			case 1:
				s.views[i].side = rapid.SampledFrom([]int{0, 320, 640, 1280}).Draw(t, "side")
			case 2:
				s.side = rapid.SampledFrom([]int{100, 400, 800, 4096}).Draw(t, "wanted")
			}
			for range rapid.IntRange(1, 80).Draw(t, "steps") {
				step()
			}
		}
		for range 20 * 40 { // 40 s in peace: longer than every patience
			step()
		}
		sent := false
		for i, v := range s.views {
			sent = sent || s.sent[i] && v.side > 0
		}
		if !sent {
			return
		}
		best := bestLayer(s.views, s.cur, s.side, func(_ int, l layerView) bool { return l.alive && l.side > 0 })
		if s.cur < 0 || s.views[s.cur].side != s.views[best].side || !s.views[s.cur].alive {
			t.Fatalf("layer %d of %+v in the end for %d, want %d", s.cur, s.views, s.side, best)
		}
	})
}
