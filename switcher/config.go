package switcher

import (
	"context"
	"log/slog"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
	"sightline/context/window"
)

// Config is what a Switcher needs. Session and Log are required; zero values of the rest mean the defaults.
type Config struct {
	Session string
	Log     *chatctx.Log
	// Speaker plays what legs say; nil: nobody listens, and what is said is recorded as text.
	Speaker Speaker
	// Pipelines are the built-in ones, in order of preference.
	Pipelines []Pipeline
	// First is the kind or name of the pipeline that has the floor at the beginning; "": none until somebody asks. On a log
	// that has a committed switch it is that one instead, if it is known.
	First string
	// Agent is the agent_id that the built-in legs speak for; handoffs to it are told to them as taking over.
	Agent string
	// Instructions of the agent. A switch's own, recorded as a config_update, take their place.
	Instructions string
	// Tools are asked for when a leg is started.
	Tools   func() []Tool
	RunTool ToolRun // nil: every call is answered with an error
	// SwitchTool offers the switch to models; nil: no.
	SwitchTool *SwitchTool
	// Voice makes sound of text without a leg, for Say and for the phrase of Failover; nil: such texts are not spoken.
	Voice func(ctx context.Context, text string, yield func(rate int, pcm []int16) error) error
	Look  func(ctx context.Context, maxAge time.Duration) []Sight                           // see Start.Look
	Image func(ctx context.Context, url string) (mime string, data []byte, err error)       // see Start.Image
	Sized func(mime string, data []byte, maxSide, maxBytes int) (smaller []byte, err error) // makes an image of a seed fit; nil: such stay as text

	KeepImages int // newest images per source in a seed; 0: project's default
	BargeIn    BargeIn
	Failover   Failover
	Times      Times
	Recording  recorder.Times
	Window     *window.Manager // is run with the session; nil: the conversation grows
	// MaxToolCalls is how many calls a leg may make between two turns of the caller; more are answered with an error. 0:
	// window.DefaultMaxToolCallsPerTurn.
	MaxToolCalls int

	// Observe is told what happens, in order, from the Switcher's one goroutine: it must not block and must not call back into
	// the Switcher but for Rates, Epoch, Legs, Seed and Counters.
	Observe func(Event)
	// RatesChanged is told when Rates gives something else; called like Observe.
	RatesChanged func(rates []int)
	Logger       *slog.Logger
}

// SwitchTool is how the switch is offered to models. Its repeats are no-ops with an answer that says so (G7).
type SwitchTool struct {
	Name        string // default "switch_pipeline"
	Description string // default: says what it does
}

// BargeIn says when the caller's speech stops what is being played.
type BargeIn struct {
	Off       bool
	MinSpeech time.Duration // speech shorter than this does not; 0: at once
	MinWords  int           // nor speech of which fewer words are understood; 0: no matter
}

// Failover says what happens when the leg that has the floor dies.
type Failover struct {
	// Reopen is how often the same pipeline is tried again before another one is; 0: 2, below 0: never.
	Reopen int
	// SameKind keeps to pipelines of the same kind; else the other kind is the last resort.
	SameKind bool
	// Phrase is spoken when the floor has been empty for PhraseAfter, and again when it stays so for long: "One moment, please.";
	// "": nothing.
	Phrase      string
	PhraseAfter time.Duration // 0: 2 s
	// Apology is said, once in a turn of the caller, when a leg gives NoticeAnswerFailed: "Sorry, I cannot answer that now.";
	// "": Phrase.
	Apology    string
	MinBackoff time.Duration // before the second try; doubles up to MaxBackoff. 0: 250 ms
	MaxBackoff time.Duration // 0: 10 s
}

// Times are the bounds of waiting. Zero values mean the defaults.
type Times struct {
	Prepare  time.Duration // PrepareTimeout of a SwitchRequest: 10 s
	MaxWait  time.Duration // MaxWait of a SwitchRequest: 5 s
	Tool     time.Duration // one tool call: 30 s
	Rejoin   time.Duration // after a restart: how long calls in flight wait for ToolResult, and the leg of before for its Register: 0 = not at all
	Replay   time.Duration // sound of the caller's turn that is kept for the next leg: 15 s
	PreRoll  time.Duration // of it from before the speech was found: 300 ms
	Egress   time.Duration // sound of a leg that waits for the Speaker; then its Emit waits: 60 s
	Stall    time.Duration // a turn that holds up others without any output is closed: 15 s
	Settle   time.Duration // how long a transcript may be late before the sound of it is forgotten: 5 s
	Rollover time.Duration // how long before Capability.MaxLife the next leg is prepared: MaxLife/5, at most 60 s
}

func (c *Config) defaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SwitchTool != nil && c.SwitchTool.Name == "" {
		t := *c.SwitchTool
		t.Name = DefaultSwitchTool
		c.SwitchTool = &t
	}
	if c.MaxToolCalls <= 0 {
		c.MaxToolCalls = window.DefaultMaxToolCallsPerTurn
	}
	if c.Failover.Reopen == 0 {
		c.Failover.Reopen = 2
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.Times.Prepare, 10 * time.Second}, {&c.Times.MaxWait, 5 * time.Second}, {&c.Times.Tool, 30 * time.Second},
		{&c.Times.Replay, 15 * time.Second}, {&c.Times.PreRoll, 300 * time.Millisecond}, {&c.Times.Egress, time.Minute},
		{&c.Times.Stall, 15 * time.Second}, {&c.Times.Settle, 5 * time.Second},
		{&c.Failover.PhraseAfter, 2 * time.Second}, {&c.Failover.MinBackoff, 250 * time.Millisecond}, {&c.Failover.MaxBackoff, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
}

// DefaultSwitchTool is the name of the tool that switches pipelines.
const DefaultSwitchTool = "switch_pipeline"

func (c *Config) check() error {
	if !chatctx.ValidID(c.Session) {
		return fail(InvalidArgument, "session", "session id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", c.Session)
	}
	if c.Log == nil {
		return fail(InvalidArgument, "log", "a switcher needs the session's log")
	}
	return nil
}
