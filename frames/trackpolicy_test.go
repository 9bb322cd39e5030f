package frames

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sightline/frames/internal/vpx"
)

// live runs a track against a sender that encodes as it goes, with what a decoder of every frame makes of it.
type live struct {
	*rig
	s      *liveSender
	dec    *vpx.Decoder
	truth  map[uint32]*Picture
	lose   func(n int) bool // packets of frame n are lost: all but the first
	states map[Policy]int   // frames sent while it was in effect
}

func newLive(t *testing.T, pics []*Picture, layers int, change func(*TrackConfig)) *live {
	t.Helper()
	r := newRig(t, change)
	l := &live{rig: r, s: newLiveSender(t, pics, 800, false, layers), truth: map[uint32]*Picture{}, states: map[Policy]int{}}
	r.onPLI = func() { l.s.pli.Store(true) }
	var err error
	if l.dec, err = vpx.NewVP8(); err != nil {
		t.Fatal(err)
	}
	return l
}

// send sends n frames, one each 1/30 s.
func (l *live) send(n int) {
	l.t.Helper()
	for range n {
		ps, ts := l.s.frame(), l.s.ts-3000
		if len(ps) > 0 {
			head := 4
			if l.s.layers > 1 {
				head = 6
			}
			var data []byte
			for _, p := range ps {
				data = append(data, p.Payload[head:]...)
			}
			pic, err := l.dec.Decode(data)
			if err != nil {
				l.t.Fatal(err)
			}
			l.truth[ts] = pic.Clone()
			delete(l.truth, ts-3000*60)
		}
		if l.lose != nil && len(ps) > 1 && l.lose(l.s.n-1) {
			ps = append(ps[:1:1], ps[2:]...)
		}
		l.feed(ps...)
		l.states[l.track.Stats().InEffect]++
		time.Sleep(time.Second / 30)
	}
}

// take checks an image against what was sent, if there is one.
func (l *live) take(sub *Subscription) *Image {
	l.t.Helper()
	img, _, ok := sub.Take()
	if !ok {
		return nil
	}
	if got := psnr(l.t, img, l.truth[img.RTPTimestamp]); got < 45 {
		l.t.Fatalf("image of frame %d: %.1f dB: it is not the picture that was sent", img.RTPTimestamp, got)
	}
	return img
}

// count sends n frames and gives the number of images.
func (l *live) count(sub *Subscription, n int) (images int) {
	l.t.Helper()
	for range n {
		l.send(1)
		if l.take(sub) != nil {
			images++
		}
	}
	return images
}

func (l *live) close() {
	l.stop()
	l.dec.Close()
}

func TestTrackPolicies(t *testing.T) {
	pics := loadPictures(t, filepath.Join("testdata", face480))
	for i, p := range pics { // the middle is enough, and a quarter of the work
		q := *p
		q.Width, q.Height, q.Y, q.U, q.V = 320, 240, p.Y[120*p.YStride+160:], p.U[60*p.CStride+80:], p.V[60*p.CStride+80:]
		pics[i] = &q
	}
	run := func(name string, layers int, change func(*TrackConfig), f func(t *testing.T, l *live)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, pics, layers, change)
				defer l.close()
				f(t, l)
			})
		})
	}
	set := func(p Policy) func(*TrackConfig) { return func(c *TrackConfig) { c.Policy = p } }

	run("auto decodes little where key frames are to be had", 1, nil, func(t *testing.T, l *live) {
		sub := l.track.Subscribe(Want{FPS: 1, Options: ownSize})
		images := l.count(sub, 300)
		s := l.track.Stats()
		if images < 10 || images > 11 || s.InEffect != PolicyKeyframe || s.Policy != PolicyAuto || s.PolicyReason == "" {
			t.Errorf("%d images in 10 s; %+v", images, s)
		}
		if s.PLIs > 11 || s.PLIsAnswered != s.PLIs || s.PLIsIgnored != 0 || s.PLIAnswerTime <= 0 || s.PLIAnswerTime > 60*time.Millisecond {
			t.Errorf("requests: %+v", s)
		}
		if s.Decoded > 40 || s.Decoded+s.PolicySkipped != s.Frames || s.FrameDrops.Total() != 0 {
			t.Errorf("%d frames decoded and %d skipped of %d, %+v", s.Decoded, s.PolicySkipped, s.Frames, s.FrameDrops)
		}
		if s.CBytes != 0 || l.track.cfg.Budget.PooledBytes() == 0 {
			t.Errorf("between images: the track holds %d bytes, the pool %d", s.CBytes, l.track.cfg.Budget.PooledBytes())
		}
		sub.Close()
		l.send(2)
		if n := l.track.cfg.Budget.PooledBytes(); n != 0 {
			t.Errorf("nobody watches, the pool holds %d bytes", n)
		}
	})
	run("several wishes share a schedule", 1, nil, func(t *testing.T, l *live) {
		small := EncodeOptions{Quality: 50, Resize: &ResizeOptions{Width: 64, Height: 48}}
		a := l.track.Subscribe(Want{FPS: 1, Options: ownSize})
		l.send(7)
		b := l.track.Subscribe(Want{FPS: 1, Options: small})
		l.send(12)
		c := l.track.Subscribe(Want{FPS: 0.5, Options: small})
		l.send(30)
		for _, sub := range []*Subscription{a, b, c} {
			sub.Take()
		}
		before, images := l.track.Stats(), 0
		for range 300 {
			l.send(1)
			for _, sub := range []*Subscription{a, b, c} {
				if _, _, ok := sub.Take(); ok {
					images++
				}
			}
		}
		s := l.track.Stats()
		if images < 23 || images > 27 || s.PLIs-before.PLIs > 12 {
			t.Errorf("%d images and %d requests in 10 s, want 25 and 10", images, s.PLIs-before.PLIs)
		}
	})
	run("a sender that ignores requests", 1, nil, func(t *testing.T, l *live) {
		l.s.ignore, l.s.every = true, 120
		sub := l.track.Subscribe(Want{FPS: 1, Options: ownSize})
		l.send(150)
		if images := l.count(sub, 300); images < 9 {
			t.Errorf("%d images in 10 s", images)
		}
		s := l.track.Stats()
		if s.InEffect != PolicyFull || s.PLIsIgnored == 0 || s.PLIs > 10 {
			t.Errorf("%+v", s)
		}
		l.s.ignore = false // it is asked again after half a minute
		for range 30 * 70 {
			l.feed(l.s.frame()...)
			time.Sleep(time.Second / 30)
		}
		if s := l.track.Stats(); s.InEffect != PolicyKeyframe {
			t.Errorf("it answers again: %+v", s)
		}
	})
	run("a sender without PLI", 1, func(c *TrackConfig) { c.RequestKeyFrame = nil }, func(t *testing.T, l *live) {
		sub := l.track.Subscribe(Want{FPS: 1, Options: ownSize})
		if images := l.count(sub, 90); images < 3 {
			t.Errorf("%d images in 3 s", images)
		}
		if s := l.track.Stats(); s.InEffect != PolicyFull || s.Decoded != 90-(90-s.Frames) || s.PLIs != 0 {
			t.Errorf("%+v", s)
		}
	})
	run("temporal", 3, set(PolicyTemporal), func(t *testing.T, l *live) {
		sub := l.track.Subscribe(Want{FPS: 5, Options: ownSize})
		l.count(sub, 90) // layers are known after two seconds
		before := l.track.Stats()
		if before.InEffect != PolicyTemporal {
			t.Fatalf("%+v", before)
		}
		images := l.count(sub, 120)
		s := l.track.Stats()
		if decoded := s.Decoded - before.Decoded; images < 18 || decoded > 33 || decoded < 27 {
			t.Errorf("%d images of %d frames decoded, of 120", images, decoded)
		}
		if err := l.track.SetPolicy(PolicyFull); err != nil {
			t.Fatal(err)
		}
		l.count(sub, 60)
		if s := l.track.Stats(); s.FrameDrops.Total() != 0 || s.InEffect != PolicyFull {
			t.Errorf("%+v", s)
		}
	})
	run("temporal without layers decodes all", 1, set(PolicyTemporal), func(t *testing.T, l *live) {
		sub := l.track.Subscribe(Want{FPS: 5, Options: ownSize})
		l.count(sub, 60)
		if s := l.track.Stats(); s.InEffect != PolicyFull || s.Decoded != s.Frames {
			t.Errorf("%+v", s)
		}
	})
	run("switched at runtime", 1, nil, func(t *testing.T, l *live) {
		sub := l.track.Subscribe(Want{FPS: 2, Options: ownSize})
		for _, p := range []Policy{PolicyFull, PolicyKeyframe, PolicyFull, PolicyAuto, PolicyTemporal, PolicyKeyframe} {
			if err := l.track.SetPolicy(p); err != nil {
				t.Fatal(err)
			}
			if images := l.count(sub, 60); images < 3 || images > 5 {
				t.Errorf("%s: %d images in 2 s; %+v", p, images, l.track.Stats())
			}
		}
		if err := l.track.SetPolicy("idle"); err == nil || l.track.Stats().Policy != PolicyKeyframe {
			t.Errorf("idle can be set: %v", err)
		}
		if d := l.track.Stats().FrameDrops; d.Total() != 0 {
			t.Errorf("%+v", d)
		}
	})
	run("loss within key frames", 1, nil, func(t *testing.T, l *live) {
		lost := 0
		l.lose = func(n int) bool {
			if l.s.lastKey == n && n > 0 && l.s.keys%3 == 0 {
				lost++
				return true
			}
			return false
		}
		sub := l.track.Subscribe(Want{FPS: 1, Options: ownSize})
		if images := l.count(sub, 450); images < 12 || lost < 4 {
			t.Errorf("%d images in 15 s with %d key frames lost; %+v", images, lost, l.track.Stats())
		}
	})
	for _, p := range []Policy{PolicyAuto, PolicyKeyframe, PolicyTemporal, PolicyFull} {
		run("requests under "+string(p), 3, set(p), func(t *testing.T, l *live) {
			sub := l.track.Subscribe(Want{FPS: 0.2, Options: ownSize})
			l.send(100)
			for i := range 4 {
				done := make(chan struct{})
				var img *Image
				var err error
				begin := time.Now()
				q := Request{Options: ownSize, Wait: 2 * time.Second}
				if i%2 == 1 {
					q.MaxAge = 50 * time.Millisecond
				}
				go func() {
					img, err = l.track.Image(context.Background(), q)
					close(done)
				}()
				synctest.Wait()
				time.Sleep(time.Millisecond) // what is asked for does not come in the same moment
				frames := 0
				for waiting := true; waiting; {
					select {
					case <-done:
						waiting = false
					default:
						l.send(1)
						frames++
					}
				}
				if err != nil || frames > 5 || img.ReceivedAt.Before(begin.Add(-q.MaxAge)) {
					t.Fatalf("request %d: %v after %d frames; %+v", i, err, frames, l.track.Stats())
				}
				if got := psnr(t, img, l.truth[img.RTPTimestamp]); got < 45 {
					t.Errorf("request %d: %.1f dB", i, got)
				}
				l.send(12 + i)
			}
			sub.Close()
		})
	}
}
