package cascade

import (
	"errors"
	"log/slog"
	"time"

	"sightline/switcher"
)

// Config says what a leg is made of. Zero fields mean the default that is named.
type Config struct {
	// The engines of each stage: the first is preferred, the others stand in for it. Without a Recognizer the caller is answered
	// only what is typed; without a Voice, or where the session takes no sound, answers are written only. A Model is needed.
	Recognizers []Recognizer
	Models      []Model
	Voices      []Voice

	// Images says when the model is shown what can be seen; "" = ImagesEachTurn.
	Images ImagePolicy
	// ImageAge is how old the image of a live source may be; 0 = 1 s.
	ImageAge time.Duration

	MaxCalls  int // tool calls of one turn, 0 = 10; what goes beyond is refused, and the model is told
	MaxRounds int // requests of one turn, 0 = 6; the last is made without tools
	MaxItems  int // items of the conversation that the model is given, 0 = all
	MaxTokens int // the same in tokens, estimated; 0 = all

	Timeouts Timeouts
	Retry    Retry
	Phrases  Phrases

	PreRoll      time.Duration // sound that is kept for the beginning of an utterance, 0 = 15 s
	MaxUtterance time.Duration // sound of an utterance that is kept for a second engine, 0 = 60 s

	Log *slog.Logger // nil = none
}

// ImagePolicy says when the model is shown the newest image of each source.
type ImagePolicy string

// The policies.
const (
	ImagesEachTurn ImagePolicy = "turn" // with every turn of the caller
	ImagesNever    ImagePolicy = "never"
)

// Timeouts bound the waits of a turn, each of one try; 0 = the default.
type Timeouts struct {
	Listen     time.Duration // until a recogniser is ready, 5 s
	Transcript time.Duration // from the end of speech to its text, 10 s
	FirstText  time.Duration // until a model says something, 15 s
	NextText   time.Duration // between two pieces of its answer, 10 s
	FirstSound time.Duration // until a voice gives sound, 8 s
	NextSound  time.Duration // between two pieces of its sound, 5 s
	Tool       time.Duration // until a tool has answered, 45 s: the session has a deadline of its own before that
	Look       time.Duration // until the images of a turn are there, 700 ms
}

// Retry says how often an engine is tried before the next one is. An engine is tried again only while nothing of what it gave
// has been used.
type Retry struct {
	Attempts   int           // tries of one engine, 0 = 2
	Backoff    time.Duration // before the second, doubled each time, 0 = 200 ms
	MaxBackoff time.Duration // a provider that wishes for more is passed over, 0 = 2 s
	CoolDown   time.Duration // an engine that failed is tried last for so long, 0 = 30 s
}

// Phrases are said, or written, in the place of silence. "" = the default, "-" = nothing.
type Phrases struct {
	NotHeard string // no recogniser worked
	NoAnswer string // no model answered
	Broken   string // the answer broke off
	NoVoice  string // written: no voice worked
}

// Check says what is wrong with a Config.
func (c Config) Check() error {
	if len(c.Models) == 0 {
		return errors.New("a cascade needs a model: Config.Models is empty")
	}
	switch c.Images {
	case "", ImagesEachTurn, ImagesNever:
	default:
		return errors.New(`images: allowed are "turn" and "never"`)
	}
	for _, n := range []int{c.MaxCalls, c.MaxRounds, c.MaxItems, c.MaxTokens, c.Retry.Attempts} {
		if n < 0 {
			return errors.New("a bound of a cascade is not negative; 0 is the default")
		}
	}
	return nil
}

// Capability is what a pipeline of this Config takes and does.
func (c Config) Capability() switcher.Capability {
	can := switcher.Capability{Seeds: []switcher.SeedMode{switcher.SeedItems}} // it reads Start.Items at each turn
	if len(c.Recognizers) > 0 {
		can.InRate = c.Recognizers[0].Rate()
	}
	if len(c.Voices) > 0 {
		can.OutRate = c.Voices[0].Rate()
	}
	return can
}

func (c Config) withDefaults() Config {
	set(&c.Images, ImagesEachTurn)
	set(&c.ImageAge, time.Second)
	set(&c.MaxCalls, 10)
	set(&c.MaxRounds, 6)
	set(&c.PreRoll, 15*time.Second)
	set(&c.MaxUtterance, time.Minute)
	t := &c.Timeouts
	set(&t.Listen, 5*time.Second)
	set(&t.Transcript, 10*time.Second)
	set(&t.FirstText, 15*time.Second)
	set(&t.NextText, 10*time.Second)
	set(&t.FirstSound, 8*time.Second)
	set(&t.NextSound, 5*time.Second)
	set(&t.Tool, 45*time.Second)
	set(&t.Look, 700*time.Millisecond)
	set(&c.Retry.Attempts, 2)
	set(&c.Retry.Backoff, 200*time.Millisecond)
	set(&c.Retry.MaxBackoff, 2*time.Second)
	set(&c.Retry.CoolDown, 30*time.Second)
	p := &c.Phrases
	set(&p.NotHeard, "Sorry, I could not hear that. Please say it again.")
	set(&p.NoAnswer, "Sorry, I cannot answer at the moment. Please try again.")
	set(&p.Broken, "Sorry, I lost the rest of my answer.")
	set(&p.NoVoice, "(My voice does not work at the moment, so I write.)")
	for _, s := range []*string{&p.NotHeard, &p.NoAnswer, &p.Broken, &p.NoVoice} {
		if *s == "-" {
			*s = ""
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func set[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
