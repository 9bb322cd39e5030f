package realtime

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// benign are errors that say what is so anyway.
var benign = map[string]bool{
	"response_cancel_not_active":         true,
	codeActive:                           true,
	"input_audio_buffer_commit_empty":    true,
	"item_truncate_invalid_item_id":      true,
	"item_truncate_invalid_audio_end_ms": true,
	"item_delete_invalid_item_id":        true,
	"item_retrieve_invalid_item_id":      true,
	"invalid_item_id":                    true,
	"conversation_item_not_found":        true,
}

const codeActive = "conversation_already_has_active_response"

// fatal are errors after which the session is of no use.
var fatal = map[string]switcher.LegError{
	"session_expired":      {Code: "expired", Retryable: true},
	"invalid_api_key":      {Code: "auth"},
	"authentication_error": {Code: "auth"},
	"insufficient_quota":   {Code: "quota"},
	"model_not_found":      {Code: "invalid"},
}

// death is the end that an error of the provider means, nil when the session lives on.
func (c *Config) death(e dialect.ErrorDetail) error {
	for _, key := range []string{e.Code, e.Type} {
		if f, ok := fatal[key]; ok {
			f.Message = c.Profile.Provider + ": " + key
			if f.Code != "auth" { // such texts quote the key, in part
				f.Message += ": " + c.withoutKey(clip(e.Message))
			}
			return &f
		}
	}
	return nil
}

// closed is the end that a broken socket means. seeding: the provider had not taken the seed yet.
func (c *Config) closed(err error, seeding bool) error {
	var end *websocket.CloseError
	if !errors.As(err, &end) {
		return &switcher.LegError{Code: "connect", Message: "the connection to " + c.Profile.Provider + " broke", Retryable: true, Err: c.redacted(err)}
	}
	text := c.withoutKey(clip(end.Text))
	e := &switcher.LegError{Message: fmt.Sprintf("%s closed with %d %s", c.Profile.Provider, end.Code, text)}
	lower := strings.ToLower(text)
	switch end.Code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		e.Code, e.Retryable = "connect", true
		if strings.Contains(lower, "expire") || strings.Contains(lower, "maximum duration") || strings.Contains(lower, "session limit") {
			e.Code = "expired"
		}
	case websocket.ClosePolicyViolation:
		e.Code = "refused"
		if strings.Contains(lower, "auth") || strings.Contains(lower, "key") {
			e.Code = "auth"
		}
	case websocket.CloseInternalServerErr, websocket.CloseServiceRestart, websocket.CloseTryAgainLater:
		e.Code, e.Retryable = "overloaded", true
	default: // 1002, 1003, 1007, 1009, 1010, 4000 and above: something that was sent
		e.Code, e.Retryable = "protocol", true
	}
	if seeding && end.Code == websocket.CloseInvalidFramePayloadData {
		e.Code = CodeSeed
	}
	return e
}

// CodeSeed is the LegError code of a seed that the provider does not take: try again with mode instructions.
const CodeSeed = "seed"

// clip bounds somebody else's text.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
