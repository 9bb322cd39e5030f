package frames

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
)

const face480 = "face480_90.vp8.ivf"

func TestClipWithoutLossGivesEveryPicture(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		worst := 99.0
		for i := range 90 {
			r.feed(p.frame()...)
			img, superseded, ok := sub.Take()
			if !ok || superseded != 0 || img.Seq != uint64(i+1) {
				t.Fatalf("frame %d: image %v, superseded %d, ok %v; %+v", i, img, superseded, ok, r.track.Stats())
			}
			if !img.ReceivedAt.Equal(time.Now()) || img.CapturedAt.After(img.ReceivedAt) || img.Age(time.Now()) > time.Millisecond {
				t.Fatalf("frame %d: captured %v, received %v, now %v", i, img.CapturedAt, img.ReceivedAt, time.Now())
			}
			worst = min(worst, psnr(t, img, p.truth[img.RTPTimestamp]))
			time.Sleep(time.Second / 30)
		}
		if worst < 45 {
			t.Errorf("worst image: %.1f dB, want 45", worst)
		}
		s := r.track.Stats()
		if s.Decoded != 90 || s.Frames != 90 || s.KeyFrames != 2 || s.Lost != 0 || s.FrameDrops.Total() != 0 || s.PLIs != 0 || s.Policy != PolicyFull {
			t.Errorf("%+v", s)
		}
		if s.FPS < 28 || s.FPS > 32 || s.BitrateBPS < 3e5 || s.BitrateBPS > 2e6 || s.CBytes == 0 || s.Width != 640 || s.Height != 480 || s.State != StateLive {
			t.Errorf("%+v", s)
		}
		t.Logf("worst image %.1f dB", worst)
	})
}

// lossy drops and reorders, seeded.
type lossy struct {
	rng  *rand.Rand
	loss float64
	held []*rtp.Packet // each waits until `after` more have gone
	wait []int
	lost int
}

func (l *lossy) pass(ps []*rtp.Packet) (out []*rtp.Packet) {
	if l.loss == 0 {
		out, l.held = append(l.held, ps...), nil
		return out
	}
	for _, p := range ps {
		switch x := l.rng.Float64(); {
		case x < l.loss:
			l.lost++
		case x < l.loss+0.05:
			l.held, l.wait = append(l.held, p), append(l.wait, 1+l.rng.IntN(10))
		default:
			out = append(out, p)
			if l.rng.IntN(50) == 0 {
				q := *p
				out = append(out, &q)
			}
		}
		for i := 0; i < len(l.held); i++ {
			if l.wait[i]--; l.wait[i] <= 0 {
				out = append(out, l.held[i])
				l.held, l.wait = append(l.held[:i:i], l.held[i+1:]...), append(l.wait[:i:i], l.wait[i+1:]...)
				i--
			}
		}
	}
	return out
}

func TestG10ClipWithLossAndReordering(t *testing.T) {
	c := loadClip(t, face480)
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			r, p := newRig(t, nil), newPublisher(c)
			defer r.stop()
			r.onPLI = func() { p.pli.Store(true) }
			net := &lossy{rng: rand.New(rand.NewPCG(seed, 1)), loss: 0.05}
			sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
			images, worst := 0, 99.0
			take := func() {
				if img, _, ok := sub.Take(); ok {
					images++
					worst = min(worst, psnr(t, img, p.truth[img.RTPTimestamp]))
				}
			}
			for range 300 {
				r.feed(net.pass(p.frame())...)
				take()
				time.Sleep(time.Second / 30)
			}
			s := r.track.Stats()
			if s.PLIs == 0 || s.FrameDrops.Incomplete == 0 || images < 40 {
				t.Errorf("seed %d: %d images, %+v", seed, images, s)
			}
			net.loss = 0
			time.Sleep(time.Second / 30)
			for range 180 { // the back-off is at most 5 s
				r.feed(net.pass(p.frame())...)
				take()
				time.Sleep(time.Second / 30)
			}
			before := images
			for range 30 {
				r.feed(p.frame()...)
				take()
				time.Sleep(time.Second / 30)
			}
			if images-before != 30 {
				t.Errorf("seed %d: %d of 30 images after the loss ended", seed, images-before)
			}
			if worst < 45 {
				t.Errorf("seed %d: worst image %.1f dB, want 45: it is not the picture that was sent", seed, worst)
			}
			end := r.track.Stats()
			if miss := int(end.Lost) - net.lost; miss < -2 || miss > 12 {
				t.Errorf("seed %d: %d packets counted as lost, %d were", seed, end.Lost, net.lost)
			}
			if end.FrameDrops.Decode+end.FrameDrops.Corrupt != 0 {
				t.Errorf("seed %d: frames of a broken chain came as far as the decoder: %+v", seed, end.FrameDrops)
			}
			t.Logf("seed %d: %d images, worst %.1f dB, PLIs %d, drops %+v, packets %+v, lost %d", seed, images, worst, end.PLIs, end.FrameDrops, end.PacketDrops, end.Lost)
		})
	}
}
