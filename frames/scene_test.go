package frames

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
)

func TestSceneIsTheMeanOfEachCell(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var s scene
	for _, size := range [][2]int{{1280, 720}, {640, 480}, {641, 481}, {1, 1}, {7, 5}, {8, 36}, {65, 37}, {127, 71}, {4096, 2176}} {
		w, h := size[0], size[1]
		p := Picture{Width: w, Height: h, YStride: w + 3, Y: make([]byte, (w+3)*h)}
		for i := range p.Y {
			p.Y[i] = byte(rng.Uint32())
			if h > 1000 { // the largest sums there can be
				p.Y[i] = 255
			}
		}
		s.of(&p)
		columns, rows := min(sceneColumns, w), min(sceneRows, h)
		for cy := range rows {
			for cx := range columns {
				sum, n := 0, 0
				for y := cy * h / rows; y < (cy+1)*h/rows; y += 2 {
					for x := cx * w / columns; x < (cx+1)*w/columns; x++ {
						sum += int(p.Y[y*p.YStride+x])
						n++
					}
				}
				if got := int(s.cells[cy*sceneColumns+cx]); got != sum/n {
					t.Fatalf("%d×%d, cell %d,%d: %d, want %d", w, h, cx, cy, got, sum/n)
				}
			}
		}
	}
}

// TestWhatIsAChange: each line of it is a picture of 1280×720 and what is another one to an eye.
func TestWhatIsAChange(t *testing.T) {
	base := NewPicture(1280, 720)
	for i := range base.Y {
		base.Y[i] = 100
	}
	box := func(x, y, w, h int, v byte) func(p *Picture) {
		return func(p *Picture) {
			for j := y; j < y+h; j++ {
				for i := x; i < x+w; i++ {
					p.Y[j*p.YStride+i] = v
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct {
		name string
		draw func(p *Picture)
		want bool
	}{
		{"nothing", func(*Picture) {}, false},
		{"noise of 8 levels", func(p *Picture) {
			for i := range p.Y {
				p.Y[i] = byte(100 + 8*rng.NormFloat64())
			}
		}, false},
		{"light by 3 levels", box(0, 0, 1280, 720, 103), false},
		{"light by 4 levels", box(0, 0, 1280, 720, 104), true},
		{"a speck of 4×4 pixels", box(640, 360, 4, 4, 200), false},
		{"a word of 12 pixels' height", func(p *Picture) {
			for i := range 8 {
				box(100+i*8, 100, 2, 12, 0)(p)
			}
		}, true},
		{"a hand's breadth", box(500, 300, 80, 80, 130), true},
		{"a mouse cursor", box(500, 300, 10, 16, 255), true},
	} {
		p := base.Clone()
		tt.draw(p)
		var a, b scene
		a.of(base)
		b.of(p)
		if got := b.changed(&a); got != tt.want {
			most, mean := b.apart(&a)
			t.Errorf("%s: changed %v (a cell by %d, all by %.2f), want %v", tt.name, got, most, mean, tt.want)
		}
	}
	var a, b scene
	a.of(base)
	b.of(NewPicture(720, 1280))
	if !b.changed(&a) {
		t.Error("a picture of another size is no change")
	}
}

// standing is a clip that shows one picture of another for ever: its key frame n.
func standing(c *clip, n int) *clip {
	return &clip{frames: c.frames[n : n+1], keys: c.keys[n : n+1], truth: c.truth[n : n+1]}
}

// taken counts what a subscription gave.
func taken(s *Subscription) (n int) {
	for {
		if _, _, ok := s.Take(); !ok {
			return n
		}
		n++
	}
}

func TestOnChangeWithholdsWhatIsAsBefore(t *testing.T) {
	face := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *TrackConfig) { c.Policy = PolicyFull })
		defer r.stop()
		all := r.track.Subscribe(Want{FPS: 10, Options: ownSize})
		news := r.track.Subscribe(Want{FPS: 10, Options: ownSize, OnChange: true})
		gap := r.track.Subscribe(Want{FPS: 10, Options: ownSize, OnChange: true, MaxGap: time.Second})
		p := newPublisher(standing(face, 0))
		got := map[*Subscription]int{}
		play := func(frames int) {
			for range frames {
				r.feed(p.frame()...)
				for _, s := range []*Subscription{all, news, gap} {
					got[s] += taken(s)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		play(31)
		if got[all] != 31 || got[news] != 1 || got[gap] < 3 || got[gap] > 5 {
			t.Errorf("of 31 like pictures in 3 s: %d, on change %d, with a gap of 1 s at most %d", got[all], got[news], got[gap])
		}
		if n := news.Unchanged(); n != 30 || news.Unchanged() != 0 {
			t.Errorf("%d withheld, want 30, and told once", n)
		}
		if s := r.track.Stats(); s.Encoded != 31 || s.Unchanged < 56 {
			t.Errorf("%+v", s)
		}
		p.clip = standing(face, 60) // two seconds later
		play(1)
		if got[news] != 2 {
			t.Errorf("another picture: %d images", got[news])
		}
		clear(got)
		p.clip, p.pos = face, 0
		play(30)
		if got[news] < 20 {
			t.Errorf("%d images of a talking face in 3 s at 10/s", got[news])
		}
		// Nothing comes any more but padding, as of a static screen: the newest image is given again, with its age.
		play(1)
		clear(got)
		for range 30 {
			p.seq++
			r.feed(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: p.seq - 1, Timestamp: p.ts - 3000}})
			time.Sleep(100 * time.Millisecond)
			got[gap] += taken(gap)
		}
		if got[gap] < 2 || got[gap] > 3 || taken(news) != 0 {
			t.Errorf("%d images in 3 s without a frame, with a gap of 1 s at most", got[gap])
		}
	})
}

func TestFrozenIsToldOfCamerasOnly(t *testing.T) {
	face := loadClip(t, face480)
	for _, tt := range []struct {
		name   string
		change func(*TrackConfig)
		clip   *clip
		step   time.Duration
		want   bool
	}{
		{"a camera that hangs", nil, standing(face, 0), 100 * time.Millisecond, true},
		{"one that sends a picture a second", nil, standing(face, 0), time.Second, true},
		{"a face", nil, face, 100 * time.Millisecond, false},
		{"a screen", func(c *TrackConfig) { c.Screen = true }, standing(face, 0), 100 * time.Millisecond, false},
		{"black", nil, loadClip(t, "black480.vp8.ivf"), 100 * time.Millisecond, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *TrackConfig) {
					c.Policy = PolicyFull
					if tt.change != nil {
						tt.change(c)
					}
				})
				defer r.stop()
				sub := r.track.Subscribe(Want{FPS: 1, Options: EncodeOptions{Resize: &ResizeOptions{Width: 64, Height: 48}}})
				p := newPublisher(tt.clip)
				frozen := func() (frozen []bool) {
					r.mu.Lock()
					defer r.mu.Unlock()
					for _, s := range r.states {
						if len(frozen) == 0 || s.Frozen != frozen[len(frozen)-1] {
							frozen = append(frozen, s.Frozen)
						}
					}
					return frozen
				}
				play := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(tt.step) {
						r.feed(p.frame()...)
					}
				}
				play(frozenAfter - time.Second)
				if r.track.Stats().Frozen {
					t.Error("frozen too soon")
				}
				play(3 * time.Second)
				want := []bool{false}
				if tt.want {
					want = append(want, true)
				}
				if got := frozen(); !slices.Equal(got, want) || r.track.Stats().Frozen != tt.want {
					t.Errorf("told %v, want %v", got, want)
				}
				if !tt.want {
					return
				}
				p.clip, p.pos = standing(face, 60), 0
				play(2 * time.Second)
				if got := frozen(); fmt.Sprint(got) != fmt.Sprint([]bool{false, true, false}) {
					t.Errorf("when it goes on: told %v", got)
				}
				sub.Close()
			})
		})
	}
}

// TestSpeechChangesTheRate: from 0.5 to 5 images a second while the caller speaks, with one of the moment it begins and without a burst.
func TestSpeechChangesTheRate(t *testing.T) {
	face := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, func(c *TrackConfig) { c.Policy = PolicyFull }), newPublisher(face)
		defer r.stop()
		small := EncodeOptions{Resize: &ResizeOptions{Width: 64, Height: 48}}
		sub := r.track.Subscribe(Want{FPS: 0.5, SpeakingFPS: 5, Options: small})
		other := r.track.Subscribe(Want{FPS: 0.5, Options: small})
		begin := time.Now()
		var at []time.Duration
		play := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 30) {
				r.feed(p.frame()...)
				if taken(sub) > 0 {
					at = append(at, time.Since(begin))
					n++
				}
			}
			return n
		}
		speak := func(on bool) {
			sub.Speech(on, time.Now())
			other.Speech(on, time.Now())
			synctest.Wait()
		}
		if n := play(6500 * time.Millisecond); n != 4 { // 0, 2, 4, 6 s
			t.Errorf("silent: %d images in 6.5 s", n)
		}
		speak(true)
		if n := play(time.Second / 30); n != 1 {
			t.Error("no image of the moment speech begins")
		}
		if n := play(2 * time.Second); n < 9 || n > 11 {
			t.Errorf("speaking: %d images in 2 s at 5/s", n)
		}
		speak(true) // again: nothing new
		speak(false)
		if n := play(1300 * time.Millisecond); n != 0 {
			t.Errorf("silent again: %d images in the first 1.3 s", n)
		}
		if n := play(4 * time.Second); n != 2 {
			t.Errorf("silent: %d images in 4 s", n)
		}
		for range 10 { // a detector that cannot decide
			speak(true)
			play(100 * time.Millisecond)
			speak(false)
			play(100 * time.Millisecond)
		}
		for i := 1; i < len(at); i++ {
			if d := at[i] - at[i-1]; d < 120*time.Millisecond {
				t.Errorf("images at %v and %v", at[i-1], at[i])
			}
		}
		if n := taken(other); n != 1 {
			t.Errorf("who does not care took %d images", n)
		}
		if s := r.track.Stats(); s.Delivered > 60 {
			t.Errorf("%d delivered", s.Delivered)
		}
	})
}

func TestWantsOfScenesAreValidated(t *testing.T) {
	for _, w := range []Want{
		{FPS: 1, SpeakingFPS: -1}, {FPS: 1, SpeakingFPS: 31}, {FPS: 1, MaxGap: time.Second}, {FPS: 1, OnChange: true, MaxGap: -1},
	} {
		if w.Validate() == nil {
			t.Errorf("%+v passes", w)
		}
	}
	if err := (Want{FPS: 1, SpeakingFPS: 30, OnChange: true, MaxGap: time.Second}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestSpeechAsksForAKeyFrame: where pictures are asked for, one is when speech begins, however far off the next one was.
func TestSpeechAsksForAKeyFrame(t *testing.T) {
	face := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, func(c *TrackConfig) { c.Policy = PolicyKeyframe }), newPublisher(face)
		defer r.stop()
		r.onPLI = func() { p.pli.Store(true) }
		sub := r.track.Subscribe(Want{FPS: 0.1, SpeakingFPS: 1, Options: EncodeOptions{Resize: &ResizeOptions{Width: 64, Height: 48}}})
		r.play(p, 75) // the clip has a key frame each 3 s
		if n := taken(sub); n != 1 {
			t.Errorf("silent: %d images in 2.5 s at 0.1/s", n)
		}
		asked := r.asked()
		sub.Speech(true, time.Now())
		r.play(p, 3)
		if r.asked() != asked+1 || taken(sub) != 1 {
			t.Errorf("speech begins: %d key frames asked for, and no image of it in 100 ms", r.asked()-asked)
		}
	})
}

func BenchmarkScene(b *testing.B) {
	p := NewPicture(1280, 720)
	var s scene
	for b.Loop() {
		s.of(p)
	}
}
