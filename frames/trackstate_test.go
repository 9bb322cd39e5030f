package frames

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
)

func TestSizeChangesInMidStream(t *testing.T) {
	c, odd := loadClip(t, face480), loadClip(t, "odd641.vp8.ivf")
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		square := r.track.Subscribe(Want{FPS: 30, Options: DefaultRealtimeEncodeOptions()})
		for _, part := range []*clip{c, odd, c} {
			p.clip, p.pos = part, 0
			for range 20 {
				r.feed(p.frame()...)
				img, _, ok := sub.Take()
				if !ok {
					t.Fatalf("no image: %+v", r.track.Stats())
				}
				if got := psnr(t, img, p.truth[img.RTPTimestamp]); got < 40 { // psnr checks the size too
					t.Fatalf("%d×%d: %.1f dB", img.Width, img.Height, got)
				}
				if img, _, ok := square.Take(); !ok || img.Width != 1024 || img.Height != 1024 {
					t.Fatalf("want 1024×1024, got %v", img)
				}
				time.Sleep(time.Second / 30)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		var sizes []string
		for _, s := range r.states {
			sizes = append(sizes, fmt.Sprint(s.Name, s.State, s.Codec, s.Width, s.Height))
		}
		want := []string{"cameraliveVP8640 480", "cameraliveVP8641 481", "cameraliveVP8640 480"}
		if !slices.Equal(sizes, want) {
			t.Errorf("told %q, want %q", sizes, want)
		}
	})
}

func TestBlackStalledAndEndedAreTold(t *testing.T) {
	c, black := loadClip(t, face480), loadClip(t, "black480.vp8.ivf")
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		if s := r.track.Stats().State; s != StateStalled {
			t.Errorf("before the first packet: %q", s)
		}
		sub := r.track.Subscribe(Want{FPS: 10, Options: DefaultRealtimeEncodeOptions()})
		r.play(p, 10)
		if img, _, _ := sub.Take(); img == nil || img.Black {
			t.Errorf("a face: %v", img)
		}
		p.clip, p.pos = black, 0 // muted: one black frame a second
		for range 3 {
			r.play(p, 1)
			time.Sleep(time.Second)
		}
		if img, _, _ := sub.Take(); img == nil || !img.Black {
			t.Errorf("a muted camera: %+v", img)
		}
		p.clip, p.pos = c, 0
		r.play(p, 10)
		time.Sleep(5 * time.Second) // unplugged
		if s := r.track.Stats(); s.State != StateStalled || s.FPS != 0 || s.BitrateBPS != 0 {
			t.Errorf("after a silence of 5 s: %+v", s)
		}
		p.pos = 0
		r.play(p, 10)
		r.stop()
		if st := r.track.Stats(); st.FPS != 0 || st.BitrateBPS != 0 {
			t.Errorf("an ended source has %v frames/s and %v bit/s", st.FPS, st.BitrateBPS)
		}
		if s := r.track.Stats().State; s != StateEnded {
			t.Errorf("after Run: %q", s)
		}
		want := []State{StateLive, StateBlack, StateLive, StateStalled, StateLive, StateEnded}
		if got := r.stateNames(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestBlackIsNotClaimedWhenNobodyWatches(t *testing.T) {
	black := loadClip(t, "black480.vp8.ivf")
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(black)
		defer r.stop()
		sub := r.track.Subscribe(Want{FPS: 10, Options: DefaultRealtimeEncodeOptions()})
		r.play(p, 10)
		sub.Close()
		r.play(p, 10)
		got := r.stateNames()
		if len(got) == 3 && got[0] == StateLive { // told or not: it was live until the first image was made
			got = got[1:]
		}
		if !slices.Equal(got, []State{StateBlack, StateLive}) {
			t.Errorf("told %q", got)
		}
	})
}

// fakeDecoder stands in where a real one cannot be made to misbehave at will.
type fakeDecoder struct {
	decode func(frame []byte) (Picture, error)
	closed *int
}

func (f fakeDecoder) Decode(frame []byte) (Picture, error) { return f.decode(frame) }
func (f fakeDecoder) Bytes() int64                         { return 1 }
func (f fakeDecoder) Close() error                         { *f.closed++; return nil }

func TestPanicAndErrorOfADecoderEndAtTheNextKeyFrame(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panic": func() error { panic("a decoder's bug") },
		"error": func() error { return errors.New("a decoder's mood") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				made, closed, decoded := 0, 0, 0
				r.track.newDecoder = func() (decoder, error) {
					made++
					return fakeDecoder{func([]byte) (Picture, error) {
						if decoded++; decoded == 3 {
							return Picture{}, fail()
						}
						return *NewPicture(64, 48), nil
					}, &closed}, nil
				}
				s := &sender{}
				sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
				for i := range 8 {
					r.feed(s.packets(testFrame(i == 0 || i == 5, i, 450))...)
					_, _, ok := sub.Take()
					if want := i < 2 || i >= 5; ok != want {
						t.Errorf("frame %d: image %v, want %v", i, ok, want)
					}
					time.Sleep(time.Second / 30)
				}
				if r.asked() != 1 {
					t.Errorf("asked for %d key frames, want 1", r.asked())
				}
				if d := r.track.Stats().FrameDrops; d != (FrameDrops{Decode: 1, NeedKey: 2}) {
					t.Errorf("%+v", d)
				}
				r.stop()
				if made != closed || made == 0 {
					t.Errorf("%d decoders made, %d closed", made, closed)
				}
			})
		})
	}
}

func TestGarbageFramesThenAKeyFrame(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		r.play(p, 5)
		sub.Take()
		rng := rand.New(rand.NewPCG(7, 7))
		whole := *c
		whole.frames = slices.Clone(c.frames)
		for i := 5; i < 60; i++ {
			whole.frames[i] = make([]byte, 20+rng.IntN(3000))
			for j := range whole.frames[i] {
				whole.frames[i][j] = byte(rng.Uint32())
			}
		}
		p.clip = &whole
		r.play(p, 55)
		sub.Take()
		for range 20 { // from the key frame at 60 on
			r.feed(p.frame()...)
			img, _, ok := sub.Take()
			if !ok {
				t.Fatalf("no image: %+v", r.track.Stats())
			}
			if got := psnr(t, img, p.truth[img.RTPTimestamp]); got < 45 {
				t.Fatalf("%.1f dB", got)
			}
			time.Sleep(time.Second / 30)
		}
	})
}

func TestHugeKeyFrameReachesNoDecoder(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		r.onPLI = func() { p.pli.Store(true) }
		sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		r.play(p, 5)
		whole := *c
		whole.frames = slices.Clone(c.frames)
		huge := slices.Clone(c.frames[0][:200])
		huge[0], huge[1], huge[2] = 0x10|1<<5, 0, 0
		copy(huge[6:], []byte{0xff, 0x3f, 0xff, 0x3f})
		whole.frames[5] = huge
		p.clip = &whole
		r.play(p, 1)
		p.clip = c
		r.play(p, 40)
		sub.Take()
		r.play(p, 1)
		img, _, ok := sub.Take()
		if !ok || psnr(t, img, p.truth[img.RTPTimestamp]) < 45 {
			t.Errorf("no image after the refused frame: %+v", r.track.Stats())
		}
		s := r.track.Stats()
		if s.FrameDrops.Refused != 1 || s.FrameDrops.Decode != 0 || s.Width != 640 || s.PLIs == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNoKeyFrameIsAskedForWhileOneArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		sub, s := r.track.Subscribe(Want{FPS: 30, Options: ownSize}), &sender{}
		r.track.newDecoder = func() (decoder, error) {
			return fakeDecoder{func([]byte) (Picture, error) { return *NewPicture(64, 48), nil }, new(int)}, nil
		}
		for _, p := range s.packets(testFrame(true, 0, 450)) {
			r.feed(p)
			time.Sleep(100 * time.Millisecond)
		}
		if _, _, ok := sub.Take(); !ok || r.asked() != 0 {
			t.Errorf("image %v, asked for %d key frames, want 0", ok, r.asked())
		}
	})
}

func TestSenderThatIgnoresPLI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		r.track.Subscribe(Want{FPS: 5, Options: ownSize})
		s, begin := &sender{}, time.Now()
		for range 30 * 20 {
			r.feed(s.packets(testFrame(false, 1, 450))...)
			time.Sleep(time.Second / 30)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		want := []time.Duration{0, 500, 1500, 3500, 7500, 12500, 17500} // ms
		if len(r.plis) != len(want) {
			t.Fatalf("asked %d times in 20 s, want %d", len(r.plis), len(want))
		}
		for i, at := range r.plis {
			if d := at.Sub(begin) - want[i]*time.Millisecond; d < 0 || d > 500*time.Millisecond {
				t.Errorf("request %d after %v, want %v ms", i, at.Sub(begin), want[i])
			}
		}
	})
}

func TestSilentSourceIsNotAskedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		s := &sender{}
		r.feed(s.packets(testFrame(false, 1, 450))...)
		r.track.Subscribe(Want{FPS: 5, Options: ownSize})
		time.Sleep(time.Hour)
		if n := r.asked(); n < 1 || n > 5 {
			t.Errorf("asked %d times", n)
		}
		r.feed(s.packets(testFrame(false, 2, 450))...)
		time.Sleep(time.Second)
		if n := r.asked(); n < 2 {
			t.Errorf("not asked again when packets came back")
		}
	})
}

func TestBurstAfterAnOutageEndsAtTheNewestPicture(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		r.onPLI = func() { p.pli.Store(true) }
		sub := r.track.Subscribe(Want{FPS: 5, Options: ownSize})
		r.play(p, 30)
		sub.Take()
		var burst []*rtp.Packet
		for range 150 { // 5 s held up in the network
			burst = append(burst, p.frame()...)
			time.Sleep(time.Second / 30)
		}
		r.feed(burst...)
		end := time.Now()
		for time.Since(end) < time.Second {
			r.play(p, 1)
		}
		img, _, ok := sub.Take()
		if !ok || psnr(t, img, p.truth[img.RTPTimestamp]) < 45 {
			t.Fatalf("no image within a second of the burst: %+v", r.track.Stats())
		}
		if age := img.Age(time.Now()); age > 300*time.Millisecond {
			t.Errorf("its newest image is %v old", age)
		}
	})
}

func TestNobodyWatchingCostsNearlyNothing(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		made := 0
		r.track.newDecoder = func() (decoder, error) { made++; return newDecoder(CodecVP8) }
		r.play(p, 90)
		s := r.track.Stats()
		if made != 0 || s.Frames != 0 || s.Decoded != 0 || s.CBytes != 0 || s.PLIs != 0 || s.InEffect != PolicyIdle {
			t.Errorf("%d decoders, %+v", made, s)
		}
		if s.Width != 640 || s.State != StateLive || s.FPS < 28 || s.Lost != 0 || s.Packets < 90 {
			t.Errorf("%+v", s)
		}
		packets := p.frame()
		at := time.Now()
		n := testing.AllocsPerRun(200, func() {
			packets[0].SequenceNumber++
			packets[0].Timestamp += 3000
			at = at.Add(time.Second / 30)
			r.track.Push(packets[0], at)
		})
		if n != 0 {
			t.Errorf("%v allocations a packet", n)
		}

		sub := r.track.Subscribe(Want{FPS: 5, Options: ownSize})
		p.seq, p.ts, p.pos = packets[0].SequenceNumber+1, packets[0].Timestamp+3000, 0
		r.play(p, 30)
		if s := r.track.Stats(); made != 1 || s.CBytes == 0 || s.InEffect != PolicyFull {
			t.Errorf("watched: %d decoders, %+v", made, s)
		}
		sub.Close()
		r.play(p, 1)
		if s := r.track.Stats(); s.CBytes != 0 || s.InEffect != PolicyIdle || s.Subscriptions != 0 {
			t.Errorf("no more watched: %+v", s)
		}
	})
}
