package jetstream

import (
	"context"
	"errors"
	"fmt"
)

// ErrNearlyFull is the cause of refused new sessions while what room is left is for those that there are.
var ErrNearlyFull = errors.New("the store is nearly full")

// newUpTo is how many hundredths of a stream may be taken when a new session begins.
const newUpTo = 85

// roomForNew is nil when a new session may begin, with its messages under key. What it cannot find out it does not refuse: the
// record's own writing fails when the store takes nothing.
func (s *Store) roomForNew(ctx context.Context, key string) error {
	if free := s.engine.free.Load(); !s.cfg.clustered() && free < 2*s.cfg.MinFreeBytes {
		return s.nearlyFull(fmt.Errorf("%w: the disk has %d bytes free", ErrNearlyFull, free))
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return nil
	}
	p := s.partition(key)
	for _, stream := range []string{sessionStream, contextStream(p), blobStream(p)} {
		var info struct {
			Config struct {
				MaxBytes int64 `json:"max_bytes"`
			} `json:"config"`
			State struct {
				Bytes int64 `json:"bytes"`
			} `json:"state"`
		}
		if err := r.api(ctx, "STREAM.INFO."+stream, struct{}{}, &info); err != nil {
			return nil
		}
		if most := info.Config.MaxBytes; most > 0 && info.State.Bytes > most/100*newUpTo {
			return s.nearlyFull(fmt.Errorf("%w: %d of the %d bytes of %s are taken", ErrNearlyFull, info.State.Bytes, most, stream))
		}
	}
	return nil
}

func (s *Store) nearlyFull(why error) error {
	s.counters.full.Add(1)
	s.cfg.Log.Warn("a new session is refused", "error", why)
	return unavailable("the store of conversations is nearly full and takes no new sessions: delete some, or give it more room", why)
}
