package frames

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// Budget bounds how many tracks do C work (decode, encode) at once, process-wide. Who has a key frame waiting goes first, else first come
// first served.
type Budget struct {
	mu      sync.Mutex
	slots   int
	free    int
	waiters [2][]chan struct{} // 0: with a key frame
	pool    pool
}

// PooledBytes is the C memory that decoders and encoders hold which no track has at the moment.
func (b *Budget) PooledBytes() int64 { return b.pool.bytes() }

// NewBudget makes a budget of n slots; n < 1 means one for each CPU.
func NewBudget(n int) *Budget {
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}
	return &Budget{slots: n, free: n}
}

// acquire waits for a slot; after an error there is nothing to release.
func (b *Budget) acquire(ctx context.Context, key bool) error {
	class := 1
	if key {
		class = 0
	}
	b.mu.Lock()
	if b.free > 0 {
		b.free--
		b.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	b.waiters[class] = append(b.waiters[class], ready)
	b.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	i := slices.Index(b.waiters[class], ready)
	if i >= 0 {
		b.waiters[class] = slices.Delete(b.waiters[class], i, i+1)
	}
	b.mu.Unlock()
	if i < 0 { // it was given in the same moment
		b.release()
	}
	return ctx.Err()
}

func (b *Budget) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for class := range b.waiters {
		if w := b.waiters[class]; len(w) > 0 {
			close(w[0])
			b.waiters[class] = slices.Delete(w, 0, 1)
			return
		}
	}
	b.free++
}
