package frames

import (
	"testing"
	"time"
)

// TestKeyFramesOnACadenceAreNoAnswers: OBS and FFmpeg ignore requests and send a key frame every so often, of which each comes soon after some
// request. That must not win back trust: half of the images that are wanted would come late.
func TestKeyFramesOnACadenceAreNoAnswers(t *testing.T) {
	const step = 10 * time.Millisecond
	play := func(length time.Duration, key func(at, asked time.Duration) bool) (distrusted, again int) {
		var a answers
		was, asked := false, time.Duration(-1)
		ask := func(at time.Duration) { a.ask(t0.Add(at)); asked = at }
		for at := time.Duration(0); at < length; at += step {
			now := t0.Add(at)
			if key(at, asked) {
				a.key(now)
				asked = -1
			}
			a.tick(now)
			switch {
			case !a.distrust && at%time.Second == 750*time.Millisecond: // an image a second is wanted
				ask(at)
			case a.distrust && (!was || a.probe(now)): // all frames are to be decoded, which begins at a key frame
				ask(at)
			}
			if a.distrust {
				distrusted++
			} else if was {
				again++
			}
			was = a.distrust
		}
		return distrusted, again
	}
	for _, every := range []time.Duration{2 * time.Second, 2500 * time.Millisecond, 3 * time.Second, 4 * time.Second, 10 * time.Second} {
		for _, first := range []time.Duration{0, 130 * time.Millisecond, 990 * time.Millisecond} {
			distrusted, again := play(10*time.Minute, func(at, _ time.Duration) bool { return (at+first)%every == 0 })
			if least := int(9 * time.Minute / step); distrusted < least || again > 0 {
				t.Errorf("one every %v, %v ahead: distrusted for %v of 10 min, trusted again %d times", every, first, time.Duration(distrusted)*step, again)
			}
		}
	}
	recovered := func(at, asked time.Duration) bool { // to requests from the second minute on, and one of its own every two seconds
		return at%(2*time.Second) == 0 || at > time.Minute && asked >= 0 && at-asked >= 80*time.Millisecond
	}
	if distrusted, again := play(10*time.Minute, recovered); again == 0 || distrusted > int(5*time.Minute/step) {
		t.Errorf("one that began to answer was distrusted for %v of 10 min", time.Duration(distrusted)*step)
	}
}
