package frames

import "time"

const (
	longestLead = 250 * time.Millisecond // a key frame is asked for so much before its image is due, at most
	workWait    = 500 * time.Millisecond // a key frame whose picture is not made by then is lost
)

// SetPolicy changes what is decoded, from the next frame on; the error says what can be set.
func (t *Track) SetPolicy(p Policy) error {
	if _, err := ParsePolicy(string(p)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setting = p
	if t.asm.active {
		t.choose(time.Now())
	}
	signal(t.control)
	return nil
}

// choose decides what is decoded from now on; t.mu is held.
func (t *Track) choose(now time.Time) {
	if t.looked == neverSettle && now.After(t.neverUntil) {
		t.looked = maxAfterKey // until it is looked at again
		t.lookAgain()
	}
	fps, bps := t.asm.meter.rates(now)
	t.chosen.step(situation{
		setting: t.setting, fps: t.wantedFPS(), asking: t.watched(now),
		takesPLI: t.lay.cur.request != nil, answers: !t.answers.distrust,
		arriving: fps, base: t.base.fps, settle: t.settle(), keyBits: t.keyBits, bps: bps,
	}, now)
}

// admit decides whether a whole frame is decoded; t.mu is held.
func (t *Track) admit(f *frame) bool {
	t.base.observe(f)
	v := t.chosen.now
	if after, told := t.sizes.frame(f); told {
		t.caughtUp(after)
	}
	if !f.key {
		return t.gate.admit(f, v, false, 0)
	}
	t.keyArrived(f)
	wanted, watch := t.anybodyDue(f.receivedAt), 0
	if v.policy == PolicyKeyframe && wanted {
		if t.watchIn--; t.watchIn < 0 {
			t.watchWait = min(max(4*t.watchWait, watchSoon), watchSeldom)
			t.watchIn, watch = t.watchWait-1, watchFrames
		}
		t.workedAt, t.holding = f.receivedAt, false
	}
	return t.gate.admit(f, v, wanted, watch)
}

// keyArrived counts a key frame as an answer; t.mu is held.
func (t *Track) keyArrived(f *frame) {
	t.reqs.answered()
	if !t.answers.asked.IsZero() {
		t.st.PLIsAnswered++
	}
	t.answers.key(f.receivedAt)
	bits := float64(8 * len(f.data))
	if t.keyBits == 0 || bits > 2*t.keyBits || bits < t.keyBits/2 {
		t.keyBits = bits // something else is shown
		t.lookAgain()
	}
	t.keyBits += (bits - t.keyBits) / 4
}

// caughtUp takes what sizes found: more at once, less when it was so twice. t.mu is held.
func (t *Track) caughtUp(after int) {
	if t.less++; after >= t.made || t.less >= 2 {
		t.made, t.less = after, 0
	}
}

// settled takes what settling found; t.mu is held.
func (t *Track) settled(after int, ok bool) {
	if !ok || after == t.looked {
		return
	}
	if t.looked = after; after == neverSettle {
		t.neverUntil = time.Now().Add(neverFor)
	}
	t.lookAgain()
}

// settle is situation.settle: the worse of both. t.mu is held.
func (t *Track) settle() int {
	if t.looked == neverSettle {
		return neverSettle
	}
	return max(t.made, t.looked)
}

// lookAgain lets settling look at the next key frame; t.mu is held.
func (t *Track) lookAgain() { t.watchIn, t.watchWait = 0, 0 }

// keyFrameDue reports whether to ask for a key frame now; at is when to look again, where that is known. t.mu is held.
func (t *Track) keyFrameDue(now time.Time) (ask bool, at time.Time) {
	if t.lay.cur.request == nil {
		return false, at
	}
	if t.chosen.now.policy != PolicyKeyframe {
		ask = t.reqs.due(t.needsKey(now) || t.asm.active && t.answers.probe(now), now)
		return ask, at
	}
	if t.silent(now) || t.gate.expecting(now) && now.Sub(t.lastFrame) < burstWait || t.asm.cur != nil && t.asm.cur.key || !t.workedAt.IsZero() && now.Sub(t.workedAt) < workWait {
		return false, at
	}
	t.workedAt = time.Time{}
	due, ok := t.nextDue(now)
	if !ok {
		return false, at
	}
	at = due.Add(-min(t.answers.took, longestLead))
	if spaced := t.reqs.last.Add(t.reqs.spacing()); at.Before(spaced) {
		at = spaced
	}
	return !now.Before(at) && t.reqs.dueForImage(now), at
}

// worked says that the picture of the last key frame was made, or will not be; t.mu is held.
func (t *Track) worked() { t.workedAt, t.holding = time.Time{}, false }

// present is the cached image of these options where no picture is kept, if it is the best there is at the moment: of the newest frame, or the
// source has stopped. t.mu is held.
func (t *Track) present(key optionsKey, now time.Time) *Image {
	if !t.asm.active || t.chosen.now.policy != PolicyKeyframe || t.st.CBytes > 0 {
		return nil
	}
	stopped := now.Sub(t.st.LastPacketAt) >= stillWait
	if !stopped && !t.lay.cur.yields {
		return nil // it has just been woken: images are of before
	}
	for _, c := range t.cache {
		if c.img != nil && c.key == key && (stopped || !c.img.ReceivedAt.Before(t.lastFrame) || now.Sub(t.lastFrame) >= stillWait) {
			return c.img
		}
	}
	return nil
}
