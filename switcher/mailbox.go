package switcher

import "sync"

// mailbox is what waits for one goroutine, in order. put never waits; what puts, bounds it.
type mailbox[T any] struct {
	wake chan struct{} // capacity 1

	mu    sync.Mutex
	queue []T
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

func (m *mailbox[T]) put(v T) (waiting int) {
	m.mu.Lock()
	m.queue = append(m.queue, v)
	waiting = len(m.queue)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return waiting
}

func (m *mailbox[T]) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue)
}

func (m *mailbox[T]) take() (v T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return v, false
	}
	v, m.queue = m.queue[0], m.queue[1:]
	return v, true
}
