package frames

import (
	"context"
	"time"
)

const (
	tickWatched = 50 * time.Millisecond  // missing packets, key frame requests
	tickIdle    = 500 * time.Millisecond // stalled or not
	sizeWait    = time.Second            // "live" is not told without a size for so long
	stillWait   = 300 * time.Millisecond // no picture for a request: ask a source that shows nothing new
)

// runControl lets time pass for the assembler, asks for key frames and tells the state.
func (t *Track) runControl(ctx context.Context) {
	timer := time.NewTimer(tickIdle)
	defer timer.Stop()
	told := SourceState{State: StateStalled}
	for {
		state, active, next := t.controlStep(time.Now())
		if state != told {
			told = state
			t.tell(state)
		}
		wait := tickIdle
		if active {
			wait = tickWatched
		}
		if !next.IsZero() {
			wait = min(wait, max(time.Until(next), 0))
		}
		timer.Reset(min(wait, t.cfg.StallAfter))
		select {
		case <-ctx.Done():
			return
		case <-t.control:
		case <-timer.C:
		}
	}
}

// controlStep does what is due now. next is when to look again at the latest; zero: at the next tick.
func (t *Track) controlStep(now time.Time) (state SourceState, active bool, next time.Time) {
	t.mu.Lock()
	if t.asm.active {
		if t.watched(now) {
			if fs := t.asm.tick(now); t.took(t.lay.cur, fs, now) {
				t.enqueue(fs)
			}
			t.passTime(now)
		} else {
			t.deactivate()
		}
	}
	asks := t.stepLayers(now)
	ask, next := t.keyFrameDue(now)
	if ask {
		t.st.PLIs++
		t.answers.ask(now)
		next = time.Time{}
	}
	state, active = t.state(now), t.asm.active
	if ask {
		asks = append(asks, t.lay.cur.request)
	}
	t.mu.Unlock()
	for _, ask := range asks {
		ask()
	}
	return state, active, next
}

// passTime lets an active track's policy see the time; t.mu is held.
func (t *Track) passTime(now time.Time) {
	if now.Sub(t.st.LastPacketAt) >= keyFrameSpacing {
		t.answers.forget() // nothing arrives: that is no refusal
	}
	t.answers.tick(now)
	t.choose(now)
	t.fillGaps(now)
	if t.chosen.now.policy == PolicyKeyframe && (t.holding || t.st.CBytes > 0) {
		signal(t.work) // a better picture may not have come; memory may be given back
	}
}

// silent reports whether a source has been asked in vain for long enough; t.mu is held.
func (t *Track) silent(now time.Time) bool {
	return !t.asm.active || t.st.Packets == 0 || now.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter && t.reqs.wait == keyFrameBackoff
}

// needsKey reports whether a key frame is wanted: the chain is broken, or a request has waited for some time and no frame came at all (a
// static screen sends none unasked). A source that has gone silent is asked only until the back-off is at its longest. t.mu is held.
func (t *Track) needsKey(now time.Time) bool {
	if t.silent(now) {
		return false
	}
	for _, w := range t.waiters {
		if now.Sub(w.since) >= stillWait && t.lastFrame.Before(w.since) {
			return true
		}
	}
	if t.asm.cur != nil && (t.asm.cur.key || t.asm.needKey) {
		return false // what is in work behind a broken chain is a key frame
	}
	return t.asm.needKey || !t.gate.open || t.asm.lay.wantsKey()
}

// state is the source's state now; t.mu is held.
func (t *Track) state(now time.Time) SourceState {
	s := SourceState{State: StateLive, Width: t.asm.width, Height: t.asm.height, Screen: t.isScreen()}
	switch {
	case t.over:
		s.State = StateEnded
	case t.st.Packets == 0 || now.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter,
		s.Width == 0 && now.Sub(t.firstPacket) < sizeWait:
		s.State = StateStalled
	case t.black:
		s.State = StateBlack
	default:
		s.Frozen = !s.Screen && t.still.frozen() && now.Sub(t.lastFrame) < t.cfg.StallAfter
	}
	return s
}

// tell completes a state and hands it on.
func (t *Track) tell(s SourceState) {
	if t.cfg.OnState == nil {
		return
	}
	s.Name, s.Codec = t.cfg.Source, t.cfg.Codec
	t.cfg.OnState(s)
}
