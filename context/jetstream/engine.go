package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	chatctx "sightline/context"
)

// engine keeps a server running: it looks after its health and puts another in its place when it fails.
type engine struct {
	cfg        Config
	log        *slog.Logger
	bytes      int64 // the bound of the streams together
	partitions int   // as many as the store was made with, once it is there; written by start only

	mu      sync.Mutex
	now     *running      // nil while there is none
	why     error         // why appends are refused, or there is no server; nil = all is well
	changed chan struct{} // closed when now or why change
	closed  bool

	kick chan struct{} // capacity 1: look now
	stop chan struct{}
	done chan struct{}

	free     atomic.Int64 // of the disk; 0 where it is not ours
	restarts atomic.Uint64

	roundTrip atomic.Int64 // nanoseconds to a cluster and back
}

const (
	lookEvery = 500 * time.Millisecond
	askEvery  = 2 * time.Second // a cluster, which answers as many gateways as there are
	// A server that fails again soon after a restart is not helped by the next one: they come at growing distances.
	firstPause, longestPause = 100 * time.Millisecond, 4 * time.Second
	soon                     = time.Minute
)

// openEngine starts the first server; its failure is an error, later ones are mended.
func openEngine(ctx context.Context, cfg Config) (*engine, error) {
	e := &engine{
		cfg: cfg, log: cfg.Log, bytes: cfg.MaxStoreBytes,
		changed: make(chan struct{}), kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !cfg.clustered() {
		if err := e.measure(); err != nil {
			return nil, err
		}
	}
	r, err := e.start(ctx)
	if err != nil {
		return nil, err
	}
	e.now = r
	return e, nil
}

// measure finds out how much room there is, and how much of it the store may take where nobody has said.
func (e *engine) measure() error {
	free, err := e.cfg.free(e.cfg.Dir)
	if err != nil {
		return err
	}
	e.free.Store(free)
	if e.bytes == 0 {
		own, err := sizeOf(e.cfg.Dir)
		if err != nil {
			return fmt.Errorf("the size of %s: %w", e.cfg.Dir, err)
		}
		e.bytes = max((free+own)/5*4, MinStoreBytes)
	}
	return nil
}

// start begins a life of the server, or of the connections to the cluster, with all streams in place.
func (e *engine) start(ctx context.Context) (r *running, err error) {
	if e.cfg.clustered() {
		r, err = connectExternal(e.cfg, e.suspect)
	} else {
		r, err = startServer(e.cfg.Dir, !e.cfg.UnsafeSync, e.cfg.Log)
	}
	if err != nil {
		return nil, err
	}
	if e.partitions, err = e.reconcile(ctx, r); err == nil {
		err = e.healthOf(r)
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// healthOf is nil while the server takes what it is given.
func (e *engine) healthOf(r *running) error {
	if !e.cfg.clustered() {
		return r.health()
	}
	rtt, err := r.probe(e.streams())
	e.roundTrip.Store(int64(rtt))
	return err
}

// run looks after the server until close.
func (e *engine) run() {
	defer close(e.done)
	every := lookEvery
	if e.cfg.clustered() {
		every = askEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last time.Time // of a restart
	pause := firstPause
	for {
		select {
		case <-e.stop:
			return
		case <-e.kick:
		case <-ticker.C:
		}
		if !e.look() {
			continue
		}
		if time.Since(last) > soon {
			pause = firstPause
		} else {
			select {
			case <-e.stop:
				return
			case <-time.After(time.Until(last.Add(pause))):
			}
			pause = min(2*pause, longestPause)
		}
		last = time.Now()
		e.restart()
	}
}

// look examines disk and server, and says whether a restart can help. On a full disk it cannot: appends are refused until there
// is room, and the old server goes on answering readers.
func (e *engine) look() (restart bool) {
	e.mu.Lock()
	r := e.now
	e.mu.Unlock()
	if !e.cfg.clustered() {
		free, err := e.cfg.free(e.cfg.Dir)
		if err != nil {
			e.set(r, err)
			return false
		}
		e.free.Store(free)
		if free < e.cfg.MinFreeBytes {
			e.set(r, fmt.Errorf("%w: %d bytes free, %d are required", ErrDiskFull, free, e.cfg.MinFreeBytes))
			return r == nil
		}
	}
	if r == nil {
		return true
	}
	err := e.healthOf(r)
	if err != nil { // the server inside gives itself a millisecond to answer, which a busy machine may not have: ask twice
		time.Sleep(20 * time.Millisecond)
		err = e.healthOf(r)
	}
	if err != nil {
		e.set(r, err)
		return !e.cfg.clustered() || errors.Is(err, errClosed) // a cluster mends itself
	}
	e.mu.Lock()
	if r.writable.Err() != nil { // it was refused for want of room, and nothing broke
		r.writable, r.unwritable = context.WithCancelCause(context.Background())
	}
	e.mu.Unlock()
	e.set(r, nil)
	return false
}

// ErrDiskFull is the cause of refused appends while the disk has less than Config.MinFreeBytes.
var ErrDiskFull = errors.New("the disk is nearly full")

// set tells everybody who waits how things are now.
func (e *engine) set(r *running, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if why != nil && r != nil {
		r.unwritable(why)
	}
	if r == e.now && (why == nil) == (e.why == nil) {
		e.why = why
		return
	}
	switch {
	case why != nil:
		e.log.Error("the store takes no entries", "error", why)
	case e.why != nil:
		e.log.Info("the store takes entries again")
	}
	e.now, e.why = r, why
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *engine) restart() {
	e.mu.Lock()
	old, why := e.now, e.why
	e.mu.Unlock()
	e.log.Warn("the store's server is restarted", "error", why)
	e.restarts.Add(1)
	e.set(nil, errGone)
	if old != nil {
		old.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r, err := e.start(ctx)
	cancel()
	if err != nil {
		e.set(nil, fmt.Errorf("%w: %w", errGone, err))
		return
	}
	e.set(r, nil)
}

// reader gives the server as it is, waiting for one that is being restarted.
func (e *engine) reader(ctx context.Context) (*running, error) { return e.wait(ctx, false) }

// writer gives a server that takes appends. It waits for a restart, not for room on the disk.
func (e *engine) writer(ctx context.Context) (*running, context.Context, error) {
	r, err := e.wait(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return r, r.writable, nil
}

func (e *engine) wait(ctx context.Context, writing bool) (*running, error) {
	for {
		e.mu.Lock()
		r, why, changed, closed := e.now, e.why, e.changed, e.closed
		e.mu.Unlock()
		switch {
		case closed:
			return nil, chatctx.ErrClosed
		case r != nil && (why == nil || !writing):
			return r, nil
		case errors.Is(why, ErrDiskFull):
			return nil, unavailable("the disk of the conversations is full", why)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, unavailable("the conversation's store is not there", errors.Join(ctx.Err(), why))
		}
	}
}

// suspect asks for a look at the server now: somebody waits for it longer than usual.
func (e *engine) suspect() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// health is nil while appends are taken.
func (e *engine) health() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return chatctx.ErrClosed
	}
	return e.why
}

// close stops looking and takes the server down.
func (e *engine) close() {
	close(e.stop)
	<-e.done
	e.mu.Lock()
	r := e.now
	e.now, e.closed = nil, true
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	if r != nil {
		r.stop()
	}
}
