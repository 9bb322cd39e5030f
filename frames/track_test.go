package frames

import (
	"fmt"
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
			if other := psnr(t, img, c.truth[(i+20)%90]); other >= 45 {
				t.Fatalf("frame %d: %.1f dB to another picture: this measure could not tell a wrong one", i, other)
			}
			time.Sleep(time.Second / 30)
		}
		if worst < 45 {
			t.Errorf("worst image: %.1f dB, want 45", worst)
		}
		s := r.track.Stats()
		if s.Decoded != 90 || s.Frames != 90 || s.KeyFrames != 2 || s.Lost != 0 || s.FrameDrops.Total() != 0 || s.PLIs != 0 || s.InEffect != PolicyFull {
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
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { lossyCall(t, c, seed) })
		})
	}
}

// lossyCall sends 7 s with loss, reordering and duplicates, then goes on without.
func lossyCall(t *testing.T, c *clip, seed uint64) {
	r, p := newRig(t, nil), newPublisher(c)
	defer r.stop()
	r.onPLI = func() { p.pli.Store(true) }
	net := &lossy{rng: rand.New(rand.NewPCG(seed, 1)), loss: 0.05}
	sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
	images, worst := 0, 99.0
	frame := func() bool {
		r.feed(net.pass(p.frame())...)
		time.Sleep(time.Second / 30)
		img, _, ok := sub.Take()
		if ok {
			images++
			worst = min(worst, psnr(t, img, p.truth[img.RTPTimestamp]))
		}
		return ok
	}
	for range 210 {
		frame()
	}
	s := r.track.Stats()
	if s.PLIs == 0 || s.FrameDrops.Incomplete == 0 || images < 30 {
		t.Errorf("%d images, %+v: the loss did not bite, or too much", images, s)
	}
	net.loss = 0
	back := 0
	for wait := 0; back < 20; wait++ {
		if frame() {
			back++
		} else if back = 0; wait > 170 { // the back-off is at most 5 s
			t.Fatalf("no recovery: %+v", r.track.Stats())
		}
	}
	if worst < 45 {
		t.Errorf("worst image %.1f dB, want 45: it is not the picture that was sent", worst)
	}
	end := r.track.Stats()
	if end.FrameDrops.Decode+end.FrameDrops.Corrupt != 0 {
		t.Errorf("frames of a broken chain came as far as the decoder: %+v", end.FrameDrops)
	}
	if miss := int(end.Lost) - net.lost; miss < -2 || miss > 12 { // reordered over more than half a second counts as lost
		t.Errorf("%d packets counted as lost, %d were", end.Lost, net.lost)
	}
	t.Logf("%d images, worst %.1f dB, PLIs %d, drops %+v, packets %+v, lost %d", images, worst, end.PLIs, end.FrameDrops, end.PacketDrops, end.Lost)
}
