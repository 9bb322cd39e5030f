package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// drain is whether the gateway takes new sessions, and who waits for the last one to end.
type drain struct {
	mu    sync.Mutex
	since time.Time     // zero: the gateway serves
	wake  chan struct{} // capacity 1: it was undone
}

// ErrDrainUndone is what Drain gives when somebody wanted the gateway to go on.
var ErrDrainUndone = errors.New("the drain was undone")

// Drain takes no new session and waits until the last one has ended by itself, at most for Config.DrainTimeout; nil says that it is
// time to end Run. Running calls are not touched. Undrain, and DELETE /debug/drain, make it give ErrDrainUndone.
func (s *Server) Drain(ctx context.Context) error {
	s.setDraining(true)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	select {
	case <-s.draining.wake: // of a drain before
	default:
	}
	ticker := time.NewTicker(drainLook)
	defer ticker.Stop()
	for s.sessions.busyCount() > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-s.draining.wake:
			return ErrDrainUndone
		case <-ticker.C:
		}
	}
	return nil
}

const drainLook = 100 * time.Millisecond

// Undrain takes new sessions again. Once Run is ending it does nothing.
func (s *Server) Undrain() {
	s.setDraining(false)
	select {
	case s.draining.wake <- struct{}{}:
	default:
	}
}

func (s *Server) setDraining(on bool) {
	s.draining.mu.Lock()
	switch {
	case !on:
		s.draining.since = time.Time{}
	case s.draining.since.IsZero():
		s.draining.since = time.Now()
	}
	s.draining.mu.Unlock()
	s.sessions.setDraining(on)
}

// tellDrain, beginDrain and endDrain are GET, POST and DELETE of /debug/drain. A drain that was begun there ends no process.
func (s *Server) tellDrain(w http.ResponseWriter, _ *http.Request) {
	s.draining.mu.Lock()
	since := s.draining.since
	s.draining.mu.Unlock()
	answer := map[string]any{"draining": s.sessions.isDraining(), "sessions": s.sessions.countLive()}
	if !since.IsZero() {
		answer["since_ms"] = time.Since(since).Milliseconds()
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *Server) beginDrain(w http.ResponseWriter, r *http.Request) {
	s.setDraining(true)
	s.tellDrain(w, r)
}

func (s *Server) endDrain(w http.ResponseWriter, r *http.Request) {
	s.Undrain()
	s.tellDrain(w, r)
}

// busyCount is how many sessions somebody publishes to or is attached to.
func (r *registry) busyCount() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.live {
		s.mu.Lock()
		if s.publisher != nil || len(s.sides) > 0 || len(s.agents) > 0 {
			n++
		}
		s.mu.Unlock()
	}
	return n
}
