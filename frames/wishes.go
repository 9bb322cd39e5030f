package frames

import "time"

// The wishes of all who watch, merged: one key frame serves everybody who is due about when it comes.

// wantedSide is the largest longer side that any subscriber or waiting request wants, in pixels: MaxSide for the picture's own size, 0 when
// nobody wants anything. t.mu is held.
func (t *Track) wantedSide() (side int) {
	for _, s := range t.subs {
		side = max(side, s.key.side())
	}
	for _, w := range t.waiters {
		side = max(side, w.key.side())
	}
	return side
}

// side is the longer side of an image of these options, in pixels.
func (k optionsKey) side() int {
	if !k.resize {
		return MaxSide
	}
	return max(k.width, k.height)
}

// wantedFPS is the rate of the most demanding subscription; t.mu is held.
func (t *Track) wantedFPS() (fps float64) {
	for _, s := range t.subs {
		fps = max(fps, s.sampler.fps())
	}
	return fps
}

// nextDue is when somebody next wants a picture; ok is false when nobody does. t.mu is held.
func (t *Track) nextDue(now time.Time) (at time.Time, ok bool) {
	for _, w := range t.waiters {
		if !w.wants(t.held) {
			return now, true
		}
	}
	for _, s := range t.subs {
		if next := s.sampler.next; !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// anybodyDue reports whether a picture of that time is wanted; t.mu is held.
func (t *Track) anybodyDue(at time.Time) bool {
	for _, s := range t.subs {
		if t.isDue(s, at) {
			return true
		}
	}
	return len(t.waiters) > 0
}

// isDue reports whether a subscription gets a picture of that time. Where pictures are asked for, it may be half an interval early: so many
// subscriptions of like rates share one key frame. t.mu is held.
func (t *Track) isDue(s *Subscription, at time.Time) bool {
	if t.chosen.now.policy == PolicyKeyframe {
		return s.sampler.dueWithin(at, s.sampler.interval/2)
	}
	return s.sampler.due(at)
}
