package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	chatctx "sightline/context"
)

// Store is a chatctx.Store and a chatctx.Directory on disk, of this machine or of a cluster's. It is safe for concurrent use.
type Store struct {
	cfg        Config
	lock       *os.File // nil with a cluster
	engine     *engine
	heads      *heads
	partitions int
	counters   counters

	mu       sync.Mutex
	sessions map[string]*session

	stop  context.CancelFunc
	tasks sync.WaitGroup

	closing sync.Once
	closed  error
}

// Open takes the directory, starts the server inside and reads what is there; or it connects to the cluster. It fails when another
// process has the directory, naming that one, when what is there cannot be read, and when the cluster is not fit for it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, sessions: map[string]*session{}, heads: newHeads()}
	if !cfg.clustered() {
		if err := s.openDir(); err != nil {
			return nil, err
		}
	}
	if s.engine, err = openEngine(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.closeDir())
	}
	s.partitions = s.engine.partitions
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tasks.Go(s.engine.run)
	s.tasks.Go(func() { s.keepHouse(running) })
	return s, nil
}

// openDir takes the directory and reads what is beside the server's own files.
func (s *Store) openDir() (err error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	if s.lock, err = lockDir(s.cfg.Dir); err != nil {
		return err
	}
	var bad int
	if s.heads, bad, err = openHeads(s.cfg.Dir); err != nil {
		return errors.Join(err, s.lock.Close())
	}
	if bad > 0 {
		s.cfg.Log.Warn("the file of heads has records that do not read; the ends of so many logs cannot be checked", "records", bad)
	}
	return nil
}

func (s *Store) closeDir() error {
	if s.lock == nil {
		return nil
	}
	return errors.Join(s.heads.close(), s.lock.Close())
}

// Close ends what is under way, takes the server down and lets the directory go.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.stop()
		s.engine.close()
		s.tasks.Wait()
		s.closed = s.closeDir()
	})
	return s.closed
}

// within bounds a call by Config.Timeout.
func (s *Store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.Timeout)
}

// Delete implements chatctx.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := checkSession(name); err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	m := s.enter(name)
	defer m.leave()
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	return s.delete(ctx, m)
}

// delete forgets the head first: what remains when it is interrupted is a whole log without a head, not a damaged one.
func (s *Store) delete(ctx context.Context, m *session) error {
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return err
	}
	s.heads.forget(m.name)
	p := s.partition(m.name)
	for _, purge := range []struct{ stream, filter string }{
		{contextStream(p), s.entrySubject(m.name)},
		{blobStream(p), s.blobSubject(m.name, "*")},
	} {
		if err := r.purge(ctx, purge.stream, purge.filter); err != nil {
			m.doubt()
			return unavailable("the conversation could not be deleted", err)
		}
	}
	m.reset()
	return nil
}

func (r *running) purge(ctx context.Context, stream, subject string) error {
	return r.api(ctx, "STREAM.PURGE."+stream, map[string]string{"filter": subject}, nil)
}

func checkSession(name string) error {
	if !chatctx.ValidID(name) {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "session", Detail: "a session is named by 1 to 64 of A-Z, a-z, 0-9, _ and -"}
	}
	return nil
}

// keepHouse forgets what memory need not hold and deletes what is past its age.
func (s *Store) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(forgetIdleEvery)
	defer ticker.Stop()
	for {
		if !s.cfg.clustered() {
			s.sweep(ctx, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.mu.Lock()
			s.forgetLocked(now.Add(-idleSession), -1)
			s.mu.Unlock()
		}
	}
}

// sweep deletes sessions whose last entry is older than Config.MaxAge, whole, and never one that the directory calls alive.
func (s *Store) sweep(ctx context.Context, now time.Time) {
	old := s.heads.sessions(now.Add(-s.cfg.MaxAge))
	if len(old) == 0 {
		return
	}
	records, err := s.Sessions(ctx)
	if err != nil {
		return
	}
	alive := map[string]bool{}
	for _, r := range records {
		alive[r.Key] = alive[r.Key] || r.EndedAt.IsZero()
	}
	for _, name := range old {
		if alive[name] {
			continue
		}
		if err := s.Delete(ctx, name); err != nil {
			s.cfg.Log.Error("a conversation past its age stays in the store", "key", name, "error", err)
			return
		}
		s.counters.swept.Add(1)
	}
}

// Logs gives the name of every session that has an entry or an image, sorted.
func (s *Store) Logs(ctx context.Context) ([]string, error) {
	if s.cfg.clustered() {
		return s.listLogs(ctx)
	}
	return s.heads.sessions(time.Time{}), nil
}

var (
	_ chatctx.Store     = (*Store)(nil)
	_ chatctx.Directory = (*Store)(nil)
)
