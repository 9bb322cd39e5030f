package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// Watch calls changed with the seq of each entry that any node has made durable in a session, as far as the message of it arrives:
// it is a hint to read, not the entry. changed is called from one goroutine and must not wait. stop returns when it is not being
// called any more. In a store of one process there is nobody else, and changed is never called.
func (s *Store) Watch(ctx context.Context, name string, changed func(seq uint64)) (stop func(), err error) {
	if err := checkSession(name); err != nil || !s.cfg.clustered() {
		return func() {}, err
	}
	r, err := s.engine.reader(ctx)
	if err != nil {
		return nil, err
	}
	m := s.enter(name)
	var mu sync.Mutex
	stopped := false
	sub, err := r.live.Subscribe(fmt.Sprintf("live.%d.%s", s.partition(name), name), func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if n := s.heard(m, msg); n > 0 && !stopped {
			changed(n)
		}
	})
	if err != nil {
		m.leave()
		return nil, unavailable("the session cannot be followed", err)
	}
	return func() {
		_ = sub.Unsubscribe()
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			stopped = true
			m.leave()
		}
	}, nil
}

// heard keeps an entry that another node has written, when it is the one after the last known.
func (s *Store) heard(m *session, msg *nats.Msg) (n uint64) {
	p, err := position(msg.Header, 0)
	if err != nil {
		return 0
	}
	if seq := msg.Header.Get("Nats-Sequence"); seq != "" {
		_, _ = fmt.Sscan(seq, &p.seq)
	}
	fence := msg.Header.Get(headerOp) == opOwner
	tail, known := m.head()
	switch {
	case p.seq == 0 || p.n < tail.n || p.n == tail.n && !fence:
	case known && fence && p.n == tail.n && p.h == tail.h:
		m.passed(p)
	case known && !fence && p.n == tail.n+1 && p.h == link(tail.h, p.n, msg.Data):
		var e chatctx.Entry
		if json.Unmarshal(msg.Data, &e) == nil && e.Seq == p.n {
			m.follow(tail, p, e, len(msg.Data))
		}
	default:
		s.counters.gaps.Add(1)
	}
	return p.n
}

// passed notes a fence behind the tail.
func (m *session) passed(p pos) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tail.n == p.n && m.tail.seq < p.seq {
		m.tail = p
	}
}

// follow is advance, unless the tail has moved on meanwhile.
func (m *session) follow(tail, p pos, e chatctx.Entry, bytes int) {
	m.mu.Lock()
	moved := m.tail != tail
	m.mu.Unlock()
	if !moved {
		m.advance(p, e, bytes)
	}
}

// listLogs asks the streams which subjects they have.
func (s *Store) listLogs(ctx context.Context) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	names := map[string]struct{}{}
	for p := range s.partitions {
		for _, stream := range []string{contextStream(p), blobStream(p)} {
			if err := s.listSubjects(ctx, stream, names); err != nil {
				return nil, err
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// listSubjects adds the sessions that a stream has something of; the server gives up to 100,000 subjects at once.
func (s *Store) listSubjects(ctx context.Context, stream string, names map[string]struct{}) error {
	for offset := 0; ; {
		var info struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		err := s.persist(ctx, func(ctx context.Context, r *running) error {
			return r.api(ctx, "STREAM.INFO."+stream, map[string]any{"subjects_filter": ">", "offset": offset}, &info)
		})
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects { // ctx.<p>.<session> or blob.<p>.<session>.<sum>
			if parts := strings.Split(subject, "."); len(parts) >= 3 {
				names[parts[2]] = struct{}{}
			}
		}
		if offset += len(info.State.Subjects); offset >= info.Total || len(info.State.Subjects) == 0 {
			return nil
		}
	}
}
