// Package gemini is the leg that answers through one model that hears and speaks, over Gemini's Live API; it plays nothing, runs no tool, and knows generations of models only by their Profile.
//
// # Goroutines
//
//	loop     Run itself: owns all state, takes what the provider and the session say, never waits for either
//	reader   socket → loop; waits while the loop does not take
//	writer   queue → socket, and pings; the oldest sound is dropped beyond 30 s, 1,024 waiting words end the leg
//	emitter  queue → Emit; the loop stops reading the provider while 4 minutes of sound or 1,024 other outputs wait
//	feeder   Inbox → loop, from ReadyOut on
//	looker   one Start.Look at a time, at most a second
//
// All have ended when Run returns (G13).
package gemini

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
)

// Config of a leg. Profile and Model are required, and URL where the profile has none.
type Config struct {
	Profile Profile
	// URL is the base: "https://host", "ws://127.0.0.1:8080"; the profile's path is added unless the URL has one of its own that
	// ends in BidiGenerateContent.
	URL   string
	Model string // as the provider writes it; the profile's prefix is added where there is no "/"
	Key   string // never logged, never in an error
	Voice string // "": the provider's
	// Language is a BCP-47 code, "": found out.
	Language string
	// TheirTurns leaves it to the provider to find the caller's turns; else the session's detector does.
	TheirTurns bool
	// Silence is how long the caller is silent before the provider takes the turn for ended, with TheirTurns; 0: its default.
	Silence time.Duration
	// HideTools are tools whose calls a model is not told of, the one that switches pipelines above all.
	HideTools []string

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	TLS  *tls.Config

	ConnectTimeout  time.Duration // to the open socket; 0: 10 s
	SetupTimeout    time.Duration // from there to ReadyOut; 0: 15 s
	ResponseTimeout time.Duration // without a word of an answer that was asked for; 0: 30 s
	WriteTimeout    time.Duration // of one message; 0: 10 s
	PongTimeout     time.Duration // without anything from the provider, whose pongs have been seen 30 s late; 0: 90 s
	// SeedGrace is how long the provider has to refuse what was said before, which it acknowledges in no way; 0: 300 ms.
	SeedGrace time.Duration
}

func (c *Config) defaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.ConnectTimeout, 10 * time.Second}, {&c.SetupTimeout, 15 * time.Second}, {&c.ResponseTimeout, 30 * time.Second},
		{&c.WriteTimeout, 10 * time.Second}, {&c.PongTimeout, 90 * time.Second}, {&c.SeedGrace, 300 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.URL == "" {
		c.URL = c.Profile.BaseURL
	}
}

// Pipeline offers the provider to a session under a name.
func (c Config) Pipeline(name string) switcher.Pipeline {
	p := c.Profile
	return switcher.Pipeline{
		Name: name, Kind: switcher.Realtime, Provider: p.Provider,
		Can: switcher.Capability{InRate: live.InRate, OutRate: live.OutRate, Seeds: p.Seeds, MaxInstructions: p.MaxInstructions, OwnTurns: c.TheirTurns, MaxLife: p.MaxLife},
		New: func() switcher.Leg { return New(c) },
	}
}

// Leg is one connection, or two where the first one refuses the seed. It runs once.
type Leg struct {
	cfg    Config
	counts counts
}

// New makes a leg without I/O.
func New(c Config) *Leg {
	c.defaults()
	return &Leg{cfg: c}
}

// Counters of a leg; each drop has its own.
type Counters struct {
	EarlySound    uint64 // pieces of the caller's sound from before the floor, or while an answer was made, dropped beyond 20 s
	UnsentSound   uint64 // batches of it that the provider did not take within 30 s, dropped
	StoppedSound  uint64 // pieces of the model's sound that came after the interruption, dropped
	EarlyAnswers  uint64 // answers that began before the floor, dropped
	LateWords     uint64 // pieces of what a turn says that came after its end, or of the caller's once more, dropped
	RepeatedCalls uint64 // tool calls that were told of twice, or answered without being asked for again
	Frames        uint64 // images sent
	Unknown       uint64 // messages that nobody here knows
	Malformed     uint64 // such as are no JSON, sound that is no sound
}

type counts struct {
	earlySound, unsentSound, stoppedSound, earlyAnswers, lateWords, repeatedCalls, frames, unknown, malformed atomic.Uint64
}

// Counters are what has happened so far.
func (l *Leg) Counters() Counters {
	c := &l.counts
	return Counters{c.earlySound.Load(), c.unsentSound.Load(), c.stoppedSound.Load(), c.earlyAnswers.Load(), c.lateWords.Load(),
		c.repeatedCalls.Load(), c.frames.Load(), c.unknown.Load(), c.malformed.Load()}
}

// Counted implements switcher.Counting.
func (l *Leg) Counted() switcher.LegCounters {
	c := l.Counters()
	return switcher.LegCounters{
		EarlySound: c.EarlySound, UnsentSound: c.UnsentSound, StoppedSound: c.StoppedSound, EarlyAnswers: c.EarlyAnswers,
		LateWords: c.LateWords, RepeatedCalls: c.RepeatedCalls, Frames: c.Frames, Unknown: c.Unknown,
		Malformed: c.Malformed,
	}
}
