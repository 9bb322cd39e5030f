package wire

import (
	"encoding/json"

	chatctx "sightline/context"
)

// Messages about tools, sound and pipelines, from client to gateway.
const (
	TypeToolsSet       Type = "tools.set"
	TypeToolResult     Type = "tool.result"
	TypePipelineSwitch Type = "pipeline.switch"
	TypeSay            Type = "say" // text, or binary with sound
	TypeInterrupt      Type = "interrupt"
	TypeLegRegister    Type = "leg.register"
	TypeLegReady       Type = "leg.ready"
	TypeLegFailed      Type = "leg.failed"
	TypeLegText        Type = "leg.text"
	TypeLegTranscript  Type = "leg.transcript"
	TypeLegToolCall    Type = "leg.tool_call"
	TypeLegTurnDone    Type = "leg.turn_done"
)

// Messages about tools, sound and pipelines, from gateway to client.
const (
	TypeToolCall          Type = "tool.call"
	TypeToolCancel        Type = "tool.cancel"
	TypePipelinePreparing Type = "pipeline.preparing"
	TypePipelineCommitted Type = "pipeline.committed"
	TypePipelineAborted   Type = "pipeline.aborted"
	TypeSpeechStarted     Type = "speech.started"
	TypeSpeechStopped     Type = "speech.stopped"
	TypeTranscript        Type = "transcript"
	TypePlayed            Type = "played"
	TypeLegStart          Type = "leg.start"
	TypeLegCommit         Type = "leg.commit"
	TypeLegRespond        Type = "leg.respond"
	TypeLegInterrupt      Type = "leg.interrupt"
	TypeLegToolResult     Type = "leg.tool_result"
	TypeLegStop           Type = "leg.stop"
	TypeAudio             Type = "audio" // binary, both ways
)

// FormatPCM is the only format of sound on the socket: signed 16-bit little-endian samples, one channel.
const FormatPCM = "pcm_s16le"

// Tool is something that a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema of an object
}

// ToolsSet says which tools this agent executes; it takes the place of what it said before.
type ToolsSet struct {
	Type  Type   `json:"type"`
	OpID  string `json:"op_id,omitempty"` // addresses the ack; without it there is none
	Tools []Tool `json:"tools"`
}

// ToolCall asks the agent that offers the tool to run it.
type ToolCall struct {
	Type       Type   `json:"type"`
	CallID     string `json:"call_id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"`   // JSON, as the model wrote it
	DeadlineMS int64  `json:"deadline_ms"` // from now; a later result is recorded nowhere
}

// ToolCancel says that nobody waits for a call's result any more.
type ToolCancel struct {
	Type   Type   `json:"type"`
	CallID string `json:"call_id"`
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	Type    Type   `json:"type"`
	OpID    string `json:"op_id,omitempty"` // addresses the ack or error; default: the call_id
	CallID  string `json:"call_id"`
	Output  string `json:"output"`
	IsError bool   `json:"is_error,omitempty"`
}

// PipelineSwitch asks for another pipeline; over HTTP the body is the same without a type.
type PipelineSwitch struct {
	Type             Type   `json:"type,omitempty"`
	OpID             string `json:"op_id"`
	Target           string `json:"target"`                       // a leg's name, or a kind: cascade, realtime
	At               string `json:"at,omitempty"`                 // turn_end (default), now, after_speech
	MaxWaitMS        *int   `json:"max_wait_ms,omitempty"`        // for the boundary, then it commits as now; default 5000
	PrepareTimeoutMS *int   `json:"prepare_timeout_ms,omitempty"` // default 10000
	Instructions     string `json:"instructions,omitempty"`       // new ones, from the commit on
	// Handoff goes with the switch: it is recorded right before the commit, or not at all.
	Handoff *SwitchHandoff `json:"handoff,omitempty"`
}

// SwitchHandoff passes the conversation to another agent together with a switch.
type SwitchHandoff struct {
	ToAgent   string `json:"to_agent"`
	FromAgent string `json:"from_agent,omitempty"` // default: the sender
	Reason    string `json:"reason,omitempty"`
	Summary   string `json:"summary,omitempty"`
}

// SwitchResult is how a switch went. It is HTTP's answer, and part of pipeline.committed.
type SwitchResult struct {
	Mode         string   `json:"mode"` // the kind of the leg that has the floor now
	From         string   `json:"from"`
	To           string   `json:"to"`
	Epoch        uint64   `json:"epoch"`
	SeededItems  int      `json:"seeded_items"`
	DroppedItems int      `json:"dropped_items"`
	SwitchMS     int64    `json:"switch_ms"`  // from the request to the commit
	PrepareMS    int64    `json:"prepare_ms"` // of it: until the leg was ready
	CommitMS     int64    `json:"commit_ms"`  // of it: from the boundary on
	Noop         bool     `json:"noop"`
	Joined       []string `json:"joined,omitempty"` // op_ids of others that asked for the same
}

// PipelinePreparing says that a leg is being made ready while the old one goes on.
type PipelinePreparing struct {
	Type   Type   `json:"type"`
	OpID   string `json:"op_id,omitempty"`
	Epoch  uint64 `json:"epoch"` // that it will have
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// PipelineCommitted says that the floor has changed.
type PipelineCommitted struct {
	Type   Type   `json:"type"`
	OpID   string `json:"op_id,omitempty"`
	Reason string `json:"reason"`
	SwitchResult
}

// PipelineAborted says that a switch has not come about and all is as before.
type PipelineAborted struct {
	Type    Type     `json:"type"`
	OpID    string   `json:"op_id,omitempty"`
	Epoch   uint64   `json:"epoch"` // that stays
	From    string   `json:"from"`
	To      string   `json:"to"`
	Reason  string   `json:"reason"`
	Code    string   `json:"code"` // of the error list
	Message string   `json:"message"`
	Joined  []string `json:"joined,omitempty"`
}

// Speech says that somebody began or ended to speak.
type Speech struct {
	Type  Type         `json:"type"`
	Who   string       `json:"who"` // caller, agent
	At    chatctx.Time `json:"at"`
	Final bool         `json:"final,omitempty"` // speech.stopped of the caller: the turn is over
}

// Transcript is what somebody is understood to say.
type Transcript struct {
	Type   Type         `json:"type"`
	Who    string       `json:"who"` // caller, agent
	At     chatctx.Time `json:"at"`
	ItemID string       `json:"item_id,omitempty"`
	Text   string       `json:"text"` // all of it so far
	Final  bool         `json:"final"`
	Epoch  uint64       `json:"epoch"`
}

// Played says how much of a turn the caller has heard.
type Played struct {
	Type        Type   `json:"type"`
	ItemID      string `json:"item_id"`
	PlayedMS    int64  `json:"played_ms"`
	TextHeard   string `json:"text_heard"`
	Interrupted bool   `json:"interrupted"`
	Epoch       uint64 `json:"epoch"`
}

// Say puts words into the agent's mouth. As a binary message it is the header of the sound.
type Say struct {
	Type          Type   `json:"type"`
	OpID          string `json:"op_id"`
	Text          string `json:"text,omitempty"`
	Interruptible *bool  `json:"interruptible,omitempty"` // default true
	Rate          int    `json:"rate,omitempty"`          // with sound: Hz, 8000 to 48000
	Format        string `json:"format,omitempty"`        // with sound: pcm_s16le
}

// Interrupt stops what is being played.
type Interrupt struct {
	Type Type   `json:"type"`
	OpID string `json:"op_id,omitempty"` // addresses the ack; without it there is none
}

// AudioHeader is the header of a binary message of sound: the caller's to an agent, or a leg's to the gateway.
type AudioHeader struct {
	Type   Type   `json:"type"`
	Who    string `json:"who,omitempty"` // to an agent: caller
	Epoch  uint64 `json:"epoch"`
	ItemID string `json:"item_id,omitempty"` // from a leg: the turn
	Rate   int    `json:"rate"`
	Format string `json:"format"`
	TSMS   int64  `json:"ts_ms,omitempty"` // to an agent: of the first sample, since the session's sound began
	Text   string `json:"text,omitempty"`  // from a leg: what this sound says, where it knows
}

// LegRegister offers this runtime as a pipeline.
type LegRegister struct {
	Type    Type   `json:"type"`
	OpID    string `json:"op_id"`
	Name    string `json:"name"`
	Kind    string `json:"kind"` // cascade, realtime
	Default bool   `json:"default,omitempty"`
	InRate  int    `json:"in_rate,omitempty"`  // Hz of the sound it wants: 16000 (default), 24000, 48000; -1: none
	OutRate int    `json:"out_rate,omitempty"` // Hz of the sound it makes, default 24000; -1: text only
	// OwnTurns: it finds the caller's turns itself and says so by leg.transcript.
	OwnTurns bool `json:"own_turns,omitempty"`
	// Seed is the form in which it wants to be told what was said: hybrid (default), items or instructions.
	Seed string `json:"seed,omitempty"`
}

// LegSeed is what a leg is told of the conversation before it begins.
type LegSeed struct {
	Mode         string        `json:"mode"`
	Instructions string        `json:"instructions"`
	Items        chatctx.Items `json:"items"`
}

// LegStart asks a registered leg to make itself ready for an epoch.
type LegStart struct {
	Type             Type    `json:"type"`
	Name             string  `json:"name"`
	Epoch            uint64  `json:"epoch"`
	Reason           string  `json:"reason"`
	Seed             LegSeed `json:"seed"`
	Tools            []Tool  `json:"tools"`
	InRate           int     `json:"in_rate"`
	OutRate          int     `json:"out_rate"`
	PrepareTimeoutMS int64   `json:"prepare_timeout_ms"`
}

// LegCommit gives a leg the floor.
type LegCommit struct {
	Type    Type   `json:"type"`
	Epoch   uint64 `json:"epoch"`
	Respond bool   `json:"respond"` // the caller waits for an answer to what stands last in the conversation
}

// LegRespond asks the leg to answer an item that somebody typed.
type LegRespond struct {
	Type  Type            `json:"type"`
	Epoch uint64          `json:"epoch"`
	Seq   uint64          `json:"seq"`
	Item  json.RawMessage `json:"item"`
}

// LegInterrupt says that a turn was stopped after so much of it.
type LegInterrupt struct {
	Type      Type   `json:"type"`
	Epoch     uint64 `json:"epoch"`
	ItemID    string `json:"item_id"`
	PlayedMS  int64  `json:"played_ms"`
	TextHeard string `json:"text_heard,omitempty"`
}

// LegToolResult answers a leg's tool call.
type LegToolResult struct {
	Type    Type   `json:"type"`
	Epoch   uint64 `json:"epoch"`
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Output  string `json:"output"`
	IsError bool   `json:"is_error"`
}

// LegStop ends a leg's epoch.
type LegStop struct {
	Type   Type   `json:"type"`
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason"` // superseded, aborted, ended, drain
}

// LegReady says that the leg of an epoch could take the floor.
type LegReady struct {
	Type  Type   `json:"type"`
	Epoch uint64 `json:"epoch"`
}

// LegFailed says that it cannot go on.
type LegFailed struct {
	Type      Type   `json:"type"`
	Epoch     uint64 `json:"epoch"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
}

// LegText goes on with the text of a turn; the first output with a new item_id opens it.
type LegText struct {
	Type   Type   `json:"type"`
	Epoch  uint64 `json:"epoch"`
	ItemID string `json:"item_id"`
	Delta  string `json:"delta"`
}

// LegTranscript is what the leg understood the caller to say, or what its own turn says.
type LegTranscript struct {
	Type   Type   `json:"type"`
	Epoch  uint64 `json:"epoch"`
	ItemID string `json:"item_id"`
	Who    string `json:"who"` // caller, agent
	Text   string `json:"text"`
	Final  bool   `json:"final,omitempty"`
	Failed bool   `json:"failed,omitempty"` // there will be no text
}

// LegToolCall asks for a tool of the session.
type LegToolCall struct {
	Type      Type   `json:"type"`
	Epoch     uint64 `json:"epoch"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	ItemID    string `json:"item_id,omitempty"`
}

// LegTurnDone closes a turn.
type LegTurnDone struct {
	Type   Type   `json:"type"`
	Epoch  uint64 `json:"epoch"`
	ItemID string `json:"item_id"`
	Status string `json:"status"` // completed, cancelled, failed
}
