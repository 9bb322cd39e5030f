package cascade

import (
	"context"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Recognizer turns speech into text (STT).
type Recognizer interface {
	// Name is short, for logs, metrics and the session's answer: "pocketsphinx", "whisper-1".
	Name() string
	// Rate is the Hz of PCM16 mono that it wants.
	Rate() int
	// Listen opens one utterance; partial is told what is understood so far, from one goroutine at a time, and may be nil.
	Listen(ctx context.Context, partial func(text string)) (Utterance, error)
}

// Utterance is speech on its way through a Recognizer. One goroutine uses it.
type Utterance interface {
	// Write takes more sound; it does not wait for the recogniser.
	Write(pcm []int16) error
	// Finish says that the utterance is over and waits for its text; "" when nothing was understood.
	Finish(ctx context.Context) (text string, err error)
	// Close gives it up; after Finish it does nothing.
	Close()
}

// Model answers from the conversation (LLM).
type Model interface {
	Name() string
	// Answer streams one answer: text and calls are given to yield as they come. An error of yield ends it and is returned.
	Answer(ctx context.Context, r Request, yield func(Delta) error) (Finish, error)
}

// Request is what a Model is to answer.
type Request struct {
	At           time.Time
	Session      string
	Instructions string        // in force; Items holds none besides
	Items        chatctx.Items // as they stand in the log; the model projects them for itself
	Tools        []switcher.Tool
	Sights       []switcher.Sight // what can be seen now, by the image policy
	Running      map[string]bool  // call ids that are still being executed
	// Image gives the bytes of a stored image.
	Image func(ctx context.Context, url string) (mime string, data []byte, err error)
}

// Delta is a piece of an answer: text, or one whole call.
type Delta struct {
	Text string
	Call *Call
}

// Call is a tool that the model wants run. ID may be empty: the leg then gives one.
type Call struct {
	ID, Name, Arguments string
}

// Finish says how an answer ended.
type Finish struct {
	Reason              string // stop, length, tool_calls, filter
	TokensIn, TokensOut int    // as the provider counted; 0: unknown
}

// Voice speaks (TTS).
type Voice interface {
	Name() string
	// Rate is the Hz of the PCM16 mono that it makes.
	Rate() int
	// Speak gives the sound of one sentence or phrase piece by piece. An error of yield ends it and is returned.
	Speak(ctx context.Context, text string, yield func(pcm []int16) error) error
}

// EngineError is a failure of an engine that says what may be done about it.
type EngineError struct {
	Code      string // "rate_limited", "overloaded", "auth", "invalid", "timeout", "unreachable"
	Message   string // for people; never a secret
	Retryable bool
	After     time.Duration // the provider's wish, 0: none
	Err       error
}

func (e *EngineError) Error() string {
	if e.Err != nil {
		return e.Code + ": " + e.Message + ": " + e.Err.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives the cause.
func (e *EngineError) Unwrap() error { return e.Err }
