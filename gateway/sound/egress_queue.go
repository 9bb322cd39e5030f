package sound

import (
	"time"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

// ticks are what the sound of a turn is counted in: 1/48000 s, of which every rate that opus takes is a whole part.
type ticks int64

const ticksPerSecond ticks = opus.ClockRate

func (n ticks) duration() time.Duration {
	return time.Duration(n) * time.Second / time.Duration(ticksPerSecond)
}

func ticksOf(samples, rate int) ticks { return ticks(samples) * ticksPerSecond / ticks(rate) }

// turn is one turn from its first sound until it was heard to its end or stopped.
type turn struct {
	id      switcher.TurnID
	queued  ticks // in the queue
	played  ticks // sent
	started time.Time
	told    time.Time // of the last report
	ended   bool      // no more sound comes
	dried   bool      // its sound stopped coming while it was heard
}

func (t *turn) heard() switcher.HeardTurn {
	return switcher.HeardTurn{TurnID: t.id, Played: t.played.duration(), Started: t.started}
}

// piece is a run of samples of one turn at one rate.
type piece struct {
	turn *turn
	rate int
	n    int // samples
}

// playQueue is the sound that waits: pieces, and their samples in a ring that grows to what is needed.
type playQueue struct {
	pieces []piece
	ring   []int16
	head   int // index of the first sample
	n      int // samples
	length ticks
}

const (
	minRing  = 1 << 13
	keepRing = 1 << 16 // samples of ring that an empty queue keeps
)

// push adds samples behind everything.
func (q *playQueue) push(t *turn, rate int, pcm []int16) {
	if len(pcm) == 0 {
		return
	}
	q.grow(q.n + len(pcm))
	at := (q.head + q.n) % len(q.ring)
	copied := copy(q.ring[at:], pcm)
	copy(q.ring, pcm[copied:])
	q.n += len(pcm)
	if last := len(q.pieces) - 1; last >= 0 && q.pieces[last].turn == t && q.pieces[last].rate == rate {
		q.pieces[last].n += len(pcm)
	} else {
		q.pieces = append(q.pieces, piece{turn: t, rate: rate, n: len(pcm)})
	}
	t.queued += ticksOf(len(pcm), rate)
	q.length += ticksOf(len(pcm), rate)
}

func (q *playQueue) grow(n int) {
	if n <= len(q.ring) {
		return
	}
	size := max(minRing, len(q.ring))
	for size < n {
		size *= 2
	}
	ring := make([]int16, size)
	q.copyTo(ring[:q.n])
	q.ring, q.head = ring, 0
}

func (q *playQueue) copyTo(dst []int16) {
	n := copy(dst, q.ring[q.head:min(q.head+len(dst), len(q.ring))])
	copy(dst[n:], q.ring)
}

// pop moves samples of the first piece into dst, as many as there are and fit, and says how many.
func (q *playQueue) pop(dst []int16) int {
	p := &q.pieces[0]
	n := min(p.n, len(dst))
	q.copyTo(dst[:n])
	q.head, q.n = (q.head+n)%len(q.ring), q.n-n
	p.n -= n
	p.turn.queued -= ticksOf(n, p.rate)
	q.length -= ticksOf(n, p.rate)
	if p.n == 0 {
		copy(q.pieces, q.pieces[1:])
		q.pieces[len(q.pieces)-1] = piece{}
		q.pieces = q.pieces[:len(q.pieces)-1]
	}
	return n
}

// clear forgets everything.
func (q *playQueue) clear() {
	clear(q.pieces)
	q.pieces, q.head, q.n, q.length = q.pieces[:0], 0, 0, 0
	q.slim()
}

// slim gives a large ring back that nothing is in.
func (q *playQueue) slim() {
	if q.n == 0 && len(q.ring) > keepRing {
		q.ring, q.head = nil, 0
	}
}
