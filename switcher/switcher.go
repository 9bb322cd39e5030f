package switcher

import (
	"context"
	"time"
)

// At is the boundary at which a switch is committed.
type At string

// The boundaries.
const (
	AtTurnEnd     At = "turn_end"     // nobody speaks, no turn is being made or played, nothing waits for its transcript
	AtNow         At = "now"          // what is being played is cut off
	AtAfterSpeech At = "after_speech" // nobody speaks; a turn that thinks, or waits for a tool, is cut off
)

// SwitchRequest asks for a switch of pipelines.
type SwitchRequest struct {
	OpID           string // unique in the session, 1–128 bytes; repeating it gives the first answer
	Target         string // a pipeline's name, or a Kind
	At             At     // default AtTurnEnd
	MaxWait        time.Duration
	PrepareTimeout time.Duration
	Instructions   string // new ones of the agent; "": as they are
	Reason         string // for the log; default "switch"
	Author         string // of the log entry; default "system"
	// Handoff goes with the switch: it is recorded just before the commit. ID may be empty.
	Handoff *Handoff
}

// Handoff passes the conversation from one agent to another together with a switch.
type Handoff struct {
	FromAgent, ToAgent, Reason, Summary string
}

// Result is how a switch came out.
type Result struct {
	Mode         Kind     `json:"mode"` // kind of the leg that has the floor
	From         string   `json:"from"`
	To           string   `json:"to"`
	Epoch        uint64   `json:"epoch"`
	SeededItems  int      `json:"seeded_items"`  // of the conversation, that the leg was given
	DroppedItems int      `json:"dropped_items"` // that it was not given: no room, nothing in it, no pair
	SwitchMS     int64    `json:"switch_ms"`     // from request to commit
	PrepareMS    int64    `json:"prepare_ms"`    // of it: until the leg was ready
	CommitMS     int64    `json:"commit_ms"`     // of it: from the boundary on
	Noop         bool     `json:"noop"`          // nothing had to be done
	Joined       []string `json:"joined,omitempty"`
}

// Switching is a switch that is under way.
type Switching struct {
	Seq  uint64 // of its started entry; of the log's head when it is a no-op or was done before
	done chan struct{}
	res  Result
	err  error
}

// Wait gives the outcome: an error is an *Error, and then the session is as it was. When ctx ends it gives ctx's error and the
// switch goes on.
func (w *Switching) Wait(ctx context.Context) (Result, error) {
	select {
	case <-w.done:
		return w.res, w.err
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}
