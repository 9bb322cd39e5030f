package switcher

import "fmt"

// Code says what class of failure an Error is. The texts are the codes of PROTOCOL.md.
type Code string

// The codes of this package.
const (
	InvalidArgument   Code = "invalid_argument"
	NotFound          Code = "not_found"          // no such pipeline, no such call
	Conflict          Code = "conflict"           // the call is answered already; the op_id was used for something else
	SwitchInProgress  Code = "switch_in_progress" // another target is being prepared
	SwitchAborted     Code = "switch_aborted"     // the detail says in which step
	LegFailed         Code = "leg_failed"
	PrepareTimeout    Code = "prepare_timeout"
	EngineUnavailable Code = "engine_unavailable" // the conversation's store does not answer
	Draining          Code = "draining"           // the session ends
)

// Error is why something was refused or did not come about; the leg that had the floor has it still.
type Error struct {
	Code   Code
	Field  string // the field of the input that is to blame, "" when none is
	Detail string // for people
	Cause  error
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Detail
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// fail makes an Error.
func fail(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// StopReason is why a leg is stopped: context.Cause of the context that its Run was given.
type StopReason string

// The reasons.
const (
	StopSuperseded StopReason = "superseded" // another leg has the floor
	StopAborted    StopReason = "aborted"    // it did not get the floor
	StopEnded      StopReason = "ended"      // the session ends
)

func (r StopReason) Error() string { return "the leg is stopped: " + string(r) }
