package frames

import (
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/yuv"
)

// TestG9APictureIsTakenOnce: with a picture late in its interval the next time is so near that the same picture would be due again.
func TestG9APictureIsTakenOnce(t *testing.T) {
	track, err := NewTrack(TrackConfig{Source: "camera"})
	if err != nil {
		t.Fatal(err)
	}
	sub := track.Subscribe(Want{FPS: 5, Options: DefaultRealtimeEncodeOptions()})
	defer sub.Close()
	w := &worker{t: track}
	begin := time.Unix(1000, 0)
	show := func(n uint64, at time.Duration) {
		w.at = shown{n: n, receivedAt: begin.Add(at), captured: capture{at: begin.Add(at)}}
	}
	show(1, 0)
	if !w.plan() {
		t.Fatal("the first picture is due")
	}
	for n, late := range []time.Duration{380 * time.Millisecond, 575 * time.Millisecond, 790 * time.Millisecond} {
		show(uint64(n+2), late)
		if !w.plan() {
			t.Errorf("picture %d at %v is due", n+2, late)
		}
		if w.plan() {
			t.Errorf("picture %d at %v was taken twice", n+2, late)
		}
	}
}

// TestAnOutageIsNoRefusal: what was asked while nothing arrived does not keep the next request waiting once packets are back.
func TestAnOutageIsNoRefusal(t *testing.T) {
	asked := 0
	track, err := NewTrack(TrackConfig{Source: "camera", RequestKeyFrame: func() { asked++ }})
	if err != nil {
		t.Fatal(err)
	}
	sub := track.Subscribe(Want{FPS: 1, Options: DefaultRealtimeEncodeOptions()})
	defer sub.Close()
	s := &sender{}
	delta := func() []*rtp.Packet { return s.packets(testFrame(false, len(s.sent), 300)) }
	begin := time.Unix(1000, 0)
	for _, p := range delta() {
		track.Push(p, begin)
	}
	at := begin
	for ; at.Sub(begin) < 1700*time.Millisecond; at = at.Add(tickWatched) { // asks after 0, 0.5 and 1.5 s, then not before 3.5 s
		track.controlStep(at)
	}
	before := asked
	for _, p := range delta() {
		track.Push(p, at)
	}
	track.controlStep(at.Add(350 * time.Millisecond))
	if asked != before+1 {
		t.Errorf("asked %d times during the outage and %d times after it, want one more", before, asked)
	}
}

// TestG9APictureIsEncodedOnce: who comes to a picture after its image was made gets that image, by subscription and by request.
func TestG9APictureIsEncodedOnce(t *testing.T) {
	track, err := NewTrack(TrackConfig{Source: "camera"})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: track}
	defer w.close()
	begin := time.Now()
	show := func(n uint64) {
		at := begin.Add(time.Duration(n) * time.Second)
		w.pic = *NewPicture(64, 48)
		w.at = shown{n: n, ts: uint32(n) * 90000, receivedAt: at, captured: capture{at: at}}
	}
	serve := func() {
		t.Helper()
		if !w.plan() {
			t.Fatal("somebody is due")
		}
		w.encode()
	}
	small := EncodeOptions{Quality: 75, Resize: &ResizeOptions{Width: 32, Height: 32}}
	subscribe := func(o EncodeOptions) *Subscription {
		sub := track.Subscribe(Want{FPS: 1, Options: o})
		t.Cleanup(sub.Close)
		return sub
	}
	show(1)
	first := subscribe(small)
	serve()
	late := subscribe(small)
	serve()
	wait := &waiter{key: small.key(), options: small, since: begin, maxAge: time.Minute, answer: make(chan answer, 1)}
	track.waiters = append(track.waiters, wait)
	serve()
	a, _, _ := first.Take()
	b, _, _ := late.Take()
	c := <-wait.answer
	if a == nil || a != b || a != c.img {
		t.Errorf("%p, %p and %p (%v): want one image", a, b, c.img, c.err)
	}
	if s := track.Stats(); s.Encoded != 1 || s.Delivered != 3 {
		t.Errorf("%d encoded, %d delivered; want 1 and 3", s.Encoded, s.Delivered)
	}
	small.Optimize = true
	subscribe(small)
	serve()
	show(2)
	serve()
	if s := track.Stats(); s.Encoded != 4 || s.Delivered != 7 { // another wish, then both of a new picture
		t.Errorf("%d encoded, %d delivered; want 4 and 7", s.Encoded, s.Delivered)
	}
}

// TestG11ColourOfTheCarrier: VP8 says nothing of its colours, so that what its packets' headers said counts; it says nothing of the next frame.
func TestG11ColourOfTheCarrier(t *testing.T) {
	track, err := NewTrack(TrackConfig{Source: "camera"})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: track}
	defer w.close()
	key := loadClip(t, face480).frames[0]
	for _, c := range []yuv.Colour{{}, {Matrix: yuv.BT709, FullRange: true}, {Matrix: yuv.BT601}, {}} {
		if err := w.decode(&frame{data: key, key: true, width: 640, height: 480, colour: c}); err != nil {
			t.Fatal(err)
		}
		if w.pic.Matrix != c.Matrix || w.pic.FullRange != c.FullRange {
			t.Errorf("%+v: the picture has %v, full range %v", c, w.pic.Matrix, w.pic.FullRange)
		}
	}
}
