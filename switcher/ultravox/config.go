// Package ultravox is the leg that answers through one model that hears and speaks, over Ultravox's calls: made by REST, joined over a WebSocket of PCM16 and JSON; it plays nothing, runs no tool, and leaves the caller's turns to the provider.
//
// # Goroutines
//
//	loop     Run itself: owns all state, takes what the provider and the session say, never waits for either
//	reader   socket → loop; waits while the loop does not take
//	writer   queue → socket, and pings; the oldest sound is dropped beyond 30 s, 1,024 waiting words end the leg
//	emitter  queue → Emit; the loop stops reading the provider while 4 minutes of sound or 1,024 other outputs wait
//	feeder   Inbox → loop, from ReadyOut on
//
// All have ended when Run returns (G13).
package ultravox

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"sightline/switcher"
)

// What the provider takes and gives.
const (
	Provider        = "ultravox"
	BaseURL         = "https://api.ultravox.ai"
	InRate          = 16000            // Hz; it resamples whatever it is told
	OutRate         = 24000            // Hz
	MaxInstructions = 48 << 10         // bytes; the provider names no bound
	MaxLife         = time.Hour        // asked for as maxDuration
	clientBuffer    = 30 * time.Second // of sound ahead of its time: the provider says when to forget it
)

// Config of a leg. Model is required.
type Config struct {
	URL   string // base, without /api; "": BaseURL
	Model string
	Key   string // never logged, never in an error
	Voice string // "": the provider's
	// Language is a BCP-47 code, "": found out.
	Language string
	// ToolTimeout is how long the provider waits for the result of a tool; 0: 30 s. Its own default is 2.5 s.
	ToolTimeout time.Duration
	// HideTools are tools whose calls a model is not told of, the one that switches pipelines above all.
	HideTools []string

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	TLS  *tls.Config

	ConnectTimeout  time.Duration // to the call's URL, and from there to the open socket; 0: 10 s
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
		{&c.ToolTimeout, 30 * time.Second}, {&c.ConnectTimeout, 10 * time.Second}, {&c.SetupTimeout, 15 * time.Second},
		{&c.ResponseTimeout, 30 * time.Second}, {&c.WriteTimeout, 10 * time.Second}, {&c.PongTimeout, time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if c.URL == "" {
		c.URL = BaseURL
	}
}

// Pipeline offers the provider to a session under a name.
func (c Config) Pipeline(name string) switcher.Pipeline {
	return switcher.Pipeline{
		Name: name, Kind: switcher.Realtime, Provider: Provider,
		Can: switcher.Capability{InRate: InRate, OutRate: OutRate, Seeds: []switcher.SeedMode{switcher.SeedInstructions}, MaxInstructions: MaxInstructions, OwnTurns: true, MaxLife: MaxLife},
		New: func() switcher.Leg { return New(c) },
	}
}

// Leg is one call. It runs once.
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
	StoppedSound  uint64 // pieces of the model's sound that came after the interruption, dropped
	EarlyAnswers  uint64 // answers that began before the floor, dropped
	LateWords     uint64 // pieces of what a turn says that came after its end, dropped
	RepeatedCalls uint64 // tool calls that were answered without being asked for again
	Unknown       uint64 // messages that nobody here knows
	Malformed     uint64 // such as are no JSON, sound of half a sample
}

type counts struct {
	earlySound, unsentSound, stoppedSound, earlyAnswers, lateWords, repeatedCalls, unknown, malformed atomic.Uint64
}

// Counters are what has happened so far.
func (l *Leg) Counters() Counters {
	c := &l.counts
	return Counters{c.earlySound.Load(), c.unsentSound.Load(), c.stoppedSound.Load(), c.earlyAnswers.Load(), c.lateWords.Load(),
		c.repeatedCalls.Load(), c.unknown.Load(), c.malformed.Load()}
}

// Counted implements switcher.Counting.
func (l *Leg) Counted() switcher.LegCounters {
	c := l.Counters()
	return switcher.LegCounters{
		EarlySound: c.EarlySound, UnsentSound: c.UnsentSound, StoppedSound: c.StoppedSound, EarlyAnswers: c.EarlyAnswers,
		LateWords: c.LateWords, RepeatedCalls: c.RepeatedCalls, Unknown: c.Unknown, Malformed: c.Malformed,
	}
}
