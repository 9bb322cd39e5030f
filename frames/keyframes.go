package frames

import "time"

const (
	keyFrameSpacing = 500 * time.Millisecond // between two requests, at least
	imageSpacing    = 330 * time.Millisecond // the same where the last one was answered and an image is due: senders honour one in 300 ms
	keyFrameBackoff = 5 * time.Second        // and at most, while none is answered
)

// keyRequester spaces requests for key frames: one outstanding, doubling from 500 ms to 5 s while no key frame comes. Pure; time is passed in.
type keyRequester struct {
	last time.Time
	wait time.Duration // from last to the next
	then time.Duration // from that to the one after
	open bool          // no key frame came since last
}

// due reports whether to ask now, and takes it that the caller does.
func (k *keyRequester) due(need bool, at time.Time) bool { return need && k.ask(k.wait, at) }

// dueForImage is due where a key frame is wanted for its picture, not because one was lost.
func (k *keyRequester) dueForImage(at time.Time) bool { return k.ask(k.spacing(), at) }

func (k *keyRequester) spacing() time.Duration {
	if k.open {
		return k.wait
	}
	return min(k.wait, imageSpacing)
}

func (k *keyRequester) ask(spacing time.Duration, at time.Time) bool {
	if at.Sub(k.last) < spacing {
		return false
	}
	k.last, k.open = at, true
	k.wait = max(k.then, keyFrameSpacing)
	k.then = min(2*k.wait, keyFrameBackoff)
	return true
}

// answered says that a key frame came: the next need is asked for after the least spacing.
func (k *keyRequester) answered() {
	k.open = false
	if !k.last.IsZero() {
		k.wait, k.then = keyFrameSpacing, keyFrameSpacing
	}
}

const (
	answerLimit   = time.Second            // a request not answered by then was ignored
	distrustAt    = 4                      // answers.debt at which the sender is taken to ignore requests
	probeFirst    = 30 * time.Second       // from then until it is asked again, only to see
	probeLongest  = 8 * time.Minute        // the same after many tries
	probesToTrust = 3                      // answered in a row, and alike: its own key frames, come by chance, are not
	probeSpread   = 300 * time.Millisecond // senders honour one request in so long
)

// probeAfter are the times from an answer to the next request of one try. They differ, so that key frames in a fixed cadence come sooner or
// later after one request than after the other, by more than probeSpread.
var probeAfter = [probesToTrust - 1]time.Duration{700 * time.Millisecond, 1300 * time.Millisecond}

// answers judges how a sender answers requests for key frames. It is trusted until it has shown that it ignores them. Pure; time is passed in.
type answers struct {
	asked time.Time     // the first request since the last key frame, or since one was ignored; zero: none is open
	late  bool          // the open one was counted as ignored
	took  time.Duration // to answer, smoothed; 0: none was answered yet
	debt  int           // 2 for each one ignored, -1 for each one answered

	distrust   bool
	probeAt    time.Time
	probeEvery time.Duration
	good       int           // answered in a row while distrusted,
	first      time.Duration // the first of them after so long

	count, ignored uint64
}

// ask says that a key frame is asked for.
func (a *answers) ask(at time.Time) {
	if a.asked.IsZero() || a.late {
		a.asked, a.late = at, false
	}
	if a.distrust {
		a.probeAt = at.Add(max(a.probeEvery, probeFirst))
	}
}

// key says that a whole key frame came.
func (a *answers) key(at time.Time) {
	if a.asked.IsZero() {
		return
	}
	d := at.Sub(a.asked)
	late := a.late
	a.asked, a.late = time.Time{}, false
	a.count++
	if late || d > answerLimit {
		return
	}
	if a.took == 0 {
		a.took = d
	}
	a.took += (d - a.took) / 4
	a.debt = max(a.debt-1, 0)
	if !a.distrust {
		return
	}
	if a.good == 0 {
		a.first = d
	}
	switch a.good++; {
	case (d - a.first).Abs() > probeSpread:
		a.doubt(at)
	case a.good < probesToTrust:
		a.probeAt = at.Add(probeAfter[a.good-1])
	default:
		a.distrust, a.debt, a.good, a.probeEvery = false, 0, 0, 0
	}
}

// doubt distrusts the sender until a try after some time, which doubles from one to the next.
func (a *answers) doubt(at time.Time) {
	a.distrust, a.debt, a.good = true, distrustAt, 0
	a.probeEvery = min(max(2*a.probeEvery, probeFirst), probeLongest)
	a.probeAt = at.Add(a.probeEvery)
}

// forget drops the open request: packets do not arrive, or nobody watches any more.
func (a *answers) forget() { a.asked, a.late = time.Time{}, false }

// tick lets time pass.
func (a *answers) tick(at time.Time) {
	if a.asked.IsZero() || a.late || at.Sub(a.asked) <= answerLimit {
		return
	}
	a.late = true
	a.ignored++
	a.good = 0
	if a.debt += 2; a.took == 0 { // it never answered
		a.debt = distrustAt
	}
	if a.distrust || a.debt >= distrustAt {
		a.doubt(at)
	}
}

// probe reports whether a distrusted sender is to be asked, only to see whether it answers.
func (a *answers) probe(at time.Time) bool {
	return a.distrust && (a.asked.IsZero() || a.late) && !at.Before(a.probeAt)
}
