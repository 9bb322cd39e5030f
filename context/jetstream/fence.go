package jetstream

import (
	"context"
	"errors"
	"time"

	chatctx "sightline/context"
)

// opOwner marks a message of a session's subject that is no entry: from it on only the owner of its term may append. It repeats N
// and H of the entry before it, so that entries stay dense and chained, and readers pass over it.
const opOwner = "owner"

// ErrFenced is the cause of refused appends of a process that owned a session and does no more: another has claimed it.
var ErrFenced = errors.New("the session has another owner")

// Fence makes this process the writer of a session under a term, which is higher than that of any owner before: whoever wrote
// under a lower one is refused from then on, also when he was asleep meanwhile. Who may claim which term is decided elsewhere (see
// cluster.Node); should two claim, the higher term wins. An error whose cause is ErrFenced says that a higher one has been.
func (s *Store) Fence(ctx context.Context, name string, term uint64) error {
	if err := checkSession(name); err != nil {
		return err
	}
	if term == 0 {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "term", Detail: "terms begin with 1"}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	m := s.enter(name)
	defer m.leave()
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		tail, err := s.last(ctx, name)
		switch {
		case err != nil:
			return err
		case tail.term > term:
			return s.fenced(m, tail)
		case tail.term == term:
			m.own(term, tail)
			return nil
		}
		next := pos{n: tail.n, h: tail.h, term: term}
		if next.seq, err = s.publish(ctx, s.message(name, tail, next, opOwner, nil)); err == nil {
			m.own(term, next)
			return nil
		}
		if final(err) {
			return err
		}
		s.counters.retry(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unavailable("the conversation's store did not answer in time", errors.Join(ctx.Err(), err))
		}
	}
}

// Release ends what Fence began on this side: the session's next append here is nobody's in particular.
func (s *Store) Release(name string) {
	m := s.enter(name)
	defer m.leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term, m.known = 0, false
}

// fenced is the answer to who writes under a term that is over.
func (s *Store) fenced(m *session, by pos) error {
	s.counters.fenced.Add(1)
	m.doubt()
	s.cfg.Log.Warn("another node owns the session now", "key", m.name, "term", by.term)
	return unavailable("the session has moved to another node; what was sent may not be recorded: send it again with the same op_id", ErrFenced)
}

// own notes that this process is the owner, and where the log ends.
func (m *session) own(term uint64, tail pos) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tail.n != tail.n {
		m.recent, m.bytes = nil, 0
	}
	m.term, m.tail, m.known = term, tail, true
}

func (m *session) owns() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}
