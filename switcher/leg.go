package switcher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	chatctx "sightline/context"
)

// Kind is how a leg turns what was said into an answer.
type Kind string

// The two kinds: a chain of recogniser, model and voice, or one model that hears and speaks.
const (
	Cascade  Kind = "cascade"
	Realtime Kind = "realtime"
)

// State is where a leg stands in its life.
type State string

// The states, as the session's HTTP answer prints them.
const (
	Registered State = "registered" // known, not connected
	Preparing  State = "preparing"  // connecting and being seeded
	Ready      State = "ready"      // could take the floor
	Active     State = "active"     // has the floor
	Failed     State = "failed"
)

// LegInfo describes a leg to people and programs.
type LegInfo struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	State    State  `json:"state"`
	Epoch    uint64 `json:"epoch"` // counts the legs that the session has started; output of any but the active one's is nobody's
	Provider string `json:"provider"`
}

// Pipeline is something a session can switch to: what it is, what it can, and how a leg of it is made.
type Pipeline struct {
	Name     string // unique in the session: [A-Za-z0-9_.-]{1,64}
	Kind     Kind
	Provider string // for people: "local", "openai", "remote"
	Default  bool   // preferred where a switch names only the kind
	Can      Capability
	// New makes a leg, without I/O. A leg runs once.
	New func() Leg
}

// Capability says what a pipeline takes and does, so that nobody has to ask who its provider is.
type Capability struct {
	InRate, OutRate int // Hz of PCM16 mono; 0: no sound that way
	// Seeds are the modes that it takes, best first; see project.SeedOptions. Empty: instructions only.
	Seeds []SeedMode
	// MaxInstructions bounds Seed.Instructions in bytes; 0: DefaultMaxInstructions.
	MaxInstructions int
	// OwnTurns: the pipeline finds the turns of the caller itself and reports CallerSpeech; the session's detector then
	// only stops playback.
	OwnTurns bool
	// MaxLife is how long one connection lasts; the switcher rolls over to a fresh leg before. 0: no limit.
	MaxLife time.Duration
}

// SeedMode is the form in which a leg is told what was said before it came.
type SeedMode string

// The modes.
const (
	SeedInstructions SeedMode = "instructions" // a record inside the instructions
	SeedItems        SeedMode = "items"        // structured items
	SeedHybrid       SeedMode = "hybrid"       // a record of the older part, items for the newest
)

// DefaultMaxInstructions is the bound of Seed.Instructions in bytes where a Capability names none.
const DefaultMaxInstructions = 16 << 10

// Seed is what a leg is given of the conversation before it begins.
type Seed struct {
	Mode         SeedMode      `json:"mode"`
	Instructions string        `json:"instructions"` // what to do, with the record of the call in modes instructions and hybrid
	Items        chatctx.Items `json:"items"`        // in modes items and hybrid, pairs intact, in the order of the log
}

// Tool is something that a model may call; the session runs it.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  []byte `json:"parameters"` // a JSON Schema, as its author wrote it
}

// Start is what a leg is started with.
type Start struct {
	Session string
	Epoch   uint64
	Reason  string // first, switch, failover, rollover, resume (the session was restarted)
	Seed    Seed
	Tools   []Tool
	InRate  int // Hz of the Sound it is given
	OutRate int // Hz that the session would like best; Audio may have another
	// Items is the conversation as it stands now, for a leg that reads it at each turn.
	Items func() chatctx.Items
	// Image gives the bytes of a stored image (sightline:blob/…).
	Image func(ctx context.Context, url string) (mime string, data []byte, err error)
	// Look takes the newest image of each source, none older than maxAge where the source is live.
	Look func(ctx context.Context, maxAge time.Duration) []Sight
	Log  *slog.Logger
}

// Sight is what a leg sees of one video source.
type Sight struct {
	Source        string        // name of the video input: "camera", "screen"
	State         string        // live, black, stalled or ended
	JPEG          []byte        // nil where there is no image
	Width, Height int           // pixels of the image, 0 when there is none
	Brightness    float64       // mean luma, 0 (black) to 255 (white)
	CapturedAt    time.Time     // of the image
	Age           time.Duration // since it was captured
}

// Leg is one running pipeline of one epoch.
type Leg interface {
	// Run connects, takes the seed in, puts out ReadyOut, and serves until ctx ends, which is no failure: it then returns
	// nil (context.Cause is a StopReason, for a leg that tells others). Any other return is the leg's death, a *LegError where there is more to tell. All its goroutines have ended
	// when it returns. What it needs comes by in, whose Next it calls from one goroutine; what it says it gives to out.
	// A leg says nothing of its own accord before FloorIn.
	Run(ctx context.Context, start Start, in *Inbox, out Emit) error
}

// Counting is what a Leg may be besides: it tells what it has passed over and thrown away. Counted may be called at any time.
type Counting interface{ Counted() LegCounters }

// LegCounters are what legs of providers count; each drop has its own.
type LegCounters struct {
	EarlySound    uint64 // pieces of the caller's sound from before the floor, dropped beyond 20 s
	UnsentSound   uint64 // batches of it that the provider did not take within 30 s, dropped
	StoppedSound  uint64 // pieces of the model's sound that came after the interruption or the end of their turn, dropped
	EarlyAnswers  uint64 // answers that began before the floor, dropped
	LateWords     uint64 // pieces of what a turn says that came after its end, dropped
	RepeatedCalls uint64 // tool calls that were told of twice, or answered without being asked for again
	Frames        uint64 // images sent
	Benign        uint64 // errors of the provider that mean nothing
	Unknown       uint64 // messages that nobody here knows
	Malformed     uint64 // messages that are none, sound that is no sound
}

func (c *LegCounters) add(o LegCounters) {
	c.EarlySound += o.EarlySound
	c.UnsentSound += o.UnsentSound
	c.StoppedSound += o.StoppedSound
	c.EarlyAnswers += o.EarlyAnswers
	c.LateWords += o.LateWords
	c.RepeatedCalls += o.RepeatedCalls
	c.Frames += o.Frames
	c.Benign += o.Benign
	c.Unknown += o.Unknown
	c.Malformed += o.Malformed
}

// Emit takes a leg's output in, in order; safe for concurrent use. It waits while the session is behind and fails when
// the leg is stopped.
type Emit func(ctx context.Context, o Output) error

// LegError is why a leg died.
type LegError struct {
	Code      string // short and stable: "auth", "expired", "connect", "protocol", "overloaded", CodeSeed
	Message   string // for people; never a secret
	Retryable bool   // another try may go well
	Err       error
}

// CodeSeed is the Code of a leg whose provider refused the seed. Retryable, it is tried once more with SeedInstructions.
const CodeSeed = "seed"

func (e *LegError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives the cause.
func (e *LegError) Unwrap() error { return e.Err }
