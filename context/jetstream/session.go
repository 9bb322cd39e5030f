package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	chatctx "sightline/context"
)

// pos is a place in a session's log: the entry n, where the stream has it, and the hash of the chain up to it.
type pos struct {
	n, seq uint64
	h      chain
	term   uint64 // of the owner that wrote it; see Fence
}

// chain is the first half of a SHA-256 over all payloads of a session so far.
type chain [16]byte

// start is the place before the first entry. It depends on the session, so that no log passes for another's.
func start(session string) pos {
	return pos{h: link(chain{}, 0, []byte(session))}
}

// link is the chain with one more payload.
func link(h chain, n uint64, payload []byte) chain {
	sum := sha256.New()
	sum.Write(h[:])
	sum.Write(binary.BigEndian.AppendUint64(nil, n))
	sum.Write(payload)
	var next chain
	copy(next[:], sum.Sum(nil))
	return next
}

// Bounds of what is held of a session in memory.
const (
	markEvery       = 32 // entries between two places that are remembered
	recentEntries   = 32
	recentBytes     = 128 << 10
	maxSessions     = 1 << 16
	idleSession     = 10 * time.Minute
	forgetIdleEvery = time.Minute
)

// session is what the Store remembers of a session so that it need not ask the server. All of it can be forgotten at any time.
type session struct {
	name   string
	shared bool // other processes may write to it

	// turn has one place: who has put a token into it may append or delete.
	turn chan struct{}

	mu     sync.Mutex // guards what follows, never held over I/O
	users  int
	used   time.Time
	tail   pos // the last entry, when known
	known  bool
	term   uint64 // this process writes as the owner of this term; 0 = it has never claimed the session
	marks  []pos  // every markEvery-th entry, from markEvery, without a gap
	recent []kept
	bytes  int // of recent
}

// kept is an entry that is still in memory. The last of them is the tail.
type kept struct {
	entry chatctx.Entry
	bytes int
}

// enter finds what is remembered of a session; leave must follow.
func (s *Store) enter(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sessions[name]
	if m == nil {
		if len(s.sessions) >= maxSessions {
			s.forgetLocked(time.Time{}, 64)
		}
		m = &session{name: name, shared: s.cfg.clustered(), turn: make(chan struct{}, 1)}
		s.sessions[name] = m
	}
	m.mu.Lock()
	m.users++
	m.mu.Unlock()
	return m
}

func (m *session) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.used = time.Now()
}

// forgetLocked forgets sessions that nobody uses: those unused since before, or any few.
func (s *Store) forgetLocked(before time.Time, few int) {
	for name, m := range s.sessions {
		m.mu.Lock()
		idle := m.users == 0 && m.term == 0 && (before.IsZero() || m.used.Before(before))
		m.mu.Unlock()
		if idle {
			delete(s.sessions, name)
			if few--; few == 0 {
				return
			}
		}
	}
}

func (m *session) takeTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unavailable("another append of this session is under way", ctx.Err())
	}
}

func (m *session) endTurn() { <-m.turn }

// head is the last entry as far as known.
func (m *session) head() (tail pos, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tail, m.known
}

// doubt forgets the tail: only the server knows now.
func (m *session) doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = false
}

// reset forgets everything, as after a deletion.
func (m *session) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tail, m.known, m.marks, m.recent, m.bytes, m.term = pos{}, false, nil, nil, 0, 0
}

// learn takes what the server said of the tail. A tail that is known is at least as new, unless other processes write, too.
func (m *session) learn(tail pos) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if tail.n < m.tail.n || m.known && (!m.shared || tail.n == m.tail.n) {
		return
	}
	if tail.n != m.tail.n {
		m.recent, m.bytes = nil, 0
	}
	m.tail, m.known = tail, true
}

// forgetLog forgets what is known of a session that another process has deleted.
func (s *Store) forgetLog(name string) {
	s.heads.forget(name)
	s.mu.Lock()
	m := s.sessions[name]
	s.mu.Unlock()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tail.n > 0 {
		m.tail, m.known, m.marks, m.recent, m.bytes = pos{}, false, nil, nil, 0
	}
}

// advance takes an entry that follows the tail: this process has just appended it, or another has.
func (m *session) advance(tail pos, e chatctx.Entry, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tail.n+1 != tail.n {
		m.recent, m.bytes = nil, 0
	}
	m.tail, m.known = tail, true
	m.markLocked(tail)
	m.recent, m.bytes = append(m.recent, kept{e, bytes}), m.bytes+bytes
	drop := 0
	for len(m.recent)-drop > recentEntries || m.bytes > recentBytes {
		m.bytes -= m.recent[drop].bytes
		m.recent[drop] = kept{}
		drop++
	}
	m.recent = m.recent[drop:]
}

// mark remembers a place that was read.
func (m *session) mark(p pos) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.markLocked(p)
}

func (m *session) markLocked(p pos) {
	if p.n == uint64(len(m.marks)+1)*markEvery {
		m.marks = append(m.marks, p)
	}
}

// before is the last place that is remembered at or before entry n.
func (m *session) before(n uint64) pos {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known && n == m.tail.n {
		return m.tail
	}
	if i := min(n/markEvery, uint64(len(m.marks))); i > 0 {
		return m.marks[i-1]
	}
	return start(m.name)
}

// newest gives entries after n from memory; ok is false when they are not all there.
func (m *session) newest(after uint64, limit int) (entries []chatctx.Entry, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return nil, false
	}
	if after >= m.tail.n {
		return nil, !m.shared
	}
	behind := m.tail.n - after
	if behind > uint64(len(m.recent)) {
		return nil, false
	}
	kept := m.recent[uint64(len(m.recent))-behind:]
	kept = kept[:min(len(kept), limit)]
	entries = make([]chatctx.Entry, len(kept))
	for i, k := range kept {
		entries[i] = k.entry
	}
	return entries, true
}
