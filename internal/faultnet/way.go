package faultnet

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// way is one direction, of all clients.
type way struct {
	send func(*flow, []byte)
	wake chan struct{} // capacity 1: the earliest packet has changed

	mu     sync.Mutex
	faults oneWay
	random *rand.Rand
	held   heldPackets
	n      uint64 // packets held so far
	count  Counts
}

type heldPacket struct {
	due  time.Time
	n    uint64 // of two that are due at once the first goes first
	flow *flow
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

func (w *way) set(faults oneWay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = faults
}

func (w *way) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.Dropped++
}

// take decides what becomes of a packet: thrown away, sent at once, or held. It keeps no slice that it is given.
func (w *way) take(f *flow, packet []byte, now time.Time) {
	for range w.admit(f, packet, now) {
		w.send(f, packet)
	}
}

// admit tells how often the packet is to be sent at once.
func (w *way) admit(f *flow, packet []byte, now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults.down || w.random.Float64() < w.faults.loss {
		w.count.Lost++
		return 0
	}
	wait, fits := w.pace(f, len(packet), now)
	if !fits {
		w.count.OverRate++
		return 0
	}
	wait += w.faults.delay
	if w.faults.jitter > 0 {
		wait += time.Duration(w.random.Float64() * float64(w.faults.jitter))
	}
	copies := 1
	if w.faults.duplicate > 0 && w.random.Float64() < w.faults.duplicate {
		copies = 2
	}
	atOnce := wait == 0 && len(w.held) == 0
	if !atOnce {
		if len(w.held)+copies > maxHeld {
			w.count.Dropped++
			return 0
		}
		w.hold(f, packet, now.Add(wait), copies)
	}
	w.count.Passed++
	w.count.Duplicated += uint64(copies - 1)
	if atOnce {
		return copies
	}
	return 0
}

// pace is how long the rate makes a packet wait; fits is false when too much waits already. The caller holds mu.
func (w *way) pace(f *flow, size int, now time.Time) (wait time.Duration, fits bool) {
	if w.faults.rate == 0 {
		return 0, true
	}
	if f.free.Before(now) {
		f.free = now
	}
	wait = f.free.Sub(now)
	if wait > time.Second/4 {
		return 0, false
	}
	f.free = f.free.Add(time.Duration(size+28) * 8 * time.Second / time.Duration(w.faults.rate)) // IPv4 and UDP headers
	return wait, true
}

// hold keeps a packet until it is due. The caller holds mu.
func (w *way) hold(f *flow, packet []byte, due time.Time, copies int) {
	data := append([]byte(nil), packet...)
	first := w.n + 1
	for range copies {
		w.n++
		heap.Push(&w.held, heldPacket{due, w.n, f, data})
	}
	if w.held[0].n == first {
		select {
		case w.wake <- struct{}{}:
		default: // a wake-up is on its way
		}
	}
}

// release sends what is due until ctx ends; what is held then is lost.
func (w *way) release(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		packet, wait := w.next(time.Now())
		if packet.flow != nil {
			w.send(packet.flow, packet.data)
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

// next is the packet that is due; without a flow there is none, for so long.
func (w *way) next(now time.Time) (heldPacket, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return heldPacket{}, time.Hour
	}
	if wait := w.held[0].due.Sub(now); wait > 0 {
		return heldPacket{}, wait
	}
	return heap.Pop(&w.held).(heldPacket), 0
}

func (w *way) counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
