package switcher

import (
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// event is what a core is told.
type event interface{ event() }

type (
	// evBegin starts the session; the fields are what the log says of before.
	evBegin struct {
		pipes  []Pipeline
		first  string        // kind or name; "" none
		resume string        // the name that had the floor
		epoch  uint64        // last committed
		last   uint64        // highest that any entry has
		calls  []callRecord  // all calls of the log
		rejoin time.Duration // how long the leg of before is waited for, when it is not known
	}
	evSwitch struct {
		SwitchRequest
		ticket uint64 // whom to answer
	}
	evAbort struct {
		opID   string
		answer chan bool // capacity 1
	}
	evRegister   struct{ pipe Pipeline }
	evUnregister struct{ name string }
	// evSeeded says how much of the conversation a leg was given.
	evSeeded struct {
		epoch           uint64
		seeded, dropped int
	}
	// evStarted: a started entry is in the log, or cannot be.
	evStarted struct {
		opID string
		seq  uint64
		dup  bool // the op_id is somebody else's
		err  error
	}
	evFlushed   struct{ epoch uint64 }
	evCommitted struct {
		epoch uint64
		err   error
	}
	// evFloored answers aFloor.
	evFloored struct {
		missed, stale int    // items that came after the seed, and those of it that changed
		seen          uint64 // seq up to which the leg knows the conversation
	}
	evOutput struct {
		epoch uint64
		out   Output
	}
	evDied struct {
		epoch uint64
		err   error // nil: it was stopped
	}
	evSpeech struct {
		started, final bool
		at             time.Time
	}
	evHeard   struct{ HeardTurn }
	evStopped struct {
		heard  []HeardTurn
		queued []TurnID // what had not been given to the speaker whole
	}
	evInterrupt struct{}
	evSay       struct{ SayRequest }
	evSaySound  struct {
		turn TurnID
		rate int
		pcm  []int16
	}
	evSayDone struct {
		turn TurnID
		err  error
	}
	evToolLogged struct{ callID string }
	evToolDone   struct {
		callID, output string
		isError        bool
	}
	// evLateTool is evToolDone from outside of RunTool.
	evLateTool struct {
		evToolDone
		answer chan error // capacity 1
	}
	evEntry   struct{ chatctx.Entry }
	evBarrier struct{ then func() } // all that a leg has given before is decided: then is called
	evEnd     struct{}
)

// callRecord is a tool call of the log.
type callRecord struct {
	callID, name, args string
	answered           bool
	output             string
	isError            bool
}

func (evBegin) event()      {}
func (evSwitch) event()     {}
func (evAbort) event()      {}
func (evRegister) event()   {}
func (evUnregister) event() {}
func (evSeeded) event()     {}
func (evStarted) event()    {}
func (evFlushed) event()    {}
func (evCommitted) event()  {}
func (evOutput) event()     {}
func (evFloored) event()    {}
func (evDied) event()       {}
func (evSpeech) event()     {}
func (evHeard) event()      {}
func (evStopped) event()    {}
func (evInterrupt) event()  {}
func (evSay) event()        {}
func (evSaySound) event()   {}
func (evSayDone) event()    {}
func (evToolLogged) event() {}
func (evToolDone) event()   {}
func (evEntry) event()      {}
func (evLateTool) event()   {}
func (evBarrier) event()    {}
func (evEnd) event()        {}

// action is what a core wants done.
type action interface{ action() }

type (
	// aStart makes a leg of the pipeline, seeds it and runs it. plus goes into its seed though the log does not have it yet.
	aStart struct {
		epoch  uint64
		pipe   Pipeline
		reason string
		plus   chatctx.Items
		plain  bool // seeded by instructions, whatever the pipeline likes best
	}
	aStop struct {
		epoch  uint64
		reason StopReason
	}
	aGive struct {
		epoch uint64
		in    Input
	}
	// aFloor gives a leg the floor: what it has not seen of the conversation, FloorIn, and the sound of the turn that is being
	// spoken, when replay is set; from then on the caller's sound. evFloored answers before anything else is handled.
	aFloor struct {
		epoch  uint64
		replay bool
	}
	// aNoFloor: nobody hears the caller; the sound is kept for the next leg.
	aNoFloor struct{}
	aMark    struct{ at time.Time }   // the caller's sound from at on is kept
	aUnmark  struct{ upTo time.Time } // nobody needs the sound until then
	aPlay    struct {
		turn TurnID
		rate int
		pcm  []int16
	}
	aEndTurn struct{ turn TurnID }
	// aCut stops playback; evStopped answers before anything else is handled.
	aCut    struct{}
	aRecord struct{ recorder.Event }
	aFlush  struct{ epoch uint64 } // evFlushed answers
	// aWriteStarted, aWriteCommit and aWriteAborted go into the log in this order; evStarted and evCommitted answer.
	aWriteStarted struct {
		item   chatctx.PipelineSwitch
		author string
		epoch  uint64
	}
	aWriteCommit struct {
		item   chatctx.PipelineSwitch
		before chatctx.Items // in the same go, before it
		author string        // of those
		epoch  uint64        // of those
	}
	aWriteAborted struct {
		item  chatctx.PipelineSwitch
		epoch uint64
	}
	aAck struct { // a ticket's started entry; seq 0: the log's head
		ticket uint64
		seq    uint64
	}
	aAnswer struct {
		ticket uint64
		res    Result
		err    error
	}
	aReplyError struct {
		to  chan error
		err error
	}
	aReply struct {
		to chan bool
		ok bool
	}
	aSpeak struct { // evSaySound and evSayDone answer
		turn TurnID
		text string
	}
	// aLogCall makes a call durable; evToolLogged answers.
	aLogCall    struct{ callID string }
	aRunTool    struct{ call ToolCallOut } // evToolDone answers
	aCancelTool struct{ callID string }
	aObserve    struct{ Event }
	aCall       struct{ f func() }
)

func (aStart) action()        {}
func (aStop) action()         {}
func (aGive) action()         {}
func (aFloor) action()        {}
func (aNoFloor) action()      {}
func (aMark) action()         {}
func (aUnmark) action()       {}
func (aPlay) action()         {}
func (aEndTurn) action()      {}
func (aCut) action()          {}
func (aRecord) action()       {}
func (aFlush) action()        {}
func (aWriteStarted) action() {}
func (aWriteCommit) action()  {}
func (aWriteAborted) action() {}
func (aAck) action()          {}
func (aAnswer) action()       {}
func (aReply) action()        {}
func (aReplyError) action()   {}
func (aSpeak) action()        {}
func (aLogCall) action()      {}
func (aRunTool) action()      {}
func (aCancelTool) action()   {}
func (aObserve) action()      {}
func (aCall) action()         {}
