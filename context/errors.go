package chatctx

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

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

// Error is a refused operation: what was wrong and what is allowed. Its texts are bounded whatever the input was.
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

// maxEcho is how many bytes of the caller's input an error or a warning repeats.
const maxEcho = 80

// fail makes an Error; what args repeat of the input is clipped.
func fail(kind ErrorKind, field, format string, args ...any) *Error {
	for i, a := range args {
		if v := reflect.ValueOf(a); v.Kind() == reflect.String {
			args[i] = clip(v.String())
		}
	}
	return &Error{Kind: kind, Field: clip(field), Detail: fmt.Sprintf(format, args...)}
}

// clip bounds what is repeated of the input and makes it valid UTF-8.
func clip(s string) string {
	if len(s) > maxEcho {
		s = s[:maxEcho] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// badField turns a decoding error into an Error that names the field: path is where the decoded value sits in the input ("" at
// the top), fallback is named when the decoder does not say which of its fields it was.
func badField(err error, path, fallback string) error {
	var e *Error
	if errors.As(err, &e) {
		named := *e
		named.Field = fallback
		if e.Field != "" {
			named.Field = join(path, e.Field)
		}
		return &named
	}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		field := fallback
		if t.Field != "" {
			field = join(path, t.Field)
		}
		return fail(InvalidArgument, field, "%s must be %s, got a JSON %s", field, wanted(t.Type), t.Value)
	}
	return &Error{Kind: InvalidArgument, Field: clip(fallback), Detail: clip(fallback) + " does not parse", Cause: err}
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

// wanted says in JSON's words what a Go type takes.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Interface, reflect.Pointer:
		return "an object"
	case reflect.Uint64:
		return "a whole number, not negative"
	}
	return "a whole number"
}
