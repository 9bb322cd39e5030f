package switcher

import (
	"context"
	"slices"
	"sync"
	"time"
)

// egress is what waits for the Speaker, turn by turn: the sound of a turn begins when the one before it has been handed over whole.
// One goroutine hands over; one other adds and cuts.
type egress struct {
	speaker Speaker
	bound   time.Duration
	wake    chan struct{} // capacity 1

	mu     sync.Mutex
	queue  []*outTurn
	queued time.Duration
	room   chan struct{}      // closed when there is room again; nil while there is
	cancel context.CancelFunc // of the handing over that is under way
	idle   chan struct{}      // closed when it has ended; nil when there is none
}

type outTurn struct {
	id    TurnID
	sound []outSound
	ended bool
}

type outSound struct {
	rate int
	pcm  []int16
	long time.Duration
}

func newEgress(s Speaker, bound time.Duration) *egress {
	return &egress{speaker: s, bound: bound, wake: make(chan struct{}, 1)}
}

func (e *egress) turn(id TurnID) *outTurn {
	for _, t := range e.queue {
		if t.id == id {
			return t
		}
	}
	t := &outTurn{id: id}
	e.queue = append(e.queue, t)
	return t
}

func (e *egress) play(id TurnID, rate int, pcm []int16) {
	e.mu.Lock()
	t := e.turn(id)
	s := outSound{rate, pcm, time.Duration(len(pcm)) * time.Second / time.Duration(rate)}
	t.sound = append(t.sound, s)
	if e.queued += s.long; e.queued > e.bound && e.room == nil {
		e.room = make(chan struct{})
	}
	e.mu.Unlock()
	e.poke()
}

func (e *egress) end(id TurnID) {
	e.mu.Lock()
	e.turn(id).ended = true
	e.mu.Unlock()
	e.poke()
}

func (e *egress) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// wait returns when there is room for more sound.
func (e *egress) wait(ctx context.Context) error {
	e.mu.Lock()
	room := e.room
	e.mu.Unlock()
	if room == nil {
		return nil
	}
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run hands over until ctx ends.
func (e *egress) run(ctx context.Context) {
	for {
		do := e.next(ctx)
		if do == nil {
			select {
			case <-e.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		do()
		e.mu.Lock()
		e.cancel()
		close(e.idle)
		e.cancel, e.idle = nil, nil
		e.mu.Unlock()
	}
}

// next takes what is to be handed over; nil when nothing is.
func (e *egress) next(ctx context.Context) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 || len(e.queue[0].sound) == 0 && !e.queue[0].ended {
		return nil
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.idle = make(chan struct{})
	t := e.queue[0]
	if len(t.sound) == 0 {
		e.queue = e.queue[1:]
		return func() { e.speaker.EndTurn(t.id) }
	}
	s := t.sound[0]
	t.sound = t.sound[1:]
	e.less(s.long)
	return func() {
		_ = e.speaker.Play(ctx, t.id, s.rate, s.pcm) // it fails when it is cut, and then there is nothing to add
	}
}

func (e *egress) less(d time.Duration) {
	if e.queued -= d; e.queued <= e.bound && e.room != nil {
		close(e.room)
		e.room = nil
	}
}

// cut stops playback and forgets what waits. Nothing of it is heard after cut has returned.
func (e *egress) cut() (heard []HeardTurn, queued []TurnID) {
	e.mu.Lock()
	for _, t := range e.queue {
		queued = append(queued, t.id)
	}
	e.queue = nil
	e.less(e.queued)
	idle := e.idle
	if idle != nil {
		e.cancel()
	}
	e.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return slices.Clone(e.speaker.Stop()), queued
}
