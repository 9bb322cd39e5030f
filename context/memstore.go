package chatctx

import (
	"context"
	"sync"
	"sync/atomic"
)

// MemStore is a Store in memory: for tests, and for running without a disk. What it holds ends with the process.
// Readers take no lock, so that the followers of a log never hold its writer up (G9).
type MemStore struct {
	mu       sync.RWMutex // guards writing, and blobs
	sessions sync.Map     // id → *memSession
	closed   atomic.Bool
}

type memSession struct {
	chunks atomic.Pointer[[]*memChunk] // the last may have room: entries never move and never change, so readers share them
	n      atomic.Uint64               // entries in all; those before it are written
	blobs  map[string]Blob
}

const memChunkSize = 128

type memChunk [memChunkSize]Entry

// NewMemStore makes an empty store.
func NewMemStore() *MemStore { return &MemStore{} }

// Append implements Store.
func (s *MemStore) Append(_ context.Context, session string, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	m := s.find(session)
	if e.Seq != m.head()+1 {
		return ErrStaleHead
	}
	if m == nil {
		m = s.add(session)
	}
	n := m.n.Load()
	if n%memChunkSize == 0 {
		var chunks []*memChunk
		if old := m.chunks.Load(); old != nil {
			chunks = *old
		}
		chunks = append(chunks, new(memChunk)) // where readers of the old list do not look
		m.chunks.Store(&chunks)
	}
	chunks := *m.chunks.Load()
	chunks[n/memChunkSize][n%memChunkSize] = e
	m.n.Store(n + 1)
	return nil
}

// head is the last seq; it takes the nil that an unknown session is.
func (m *memSession) head() uint64 {
	if m == nil {
		return 0
	}
	return m.n.Load()
}

func (s *MemStore) find(id string) *memSession {
	m, _ := s.sessions.Load(id)
	found, _ := m.(*memSession)
	return found
}

// add makes a session; the caller holds mu and knows that there is none.
func (s *MemStore) add(id string) *memSession {
	m := &memSession{}
	s.sessions.Store(id, m)
	return m
}

// Read implements Store. The slice is shared and must not be written to; it ends at the end of a chunk.
func (s *MemStore) Read(_ context.Context, session string, after uint64, limit int) ([]Entry, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	m := s.find(session)
	head := m.head()
	if after >= head {
		return nil, nil
	}
	chunk := (*m.chunks.Load())[after/memChunkSize]
	start := after % memChunkSize
	end := start + min(uint64(max(limit, 0)), head-after, memChunkSize-start)
	return chunk[start:end:end], nil
}

// Head implements Store.
func (s *MemStore) Head(_ context.Context, session string) (uint64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	return s.find(session).head(), nil
}

// PutBlob implements Store.
func (s *MemStore) PutBlob(_ context.Context, session, sha256 string, b Blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	m := s.find(session)
	if m == nil {
		m = s.add(session)
	}
	if m.blobs == nil {
		m.blobs = map[string]Blob{}
	}
	m.blobs[sha256] = b
	return nil
}

// GetBlob implements Store.
func (s *MemStore) GetBlob(_ context.Context, session, sha256 string) (Blob, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed.Load() {
		return Blob{}, ErrClosed
	}
	if m := s.find(session); m != nil {
		if b, ok := m.blobs[sha256]; ok {
			return b, nil
		}
	}
	return Blob{}, ErrNoBlob
}

// Delete implements Store.
func (s *MemStore) Delete(_ context.Context, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	s.sessions.Delete(session)
	return nil
}

// Close implements Store.
func (s *MemStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.sessions.Clear()
	return nil
}
