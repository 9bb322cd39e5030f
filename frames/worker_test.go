package frames

import (
	"testing"
	"time"

	"github.com/pion/rtp"
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
