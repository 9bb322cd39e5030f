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
	entries []Entry
	blobs   map[string]Blob
}

// NewMemStore makes an empty store.
func NewMemStore() *MemStore { return &MemStore{sessions: map[string]*memSession{}} }

// Append implements Store.
func (s *MemStore) Append(_ context.Context, session string, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	m := s.session(session)
	if uint64(len(m.entries))+1 != e.Seq {
		return ErrStaleHead
	}
	m.entries = append(m.entries, e)
	return nil
}

func (s *MemStore) session(id string) *memSession {
	m := s.sessions[id]
	if m == nil {
		m = &memSession{}
		s.sessions[id] = m
	}
	return m
}

// Read implements Store. The slice is shared and must not be written to.
func (s *MemStore) Read(_ context.Context, session string, after uint64, limit int) ([]Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	m := s.sessions[session]
	if m == nil || after >= uint64(len(m.entries)) {
		return nil, nil
	}
	end := min(after+uint64(max(limit, 0)), uint64(len(m.entries)))
	return m.entries[after:end:end], nil
}

// Head implements Store.
func (s *MemStore) Head(_ context.Context, session string) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, ErrClosed
	}
	if m := s.sessions[session]; m != nil {
		return uint64(len(m.entries)), nil
	}
	return 0, nil
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
