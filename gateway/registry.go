package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	chatctx "sightline/context"
	"sightline/gateway/problem"
)

// registry is the one place that knows every session, live and ended.
type registry struct {
	cfg    Config
	shared *shared
	tasks  sync.WaitGroup // one per live session

	mu       sync.Mutex
	draining bool
	live     map[string]*Session
	opening  int // sessions whose log is being read
	ended    map[string]*endedSession
	order    []*endedSession // oldest first
	base     context.Context // of all sessions; its cancel belongs to Server.Run
}

// endedSession is what is kept of a session that is over: enough to read its conversation.
type endedSession struct {
	id, key string
	created time.Time
	at      time.Time
	seq     uint64
	deleted bool // by request: the id then begins a new conversation
}

func newRegistry(base context.Context, cfg Config, sh *shared) *registry {
	return &registry{cfg: cfg, shared: sh, base: base, live: map[string]*Session{}, ended: map[string]*endedSession{}}
}

// get finds a live session.
func (r *registry) get(id string) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.live[id]; ok {
		return s, nil
	}
	if _, ok := r.ended[id]; ok {
		return nil, endedProblem(id)
	}
	return nil, problem.New(problem.NotFound, "there is no session %q: publish to /whip/%s or POST /v1/sessions to make it", id, id)
}

// obtain finds a live session or makes one; an empty id asks for a generated one. A session that ended by itself is taken up
// again with its conversation; one that was deleted begins anew.
func (r *registry) obtain(ctx context.Context, id string) (s *Session, created bool, err error) {
	if id == "" {
		id = uuid.NewString()
	}
	if !chatctx.ValidID(id) {
		return nil, false, problem.New(problem.InvalidArgument, "session id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", id).WithField("id")
	}
	for {
		s, old, err := r.reserve(id)
		if s != nil || err != nil {
			return s, false, err
		}
		s, created, err := r.open(ctx, id, old)
		if s != nil || err != nil {
			return s, created, err
		}
	}
}

// reserve finds the live session, or takes a place for a new one (then both results are nil but for what is kept of the old).
func (r *registry) reserve(id string) (*Session, *endedSession, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.live[id]; ok {
		return s, nil, nil
	}
	if r.draining {
		return nil, nil, problem.New(problem.Draining, "the gateway is shutting down and takes no new session").WithRetryAfter(5 * time.Second)
	}
	if len(r.live)+r.opening >= r.cfg.MaxSessions {
		return nil, nil, problem.New(problem.Overloaded, "the gateway holds %d sessions, its limit", r.cfg.MaxSessions).WithRetryAfter(5 * time.Second)
	}
	r.opening++
	return nil, r.ended[id], nil
}

// open reads the log and puts the session into the registry. A nil session without error: somebody else was faster.
func (r *registry) open(ctx context.Context, id string, old *endedSession) (*Session, bool, error) {
	key := uuid.NewString() // not the id: a deleted session's id begins anew
	now := time.Now()
	if old != nil && !old.deleted {
		key = old.key
	}
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{
		Store: r.cfg.Store, Session: key, MaxItemBytes: r.cfg.MaxItemBytes, MaxImageBytes: r.cfg.MaxImageBytes,
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opening--
	if err != nil {
		return nil, false, contextProblem(err)
	}
	if _, taken := r.live[id]; taken || r.draining || r.ended[id] != old {
		log.Close()
		return nil, false, nil
	}
	s := newSession(id, key, r.cfg, r.shared, log, now)
	if s.previous = old; old != nil {
		r.forgetLocked(old)
	}
	r.live[id] = s
	r.tasks.Go(func() {
		s.run(r.base)
		r.retire(s)
	})
	s.logger.Info("session begins", "entries", log.Head())
	return s, true, nil
}

// retire moves a session that has ended to the readable ones. One that was never used (its offer was refused) puts back what
// was there before it.
func (r *registry) retire(s *Session) {
	e, replaced := s.previous, (*endedSession)(nil)
	if s.used {
		replaced = e
		e = &endedSession{id: s.id, key: s.key, created: s.created, at: time.Now(), seq: s.log.Head(), deleted: s.endReason == reasonDeleted}
	}
	r.mu.Lock()
	delete(r.live, s.id)
	if e != nil {
		r.ended[s.id] = e
		r.order = append(r.order, e)
	}
	forgotten := r.expireLocked(time.Now())
	r.mu.Unlock()
	if replaced != nil && replaced.key != s.key { // a deleted conversation whose id began anew
		forgotten = append(forgotten, replaced)
	}
	r.deleteLogs(forgotten)
}

// expireLocked forgets ended sessions past the retention or the count.
func (r *registry) expireLocked(now time.Time) []*endedSession {
	var forgotten []*endedSession
	for len(r.order) > 0 && (len(r.order) > r.cfg.MaxEnded || now.Sub(r.order[0].at) > r.cfg.Retention) {
		e := r.order[0]
		r.forgetLocked(e)
		forgotten = append(forgotten, e)
	}
	return forgotten
}

func (r *registry) forgetLocked(e *endedSession) {
	if r.ended[e.id] == e {
		delete(r.ended, e.id)
	}
	if i := slices.Index(r.order, e); i >= 0 {
		r.order = slices.Delete(r.order, i, i+1)
	}
}

func (r *registry) deleteLogs(list []*endedSession) {
	for _, e := range list {
		if err := r.cfg.Store.Delete(context.Background(), e.key); err != nil {
			r.cfg.Log.Error("an expired conversation stays in the store", keySession, e.id, keyError, err)
		}
	}
}

// sweep is called now and then by Server.Run.
func (r *registry) sweep(now time.Time) {
	r.mu.Lock()
	forgotten := r.expireLocked(now)
	r.mu.Unlock()
	r.deleteLogs(forgotten)
}

// lookup finds a session in either state; exactly one result is set without an error.
func (r *registry) lookup(id string) (*Session, *endedSession, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.live[id]; ok {
		return s, nil, nil
	}
	if e, ok := r.ended[id]; ok {
		return nil, e, nil
	}
	return nil, nil, problem.New(problem.NotFound, "there is no session %q", id)
}

// markDeleted makes the id of an ended session begin a new conversation when it is used again.
func (r *registry) markDeleted(e *endedSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.deleted = true
}

// list is every session, by id.
func (r *registry) list() (live []*Session, ended []*endedSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.live {
		live = append(live, s)
	}
	for _, e := range r.ended {
		ended = append(ended, e)
	}
	slices.SortFunc(live, func(a, b *Session) int { return strings.Compare(a.id, b.id) })
	slices.SortFunc(ended, func(a, b *endedSession) int { return strings.Compare(a.id, b.id) })
	return live, ended
}

// drain refuses new sessions from now on.
func (r *registry) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

const reasonDeleted = "deleted"
