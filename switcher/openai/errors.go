package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sightline/switcher/cascade"
)

func invalid(format string, args ...any) *cascade.EngineError {
	return &cascade.EngineError{Code: "invalid", Message: fmt.Sprintf(format, args...)}
}

// unreachable is for what happened on the way; a context that ended is no failure of the server.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &cascade.EngineError{Code: "unreachable", Message: "the connection failed", Retryable: true, Err: err}
}

// redacted is an error without the key; net/http's hold the URL, which has none.
func (c *Client) redacted(err error) error {
	if c.cfg.Key == "" || !strings.Contains(err.Error(), c.cfg.Key) {
		return err
	}
	return errors.New(c.redact(err.Error()))
}

func (c *Client) redact(text string) string {
	if c.cfg.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, c.cfg.Key, "[key]")
}

// providerError is the body of a failure, in the forms that are met: {"error":{"message","code","type"}}, {"error":"…"},
// {"message":"…"}, {"detail":"…" or a list}, plain text.
type providerError struct {
	Error   json.RawMessage `json:"error"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

type errorBody struct {
	Message string          `json:"message"`
	Code    json.RawMessage `json:"code"` // a string, or a number
	Type    string          `json:"type"`
}

func readError(body []byte) (message, code string) {
	var p providerError
	if json.Unmarshal(body, &p) != nil {
		return strings.Join(strings.Fields(string(body)), " "), ""
	}
	var e errorBody
	switch {
	case json.Unmarshal(p.Error, &e) == nil && (e.Message != "" || e.Type != ""):
		return first(e.Message, e.Type), strings.Trim(string(e.Code), `"`) + " " + e.Type
	case json.Unmarshal(p.Error, &message) == nil && message != "":
		return message, ""
	case p.Message != "":
		return p.Message, ""
	case len(p.Detail) > 0:
		return string(bytes.Trim(p.Detail, `"`)), ""
	}
	return strings.Join(strings.Fields(string(body)), " "), ""
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// statusError says what an HTTP status means for a call that waits.
func (c *Client) statusError(res *http.Response, body []byte) *cascade.EngineError {
	message, code := readError(body)
	e := c.failure(res.StatusCode, message, code)
	e.After = retryAfter(res.Header, time.Now())
	return e
}

func (c *Client) failure(status int, message, code string) *cascade.EngineError {
	message = cut(c.redact(strings.ToValidUTF8(message, "")), maxMessage)
	e := &cascade.EngineError{Message: fmt.Sprintf("%d: %s", status, first(message, http.StatusText(status)))}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Code = "auth"
	case status == http.StatusTooManyRequests:
		e.Code = "rate_limited"
		e.Retryable = !strings.Contains(code, "insufficient_quota")
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		e.Code, e.Retryable = "overloaded", true
	case status >= 500 && status != http.StatusNotImplemented:
		e.Code, e.Retryable = "overloaded", true
	default: // 3xx too: a server that has moved is configured wrongly
		e.Code = "invalid"
	}
	return e
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// retryAfter reads the header in seconds or as a date (RFC 9110, 10.2.3), and the milliseconds that some send.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
