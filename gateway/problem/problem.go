// Package problem holds the closed list of error codes that HTTP and the agent socket share, and writes them as RFC 9457 problem JSON; it decides nothing about when they occur.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Code names one kind of failure on every wire (PROTOCOL.md, "Codes"). The list is closed: append only.
type Code string

// The codes, each with its HTTP status in Status.
const (
	InvalidJSON          Code = "invalid_json"
	InvalidArgument      Code = "invalid_argument"
	InvalidImage         Code = "invalid_image"
	UnknownType          Code = "unknown_type"
	Unauthenticated      Code = "unauthenticated"
	Forbidden            Code = "forbidden"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	Conflict             Code = "conflict"
	DuplicateID          Code = "duplicate_id"
	AlreadyPublishing    Code = "already_publishing"
	SwitchInProgress     Code = "switch_in_progress"
	SwitchAborted        Code = "switch_aborted"
	PreconditionFailed   Code = "precondition_failed"
	TooLarge             Code = "too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	NotNegotiable        Code = "not_negotiable"
	PreconditionRequired Code = "precondition_required"
	RateLimited          Code = "rate_limited"
	Internal             Code = "internal"
	LogDamaged           Code = "log_damaged"
	LegFailed            Code = "leg_failed"
	Draining             Code = "draining"
	EngineUnavailable    Code = "engine_unavailable"
	Overloaded           Code = "overloaded"
	ImageTimeout         Code = "image_timeout"
	PrepareTimeout       Code = "prepare_timeout"
)

var statuses = map[Code]int{
	InvalidJSON: 400, InvalidArgument: 400, InvalidImage: 400, UnknownType: 400,
	Unauthenticated: 401, Forbidden: 403, NotFound: 404, MethodNotAllowed: 405,
	Conflict: 409, DuplicateID: 409, AlreadyPublishing: 409, SwitchInProgress: 409, SwitchAborted: 409,
	PreconditionFailed: 412, TooLarge: 413, UnsupportedMediaType: 415, NotNegotiable: 422,
	PreconditionRequired: 428, RateLimited: 429,
	Internal: 500, LogDamaged: 500, LegFailed: 502,
	Draining: 503, EngineUnavailable: 503, Overloaded: 503,
	ImageTimeout: 504, PrepareTimeout: 504,
}

// Status is the HTTP status of the code; an unknown code is 500.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Codes lists every code, for schemas and documentation tests.
func Codes() []Code {
	codes := make([]Code, 0, len(statuses))
	for c := range statuses {
		codes = append(codes, c)
	}
	return codes
}

// Error is a failure with its wire code. Detail is safe to show to the caller: what was wrong and what is allowed.
type Error struct {
	Code       Code
	Detail     string
	Field      string        // the field of the caller's input, where one is to blame
	RetryAfter time.Duration // > 0: sent as Retry-After, whole seconds, rounded up
	Cause      error         // for the log only, never on the wire
}

// New makes an Error; Detail is formatted as by fmt.Sprintf.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// WithField names the field of the caller's input that is to blame.
func (e *Error) WithField(field string) *Error { e.Field = field; return e }

// WithCause keeps the underlying error for the log.
func (e *Error) WithCause(err error) *Error { e.Cause = err; return e }

// WithRetryAfter says when trying again may help.
func (e *Error) WithRetryAfter(d time.Duration) *Error { e.RetryAfter = d; return e }

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Detail
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// From finds the Error in err's chain; any other error becomes Internal with a detail that gives nothing away.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Detail: "the gateway failed to do this; its log says why", Cause: err}
}

// RequestID is the header that names a request. Where the answer has it already, it stands in the problem JSON too.
const RequestID = "X-Request-Id"

// body is RFC 9457 §3.1 with the members of PROTOCOL.md.
type body struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   Code   `json:"code"`
	Field  string `json:"field,omitempty"`
	ID     string `json:"request_id,omitempty"`
}

// Write answers with err as application/problem+json (RFC 9457) and the status of its code. A w with a method Failed(*Error), or
// one that it wraps (Unwrap), is told.
func Write(w http.ResponseWriter, err error) {
	e := From(err)
	tell(w, e)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	status := e.Code.Status()
	if status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: e.Detail, Code: e.Code, Field: e.Field, ID: h.Get(RequestID),
	})
}

func tell(w http.ResponseWriter, e *Error) {
	for {
		switch next := w.(type) {
		case interface{ Failed(*Error) }:
			next.Failed(e)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = next.Unwrap()
		default:
			return
		}
	}
}
