package chatctx

import (
	"context"
	"errors"
)

// Cursor is one follower's reading position in a log. It belongs to one goroutine.
type Cursor struct {
	log   *Log
	after uint64
	batch []Entry
}

// Follow makes a cursor that gives the entries after a seq: 0 for all of them. A seq past the head is an error, since the
// follower then knows of entries that this log does not have.
func (l *Log) Follow(after uint64) (*Cursor, error) {
	if head := l.Head(); after > head {
		return nil, fail(InvalidArgument, "resume_from", "resume_from %d is past the log's head %d", after, head)
	}
	return &Cursor{log: l, after: after}, nil
}

// Next gives the next entry, waiting for it at the head. It returns ctx's error when ctx ends, ErrClosed when the log is
// closed and read to its end, and an *Error of kind LogDamaged instead of ever skipping an entry (G1).
func (c *Cursor) Next(ctx context.Context) (Entry, error) {
	for {
		if e, ok, err := c.TryNext(ctx); ok || err != nil {
			return e, err
		}
		select {
		case <-c.Grown():
		case <-c.log.closed:
			if c.log.Head() == c.after {
				return Entry{}, ErrClosed
			}
		case <-ctx.Done():
			return Entry{}, ctx.Err()
		}
	}
}

// TryNext is Next without waiting: ok is false at the head. For a loop that waits for several things: see Grown.
func (c *Cursor) TryNext(ctx context.Context) (e Entry, ok bool, err error) {
	if len(c.batch) == 0 {
		if err := c.fill(ctx); err != nil {
			return Entry{}, false, err
		}
		if len(c.batch) == 0 {
			return Entry{}, false, nil
		}
	}
	e, c.batch = c.batch[0], c.batch[1:]
	if e.Seq != c.after+1 {
		c.batch = nil
		return Entry{}, false, fail(LogDamaged, "seq", "entry %d follows entry %d", e.Seq, c.after)
	}
	c.after = e.Seq
	return e, true, nil
}

// fill reads the next batch, never past the head that is folded, so that no follower sees an entry before it is acknowledged.
func (c *Cursor) fill(ctx context.Context) error {
	ahead := c.log.Head() - c.after
	if ahead == 0 {
		return nil
	}
	entries, err := c.log.cfg.Store.Read(ctx, c.log.cfg.Session, c.after, int(min(ahead, readBatch)))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unavailable(err)
	}
	if len(entries) == 0 {
		return fail(LogDamaged, "seq", "the store has no entry after %d although the head is %d", c.after, c.after+ahead)
	}
	c.batch = entries
	return nil
}

// Grown is a channel that is closed as soon as there is an entry that this cursor has not given.
func (c *Cursor) Grown() <-chan struct{} {
	for {
		g := c.log.grown.Load()
		if g == nil {
			g = &growing{make(chan struct{})}
			if !c.log.grown.CompareAndSwap(nil, g) {
				continue
			}
		}
		// Only now: an append after this look finds g, and one before it is seen.
		if c.log.head.Load() > c.after {
			return closedChannel
		}
		return g.closed
	}
}

// growing is one wait for the log to grow, shared by all who wait.
type growing struct{ closed chan struct{} }

// notify wakes the followers that wait, so that the writer does not have to (G9): readying 64 goroutines takes longer than the
// append. While it is under way the writer starts no other; what is appended meanwhile, it sees itself, before it ends.
func (l *Log) notify() {
	for {
		head := l.head.Load()
		if g := l.grown.Swap(nil); g != nil {
			close(g.closed)
		}
		l.notifying.Store(false)
		// Who began to wait after the swap has seen head; has the writer gone on since, and left them to this notifier?
		if l.grown.Load() == nil || l.head.Load() == head || !l.notifying.CompareAndSwap(false, true) {
			return
		}
	}
}

// Seq is the last entry given.
func (c *Cursor) Seq() uint64 { return c.after }

// IsClosed reports whether err says that the log was closed and read to its end; a store that is closed is another matter.
func IsClosed(err error) bool {
	var e *Error
	return errors.Is(err, ErrClosed) && !errors.As(err, &e)
}

// closedChannel is a constant in all but syntax.
var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
