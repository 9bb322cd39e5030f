package recorder

import "time"

// Kind is what an Event tells.
type Kind uint8

// The kinds of event. Item is the provider's id of what is said; without one, the oldest thing of that speaker that is still open
// is meant, or a new one.
const (
	// SpeechStarted: somebody began to speak, At.
	SpeechStarted Kind = iota + 1
	// SpeechStopped: they ended, At. The transcript may still come.
	SpeechStopped
	// Partial: Text is all that is understood so far.
	Partial
	// Delta: Text goes on where the last Delta ended; Audio is the length of the sound that came with it.
	Delta
	// Final: Text is all that was said. It closes what a caller said; of an assistant it is the text, which Done closes.
	Final
	// TranscriptFailed: no final transcript will come.
	TranscriptFailed
	// Done: the assistant has made all that it will make of this; Cancelled when it was stopped.
	Done
	// Played: the sound has been played to its end.
	Played
	// Playing: Heard of the sound has been played so far, at the word where HeardText ends when the pipeline knows that. It holds
	// nothing back; it is what is written of an answer when it has to be written before its end.
	Playing
	// Interrupted: the sound was stopped after Heard of it, at the word where HeardText ends when the pipeline knows that.
	Interrupted
	// ToolCall: a tool is called: CallID, Name, Arguments.
	ToolCall
	// ToolOutput: a tool has answered: CallID, Name, Output, IsError.
	ToolOutput
	// Error: the provider reported a failure that belongs to nothing; it is counted.
	Error
)

// Speaker is whose words an event is about.
type Speaker uint8

// The speakers.
const (
	Caller Speaker = iota + 1
	Assistant
)

// SpeakerOf reads the role names of providers' transcripts: user is the caller; assistant, agent and model are the assistant.
// Of others ok is false: they speak for nobody in the conversation.
func SpeakerOf(role string) (s Speaker, ok bool) {
	switch role {
	case "user":
		return Caller, true
	case "assistant", "agent", "model":
		return Assistant, true
	}
	return 0, false
}

// Event is one report of a pipeline.
type Event struct {
	Kind  Kind
	Who   Speaker   // of speech; tool calls are the assistant's
	At    time.Time // when it happened, by the session's clock; not when it was reported
	Epoch uint64    // of the leg that reports it
	Leg   string    // its name; entries it causes have the author leg:<Leg>
	Item  string    // the provider's item id, unique within an epoch

	Text      string
	Audio     time.Duration // Delta: of its sound
	Cancelled bool          // Done
	Heard     time.Duration // Playing, Interrupted
	HeardText string        // Playing, Interrupted; "" = it is worked out from Heard
	Voiced    bool          // the assistant's SpeechStarted: it is to be heard, so that its text counts only as far as it was
	AgentID   string        // who spoke or called, when there are several

	CallID, Name, Arguments string // ToolCall, ToolOutput
	Output                  string // ToolOutput
	IsError                 bool   // ToolOutput
}

// Stats are a Core's counters.
type Stats struct {
	Written    uint64 // operations made
	Duplicates uint64 // reports of what is written already
	Ignored    uint64 // reports that fit nothing: no speaker, no kind, a blank text
	Late       uint64 // items whose place was gone
	Provisional,
	Vanished uint64 // partials and places that were written before the final text; those that were taken back or never written
	Unheard   uint64 // answers of which nothing was heard
	Generated uint64 // call_ids made for calls that came without
	Orphans   uint64 // outputs of calls that nobody reported: a call was made up for them
	Nameless  uint64 // calls and outputs refused because they had no name
	Cut       uint64 // texts longer than MaxText
	Forced    uint64 // settled early because too much was open
	Errors    uint64 // Error events
}
