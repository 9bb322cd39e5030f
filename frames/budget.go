package frames

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// Budget bounds how many tracks do C work (decode, encode) at once, and what C memory their decoders may take, process-wide. Who has a key
// frame waiting goes first, but not more than keysInRow times while others wait; else first come first served.
type Budget struct {
	mu      sync.Mutex
	slots   int
	free    int
	waiters [2][]chan struct{} // 0: with a key frame
	inRow   int                // times that a key frame went before somebody who was waiting
	pool    pool

	most     int64 // bytes that decoders of tracks may take; 0: any
	reserved int64 // of them; guarded by mu
}

// LimitDecoders bounds the C memory of all decoders that tracks have, in bytes, by what each takes at most for the size of its
// pictures. A key frame for which there is no room is refused (FrameDrops.Refused), until there is some. Call it before any track runs.
func (b *Budget) LimitDecoders(bytes int64) { b.most = bytes }

// reserve changes one decoder's share; false: there is no room, and nothing has changed.
func (b *Budget) reserve(was, is int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if is > was && b.most > 0 && b.reserved-was+is > b.most {
		return false
	}
	b.reserved += is - was
	return true
}

// decoderBytes is what a decoder takes at most: the pictures that its codec keeps, with a border of 32 pixels, 4:2:0.
func decoderBytes(c Codec, width, height int) int64 {
	pictures := int64(12) // VP9, AV1: 8 references and those under way
	switch c {
	case CodecVP8:
		pictures = 4
	case CodecH264:
		pictures = 18
	}
	w, h := int64(width+15)&^15+64, int64(height+15)&^15+64
	return pictures * w * h * 3 / 2
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
	class := 0
	if len(b.waiters[0]) == 0 || b.inRow >= keysInRow && len(b.waiters[1]) > 0 {
		class = 1
	}
	w := b.waiters[class]
	if len(w) == 0 {
		b.free++
		return
	}
	b.inRow++
	if class == 1 || len(b.waiters[1]) == 0 {
		b.inRow = 0
	}
	close(w[0])
	b.waiters[class] = slices.Delete(w, 0, 1)
}

// keysInRow keeps tracks that decode every frame going where those that decode key frames alone would take all there is.
const keysInRow = 3
