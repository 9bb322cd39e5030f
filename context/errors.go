package chatctx

import "fmt"

// ErrorKind says what class of mistake an Error is. The texts are the codes of PROTOCOL.md.
type ErrorKind string

// The kinds of failure of this package.
const (
	InvalidArgument   ErrorKind = "invalid_argument"
	InvalidImage      ErrorKind = "invalid_image"
	NotFound          ErrorKind = "not_found"
	Conflict          ErrorKind = "conflict"
	DuplicateID       ErrorKind = "duplicate_id"
	TooLarge          ErrorKind = "too_large"
	LogDamaged        ErrorKind = "log_damaged"
	EngineUnavailable ErrorKind = "engine_unavailable"
)

// Error is a refused operation: what was wrong and what is allowed.
type Error struct {
	Kind   ErrorKind
	Field  string // the field of the input that is to blame, "" when none is
	Detail string
	Cause  error
}

func (e *Error) Error() string {
	s := string(e.Kind) + ": " + e.Detail
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

func fail(kind ErrorKind, field, format string, args ...any) *Error {
	return &Error{Kind: kind, Field: field, Detail: fmt.Sprintf(format, args...)}
}
