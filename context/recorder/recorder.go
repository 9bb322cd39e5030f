package recorder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	chatctx "sightline/context"
)

// Config is what a Recorder needs. Zero values mean the defaults.
type Config struct {
	Log    *chatctx.Log
	Times  Times
	Queue  int // reports that may wait; default 256
	Logger *slog.Logger
}

// Bounds of the Recorder's patience with the log's store.
const (
	defaultQueue = 256
	minRetry     = 100 * time.Millisecond
	maxRetry     = 5 * time.Second
	// closeTimeout bounds the last writes when Run ends.
	closeTimeout = 5 * time.Second
)

// Recorder runs a Core on a session's log. Report is safe for concurrent use.
type Recorder struct {
	cfg    Config
	events chan report
	ended  chan struct{}

	mu      sync.Mutex
	stats   Stats
	refused uint64
	playing map[string]string
}

// report is an Event, or with flush the wish to have everything written.
type report struct {
	Event
	flush chan struct{}
}

// New makes a Recorder; it does nothing before Run.
func New(cfg Config) (*Recorder, error) {
	if cfg.Log == nil {
		return nil, &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "log", Detail: "a recorder needs a log"}
	}
	if cfg.Queue <= 0 {
		cfg.Queue = defaultQueue
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{cfg: cfg, events: make(chan report, cfg.Queue), ended: make(chan struct{})}, nil
}

// Report hands an event over. It waits while the queue is full, so that nothing is lost, until ctx ends; after Run has ended it
// is chatctx.ErrClosed.
func (r *Recorder) Report(ctx context.Context, e Event) error {
	return r.send(ctx, report{Event: e})
}

// Flush returns when all that was reported before is in the log, partial transcripts too: before a switch of pipelines, so that
// the next one is seeded with everything.
func (r *Recorder) Flush(ctx context.Context) error {
	done := make(chan struct{})
	if err := r.send(ctx, report{flush: done}); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return chatctx.ErrClosed
	}
}

func (r *Recorder) send(ctx context.Context, e report) error {
	select {
	case <-r.ended:
		return chatctx.ErrClosed
	default:
	}
	select {
	case r.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return chatctx.ErrClosed
	}
}

// Stats are the counters, and how many operations the log refused because somebody else had recorded the same, or had removed
// what was to be changed.
func (r *Recorder) Stats() (s Stats, refused uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats, r.refused
}

// Playing are the answers in the log of which only what has been heard so far stands there, as interrupted: all of their text, by
// item id. For those who go on with them; the map is not changed any more.
func (r *Recorder) Playing() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.playing
}

// Run records until ctx ends, writes what is known then, and returns ctx's error. Call it once.
func (r *Recorder) Run(ctx context.Context) error {
	defer close(r.ended)
	core := NewCore(r.cfg.Times)
	cursor, err := r.cfg.Log.Follow(0)
	if err != nil {
		return err
	}
	if err := r.resume(ctx, core, cursor, true); err != nil {
		return err
	}
	work, stop := outlive(ctx, closeTimeout)
	defer stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := core.Deadline(); ok {
			timer.Reset(max(0, time.Until(at)))
		} else {
			timer.Stop()
		}
		var out []Out
		var flushed chan struct{}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), r.end(work, core))
		case e := <-r.events:
			if err := r.resume(ctx, core, cursor, false); err != nil {
				return err
			}
			if flushed = e.flush; flushed != nil {
				out = core.Flush(time.Now())
			} else {
				out = core.Handle(e.Event, time.Now())
			}
		case <-timer.C:
			if err := r.resume(ctx, core, cursor, false); err != nil {
				return err
			}
			out = core.Advance(time.Now())
		}
		if err := r.write(work, core, out); err != nil {
			return err
		}
		if flushed != nil {
			close(flushed)
		}
	}
}

// resume tells the core what the log has: at the start all, later what others wrote.
func (r *Recorder) resume(ctx context.Context, core *Core, c *chatctx.Cursor, own bool) error {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		e, ok, err := c.TryNext(ctx)
		switch {
		case isUnavailable(err) && ctx.Err() == nil:
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case !ok:
			return nil
		}
		wait = minRetry
		if _, _, ours := parseOpID(e.OpID); own || !ours {
			core.Resume(e)
		}
	}
}

// outlive makes a context that ends grace after ctx, so that what is being written when ctx ends is written to its end.
func outlive(ctx context.Context, grace time.Duration) (work context.Context, stop func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(time.Duration(1<<62), cancel)
	unhook := context.AfterFunc(ctx, func() { late.Reset(grace) })
	return work, func() { unhook(); late.Stop(); cancel() }
}

// end writes what is open and what still waits in the queue.
func (r *Recorder) end(ctx context.Context, core *Core) error {
	for {
		select {
		case e := <-r.events:
			if e.flush != nil {
				continue // Run's end answers it
			}
			if err := r.write(ctx, core, core.Handle(e.Event, time.Now())); err != nil {
				return err
			}
		default:
			return r.write(ctx, core, core.Close(time.Now()))
		}
	}
}

// write carries operations out in their order; while the store does not answer it tries again, since the same op_id is never
// applied twice.
func (r *Recorder) write(ctx context.Context, core *Core, out []Out) error {
	refused := uint64(0)
	for _, o := range out {
		if o.Note != "" {
			r.cfg.Logger.Info("recorded out of the usual order", "op_id", o.Op.ID, "note", o.Note)
		}
		ok, err := r.apply(ctx, o)
		if err != nil {
			return err
		}
		if !ok {
			refused++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats, r.playing = core.Stats(), core.Playing()
	r.refused += refused
	return nil
}

// apply carries one operation out; ok is false when the log refuses it.
func (r *Recorder) apply(ctx context.Context, o Out) (ok bool, err error) {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		_, err := r.cfg.Log.Append(ctx, chatctx.Origin{Author: o.Author, Epoch: o.Epoch, At: time.Now()}, o.Op)
		var e *chatctx.Error
		switch {
		case err == nil:
			return true, nil
		case isUnavailable(err) && ctx.Err() == nil:
			r.cfg.Logger.Warn("the conversation cannot be recorded now", "error", err, "retry_in", wait)
			if err := sleep(ctx, wait); err != nil {
				return false, err
			}
		case errors.As(err, &e) && e.Kind == chatctx.NotFound && o.Op.After != "": // the neighbour was removed: then at the end
			o.Op.After = ""
		case errors.As(err, &e) && e.Kind != chatctx.LogDamaged && e.Kind != chatctx.EngineUnavailable:
			r.cfg.Logger.Info("the log refused what was recorded", "op_id", o.Op.ID, "error", err)
			return false, nil
		default:
			return false, err
		}
	}
}

func isUnavailable(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && e.Kind == chatctx.EngineUnavailable
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
