package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	chatctx "sightline/context"
)

// recordTimeout bounds one access to the directory that nobody waits for.
const recordTimeout = 10 * time.Second

// restingSession is what is kept of a session that does not run: enough to read its conversation, and to go on with it. All
// fields are guarded by the registry's mu once it is in there.
type restingSession struct {
	id, key  string
	created  time.Time
	at       time.Time // when it ended; of one that sleeps, when this process learned of it
	seq      uint64
	seqKnown bool // else the store is asked for it when somebody wants to know
	deleted  bool // by request: the id then begins a new conversation
	asleep   bool // it was alive when the process before this one went away: whoever publishes or attaches wakes it
}

func (e *restingSession) record() chatctx.SessionRecord {
	r := chatctx.SessionRecord{ID: e.id, Key: e.key, CreatedAt: e.created, Deleted: e.deleted}
	if !e.asleep {
		r.EndedAt = e.at
	}
	return r
}

// load takes in what the directory has from before the restart.
func (r *registry) load(ctx context.Context, now time.Time) error {
	if r.cfg.Cluster != nil { // others change it at any time: it is asked when it matters
		return nil
	}
	records, err := r.cfg.Directory.Sessions(ctx)
	var damaged *chatctx.Error
	if errors.As(err, &damaged) && damaged.Kind == chatctx.LogDamaged { // the others are there
		r.cfg.Log.Error("some sessions on record cannot be read", keyError, err)
	} else if err != nil {
		return err
	}
	for _, rec := range records {
		e := &restingSession{id: rec.ID, key: rec.Key, created: rec.CreatedAt, at: rec.EndedAt, deleted: rec.Deleted}
		if e.at.IsZero() {
			e.at, e.asleep = now, !rec.Deleted
		}
		r.resting[e.id] = e
		r.order = append(r.order, e)
	}
	slices.SortStableFunc(r.order, func(a, b *restingSession) int { return a.at.Compare(b.at) })
	return nil
}

// sweep is called now and then by Server.Run: who slept for longer than the grace has ended, who ended long ago is forgotten.
func (r *registry) sweep(now time.Time) {
	if r.cfg.Cluster != nil {
		r.sweepCluster(now)
		return
	}
	r.mu.Lock()
	var over []*restingSession
	for _, e := range r.order {
		if e.asleep && now.Sub(e.at) >= r.cfg.SessionGrace && r.busy[e.id] == nil {
			e.asleep = false
			r.busy[e.id] = make(chan struct{})
			over = append(over, e)
		}
	}
	r.mu.Unlock()
	for _, e := range over {
		r.record(e)
		r.release(e.id)
	}
	r.expire(now)
}

// expire forgets resting sessions past the retention or the count, oldest first.
func (r *registry) expire(now time.Time) {
	for {
		r.mu.Lock()
		var e *restingSession
		if len(r.order) > 0 && (len(r.order) > r.cfg.MaxEnded || now.Sub(r.order[0].at) > r.cfg.Retention) && r.busy[r.order[0].id] == nil {
			e = r.order[0]
			r.forgetLocked(e)
			r.busy[e.id] = make(chan struct{})
		}
		r.mu.Unlock()
		if e == nil {
			return
		}
		r.forgetRecord(e.id)
		r.deleteLog(e)
		r.release(e.id)
	}
}

func (r *registry) forgetLocked(e *restingSession) {
	if r.resting[e.id] == e {
		delete(r.resting, e.id)
	}
	if i := slices.Index(r.order, e); i >= 0 {
		r.order = slices.Delete(r.order, i, i+1)
	}
}

// endDeleted ends a live session by request and waits for it. One that is just ending for another reason is deleted when it rests.
func (r *registry) endDeleted(ctx context.Context, s *Session) error {
	s.End(reasonDeleted)
	select {
	case <-s.Done():
	case <-ctx.Done():
		return nil
	}
	if s.endReason == reasonDeleted { // nobody writes it any more
		return nil
	}
	for {
		now, e, err := r.find(ctx, s.id)
		switch {
		case err != nil, now != nil && now != s, now == nil && e == nil: // it goes on already, or is forgotten
			return err
		case e != nil:
			return r.markDeleted(ctx, e)
		}
		select {
		case <-time.After(time.Millisecond): // it is being laid to rest
		case <-ctx.Done():
			return nil
		}
	}
}

// markDeleted makes the id of a resting session begin a new conversation when it is used again.
func (r *registry) markDeleted(ctx context.Context, e *restingSession) error {
	if r.cfg.Cluster != nil {
		return r.deleteInCluster(ctx, e)
	}
	r.mu.Lock()
	e.deleted, e.asleep = true, false
	record := e.record()
	r.mu.Unlock()
	return contextProblem(r.cfg.Directory.PutSession(ctx, record))
}

// record writes what is known of a resting session; when that fails, the record from before stands, and it sleeps after a restart.
func (r *registry) record(e *restingSession) {
	r.mu.Lock()
	record := e.record()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.cfg.Directory.PutSession(ctx, record); err != nil {
		r.cfg.Log.Error("the end of a session is not on record", keySession, e.id, keyError, err)
	}
}

func (r *registry) forgetRecord(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.cfg.Directory.DeleteSession(ctx, id); err != nil {
		r.cfg.Log.Error("a forgotten session stays on record", keySession, id, keyError, err)
	}
}

func (r *registry) deleteLog(e *restingSession) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	if err := r.cfg.Store.Delete(ctx, e.key); err != nil {
		r.cfg.Log.Error("an expired conversation stays in the store", keySession, e.id, keyError, err)
	}
}

// countResting says how many sleep and how many have ended.
func (r *registry) countResting() (asleep, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.resting {
		if e.asleep {
			asleep++
		}
	}
	return asleep, len(r.resting) - asleep
}

// head is the seq of a resting session's newest entry.
func (r *registry) head(ctx context.Context, e *restingSession) (uint64, error) {
	r.mu.Lock()
	seq, known := e.seq, e.seqKnown
	r.mu.Unlock()
	if known {
		return seq, nil
	}
	seq, err := r.cfg.Store.Head(ctx, e.key)
	if err != nil {
		return 0, contextProblem(err)
	}
	r.mu.Lock()
	e.seq, e.seqKnown = seq, true
	r.mu.Unlock()
	return seq, nil
}
