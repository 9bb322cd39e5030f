package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// Bounds of one Read.
const (
	readEntries = 1024
	readBytes   = 1 << 20 // after the entry that reaches it, a Read ends
	readTries   = 3       // before a hole is believed; with a cluster more, since replicas lag
	lagTries    = 12
)

// Read implements chatctx.Store. It holds no more than about a MiB of entries.
func (s *Store) Read(ctx context.Context, name string, after uint64, limit int) ([]chatctx.Entry, error) {
	if err := checkSession(name); err != nil {
		return nil, err
	}
	if err := s.engine.health(); errors.Is(err, chatctx.ErrClosed) {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	m := s.enter(name)
	defer m.leave()
	if entries, ok := m.newest(after, limit); ok {
		return entries, nil
	}
	limit = min(limit, readEntries)
	for try := 1; ; try++ {
		entries, err := s.read(ctx, m, after, limit)
		var e *chatctx.Error
		if len(entries) > 0 || !errors.As(err, &e) || e.Kind != chatctx.LogDamaged {
			return entries, err
		}
		if s.cfg.clustered() { // another replica may have it, or this one may come to have it
			if gone, err := s.settle(ctx, m, try); err != nil || gone {
				return nil, err
			}
		}
		if try == readTries && !s.cfg.clustered() || try == lagTries {
			s.counters.damaged.Add(1)
			s.cfg.Log.Error("a conversation is damaged", "key", name, "after", after, "error", err)
			return nil, err
		}
		m.forgetMarks() // perhaps it was one of them
	}
}

// read follows the chain from the last known place at or before after. With entries it returns no error: what stops it will stop
// the next Read at its start.
func (s *Store) read(ctx context.Context, m *session, after uint64, limit int) ([]chatctx.Entry, error) {
	acknowledged := m.reaches(s.heads.acknowledged(m.name)) // before reading: it may grow meanwhile
	at := m.before(after)
	if m.shared {
		defer func() { m.learn(at) }()
	}
	var entries []chatctx.Entry
	for held := 0; ; {
		want := readEntries
		if at.n >= after {
			want = limit - len(entries)
		}
		got, err := s.page(ctx, m.name, at.seq+1, want, readBytes, after)
		if err != nil {
			return entries, orNil(err, entries)
		}
		for _, msg := range got.messages {
			if err := follows(at, msg); err != nil {
				return entries, orNil(err, entries)
			}
			at = msg.pos
			if msg.fence {
				continue
			}
			m.mark(at)
			if at.n <= after {
				continue
			}
			if msg.entry.Seq != at.n {
				return entries, orNil(damaged("entry %d does not parse", at.n), entries)
			}
			entries = append(entries, msg.entry)
			held += len(msg.payload)
			if len(entries) == limit || held >= readBytes {
				return entries, nil
			}
		}
		if got.more && len(got.messages) > 0 {
			continue
		}
		switch {
		case len(entries) > 0:
			return entries, nil
		case at.n < acknowledged:
			return nil, damaged("entry %d is missing although entry %d was acknowledged", at.n+1, acknowledged)
		}
		m.learn(at)
		return nil, nil
	}
}

func orNil(err error, entries []chatctx.Entry) error {
	if len(entries) > 0 {
		return nil
	}
	return err
}

// settle waits a moment before a reader of a cluster tries again. A log that is not there at all was deleted by another node.
func (s *Store) settle(ctx context.Context, m *session, try int) (gone bool, err error) {
	last, err := s.last(ctx, m.name)
	if err != nil {
		return false, err
	}
	if last.seq == 0 {
		m.reset()
		return true, nil
	}
	select {
	case <-time.After(time.Duration(try) * replicaPause):
		return false, nil
	case <-ctx.Done():
		return false, unavailable("the conversation's store did not answer in time", ctx.Err())
	}
}

// replicaPause is how long a replica is given to catch up before it is asked again.
const replicaPause = 50 * time.Millisecond

// reaches is how far the log goes at least, as this process knows.
func (m *session) reaches(acknowledged uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shared {
		return max(acknowledged, m.tail.n)
	}
	return acknowledged
}

// follows checks that msg is the next entry of the chain after at, or a fence behind it.
func follows(at pos, msg message) error {
	if msg.fence {
		if msg.n != at.n || msg.h != at.h {
			return damaged("the owner's entry behind entry %d does not belong there", at.n)
		}
		return nil
	}
	if msg.n != at.n+1 {
		return damaged("entry %d follows entry %d", msg.n, at.n)
	}
	if msg.h != link(at.h, msg.n, msg.payload) {
		return damaged("entry %d is not what was recorded", msg.n)
	}
	return nil
}

func (m *session) forgetMarks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks = nil
}

// Head implements chatctx.Store.
func (s *Store) Head(ctx context.Context, name string) (uint64, error) {
	if err := checkSession(name); err != nil {
		return 0, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	p, err := s.last(ctx, name)
	if err == nil && s.cfg.clustered() { // Reads here go at least so far from now on, whichever replica answers
		m := s.enter(name)
		defer m.leave()
		m.learn(p)
	}
	return p.n, err
}

// message is one stored entry.
type message struct {
	pos
	fence   bool // no entry: see opOwner
	payload []byte
	entry   chatctx.Entry // zero when it was not wanted or does not parse
}

type page struct {
	messages []message
	more     bool // the session has more than these
}

// page reads up to batch messages of a session from a stream sequence on, about bytes of them. It parses those of entries after
// wanted, while the server sends the next.
func (s *Store) page(ctx context.Context, name string, from uint64, batch, bytes int, wanted uint64) (page, error) {
	var got page
	request := map[string]any{"seq": from, "next_by_subj": s.entrySubject(name), "batch": batch, "max_bytes": bytes}
	err := s.persist(ctx, func(ctx context.Context, r *running) error {
		got = page{}
		more, err := r.directBatch(ctx, contextStream(s.partition(name)), request, func(msg *nats.Msg, seq uint64) error {
			p, err := position(msg.Header, seq)
			if err != nil {
				return damaged("the entry at %d does not read: %v", seq, err)
			}
			m := message{pos: p, payload: msg.Data, fence: msg.Header.Get(headerOp) == opOwner}
			if p.n > wanted && !m.fence && json.Unmarshal(msg.Data, &m.entry) != nil {
				m.entry = chatctx.Entry{}
			}
			got.messages = append(got.messages, m)
			return nil
		})
		got.more = more
		return err
	})
	return got, err
}

// directBatch sends a batched Direct Get and gives each message to take; more says that others match.
func (r *running) directBatch(ctx context.Context, stream string, request any, take func(msg *nats.Msg, seq uint64) error) (more bool, err error) {
	data, err := json.Marshal(request)
	if err != nil {
		return false, err
	}
	inbox := r.read.NewInbox()
	sub, err := r.read.SubscribeSync(inbox)
	if err != nil {
		return false, err
	}
	defer sub.Unsubscribe()
	if err := r.read.PublishMsg(&nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Reply: inbox, Data: data}); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.alive, func() { cancel(context.Cause(r.alive)) })()
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return false, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
		case "204": // the end of the batch
			return msg.Header.Get("Nats-Num-Pending") != "0", nil
		case "404":
			return false, nil
		default:
			return false, fmt.Errorf("the store's server answers %s %s", status, msg.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(msg.Header.Get(nats.JSSequence), 10, 64)
		if err != nil {
			return false, fmt.Errorf("the store's server answers without a sequence: %w", err)
		}
		if err := take(msg, seq); err != nil {
			return false, err
		}
	}
}

// persist reads until the server has answered one way or the other, over restarts of it.
func (s *Store) persist(ctx context.Context, do func(context.Context, *running) error) error {
	for {
		r, err := s.engine.reader(ctx)
		if err != nil {
			return err
		}
		uneasy := time.AfterFunc(uneasyAfter, s.engine.suspect)
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err = do(attempt, r)
		cancel()
		uneasy.Stop()
		if err == nil || final(err) {
			return err
		}
		s.counters.readRetries.Add(1)
		select {
		case <-time.After(firstRetry * 5):
		case <-ctx.Done():
			return unavailable("the conversation's store did not answer in time", errors.Join(ctx.Err(), err))
		}
	}
}
