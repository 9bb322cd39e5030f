package realtime

import (
	"context"
	"errors"
	"time"

	"sightline/gateway/sound"
	"sightline/switcher"
	"sightline/switcher/cascade/pcm"
	"sightline/switcher/realtime/dialect"
)

// micRate is the rate at which speech is looked for, in Hz.
const micRate = sound.ListenerRate

// pieceTime is how much sound is handed on at a time.
const pieceTime = 20 * time.Millisecond

// mic is the caller's sound on its way to the session. Its times go with the samples: a client may send faster than is spoken.
type mic struct {
	listener *sound.Listener
	rates    map[int]*pcm.Resampler
	clock    time.Time     // end of the sound so far
	heard    time.Duration // all of it
	told     time.Time     // of the speech that the session was told of last
}

// floorWait is how long a client waits for its pipeline.
const floorWait = 10 * time.Second

var errNoFloor = errors.New("the pipeline is not ready")

// ready begins the session's voice, and waits until a leg has the floor.
func (k *Call) ready(ctx context.Context) (*switcher.Switcher, error) {
	s, err := k.session.Switcher()
	if err != nil {
		return nil, err
	}
	select {
	case <-k.hasLeg:
		return s, nil
	default:
	}
	late := time.NewTimer(floorWait)
	defer late.Stop()
	select {
	case <-k.hasLeg:
		return s, nil
	case <-late.C:
		return nil, errNoFloor
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hear hands sound on, and says what our detector finds in it. whole: it is a turn of its own.
func (k *Call) hear(ctx context.Context, samples []int16, whole bool) {
	s, err := k.ready(ctx)
	if err != nil {
		return // the client was told when it asked
	}
	m := &k.mic
	now := time.Now()
	if begin := now.Add(-length(len(samples))); m.clock.Before(begin) {
		m.clock = begin
	}
	if whole {
		k.speech(s, true, false, m.clock)
	}
	wanted := s.Rates
	if k.session.Rates != nil {
		wanted = k.session.Rates
	}
	rates := append([]int{micRate}, wanted()...)
	for len(samples) > 0 {
		n := min(len(samples), int(pieceTime*dialect.Rate/time.Second))
		k.piece(ctx, s, samples[:n], rates, whole)
		samples = samples[n:]
	}
	if whole {
		k.speech(s, false, true, m.clock)
	}
}

// piece hands on a piece of sound at each rate.
func (k *Call) piece(ctx context.Context, s *switcher.Switcher, samples []int16, rates []int, whole bool) {
	m := &k.mic
	at := m.clock
	m.clock = at.Add(length(len(samples)))
	m.heard += length(len(samples))
	for i, rate := range rates {
		if i > 0 && rate == micRate {
			continue
		}
		if m.rates == nil {
			m.rates = map[int]*pcm.Resampler{}
		}
		if m.rates[rate] == nil {
			m.rates[rate] = pcm.NewResampler(dialect.Rate, rate)
		}
		out := append([]int16(nil), m.rates[rate].Push(samples)...) // it is kept
		s.Hear(rate, out, at)
		if k.session.Sound != nil {
			k.session.Sound(rate, out, at)
		}
		if rate == micRate && !whole {
			k.listen(ctx, s, out, at)
		}
	}
}

// listen looks for the caller's turns.
func (k *Call) listen(ctx context.Context, s *switcher.Switcher, samples []int16, at time.Time) {
	m := &k.mic
	if m.listener == nil {
		m.listener = sound.NewListener(k.cfg.Speech, k.cfg.Turns)
	}
	for _, found := range m.listener.Hear(samples, at) {
		offset := max(m.heard-m.clock.Sub(found.At), 0)
		k.do(ctx, func(c *core) {
			switch {
			case found.Started:
				c.begins(offset)
			case found.Final:
				c.ends(offset)
			}
		})
		k.speech(s, found.Started, found.Final, found.At)
	}
}

// endTurn ends the turn that goes on because the client says so.
func (k *Call) endTurn(ctx context.Context) {
	s, err := k.ready(ctx)
	if err != nil {
		return
	}
	m := &k.mic
	m.listener = nil // it would end the turn again
	k.do(ctx, func(c *core) {
		if turns, on := c.turnDetection(); on {
			m.listener = sound.NewListener(k.cfg.Speech, c.turns(turns).TurnPolicy)
		}
		c.ends(m.heard)
	})
	k.speech(s, false, true, m.clock)
}

// speech tells the session of the caller's speech. The session's times are never ahead of its clock; the leg is given those of the
// sound.
func (k *Call) speech(s *switcher.Switcher, started, final bool, at time.Time) {
	m := &k.mic
	told := at
	if now := time.Now(); told.After(now) {
		told = now
	}
	if !told.After(m.told) {
		told = m.told.Add(time.Nanosecond)
	}
	m.told = told
	k.mu.Lock()
	if len(k.times) > maxTurns { // of a session that gives none to its leg
		clear(k.times)
	}
	k.times[told.UnixNano()] = at
	k.mu.Unlock()
	s.CallerSpeech(started, final, told)
}

// spokenAt is the time of the sound that the session knows under another.
func (k *Call) spokenAt(told time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.times[told.UnixNano()]
	if !ok {
		return told
	}
	delete(k.times, told.UnixNano())
	return at
}
