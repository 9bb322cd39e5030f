package socket

import (
	"context"
	"sync"
)

// Queue is an ordered line between the loop and a goroutine that may have to wait. Put never waits; whoever puts looks at Load.
type Queue[T any] struct {
	weigh func(T) int   // samples of sound in an entry, 0 for anything else
	wake  chan struct{} // capacity 1: there is something
	room  chan struct{} // capacity 1: something was taken

	mu      sync.Mutex
	entries []T
	words   int // entries without sound
	samples int // of sound waiting
}

// NewQueue makes a Queue; weigh gives the samples of sound in an entry, 0 for anything else.
func NewQueue[T any](weigh func(T) int) *Queue[T] {
	return &Queue[T]{weigh: weigh, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Put adds an entry at the end.
func (q *Queue[T]) Put(v T) {
	q.mu.Lock()
	q.entries = append(q.entries, v)
	q.count(v, 1)
	q.mu.Unlock()
	nudge(q.wake)
}

// Load is how many entries without sound wait, and how many samples.
func (q *Queue[T]) Load() (words, samples int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.words, q.samples
}

func (q *Queue[T]) count(v T, sign int) {
	if n := q.weigh(v); n > 0 {
		q.samples += sign * n
	} else {
		q.words += sign
	}
}

// Remove takes out what match names, from the old end, at most limit; it gives how many.
func (q *Queue[T]) Remove(limit int, match func(T) bool) (removed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.entries[:0]
	for _, v := range q.entries {
		if removed < limit && match(v) {
			removed++
			q.count(v, -1)
			continue
		}
		kept = append(kept, v)
	}
	clear(q.entries[len(kept):])
	q.entries = kept
	return removed
}

// Take gives the oldest entry, if there is one.
func (q *Queue[T]) Take() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) == 0 {
		return v, false
	}
	v = q.entries[0]
	var zero T
	q.entries[0] = zero
	q.entries = q.entries[1:]
	q.count(v, -1)
	nudge(q.room)
	return v, true
}

// Next waits for the oldest entry. For one goroutine.
func (q *Queue[T]) Next(ctx context.Context) (v T, err error) {
	for {
		if v, ok := q.Take(); ok {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-q.wake:
		}
	}
}

// Room tells, one at a time, that something was taken.
func (q *Queue[T]) Room() <-chan struct{} { return q.room }
