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
		state, active := t.controlStep(time.Now())
		if state != told {
			told = state
			t.tell(state)
		}
		wait := tickIdle
		if active {
			wait = tickWatched
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

// controlStep does what is due now.
func (t *Track) controlStep(now time.Time) (state SourceState, active bool) {
	t.mu.Lock()
	if t.asm.active {
		if t.watched(now) {
			t.enqueue(t.asm.tick(now))
		} else {
			t.deactivate()
		}
	}
	ask := t.cfg.RequestKeyFrame != nil && t.reqs.due(t.needsKey(now), now)
	if ask {
		t.st.PLIs++
	}
	state, active = t.state(now), t.asm.active
	t.mu.Unlock()
	if ask {
		t.cfg.RequestKeyFrame()
	}
	return state, active
}

// needsKey reports whether a key frame is wanted: the chain is broken, or a request has waited for some time and no frame came at all (a
// static screen sends none unasked). A source that has gone silent is asked only until the back-off is at its longest. t.mu is held.
func (t *Track) needsKey(now time.Time) bool {
	if !t.asm.active || t.st.Packets == 0 || now.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter && t.reqs.wait == keyFrameBackoff {
		return false
	}
	for _, w := range t.waiters {
		if now.Sub(w.since) >= stillWait && t.lastFrame.Before(w.since) {
			return true
		}
	}
	return t.asm.needKey && t.asm.cur == nil // what is in work behind a broken chain is a key frame
}

// state is the source's state now; t.mu is held.
func (t *Track) state(now time.Time) SourceState {
	s := SourceState{State: StateLive, Width: t.asm.width, Height: t.asm.height}
	switch {
	case t.over:
		s.State = StateEnded
	case t.st.Packets == 0 || now.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter,
		s.Width == 0 && now.Sub(t.firstPacket) < sizeWait:
		s.State = StateStalled
	case t.black:
		s.State = StateBlack
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
