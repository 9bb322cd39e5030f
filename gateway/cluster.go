package gateway

import (
	"context"
	"errors"
	"time"

	chatctx "sightline/context"
	"sightline/context/jetstream"
	"sightline/gateway/cluster"
	"sightline/gateway/problem"
)

// reasonMoved is why a session ends here when another node has claimed it; agents are closed with 1001 and go on there.
const reasonMoved = "the session has moved to another node"

// claimed is the store as a session writes to it: a refusal that says who owns the session by now ends it here.
type claimed struct {
	chatctx.Store
	moved func()
}

// Append implements chatctx.Store.
func (c claimed) Append(ctx context.Context, session string, e chatctx.Entry) error {
	err := c.Store.Append(ctx, session, e)
	if errors.Is(err, jetstream.ErrFenced) {
		c.moved()
	}
	return err
}

// openOwned claims a session in the cluster and begins it here. The id is reserved.
func (r *registry) openOwned(ctx context.Context, id string) (*Session, error) {
	owned, before, err := r.cfg.Cluster.Claim(ctx, id, time.Now())
	var elsewhere *cluster.OwnedElsewhere
	if errors.As(err, &elsewhere) {
		return nil, problem.New(problem.EngineUnavailable, "session %s is just beginning on another node: try again", id).WithRetryAfter(time.Second).WithCause(err)
	}
	if err != nil {
		return nil, contextProblem(err)
	}
	var s *Session
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{
		Store: claimed{r.cfg.Store, func() { s.End(reasonMoved) }}, Session: owned.Key, MaxItemBytes: r.cfg.MaxItemBytes, MaxImageBytes: r.cfg.MaxImageBytes,
	})
	if err != nil {
		r.yield(id, owned.Term, func(o *jetstream.Owned) { o.Node = "" })
		return nil, contextProblem(err)
	}
	s = newSession(id, owned.Key, r.cfg, r.shared, log, owned.CreatedAt)
	r.mu.Lock()
	defer r.mu.Unlock()
	if before.Revision > 0 {
		s.previous = resting(before)
	}
	r.terms[s] = owned.Term
	r.beginLocked(s)
	return s, nil
}

// retireOwned writes down that a session has ended here; e is how it rests, nil when it is to leave nothing behind.
func (r *registry) retireOwned(s *Session, e *restingSession) {
	r.mu.Lock()
	term := r.terms[s]
	r.busy[s.id] = make(chan struct{})
	delete(r.live, s.id)
	delete(r.terms, s)
	r.mu.Unlock()
	defer r.release(s.id)
	if s.endReason == reasonMoved { // its log is closed: nothing can be written as the owner that this node no longer is
		r.cfg.Cluster.Store().Release(s.key)
		return
	}
	r.yield(s.id, term, func(o *jetstream.Owned) {
		o.Node = ""
		switch {
		case e == nil: // it was never used: its id is free again
			o.Deleted, o.EndedAt = true, time.Now()
		default: // it rests; or, never used, what was there before it does again
			o.SessionRecord, o.Seq = e.record(), e.seq
		}
	})
	if old := s.previous; s.used && old != nil && old.key != s.key { // a deleted conversation whose id began anew
		r.deleteLog(old)
	}
}

func (r *registry) yield(id string, term uint64, change func(*jetstream.Owned)) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.cfg.Cluster.Yield(ctx, id, term, change); err != nil && !errors.Is(err, jetstream.ErrFenced) {
		r.cfg.Log.Error("the end of a session is not on record", keySession, id, keyError, err)
	}
}

// resting is a record as a session that does not run here.
func resting(o jetstream.Owned) *restingSession {
	return &restingSession{
		id: o.ID, key: o.Key, created: o.CreatedAt, at: o.EndedAt, deleted: o.Deleted, asleep: o.EndedAt.IsZero() && !o.Deleted,
		seq: o.Seq, seqKnown: o.Seq > 0 && o.Node == "",
	}
}

// restingInCluster asks the cluster for a session that does not run here; nil when there is no such.
func (r *registry) restingInCluster(ctx context.Context, id string) (*restingSession, error) {
	if !chatctx.ValidID(id) {
		return nil, nil
	}
	o, err := r.cfg.Cluster.Store().FindSession(ctx, id)
	if err != nil || o.Revision == 0 {
		return nil, contextProblem(err)
	}
	return resting(o), nil
}

// restOfCluster is every session that does not run here.
func (r *registry) restOfCluster(live []*Session) (rest []*restingSession) {
	ctx, cancel := context.WithTimeout(r.base, recordTimeout)
	defer cancel()
	all, err := r.cfg.Cluster.Store().Owners(ctx)
	if err != nil {
		r.cfg.Log.Error("some sessions on record cannot be read", keyError, err)
	}
	here := map[string]bool{}
	for _, s := range live {
		here[s.id] = true
	}
	for _, o := range all {
		if !here[o.ID] {
			rest = append(rest, resting(o))
		}
	}
	return rest
}

// lonely is a session whose owner is gone: since when, and under which record, it was seen so.
type lonely struct {
	revision uint64
	since    time.Time
}

// sweepCluster ends sessions that nobody has owned for the grace, and deletes what is past the retention. One node does it for all.
func (r *registry) sweepCluster(now time.Time) {
	if !r.cfg.Cluster.First() {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, loadTimeout)
	defer cancel()
	all, err := r.cfg.Cluster.Store().Owners(ctx)
	if err != nil {
		r.cfg.Log.Error("some sessions on record cannot be read", keyError, err)
	}
	alone := map[string]lonely{}
	for _, o := range all {
		switch {
		case !o.EndedAt.IsZero():
			if now.Sub(o.EndedAt) > r.cfg.Retention {
				r.forgetInCluster(ctx, o)
			}
		case o.Node == "" || !r.cfg.Cluster.Alive(o.Node):
			seen := r.asleep[o.ID]
			if seen.revision != o.Revision {
				seen = lonely{o.Revision, now}
			}
			if alone[o.ID] = seen; now.Sub(seen.since) < r.cfg.SessionGrace {
				continue
			}
			o.EndedAt, o.Node = now, ""
			if _, err := r.cfg.Cluster.Store().ReplaceSession(ctx, o); err != nil && !errors.Is(err, jetstream.ErrChanged) {
				r.cfg.Log.Error("the end of a session is not on record", keySession, o.ID, keyError, err)
			}
		}
	}
	r.asleep = alone
}

// forgetInCluster deletes a session for good. Marked as deleted first, it is nobody's to go on with meanwhile.
func (r *registry) forgetInCluster(ctx context.Context, o jetstream.Owned) {
	store := r.cfg.Cluster.Store()
	o.Deleted = true
	o, err := store.ReplaceSession(ctx, o)
	if errors.Is(err, jetstream.ErrChanged) {
		return
	}
	if err == nil {
		err = errors.Join(store.Delete(ctx, o.Key), store.ForgetSession(ctx, o))
	}
	if err != nil {
		r.cfg.Log.Error("an expired conversation stays in the store", keySession, o.ID, keyError, err)
	}
}

// deleteInCluster makes the id of a session that rests begin a new conversation when it is used again.
func (r *registry) deleteInCluster(ctx context.Context, e *restingSession) error {
	for {
		o, err := r.cfg.Cluster.Store().SessionOwner(ctx, e.id)
		if err != nil || o.Revision == 0 || o.Deleted {
			return contextProblem(err)
		}
		o.Deleted = true
		if o.EndedAt.IsZero() {
			o.EndedAt = time.Now()
		}
		e.deleted, e.asleep = true, false
		if _, err = r.cfg.Cluster.Store().ReplaceSession(ctx, o); !errors.Is(err, jetstream.ErrChanged) {
			return contextProblem(err)
		}
	}
}

// reconsider ends the sessions that others own by now: this node was silent for longer than its lease.
func (r *registry) reconsider(ctx context.Context) {
	r.mu.Lock()
	terms := make(map[*Session]uint64, len(r.terms))
	for s, term := range r.terms {
		terms[s] = term
	}
	r.mu.Unlock()
	for s, term := range terms {
		if ours, err := r.cfg.Cluster.Owns(ctx, s.id, term); err == nil && !ours {
			s.End(reasonMoved)
		}
	}
}

// countLive is how many sessions run here.
func (r *registry) countLive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

// isLive says whether a session runs here.
func (r *registry) isLive(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id] != nil
}
