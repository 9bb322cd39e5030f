package switcher

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds of an Inbox.
const (
	DefaultInboxSound = 10 * time.Second // sound that waits; the oldest goes first
	DefaultInboxWords = 1024             // everything else; a leg that lets more wait is dead
)

// ErrInboxFull says that a leg does not read what it is given.
var ErrInboxFull = errors.New("the leg does not read its inbox")

// Inbox is what waits for a leg, in order. Put never waits. Sound that nobody reads is dropped from its old end and counted;
// anything else is never dropped.
type Inbox struct {
	sound time.Duration // bound
	rate  int
	wake  chan struct{} // capacity 1

	mu      sync.Mutex
	queue   []Input
	words   int           // of queue: not sound
	waiting time.Duration // of sound in queue
	dropped uint64        // pieces of sound
}

// NewInbox makes an Inbox for sound of a rate in Hz. sound is how much of it may wait; 0: DefaultInboxSound.
func NewInbox(rate int, sound time.Duration) *Inbox {
	if sound <= 0 {
		sound = DefaultInboxSound
	}
	return &Inbox{sound: sound, rate: max(rate, 1), wake: make(chan struct{}, 1)}
}

// Put adds an input; ErrInboxFull when the leg is to be given up.
func (b *Inbox) Put(in Input) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := in.(SoundIn); ok {
		b.waiting += b.length(s)
	} else if b.words++; b.words > DefaultInboxWords {
		return ErrInboxFull
	}
	b.queue = append(b.queue, in)
	for i := 0; b.waiting > b.sound && i < len(b.queue); i++ {
		if s, ok := b.queue[i].(SoundIn); ok {
			b.waiting -= b.length(s)
			b.dropped++
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			i--
		}
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

func (b *Inbox) length(s SoundIn) time.Duration {
	return time.Duration(len(s.PCM)) * time.Second / time.Duration(b.rate)
}

// Next gives the oldest input; it waits for one until ctx ends. For one goroutine.
func (b *Inbox) Next(ctx context.Context) (Input, error) {
	for {
		if in, ok := b.take(); ok {
			return in, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.wake:
		}
	}
}

func (b *Inbox) take() (Input, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil, false
	}
	in := b.queue[0]
	b.queue[0] = nil
	b.queue = b.queue[1:]
	if s, ok := in.(SoundIn); ok {
		b.waiting -= b.length(s)
	} else {
		b.words--
	}
	return in, true
}

// Dropped counts the pieces of sound that nobody read in time.
func (b *Inbox) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}
