// Package realtime is the leg that answers through one model that hears and speaks, over the OpenAI Realtime dialect; it plays nothing, runs no tool, and knows providers only by their Profile.
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
package realtime

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"sightline/switcher"
)

// Config of a leg. Profile and Model are required, and URL where the profile has none.
type Config struct {
	Profile Profile
	URL     string // base: "https://host/v1", "ws://127.0.0.1:8080/v1"; /realtime is added
	Model   string
	Key     string // never logged, never in an error
	Voice   string // "": the provider's
	// Transcription is the model that writes down what the caller says, Language their language (ISO 639-1), "": found out.
	Transcription, Language string
	// OurTurns leaves the caller's turns to the session's detector though the provider could find them.
	OurTurns bool
	// Silence is how long the caller is silent before the provider takes the turn for ended; 0: the provider's default.
	Silence time.Duration
	// HideTools are tools whose calls a model is not told of, the one that switches pipelines above all.
	HideTools []string

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	TLS  *tls.Config

	ConnectTimeout  time.Duration // to the open socket; 0: 10 s
	SetupTimeout    time.Duration // from there to ReadyOut; 0: 15 s
	ResponseTimeout time.Duration // without a word of an answer that was asked for; 0: 30 s
	WriteTimeout    time.Duration // of one message; 0: 10 s
	PongTimeout     time.Duration // without anything from the provider; 0: 60 s
}

func (c *Config) defaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.ConnectTimeout, 10 * time.Second}, {&c.SetupTimeout, 15 * time.Second}, {&c.ResponseTimeout, 30 * time.Second},
		{&c.WriteTimeout, 10 * time.Second}, {&c.PongTimeout, time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.URL == "" {
		c.URL = c.Profile.BaseURL
	}
	if c.Transcription == "" {
		c.Transcription = c.Profile.Transcription
	}
}

func (c *Config) ownTurns() bool { return c.Profile.ServerVAD && !c.OurTurns }

// Pipeline offers the provider to a session under a name.
func (c Config) Pipeline(name string) switcher.Pipeline {
	p := c.Profile
	return switcher.Pipeline{
		Name: name, Kind: switcher.Realtime, Provider: p.Provider,
		Can: switcher.Capability{InRate: p.Rate, OutRate: p.Rate, Seeds: p.Seeds, MaxInstructions: p.MaxInstructions, OwnTurns: c.ownTurns(), MaxLife: p.MaxLife},
		New: func() switcher.Leg { return New(c) },
	}
}

// Leg is one connection. It runs once.
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
	EarlySound    uint64 // pieces of the caller's sound from before the floor, dropped beyond 20 s
	UnsentSound   uint64 // batches of it that the provider did not take within 30 s, dropped
	StoppedSound  uint64 // pieces of the model's sound that came after the interruption or the end of their turn, dropped
	EarlyAnswers  uint64 // answers that began before the floor, cancelled
	RepeatedCalls uint64 // tool calls that were answered without being asked for again
	Benign        uint64 // errors of the provider that mean nothing
	Unknown       uint64 // events that nobody here knows
	Malformed     uint64 // messages that are no events, sound that is no sound
}

type counts struct {
	earlySound, unsentSound, stoppedSound, earlyAnswers, repeatedCalls, benign, unknown, malformed atomic.Uint64
}

// Counters are what has happened so far.
func (l *Leg) Counters() Counters {
	c := &l.counts
	return Counters{c.earlySound.Load(), c.unsentSound.Load(), c.stoppedSound.Load(), c.earlyAnswers.Load(), c.repeatedCalls.Load(),
		c.benign.Load(), c.unknown.Load(), c.malformed.Load()}
}

// Counted implements switcher.Counting.
func (l *Leg) Counted() switcher.LegCounters {
	c := l.Counters()
	return switcher.LegCounters{
		EarlySound: c.EarlySound, UnsentSound: c.UnsentSound, StoppedSound: c.StoppedSound, EarlyAnswers: c.EarlyAnswers,
		RepeatedCalls: c.RepeatedCalls, Benign: c.Benign, Unknown: c.Unknown, Malformed: c.Malformed,
	}
}
