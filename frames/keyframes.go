package frames

import "time"

const (
	keyFrameSpacing = 500 * time.Millisecond // between two requests, at least
	keyFrameBackoff = 5 * time.Second        // and at most, while none is answered
)

// keyRequester spaces requests for key frames: one outstanding, doubling from 500 ms to 5 s while no key frame comes. Pure; time is passed in.
type keyRequester struct {
	last time.Time
	wait time.Duration // from last to the next
	then time.Duration // from that to the one after
}

// due reports whether to ask now, and takes it that the caller does.
func (k *keyRequester) due(need bool, at time.Time) bool {
	if !need || at.Sub(k.last) < k.wait {
		return false
	}
	k.last = at
	k.wait = max(k.then, keyFrameSpacing)
	k.then = min(2*k.wait, keyFrameBackoff)
	return true
}

// answered says that a key frame came: the next need is asked for after the least spacing.
func (k *keyRequester) answered() {
	if !k.last.IsZero() {
		k.wait, k.then = keyFrameSpacing, keyFrameSpacing
	}
}
