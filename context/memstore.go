package chatctx

import (
	"context"
	"sync"
)

// MemStore is a Store in memory: for tests, and for running without a disk. What it holds ends with the process.
type MemStore struct {
	mu       sync.RWMutex
	sessions map[string]*memSession
	closed   bool
}

type memSession struct {
	chunks [][]Entry // full ones of memChunk, the last may have room: entries never move, so readers share them
	n      uint64    // entries in all
	blobs  map[string]Blob
}

const memChunk = 128

// NewMemStore makes an empty store.
func NewMemStore() *MemStore { return &MemStore{sessions: map[string]*memSession{}} }

// Append implements Store.
func (s *MemStore) Append(_ context.Context, session string, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if m := s.sessions[session]; e.Seq != m.head()+1 {
		return ErrStaleHead
	}
	m := s.session(session)
	if m.n%memChunk == 0 {
		m.chunks = append(m.chunks, make([]Entry, 0, memChunk))
	}
	last := &m.chunks[len(m.chunks)-1]
	*last = append(*last, e)
	m.n++
	return nil
}

// head is the last seq; it takes the nil that an unknown session is.
func (m *memSession) head() uint64 {
	if m == nil {
		return 0
	}
	return m.n
}

func (s *MemStore) session(id string) *memSession {
	m := s.sessions[id]
	if m == nil {
		m = &memSession{}
		s.sessions[id] = m
	}
	return m
}

// Read implements Store. The slice is shared and must not be written to; it ends at the end of a chunk.
func (s *MemStore) Read(_ context.Context, session string, after uint64, limit int) ([]Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	m := s.sessions[session]
	if after >= m.head() {
		return nil, nil
	}
	chunk := m.chunks[after/memChunk]
	start := int(after % memChunk)
	end := start + min(max(limit, 0), len(chunk)-start)
	return chunk[start:end:end], nil
}

// Head implements Store.
func (s *MemStore) Head(_ context.Context, session string) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, ErrClosed
	}
	return s.sessions[session].head(), nil
}

// PutBlob implements Store.
func (s *MemStore) PutBlob(_ context.Context, session, sha256 string, b Blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	m := s.session(session)
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
	if s.closed {
		return Blob{}, ErrClosed
	}
	if m := s.sessions[session]; m != nil {
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
	if s.closed {
		return ErrClosed
	}
	delete(s.sessions, session)
	return nil
}

// Close implements Store.
func (s *MemStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.sessions = nil
	return nil
}
