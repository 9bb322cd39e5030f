package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	chatctx "sightline/context"
	"sightline/gateway/problem"
)

// registry is the one place that knows every session, running and resting. What it knows of them is in the Directory, too.
type registry struct {
	cfg    Config
	shared *shared
	tasks  sync.WaitGroup  // one per live session
	base   context.Context // of all sessions; its cancel belongs to Server.Run

	mu       sync.Mutex
	draining bool
	live     map[string]*Session
	resting  map[string]*restingSession
	order    []*restingSession        // oldest first
	busy     map[string]chan struct{} // ids that are being opened, retired or forgotten; closed when that is done
	terms    map[*Session]uint64      // in a cluster: under which this node owns a live session
	asleep   map[string]lonely        // in a cluster: sessions without an owner, as this node has found them
}

func newRegistry(base context.Context, cfg Config, sh *shared) *registry {
	return &registry{
		cfg: cfg, shared: sh, base: base,
		live: map[string]*Session{}, resting: map[string]*restingSession{}, busy: map[string]chan struct{}{},
		terms: map[*Session]uint64{}, asleep: map[string]lonely{},
	}
}

// get finds a live session; one that sleeps since a restart wakes up.
func (r *registry) get(ctx context.Context, id string) (*Session, error) {
	s, e, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	asleep := e != nil && e.asleep
	r.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case asleep:
		s, _, err := r.obtain(ctx, id)
		return s, err
	case e != nil:
		return nil, endedProblem(id)
	}
	return nil, problem.New(problem.NotFound, "there is no session %q: publish to /whip/%s or POST /v1/sessions to make it", id, id)
}

// obtain finds a live session or makes one; an empty id asks for a generated one. A session that sleeps or ended by itself is
// taken up again with its conversation; one that was deleted begins anew.
func (r *registry) obtain(ctx context.Context, id string) (s *Session, created bool, err error) {
	if id == "" {
		id = uuid.NewString()
	}
	if !chatctx.ValidID(id) {
		return nil, false, problem.New(problem.InvalidArgument, "session id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", id).WithField("id")
	}
	s, old, err := r.reserve(ctx, id)
	if s != nil || err != nil {
		return s, false, err
	}
	defer r.release(id)
	s, err = r.open(ctx, id, old)
	return s, err == nil, err
}

// reserve finds the live session, or makes the id the caller's to open (release it then) and gives what rests under it.
func (r *registry) reserve(ctx context.Context, id string) (*Session, *restingSession, error) {
	for {
		r.mu.Lock()
		wait := r.busy[id]
		if wait == nil {
			defer r.mu.Unlock()
			return r.reserveLocked(id)
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, problem.New(problem.EngineUnavailable, "session %s was still being opened or ended: try again", id).WithCause(ctx.Err())
		}
	}
}

func (r *registry) reserveLocked(id string) (*Session, *restingSession, error) {
	if s, ok := r.live[id]; ok {
		return s, nil, nil
	}
	if r.draining {
		return nil, nil, problem.New(problem.Draining, "the gateway is shutting down and takes no new session").WithRetryAfter(5 * time.Second)
	}
	if len(r.live)+len(r.busy) >= r.cfg.MaxSessions {
		return nil, nil, problem.New(problem.Overloaded, "the gateway holds %d sessions, its limit", r.cfg.MaxSessions).WithRetryAfter(5 * time.Second)
	}
	r.busy[id] = make(chan struct{})
	return nil, r.resting[id], nil
}

func (r *registry) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.busy[id])
	delete(r.busy, id)
}

// open reads the log, writes the record and starts the session. The id is reserved.
func (r *registry) open(ctx context.Context, id string, old *restingSession) (*Session, error) {
	if r.cfg.Cluster != nil {
		return r.openOwned(ctx, id)
	}
	key, created := uuid.NewString(), time.Now() // not the id: a deleted session's id begins anew
	if old != nil && !old.deleted {
		key, created = old.key, old.created
	}
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{
		Store: r.cfg.Store, Session: key, MaxItemBytes: r.cfg.MaxItemBytes, MaxImageBytes: r.cfg.MaxImageBytes,
	})
	if err != nil {
		return nil, contextProblem(err)
	}
	record := chatctx.SessionRecord{ID: id, Key: key, CreatedAt: created}
	if err := r.cfg.Directory.PutSession(ctx, record); err != nil {
		log.Close()
		return nil, problem.New(problem.EngineUnavailable, "the store did not take the new session (%s): try again", storeReason(err)).WithCause(err)
	}
	s := newSession(id, key, r.cfg, r.shared, log, created)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.previous = old; old != nil {
		r.forgetLocked(old)
	}
	r.beginLocked(s)
	return s, nil
}

func (r *registry) beginLocked(s *Session) {
	r.live[s.id] = s
	r.tasks.Go(func() {
		s.run(r.base)
		r.retire(s)
	})
	s.logger.Info("session begins", "entries", s.log.Head())
}

// storeReason is what a store says of itself, where it says something for people.
func storeReason(err error) string {
	if e, ok := errors.AsType[*chatctx.Error](err); ok && e.Detail != "" {
		return e.Detail
	}
	return "it did not answer"
}

// retire lays a session that has ended to rest. One that was never used (its offer was refused) puts back what was there before
// it; one that the drain ended sleeps, and goes on after the restart.
func (r *registry) retire(s *Session) {
	e, replaced := s.previous, (*restingSession)(nil)
	if s.used {
		replaced = e
		e = &restingSession{
			id: s.id, key: s.key, created: s.created, at: time.Now(), seq: s.log.Head(), seqKnown: true,
			deleted: s.endReason == reasonDeleted, asleep: s.endReason == reasonDrain,
		}
	}
	if r.cfg.Cluster != nil {
		r.retireOwned(s, e)
		return
	}
	r.mu.Lock()
	r.busy[s.id] = make(chan struct{})
	delete(r.live, s.id)
	if e != nil {
		r.resting[s.id] = e
		r.order = append(r.order, e)
	}
	r.mu.Unlock()
	if e != nil {
		r.record(e)
	} else {
		r.forgetRecord(s.id)
	}
	if replaced != nil && replaced.key != s.key { // a deleted conversation whose id began anew
		r.deleteLog(replaced)
	}
	r.release(s.id)
	r.expire(time.Now())
}

// lookup finds a session in either state; exactly one result is set without an error.
func (r *registry) lookup(id string) (*Session, *restingSession, error) {
	s, e, err := r.find(r.base, id)
	if s == nil && e == nil && err == nil {
		err = problem.New(problem.NotFound, "there is no session %q", id)
	}
	return s, e, err
}

// find is what is known of an id, here or in the cluster; nil and nil when nothing is.
func (r *registry) find(ctx context.Context, id string) (*Session, *restingSession, error) {
	r.mu.Lock()
	s, e := r.live[id], r.resting[id]
	r.mu.Unlock()
	if s != nil || r.cfg.Cluster == nil {
		return s, e, nil
	}
	e, err := r.restingInCluster(ctx, id)
	return nil, e, err
}

// list is every session, by id; those that rest only if wished, since a cluster has to be asked for them.
func (r *registry) list(rest bool) (live []*Session, resting []*restingSession) {
	r.mu.Lock()
	for _, s := range r.live {
		live = append(live, s)
	}
	for _, e := range r.resting {
		if rest {
			resting = append(resting, e)
		}
	}
	r.mu.Unlock()
	if rest && r.cfg.Cluster != nil {
		resting = r.restOfCluster(live)
	}
	slices.SortFunc(live, func(a, b *Session) int { return strings.Compare(a.id, b.id) })
	slices.SortFunc(resting, func(a, b *restingSession) int { return strings.Compare(a.id, b.id) })
	return live, resting
}

// drain refuses new sessions from now on.
func (r *registry) drain() { r.setDraining(true) }

func (r *registry) setDraining(on bool) {
	r.mu.Lock()
	r.draining = on
	r.mu.Unlock()
	if r.cfg.Cluster != nil {
		r.cfg.Cluster.SetDraining(on)
	}
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

const reasonDeleted = "deleted"
