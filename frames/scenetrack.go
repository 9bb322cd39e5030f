package frames

import "time"

// onsetFresh: an image that was taken so shortly before somebody began to speak shows that moment well enough.
const onsetFresh = 250 * time.Millisecond

// comparing says what a picture that arrived at the given time is compared for; t.mu is held.
func (t *Track) comparing(at time.Time) (gate, still bool) {
	for _, s := range t.subs {
		gate = gate || s.want.OnChange && t.isDue(s, at)
	}
	return gate, t.asm.active && !t.isScreen() && t.still.due(at)
}

// isScreen reports whether the source shows a screen, of which it is nothing special to stay as it is; t.mu is held.
func (t *Track) isScreen() bool { return t.cfg.Screen || t.asm.said.screen }

// observe looks at the picture once for all who compare it.
func (w *worker) observe(at time.Time) {
	t := w.t
	w.seen = nil
	t.mu.Lock()
	gate, still := t.comparing(at)
	t.mu.Unlock()
	if !gate && !still {
		return
	}
	w.scene.of(&w.pic)
	w.seen = &w.scene
	if !still {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asm.active {
		was := t.still.frozen()
		if t.still.look(w.seen, at); t.still.frozen() != was {
			signal(t.control)
		}
	}
}

// withholds decides whether a picture that is due is left out because it shows nothing new; t.mu is held.
func (s *Subscription) withholds(p *scene, at time.Time) bool {
	if s.want.OnChange {
		if !s.change.passes(p, at, s.sampler.interval) {
			s.unchanged++
			s.track.st.Unchanged++
			return true
		}
		s.change.took(p, at)
	}
	s.given = at
	return false
}

// fillGaps gives the newest image once more to those who want one now and then and whose source shows nothing new; t.mu is held.
func (t *Track) fillGaps(now time.Time) {
	if now.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter {
		return
	}
	for _, s := range t.subs {
		if g := &s.change; g.gap == 0 || g.at.IsZero() || now.Sub(g.at) < g.gap {
			continue
		}
		for _, c := range t.cache {
			if c.img != nil && c.key == s.key {
				s.change.at, s.given = now, now
				t.give(s, c.img)
			}
		}
	}
}

// give puts an image into a mailbox; t.mu is held.
func (t *Track) give(s *Subscription, img *Image) {
	t.st.Delivered++
	if _, was := s.box.Put(img); was {
		t.st.Superseded++
	}
}

// Speech says that the caller has begun or ended to speak, at the given time: a subscription with a rate of its own for that changes to it, and
// gets an image of the moment it begins. Other subscriptions do not care.
func (s *Subscription) Speech(speaking bool, at time.Time) {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.want.SpeakingFPS == 0 || s.speaking == speaking || s.gone {
		return
	}
	s.speaking = speaking
	s.sampler.retime(s.want.rate(speaking))
	if speaking && at.Sub(s.given) >= onsetFresh {
		s.sampler.next, s.change.force = time.Time{}, true
	}
	if t.asm.active {
		t.choose(at)
	}
	signal(t.control)
	signal(t.work)
}

// Unchanged is how many images were withheld since it was last asked.
func (s *Subscription) Unchanged() (n uint64) {
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	n, s.unchanged = s.unchanged, 0
	return n
}
