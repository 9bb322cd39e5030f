package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound"
	"sightline/switcher"
)

// listener is the caller's ear: a session's switcher.Speaker. While a publisher takes sound, turns are played by the egress's
// clock; a turn that begins while nobody could hear it, in a session that is only typed in, counts as taken in at once, so
// that its text is in the conversation without delay.
type listener struct {
	egress *sound.Egress
	out    chan switcher.HeardTurn
	kick   chan struct{} // capacity 1: reports has grown

	mu      sync.Mutex
	hears   bool
	silent  map[switcher.TurnID]*switcher.HeardTurn // begun while nobody heard
	loud    map[switcher.TurnID]bool                // begun at the egress
	over    []switcher.TurnID                       // ended or stopped: what comes of them later is the egress' to drop
	stops   uint64                                  // counts Stop
	reports []switcher.HeardTurn                    // two a turn at most
}

// maxOver is how many ended turns are remembered; late sound comes soon or never.
const maxOver = 64

func newListener(e *sound.Egress) *listener {
	return &listener{
		egress: e, out: make(chan switcher.HeardTurn), kick: make(chan struct{}, 1),
		silent: map[switcher.TurnID]*switcher.HeardTurn{}, loud: map[switcher.TurnID]bool{},
	}
}

// setWriter says where sound goes; nil: nobody hears. What is queued then waits for the next writer.
func (l *listener) setWriter(write func(*rtp.Packet) error) {
	l.mu.Lock()
	l.hears = write != nil
	l.mu.Unlock()
	l.egress.SetWriter(write)
}

func (l *listener) hearing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hears
}

// run hands reports on until ctx ends.
func (l *listener) run(ctx context.Context) error {
	for {
		var out chan switcher.HeardTurn
		var first switcher.HeardTurn
		l.mu.Lock()
		stops := l.stops
		if len(l.reports) > 0 {
			out, first = l.out, l.reports[0]
		}
		l.mu.Unlock()
		from := l.egress.Heard()
		if out != nil {
			from = nil // in their order
		}
		select {
		case <-ctx.Done():
			return nil
		case h := <-from:
			l.mu.Lock()
			if h.Done || h.Stopped {
				l.endLocked(h.TurnID)
			}
			if stops == l.stops { // else Stop came between and has said it
				l.reports = append(l.reports, h)
			}
			l.mu.Unlock()
		case out <- first:
			l.mu.Lock()
			if len(l.reports) > 0 && l.reports[0] == first {
				l.reports = l.reports[1:]
			}
			l.mu.Unlock()
		case <-l.kick:
		}
	}
}

// isSilent decides about a turn with its first sound, and once.
func (l *listener) isSilent(turn switcher.TurnID) (*switcher.HeardTurn, bool) {
	if t := l.silent[turn]; t != nil {
		return t, true
	}
	if slices.Contains(l.over, turn) {
		return nil, false
	}
	if l.hears || l.loud[turn] {
		l.loud[turn] = true
		return nil, false
	}
	t := &switcher.HeardTurn{TurnID: turn}
	l.silent[turn] = t
	return t, true
}

// Play implements switcher.Speaker.
func (l *listener) Play(ctx context.Context, turn switcher.TurnID, rate int, pcm []int16) error {
	l.mu.Lock()
	t, silent := l.isSilent(turn)
	if !silent {
		l.mu.Unlock()
		return l.egress.Play(ctx, turn, rate, pcm)
	}
	defer l.mu.Unlock()
	if t.Started.IsZero() {
		t.Started = time.Now()
		l.reportLocked(*t)
	}
	t.Played += time.Duration(len(pcm)) * time.Second / time.Duration(max(rate, 1))
	return nil
}

// EndTurn implements switcher.Speaker.
func (l *listener) EndTurn(turn switcher.TurnID) {
	l.mu.Lock()
	t, silent := l.isSilent(turn)
	if !silent {
		l.mu.Unlock()
		l.egress.EndTurn(turn)
		return
	}
	defer l.mu.Unlock()
	l.endLocked(turn)
	t.Done = true
	l.reportLocked(*t)
}

// endLocked forgets a turn but for its id.
func (l *listener) endLocked(turn switcher.TurnID) {
	delete(l.loud, turn)
	delete(l.silent, turn)
	if l.over = append(l.over, turn); len(l.over) > maxOver {
		l.over = l.over[1:]
	}
}

func (l *listener) reportLocked(h switcher.HeardTurn) {
	l.reports = append(l.reports, h)
	wake(l.kick)
}

// Stop implements switcher.Speaker. Of a turn that nobody could hear all that was made counts.
func (l *listener) Stop() []switcher.HeardTurn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops++
	heard := l.egress.Stop()
	stopped := make(map[switcher.TurnID]bool, len(heard))
	for i := range heard {
		stopped[heard[i].TurnID] = true
		l.endLocked(heard[i].TurnID)
	}
	for id, t := range l.silent {
		h := *t
		h.Stopped = true
		heard = append(heard, h)
		stopped[id] = true
		l.endLocked(id)
	}
	kept := l.reports[:0]
	for _, r := range l.reports {
		if !stopped[r.TurnID] {
			kept = append(kept, r)
		}
	}
	l.reports = kept
	return heard
}

// Heard implements switcher.Speaker.
func (l *listener) Heard() <-chan switcher.HeardTurn { return l.out }
