package socket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Bounds of what waits. Providers send an answer far faster than it is played, and some close a connection whose pongs are late
// because nobody reads it: so the longest usual answer is taken in whole, 12 MB at most.
const (
	MostUnsent = 30 * time.Second // of the caller's sound, for the provider; the turn that is replayed after a switch comes at once
	MostUnsaid = 4 * time.Minute  // of the model's sound, for the session
	MostWords  = 1024             // of anything else, either way
)

// Session is the side of the session: its inputs, and what is said to it. It outlives the connections of a leg.
type Session struct {
	Inputs <-chan switcher.Input
	Looks  <-chan []switcher.Sight // what Look saw
	Out    *Queue[switcher.Output]
	Ended  <-chan error // of the emitter and the feeder

	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	inbox  *switcher.Inbox
	inputs chan switcher.Input
	looks  chan []switcher.Sight
	ended  chan error
}

// Join starts the emitter, until Close; the inbox is read from Feed on.
func Join(ctx context.Context, in *switcher.Inbox, out switcher.Emit) *Session {
	s := &Session{inbox: in, inputs: make(chan switcher.Input), looks: make(chan []switcher.Sight, 1), ended: make(chan error, 2),
		Out: NewQueue(func(o switcher.Output) int {
			if s, ok := o.(switcher.SoundOut); ok {
				return len(s.PCM)
			}
			return 0
		})}
	s.Inputs, s.Looks, s.Ended = s.inputs, s.looks, s.ended
	s.ctx, s.stop = context.WithCancel(ctx)
	s.wg.Go(func() {
		s.ended <- func() error {
			for {
				o, err := s.Out.Next(s.ctx)
				if err != nil {
					return err
				}
				if err := out(s.ctx, o); err != nil {
					return err
				}
			}
		}()
	})
	return s
}

// Feed begins to read the inbox; call it once.
func (s *Session) Feed() {
	s.wg.Go(func() {
		s.ended <- func() error {
			for {
				i, err := s.inbox.Next(s.ctx)
				if err != nil {
					return err
				}
				select {
				case s.inputs <- i:
				case <-s.ctx.Done():
					return s.ctx.Err()
				}
			}
		}()
	})
}

// Look looks, for a time at most; one at a time, and what it saw has to be taken.
func (s *Session) Look(most time.Duration, look func(context.Context) []switcher.Sight) {
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, most)
		defer cancel()
		s.looks <- look(ctx)
	})
}

// Full: the session does not take what is said, so the provider is not to be read.
func (s *Session) Full(rate int) bool {
	words, samples := s.Out.Load()
	return words > MostWords || samples > int(MostUnsaid.Seconds()*float64(rate))
}

// Unsay takes back the sound of a turn that the session has not taken yet.
func (s *Session) Unsay(item string) {
	s.Out.Remove(1<<30, func(o switcher.Output) bool {
		sound, ok := o.(switcher.SoundOut)
		return ok && sound.Item == item
	})
}

// Close returns when all goroutines have ended.
func (s *Session) Close() {
	s.stop()
	s.wg.Wait()
}

// ID is a provider's id as ours may be.
func ID(id string) string {
	if chatctx.ValidID(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "rt_" + hex.EncodeToString(sum[:12])
}
