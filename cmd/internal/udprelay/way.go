package udprelay

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// way is one direction.
type way struct {
	cfg  Config
	wake chan struct{} // capacity 1: the earliest packet has changed

	mu     sync.Mutex
	random *rand.Rand
	held   heldPackets
	n      uint64 // packets held so far
	count  Counts
}

type heldPacket struct {
	due  time.Time
	n    uint64 // of two that are due at once the first goes first
	data []byte
}

type heldPackets []heldPacket

// Len implements heap.Interface.
func (h heldPackets) Len() int { return len(h) }

// Less implements heap.Interface.
func (h heldPackets) Less(i, k int) bool {
	if h[i].due.Equal(h[k].due) {
		return h[i].n < h[k].n
	}
	return h[i].due.Before(h[k].due)
}

// Swap implements heap.Interface.
func (h heldPackets) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *heldPackets) Push(p any) { *h = append(*h, p.(heldPacket)) }

// Pop implements heap.Interface.
func (h *heldPackets) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = heldPacket{}
	*h = (*h)[:len(*h)-1]
	return last
}

// take decides what becomes of a packet: lost, sent at once, or held.
func (w *way) take(packet []byte, now time.Time, send func([]byte)) {
	w.mu.Lock()
	if w.random.Float64() < w.cfg.Loss {
		w.count.Lost++
		w.mu.Unlock()
		return
	}
	if w.cfg.Delay == 0 && w.cfg.Jitter == 0 {
		w.count.Passed++
		w.mu.Unlock()
		send(packet)
		return
	}
	defer w.mu.Unlock()
	if len(w.held) >= maxHeld {
		w.count.Dropped++
		return
	}
	due := now.Add(w.cfg.Delay + time.Duration(w.random.Float64()*float64(w.cfg.Jitter)))
	w.n++
	w.count.Passed++
	heap.Push(&w.held, heldPacket{due, w.n, append([]byte(nil), packet...)})
	if w.held[0].n == w.n {
		select {
		case w.wake <- struct{}{}:
		default: // a wake-up is on its way
		}
	}
}

// release sends what is due until ctx ends; what is held then is lost.
func (w *way) release(ctx context.Context, send func([]byte)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		packet, wait := w.next(time.Now())
		if packet != nil {
			send(packet)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// next is the packet that is due, or how long there is none.
func (w *way) next(now time.Time) ([]byte, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil, time.Hour
	}
	if wait := w.held[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&w.held).(heldPacket).data, 0
}

func (w *way) counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
