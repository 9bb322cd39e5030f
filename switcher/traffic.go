package switcher

import (
	"time"

	chatctx "sightline/context"
)

// Input is what a leg is given while it runs: SoundIn, CallerSpeechIn, ItemIn, FloorIn, InterruptedIn, PlayedIn, ToolResultIn.
type Input interface{ input() }

// SoundIn is what the caller sent: PCM16 mono at Start.InRate, usually 20 ms, without gaps (silence is sound too). After a
// commit the sound of the turn that is being spoken comes first, faster than it was spoken.
type SoundIn struct {
	PCM []int16   // shared with others: read only
	At  time.Time // of its first sample, by the session's clock
}

// CallerSpeechIn says that the session's detector heard the caller begin or end to speak. At is when the sound of it began
// (some of which has been given already) or ended. Final on an end means that the turn is over: answer it.
type CallerSpeechIn struct {
	Started bool
	Final   bool
	At      time.Time
}

// ItemIn is an item that somebody else put into the conversation: a typed message, another agent's, a handoff. Respond asks
// for an answer.
type ItemIn struct {
	Seq     uint64
	Item    chatctx.Item
	Respond bool
}

// FloorIn gives the leg the floor: from now on its output is heard and recorded. Respond: the caller waits for an answer to
// what stands last in the conversation. Given again, with Respond, it asks for such an answer.
type FloorIn struct{ Respond bool }

// InterruptedIn says that the playing of a turn was stopped. A leg whose turn this is stops making it.
type InterruptedIn struct {
	Item   string        // the leg's id of the turn
	Played time.Duration // of its sound, as heard
	Text   string        // as far as it was heard, where that is known
}

// PlayedIn says that a turn has been heard to its end.
type PlayedIn struct {
	Item   string
	Played time.Duration
}

// ToolResultIn answers a ToolCallOut of this leg, or of one before it whose call was in the seed as running.
type ToolResultIn struct {
	CallID, Name, Output string
	IsError              bool
}

func (SoundIn) input()        {}
func (CallerSpeechIn) input() {}
func (ItemIn) input()         {}
func (FloorIn) input()        {}
func (InterruptedIn) input()  {}
func (PlayedIn) input()       {}
func (ToolResultIn) input()   {}

// Output is what a leg gives: ReadyOut, CallerSpeechOut, TranscriptOut, TextOut, SoundOut, ToolCallOut, ToolCancelOut,
// TurnDoneOut, NoticeOut, StageOut. Ids of turns and utterances are the leg's own, unique in its epoch, [A-Za-z0-9_-]{1,64}.
type Output interface{ output() }

// ReadyOut says that the leg is connected and seeded.
type ReadyOut struct{}

// CallerSpeechOut is CallerSpeechIn the other way round, of a pipeline with OwnTurns. Item is its id of what is being said. Any leg
// whose transcripts may come later than what others say then, gives the beginning as soon as it has an id (At may be zero): it
// keeps the place in the order of speech.
type CallerSpeechOut struct {
	Item    string
	Started bool
	At      time.Time
}

// TranscriptOut is what somebody said: of the caller (Agent false) or of the leg's own turn. Text is all of it so far.
// Failed: there will be none.
type TranscriptOut struct {
	Item   string
	Agent  bool
	Text   string
	Final  bool
	Failed bool
	At     time.Time // when the speech began, zero: as the session knows
}

// TextOut goes on with the text of a turn. The first output with a new id opens the turn. A completed turn that had no sound though
// the pipeline has an OutRate is spoken by the session's own voice, where it has one.
type TextOut struct {
	Item, Delta string
}

// SoundOut goes on with the sound of a turn.
type SoundOut struct {
	Item string
	Rate int // Hz, 8000 to 48000
	PCM  []int16
	// Text is what this piece of sound says, where the leg knows; it makes the heard words exact.
	Text string
}

// ToolCallOut asks for a tool. The result comes as ToolResultIn, also when it failed or came too late.
type ToolCallOut struct {
	CallID, Name, Arguments string
	Item                    string // the turn it belongs to, where there is one
}

// ToolCancelOut takes calls back: their results are recorded, but not waited for.
type ToolCancelOut struct{ CallIDs []string }

// Turn statuses.
const (
	TurnCompleted = "completed"
	TurnCancelled = "cancelled"
	TurnFailed    = "failed"
)

// TurnDoneOut closes a turn: no more text or sound of it will come.
type TurnDoneOut struct {
	Item, Status string
}

// NoticeOut is something to know that ends nothing: a retry, a fall-back, an image left out. It is counted by code. On two codes the
// session acts: NoticeAnswerFailed and NoticeExpires.
type NoticeOut struct {
	Code, Message string
}

// StageOut says how long one try of one engine took, when it is over. It is for measurements and changes nothing; a leg that has no
// stages gives none.
type StageOut struct {
	Stage  string // StageSTT, StageLLM or StageTTS
	Engine string // its name
	Item   string // the utterance or the turn
	Began  time.Time
	// First is when the first text (of a model) or sound (of a voice) came; of a recogniser, when it had all of the utterance's sound.
	// Zero: it did not come to that.
	First time.Time
	Ended time.Time
	Code  string // short and stable: "" it went well, "cancelled", or why it failed
	// TokensIn and TokensOut are what a model's provider counted; 0: unknown.
	TokensIn, TokensOut int
}

// Stages of a turn.
const (
	StageSTT = "stt"
	StageLLM = "llm"
	StageTTS = "tts"
)

// Codes of notices that the session acts on.
const (
	NoticeAnswerFailed = "answer_failed" // the caller waits for an answer that will not come, or not to its end: they are told
	NoticeExpires      = "expires"       // the connection ends soon: a fresh leg takes over
)

func (ReadyOut) output()        {}
func (CallerSpeechOut) output() {}
func (TranscriptOut) output()   {}
func (TextOut) output()         {}
func (SoundOut) output()        {}
func (ToolCallOut) output()     {}
func (ToolCancelOut) output()   {}
func (TurnDoneOut) output()     {}
func (NoticeOut) output()       {}
func (StageOut) output()        {}
