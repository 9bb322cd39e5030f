package frames

import "sync"

// Latest is a one-slot mailbox in which the newest value wins (G9). Put never waits and Take never waits; C wakes the reader.
// Any number of goroutines may use it.
type Latest[T any] struct {
	mu         sync.Mutex
	v          T
	full       bool
	closed     bool
	superseded uint64 // displaced since the last Take
	wake       chan struct{}
}

// NewLatest makes an empty mailbox.
func NewLatest[T any]() *Latest[T] { return &Latest[T]{wake: make(chan struct{}, 1)} }

// Put stores v and returns the value it displaced, if there was one that nobody had taken. After Close it does nothing.
func (l *Latest[T]) Put(v T) (displaced T, was bool) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return displaced, false
	}
	displaced, was = l.v, l.full
	l.v, l.full = v, true
	if was {
		l.superseded++
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // the reader has yet to see the last wake-up
	}
	return displaced, was
}

// Take empties the slot. superseded says how many values were displaced since the last Take that gave one; ok is false when it is empty.
func (l *Latest[T]) Take() (v T, superseded uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.full {
		return v, 0, false
	}
	v, superseded = l.v, l.superseded
	var zero T
	l.v, l.full, l.superseded = zero, false, 0
	return v, superseded, true
}

// C receives after a Put. One wake-up may stand for several Puts, and Take may find the slot empty.
func (l *Latest[T]) C() <-chan struct{} { return l.wake }

// Close empties the slot and refuses what comes later. It does not close C.
func (l *Latest[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var zero T
	l.v, l.full, l.closed = zero, false, true
}
