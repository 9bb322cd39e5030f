package jetstream

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// Stats are figures of a Store since it was opened, unless said otherwise.
type Stats struct {
	AppendTime   Histogram
	Appends      uint64  // entries stored
	Retries      Retries // of writes, by cause
	ReadRetries  uint64
	Full         uint64        // writes refused because the store had reached its bound, and sessions because it nearly had
	Fenced       uint64        // appends refused because another process owned the session by then
	Damaged      uint64        // holes, broken chains and spoiled images found
	Swept        uint64        // sessions deleted because of their age
	Restarts     uint64        // of the server inside
	Logs         int           // sessions that have an entry or an image, now
	StoredBytes  uint64        // now
	LimitBytes   int64         // of the store
	FreeBytes    int64         // of the disk, half a second ago; with a cluster what is left of the bound
	RoundTrip    time.Duration // to a cluster and back, at the last look
	HeadsFailure error         // why the ends of logs cannot be checked after a restart, nil when they can
}

// appendBounds are the upper bounds of Histogram's buckets, in seconds.
var appendBounds = [...]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Histogram is how long something took: for each bound in seconds how many took no longer, all of them, and their sum.
type Histogram struct {
	Buckets map[float64]uint64
	Count   uint64
	Seconds float64
}

// timings counts what becomes a Histogram.
type timings struct {
	buckets     [len(appendBounds) + 1]atomic.Uint64
	nanoseconds atomic.Int64
}

func (t *timings) observe(took time.Duration) {
	i, _ := slices.BinarySearch(appendBounds[:], took.Seconds())
	t.buckets[i].Add(1)
	t.nanoseconds.Add(int64(took))
}

func (t *timings) histogram() Histogram {
	h := Histogram{Buckets: map[float64]uint64{}, Seconds: float64(t.nanoseconds.Load()) / 1e9}
	for i := range t.buckets {
		h.Count += t.buckets[i].Load()
		if i < len(appendBounds) {
			h.Buckets[appendBounds[i]] = h.Count
		}
	}
	return h
}

// Retries counts repeated writes by what made them necessary.
type Retries struct {
	WrongLast uint64 // the server said that something else came before
	Timeout   uint64
	Gone      uint64 // the server was being restarted, or not there
	Other     uint64
}

type counters struct {
	appendTime timings

	appends, readRetries, full, damaged, swept, fenced atomic.Uint64
	wrongLast, timeout, gone, other                    atomic.Uint64
}

func (c *counters) retry(err error) {
	switch {
	case hasCode(err, codeWrongLast, codeWrongLastInFlight):
		c.wrongLast.Add(1)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		c.timeout.Add(1)
	case errors.Is(err, errGone), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		c.gone.Add(1)
	default:
		c.other.Add(1)
	}
}

// final tells whether trying again cannot help.
func final(err error) bool {
	var answer *chatctx.Error
	return errors.As(err, &answer) || errors.Is(err, chatctx.ErrClosed) || errors.Is(err, chatctx.ErrNoBlob) || hasCode(err, codeNoMessage)
}

// Stats reads the figures.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{
		AppendTime: c.appendTime.histogram(),
		Appends:    c.appends.Load(), ReadRetries: c.readRetries.Load(), Full: c.full.Load(), Damaged: c.damaged.Load(), Swept: c.swept.Load(),
		Fenced:   c.fenced.Load(),
		Retries:  Retries{c.wrongLast.Load(), c.timeout.Load(), c.gone.Load(), c.other.Load()},
		Restarts: s.engine.restarts.Load(), Logs: s.heads.count(), LimitBytes: s.engine.bytes, FreeBytes: s.engine.free.Load(),
		HeadsFailure: s.heads.failure(),
	}
	st.StoredBytes = s.engine.storedBytes()
	if s.cfg.clustered() {
		st.FreeBytes = max(st.LimitBytes-int64(st.StoredBytes), 0)
		st.RoundTrip = time.Duration(s.engine.roundTrip.Load())
	}
	return st
}

func (e *engine) storedBytes() uint64 {
	e.mu.Lock()
	r := e.now
	e.mu.Unlock()
	if r == nil {
		return 0
	}
	if r.stored != nil {
		return r.stored.Load()
	}
	info, err := r.srv.Jsz(nil)
	if err != nil {
		return 0
	}
	return info.Store
}

// Health says why the store takes no entries now, nil when it does. Reading may still be possible.
func (s *Store) Health() error { return s.engine.health() }
