package switcher

import (
	"time"
)

// EventKind is what an Event tells.
type EventKind string

// The kinds of event; the fields that count are named.
const (
	PipelinePreparing EventKind = "pipeline.preparing" // Epoch, From, To, Reason, OpID
	PipelineCommitted EventKind = "pipeline.committed" // Epoch, From, To, Reason, OpID, Result, Steps; also of a no-op, without Steps
	PipelineAborted   EventKind = "pipeline.aborted"   // Epoch, From, To, Reason, OpID, Joined, Err, Steps
	PipelineLost      EventKind = "pipeline.lost"      // From, Reason: the leg with the floor has died
	SpeechStarted     EventKind = "speech.started"     // Who, Item
	SpeechStopped     EventKind = "speech.stopped"     // Who, Item, Final (of the caller: the turn is over; it may come after one that is not)
	TranscriptSaid    EventKind = "transcript"         // Who, Item, Text (all of it so far), Final
	TurnPlayed        EventKind = "played"             // Item, Played, Text (as heard), Interrupted
	ToolCalled        EventKind = "tool.call"          // Call, Deadline
	ToolCancelled     EventKind = "tool.cancel"        // Call
	ToolAnswered      EventKind = "tool.result"        // Call, Text (the output), IsError
	Noticed           EventKind = "notice"             // Code, Text
	StageEnded        EventKind = "stage"              // Stage
	LegsChanged       EventKind = "legs"               // what Legs gives has changed
)

// Event is something that agents and the page are told. Slices and pointers in it are shared: read only.
type Event struct {
	Kind  EventKind
	At    time.Time // of speech: when it began or ended
	Epoch uint64    // of the leg that it is about

	From, To string // names of pipelines, "" none
	Reason   string
	OpID     string
	Joined   []string // op_ids of the requests that joined
	Result   *Result
	Err      *Error
	Steps    *Steps // of the leg that was tried last

	Who         string // "caller" or "agent"
	Item        string // the leg's id of the turn or utterance; the message recorded has it too, unless it was taken
	Text        string
	Final       bool
	Played      time.Duration
	Interrupted bool

	Call     *ToolCallOut
	Deadline time.Time
	IsError  bool

	Code  string // of a notice
	Stage *StageOut
}

// Steps are the times of a switch's steps, in their order; zero: it did not come to that.
type Steps struct {
	Why      string    // Start.Reason: Event.Reason may be somebody's words, this is not
	Asked    time.Time // the switch was asked for
	Seeded   time.Time // what the leg is told of the conversation was made
	Ready    time.Time // the leg is connected and seeded
	Boundary time.Time // the old leg may be cut off
	Flushed  time.Time // what it said is in the log
	Written  time.Time // and the commit too
	Released time.Time // the new leg has the floor; what was held goes on
}

// Counters of a session; each drop has its own.
type Counters struct {
	Switches      uint64 `json:"switches"` // committed
	Aborts        uint64 `json:"aborts"`
	Noops         uint64 `json:"noops"`
	Failovers     uint64 `json:"failovers"` // deaths of a leg that had the floor
	Rollovers     uint64 `json:"rollovers"`
	LateOutputs   uint64 `json:"late_outputs_dropped"`   // of a leg that has not, or no longer, the floor (G5)
	StoppedSound  uint64 `json:"stopped_sound_dropped"`  // of a turn that was stopped already
	MuteSound     uint64 `json:"mute_sound_dropped"`     // nobody listens: there is no Speaker
	ReplayDropped uint64 `json:"replay_sound_dropped"`   // oldest sound of a turn longer than Times.Replay
	InboxDropped  uint64 `json:"inbox_sound_dropped"`    // sound that legs did not read in time
	Interruptions uint64 `json:"interruptions"`          // of playback
	ToolCalls     uint64 `json:"tool_calls"`             // executed
	ToolRepeats   uint64 `json:"tool_repeats"`           // asked for again and not executed again (G4)
	ToolSame      uint64 `json:"tool_same"`              // asked for the same as a call before in the turn, and given its result
	LoopGuards    uint64 `json:"switch_loops_refused"`   // switches by a model that were answered as no-ops (G7)
	BadOutputs    uint64 `json:"leg_outputs_refused"`    // ids that are no ids, rates that are no rates
	ReadAloud     uint64 `json:"texts_read_aloud"`       // turns of legs that came without their sound, spoken by the session's voice
	Apologies     uint64 `json:"apologies"`              // for answers that a leg said will not come
	Reseeds       uint64 `json:"seeds_refused"`          // legs whose provider refused the seed, tried again with instructions
	StaleItems    uint64 `json:"stale_seed_items"`       // items changed or removed between seed and commit
	Posts         uint64 `json:"control_events_dropped"` // the session's own queue was full
}
