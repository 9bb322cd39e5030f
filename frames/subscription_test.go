package frames

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestG9NewestImageWinsAndSaysWhatItDisplaced(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		slow := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		quick := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		var newest *Image
		for i := range 60 {
			r.play(p, 1)
			img, superseded, ok := quick.Take()
			if !ok || superseded != 0 {
				t.Fatalf("frame %d: the quick one is held up by the slow one", i)
			}
			newest = img
		}
		img, superseded, ok := slow.Take()
		if !ok || img != newest || superseded != 59 {
			t.Errorf("image %v of %v, %d superseded; want the newest and 59", img, newest, superseded)
		}
		if _, superseded, ok := slow.Take(); ok || superseded != 0 {
			t.Errorf("taken twice")
		}
		if s := r.track.Stats(); s.Encoded != 60 || s.Delivered != 120 || s.Superseded != 59 {
			t.Errorf("%+v", s)
		}
	})
}

func TestG9SameOptionsShareOneImage(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t, nil), newPublisher(c)
		defer r.stop()
		wish := func() EncodeOptions { return DefaultRealtimeEncodeOptions() } // its Resize is another pointer each time
		a := r.track.Subscribe(Want{FPS: 5, Options: wish()})
		b := r.track.Subscribe(Want{FPS: 5, Options: wish()})
		other := r.track.Subscribe(Want{FPS: 5, Options: EncodeOptions{Format: PNG, Resize: &ResizeOptions{Width: 64, Height: 48}}})
		r.play(p, 30)
		ia, _, _ := a.Take()
		ib, _, _ := b.Take()
		io, _, _ := other.Take()
		if ia == nil || ia != ib {
			t.Errorf("%p and %p: want one image", ia, ib)
		}
		if io == nil || io.MIME != "image/png" || io.Width != 64 || io.Height != 48 || io.CapturedAt != ia.CapturedAt {
			t.Errorf("another wish: %+v", io)
		}
		if s := r.track.Stats(); s.Encoded != 12 || s.Delivered != 18 {
			t.Errorf("%d encoded, %d delivered; want 12 and 18", s.Encoded, s.Delivered)
		}
	})
}

func TestSubscriptionRates(t *testing.T) {
	for _, tt := range []struct{ fps, want float64 }{{30, 30}, {20, 20}, {10, 10}, {5, 5}, {1, 1}, {0.5, 0.5}, {1000, 30}, {-1, 0.1}, {0, 0.1}, {math.NaN(), 0.1}} {
		s, n := newSampler(tt.fps), 0
		for i := range 300 { // 10 s with 3 ms of jitter
			at := t0.Add(time.Duration(i)*time.Second/30 + time.Duration(i*7%4)*time.Millisecond)
			if s.due(at) {
				s.took(at)
				n++
			}
		}
		if got := float64(n) / 10; math.Abs(got-tt.want) > 0.11*max(1, tt.want/10) {
			t.Errorf("fps %v: %v images/s, want %v", tt.fps, got, tt.want)
		}
	}
}

func TestWantIsValidated(t *testing.T) {
	for _, w := range []Want{{FPS: 0}, {FPS: -1}, {FPS: 31}, {FPS: math.NaN()}, {FPS: math.Inf(1)}, {FPS: 1, Options: EncodeOptions{Quality: 101}}} {
		if w.Validate() == nil {
			t.Errorf("%+v passes", w)
		}
	}
	if err := (Want{FPS: 30, Options: DefaultRealtimeEncodeOptions()}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestG13RunLeavesNothing(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	c := loadClip(t, face480)
	for range 20 {
		track, err := NewTrack(TrackConfig{Source: "camera"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- track.Run(ctx) }()
		sub := track.Subscribe(Want{FPS: 30, Options: ownSize})
		asked := make(chan error)
		go func() {
			_, err := track.Image(context.Background(), Request{Options: EncodeOptions{Quality: 9}, Wait: time.Hour})
			asked <- err
		}()
		p := newPublisher(c)
		for range 20 {
			for _, pk := range p.frame() {
				track.Push(pk, time.Now())
			}
		}
		<-sub.C()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := <-asked; err != nil && !errors.Is(err, ErrNoImage) {
			t.Error(err)
		}
		s := track.Stats()
		if s.CBytes != 0 || s.State != StateEnded || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		if err := track.Run(context.Background()); err == nil {
			t.Error("a second Run is accepted")
		}
		for _, pk := range p.frame() { // what comes late changes nothing
			track.Push(pk, time.Now())
		}
		if late := track.Stats(); late.Packets != s.Packets || late.CBytes != 0 {
			t.Errorf("%+v", late)
		}
		sub.Close()
		sub.Close()
	}
	goleak.VerifyNone(t, ignore)
}

func TestRequests(t *testing.T) {
	c := loadClip(t, face480)
	rigged := func(t *testing.T, f func(t *testing.T, r *rig, p *publisher)) {
		synctest.Test(t, func(t *testing.T) {
			r, p := newRig(t, func(c *TrackConfig) { c.Policy = PolicyFull }), newPublisher(c)
			defer r.stop()
			r.onPLI = func() { p.pli.Store(true) }
			f(t, r, p)
		})
	}
	// ask runs a request beside the stream and returns its answer and how long it took.
	ask := func(r *rig, p *publisher, q Request) (img *Image, took time.Duration, err error) {
		done := make(chan struct{})
		begin := time.Now()
		go func() {
			img, err = r.track.Image(context.Background(), q)
			took = time.Since(begin)
			close(done)
		}()
		synctest.Wait()
		for {
			select {
			case <-done:
				return
			default:
				r.play(p, 1)
			}
		}
	}
	t.Run("wakes an idle track, for two seconds", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			r.play(p, 40)
			img, took, err := ask(r, p, Request{Options: ownSize, Wait: 5 * time.Second})
			if err != nil || took > 200*time.Millisecond || psnr(t, img, p.truth[img.RTPTimestamp]) < 45 || r.asked() != 1 {
				t.Fatalf("%v, %v after %v, asked %d times", img, err, took, r.asked())
			}
			r.play(p, 30)
			if s := r.track.Stats(); s.InEffect != PolicyFull || s.Encoded != 1 {
				t.Errorf("after a second: %+v", s)
			}
			r.play(p, 45)
			if s := r.track.Stats(); s.InEffect != PolicyIdle || s.CBytes != 0 {
				t.Errorf("after two and a half: %+v", s)
			}
		})
	})
	t.Run("max age", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			r.track.Subscribe(Want{FPS: 1, Options: ownSize})
			r.play(p, 16)
			old, _, err := ask(r, p, Request{Options: ownSize, MaxAge: time.Second})
			if err != nil || old.Seq != 1 {
				t.Fatalf("%v, %v; want the cached image", old, err)
			}
			if _, _, err := ask(r, p, Request{Options: ownSize, MaxAge: 100 * time.Millisecond}); !errors.Is(err, ErrNoImage) || !strings.Contains(err.Error(), "wanted 100ms") {
				t.Errorf("no wait: %v", err)
			}
			img, took, err := ask(r, p, Request{Options: ownSize, MaxAge: 100 * time.Millisecond, Wait: time.Second})
			if err != nil || took > time.Millisecond || img.Age(time.Now()) > 100*time.Millisecond {
				t.Errorf("the decoded picture is there: %v, %v after %v", img, err, took)
			}
			at := time.Now()
			img, _, err = ask(r, p, Request{Options: ownSize, Wait: time.Second})
			if err != nil || !img.ReceivedAt.After(at) {
				t.Errorf("a new one: %v, %v", img, err)
			}
		})
	})
	t.Run("a still source is asked for something new", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			sub := r.track.Subscribe(Want{FPS: 1, Options: ownSize})
			r.play(p, 10)
			sub.Take()
			time.Sleep(10 * time.Second)
			late := r.track.Subscribe(Want{FPS: 1, Options: ownSize})
			synctest.Wait()
			if img, _, ok := late.Take(); !ok || img.Age(time.Now()) < 9*time.Second {
				t.Errorf("a late subscriber: %v, %v; want the picture there is, with its age", img, ok)
			}
			var err error
			wait := make(chan struct{})
			go func() {
				_, err = r.track.Image(context.Background(), Request{Options: ownSize, Wait: 2 * time.Second})
				close(wait)
			}()
			time.Sleep(time.Second)
			if r.asked() == 0 {
				t.Error("no key frame asked for")
			}
			r.play(p, 1)
			if <-wait; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("nothing comes", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			begin := time.Now()
			_, err := r.track.Image(t.Context(), Request{Options: ownSize, Wait: 3 * time.Second})
			if !errors.Is(err, ErrNoImage) || !strings.Contains(err.Error(), "stalled") || time.Since(begin) != 3*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := r.track.Image(ctx, Request{Options: ownSize, Wait: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if n := r.track.Stats().Waiting; n != 0 {
				t.Errorf("%d still wait", n)
			}
		})
	})
	t.Run("too many", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			var all sync.WaitGroup
			for range maxWaiters {
				all.Go(func() {
					if img, err := r.track.Image(context.Background(), Request{Options: ownSize, Wait: time.Hour}); err != nil {
						t.Error(img, err)
					}
				})
			}
			synctest.Wait()
			if _, err := r.track.Image(t.Context(), Request{Options: ownSize, Wait: time.Hour}); !errors.Is(err, ErrBusy) {
				t.Errorf("one more: %v", err)
			}
			time.Sleep(time.Millisecond)
			r.play(p, 1)
			all.Wait()
			if s := r.track.Stats(); s.Encoded != 1 || s.Delivered != maxWaiters {
				t.Errorf("%+v", s)
			}
		})
	})
	t.Run("bad", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			for _, q := range []Request{{MaxAge: -1}, {Wait: -1}, {Options: EncodeOptions{Quality: -1}}, {Options: EncodeOptions{Resize: &ResizeOptions{}}}} {
				if _, err := r.track.Image(t.Context(), q); err == nil || errors.Is(err, ErrNoImage) {
					t.Errorf("%+v: %v", q, err)
				}
			}
		})
	})
	t.Run("after the end", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig, p *publisher) {
			r.track.Subscribe(Want{FPS: 1, Options: ownSize})
			r.play(p, 5)
			r.stop()
			if img, err := r.track.Image(t.Context(), Request{Options: ownSize, MaxAge: time.Hour, Wait: time.Hour}); err != nil || img == nil {
				t.Errorf("the last image: %v, %v", img, err)
			}
			if _, err := r.track.Image(t.Context(), Request{Options: ownSize, Wait: time.Hour}); !errors.Is(err, ErrNoImage) || !strings.Contains(err.Error(), "ended") {
				t.Errorf("a new one: %v", err)
			}
		})
	})
}

func TestG12ExhaustedBudgetNeverHoldsPushUp(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(1)
		r, p := newRig(t, func(cfg *TrackConfig) { cfg.Budget = budget }), newPublisher(c)
		defer r.stop()
		r.onPLI = func() { p.pli.Store(true) }
		sub := r.track.Subscribe(Want{FPS: 30, Options: ownSize})
		r.play(p, 2)
		sub.Take()
		if err := budget.acquire(t.Context(), true); err != nil { // somebody else is at work
			t.Fatal(err)
		}
		begin := time.Now()
		r.play(p, 60)
		if d := time.Since(begin); d > 2*time.Second+time.Millisecond {
			t.Errorf("pushing 2 s of video took %v", d)
		}
		s := r.track.Stats()
		if s.Decoded != 2 || s.FrameDrops.QueueFull == 0 || s.FrameDrops.NeedKey == 0 || r.track.queue.n > queueFrames {
			t.Errorf("%d in the queue, %+v", r.track.queue.n, s)
		}
		budget.release()
		synctest.Wait()
		img, _, ok := sub.Take()
		if !ok || psnr(t, img, p.truth[img.RTPTimestamp]) < 45 {
			t.Fatalf("no image: %+v", r.track.Stats())
		}
		if s := r.track.Stats(); s.FrameDrops.Skipped == 0 {
			t.Errorf("older frames were decoded before the newest key frame: %+v", s)
		}
		if img.Age(time.Now()) > time.Second {
			t.Errorf("the newest image is %v old", img.Age(time.Now()))
		}
	})
}

func TestG9AfterABacklogTheNewestPictureIsTaken(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(1)
		r, p := newRig(t, func(cfg *TrackConfig) { cfg.Budget = budget }), newPublisher(c)
		defer r.stop()
		sub := r.track.Subscribe(Want{FPS: 5, Options: ownSize})
		r.play(p, 11)
		sub.Take()
		if err := budget.acquire(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		r.play(p, 5) // an image is due at the first of them
		before := r.track.Stats().Encoded
		budget.release()
		synctest.Wait()
		img, _, ok := sub.Take()
		if !ok {
			t.Fatal("no image")
		}
		if s := r.track.Stats(); img.RTPTimestamp != p.ts-3000 || s.Encoded != before+1 || s.Decoded != 16 {
			t.Errorf("image of timestamp %d, want %d; %+v", img.RTPTimestamp, p.ts-3000, s)
		}
	})
}

func TestBudgetServesKeyFramesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1)
		if err := b.acquire(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(name string, key bool, ctx context.Context) {
			go func() {
				if b.acquire(ctx, key) == nil {
					order = append(order, name)
					b.release()
				}
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		wait("first", false, t.Context())
		wait("second", false, t.Context())
		wait("gone", true, gone)
		wait("key", true, t.Context())
		cancel()
		synctest.Wait()
		b.release()
		synctest.Wait()
		if got := strings.Join(order, " "); got != "key first second" {
			t.Errorf("order %q", got)
		}
		if b.free != 1 {
			t.Errorf("%d slots free, want 1", b.free)
		}
	})
}
