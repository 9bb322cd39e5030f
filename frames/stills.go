package frames

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"sightline/frames/internal/stilljpeg"
)

// What Stills refuses a still with that is sound but comes at a bad time (errors.Is).
var (
	ErrStillsFull = errors.New("too many stills are waiting")
	ErrStillsLate = errors.New("the still has waited too long for its turn")
)

// StillsConfig is the bounds of Stills. A zero field is its default.
type StillsConfig struct {
	Workers      int           // stills made at once; half of the CPUs, at least 1: video is never without one
	Waiting      int           // stills that wait for their turn; 32
	WaitingBytes int64         // encoded bytes of those; 128 MiB
	Bytes        int64         // working memory of those that are made at once; 512 MiB
	Wait         time.Duration // how long one waits; 10 s
}

// Stills makes stills for many callers within bounds of its own: it shares no slot, no queue and no lock with the Budget of video tracks, so
// that neither waits for the other. First come first served. It starts no goroutine; a still is made in its caller's.
type Stills struct {
	cfg StillsConfig

	mu      sync.Mutex
	waiting []*stillWaiter
	st      StillsStats
}

type stillWaiter struct {
	need, input int64
	ready       chan struct{}
}

// StillsStats counts what became of stills.
type StillsStats struct {
	Made     uint64 // images made
	Bad      uint64 // refused: the frame or the options are wrong, or its data is damaged
	TooLarge uint64 // refused: out of bounds (ErrStillTooLarge)
	Full     uint64 // dropped: too many were waiting (ErrStillsFull)
	Late     uint64 // dropped: waited too long (ErrStillsLate), or the caller gave up

	Working      int   // being made
	Waiting      int   // waiting for their turn
	WaitingBytes int64 // encoded bytes of those
	Bytes        int64 // working memory, Go's and C's, that those being made take at most
	MostBytes    int64 // the largest Bytes there has been
}

// NewStills makes a queue for stills.
func NewStills(cfg StillsConfig) *Stills {
	if cfg.Workers < 1 {
		cfg.Workers = max(runtime.GOMAXPROCS(0)/2, 1)
	}
	if cfg.Waiting < 1 {
		cfg.Waiting = 32
	}
	if cfg.WaitingBytes < 1 {
		cfg.WaitingBytes = 128 << 20
	}
	if cfg.Bytes < 1 {
		cfg.Bytes = 512 << 20
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 10 * time.Second
	}
	return &Stills{cfg: cfg}
}

// Encode is the package's Encode in its turn. What its header gives away is refused without waiting.
func (s *Stills) Encode(ctx context.Context, frame any, opts *EncodeOptions) ([]byte, error) {
	o := DefaultEncodeOptions()
	if opts != nil {
		o = *opts
	}
	p, err := planStill(frame, o)
	if err == nil && p.need > s.cfg.Bytes {
		err = stilljpeg.TooLarge("still: needs %d MB of memory, at most %d are allowed", p.need>>20, s.cfg.Bytes>>20)
	}
	if err != nil {
		s.count(err)
		return nil, err
	}
	if err := s.acquire(ctx, p.need, int64(p.input)); err != nil {
		return nil, err
	}
	defer s.release(p.need)
	out, err := p.make()
	s.count(err)
	return out, err
}

// Coerce is CoerceImageToJPEGBytes in its turn; bytes need not wait.
func (s *Stills) Coerce(ctx context.Context, frame any, opts *EncodeOptions) ([]byte, error) {
	switch f := frame.(type) {
	case []byte:
		return f, nil
	case *Image:
		if f != nil {
			return f.Data, nil
		}
	}
	o := DefaultRealtimeEncodeOptions()
	if opts != nil {
		o = *opts
	}
	return s.Encode(ctx, frame, &o)
}

// Stats is a copy of the counters.
func (s *Stills) Stats() StillsStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

func (s *Stills) count(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.st.Made++
	case errors.Is(err, ErrStillTooLarge):
		s.st.TooLarge++
	default:
		s.st.Bad++
	}
}

// acquire waits for a turn; after an error there is nothing to release.
func (s *Stills) acquire(ctx context.Context, need, input int64) error {
	s.mu.Lock()
	if len(s.waiting) == 0 && s.fits(need) {
		s.begin(need)
		s.mu.Unlock()
		return nil
	}
	if n := len(s.waiting); n >= s.cfg.Waiting || s.st.WaitingBytes+input > s.cfg.WaitingBytes {
		s.st.Full++
		bytes := s.st.WaitingBytes
		s.mu.Unlock()
		return fmt.Errorf("%w: %d of %d bytes; at most %d of %d", ErrStillsFull, n, bytes, s.cfg.Waiting, s.cfg.WaitingBytes)
	}
	w := &stillWaiter{need, input, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.st.Waiting, s.st.WaitingBytes = len(s.waiting), s.st.WaitingBytes+input
	s.mu.Unlock()
	late := time.NewTimer(s.cfg.Wait)
	defer late.Stop()
	err := ErrStillsLate
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 { // it had its turn in the same moment
		return nil
	}
	s.leave(i)
	s.st.Late++
	s.next() // behind a large one a small one may fit
	return err
}

func (s *Stills) fits(need int64) bool {
	return s.st.Working < s.cfg.Workers && s.st.Bytes+need <= s.cfg.Bytes
}

func (s *Stills) begin(need int64) {
	s.st.Working++
	s.st.Bytes += need
	s.st.MostBytes = max(s.st.MostBytes, s.st.Bytes)
}

func (s *Stills) leave(i int) {
	s.st.WaitingBytes -= s.waiting[i].input
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.st.Waiting = len(s.waiting)
}

// next lets in who waits longest, as long as there is room: nobody overtakes, so that nobody is starved.
func (s *Stills) next() {
	for len(s.waiting) > 0 && s.fits(s.waiting[0].need) {
		s.begin(s.waiting[0].need)
		close(s.waiting[0].ready)
		s.leave(0)
	}
}

func (s *Stills) release(need int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Working--
	s.st.Bytes -= need
	s.next()
}
