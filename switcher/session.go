package switcher

import (
	"context"
	"time"
)

// Switcher runs the legs of one session. Its methods are safe for concurrent use; before Run they wait for it, after it they
// are refused with Draining.
type Switcher struct {
	cfg Config
}

// New makes a Switcher; it does nothing before Run.
func New(cfg Config) (*Switcher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.defaults()
	return &Switcher{cfg: cfg}, nil
}

// Run serves the session until ctx ends, whose error it then returns, or until its log is damaged. All goroutines, of legs and
// tools too, have ended when it returns. Call it once.
func (s *Switcher) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Hear takes the caller's sound: PCM16 mono without gaps, once at each of Rates; at is the time of its first sample. It never
// blocks. pcm is kept and shared: nobody may write to it any more.
func (s *Switcher) Hear(rate int, pcm []int16, at time.Time) {}

// Rates are the Hz at which Hear is to be given the caller's sound, ascending; none while nobody would listen.
func (s *Switcher) Rates() []int { return nil }

// CallerSpeech tells what the session's detector found: the caller began to speak (started), paused (neither), or ended a turn
// (final). at is when the sound of it began or ended. It never blocks.
func (s *Switcher) CallerSpeech(started, final bool, at time.Time) {}

// Switch asks for a switch and waits for its outcome; see Begin.
func (s *Switcher) Switch(ctx context.Context, r SwitchRequest) (Result, error) {
	w, err := s.Begin(ctx, r)
	if err != nil {
		return Result{}, err
	}
	return w.Wait(ctx)
}

// Begin asks for a switch and returns when its started entry is in the log. Codes: InvalidArgument, NotFound (no such target),
// SwitchInProgress, Conflict (the op_id was used for something else), EngineUnavailable, Draining. A switch to what is active
// already is a no-op that leaves nothing in the log; one to what is being prepared joins it. The outcome's codes: LegFailed,
// PrepareTimeout, SwitchAborted, EngineUnavailable.
func (s *Switcher) Begin(ctx context.Context, r SwitchRequest) (*Switching, error) {
	return nil, fail(Draining, "", "not built yet")
}

// Abort ends the switch with this op_id, if it is not committed yet; ok is false when there is none.
func (s *Switcher) Abort(opID string) (ok bool) { return false }

// Register offers a pipeline, a remote leg above all. One of the same name is replaced: legs made of the old one are stopped and
// count as dead. The newest of a kind, or the newest that is Default, is preferred where a switch names only the kind.
func (s *Switcher) Register(p Pipeline) error { return nil }

// Unregister takes a pipeline back; its legs are stopped and count as dead. ok is false when there is none.
func (s *Switcher) Unregister(name string) (ok bool) { return false }

// Interrupt stops what is being played, whoever says it.
func (s *Switcher) Interrupt() {}

// SayRequest is something to say that no leg made.
type SayRequest struct {
	OpID          string // unique in the session, 1–64 of [A-Za-z0-9_-]; it becomes the id of the message
	Agent         string // agent_id of who says it
	Text          string // spoken by Config.Voice when there is no sound; recorded as heard
	Rate          int    // Hz of PCM
	PCM           []int16
	Interruptible bool // by the caller's speech
}

// Say speaks behind what is being played. It returns as soon as it is queued; how much was heard comes as TurnPlayed with
// Item = OpID. An op_id that was used already is not spoken again.
func (s *Switcher) Say(ctx context.Context, r SayRequest) error { return nil }

// ToolResult answers a call that was in flight when the session was restarted; RunTool answers all others. NotFound: no such
// call; Conflict: it is answered.
func (s *Switcher) ToolResult(callID, output string, isError bool) error { return nil }

// Legs are the pipelines that are known, with what their legs do.
func (s *Switcher) Legs() []LegInfo { return nil }

// Active is the leg that has the floor; ok is false when none has.
func (s *Switcher) Active() (leg LegInfo, ok bool) { return LegInfo{}, false }

// Epoch is that of the last commit, 0 before the first: what others write into the log meanwhile carries it.
func (s *Switcher) Epoch() uint64 { return 0 }

// Seed is what the leg of an epoch was given; of the newest 8.
func (s *Switcher) Seed(epoch uint64) (seed Seed, ok bool) { return Seed{}, false }

// Counters are what has happened so far.
func (s *Switcher) Counters() Counters { return Counters{} }
