package realtime

import (
	"errors"

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
				f.Message += ": " + c.shown(e.Message)
			}
			return &f
		}
	}
	return nil
}

// closed is the end that a broken socket means. seeding: the provider had not taken the seed yet.
func (c *Config) closed(err error, seeding bool) error {
	e := c.dialer().Closed(err)
	var end *websocket.CloseError
	if errors.As(err, &end) && end.Code == websocket.CloseInvalidFramePayloadData && seeding {
		e.Code, e.Retryable = CodeSeed, true
	}
	return e
}

// CodeSeed is the LegError code of a seed that the provider does not take: try again with mode instructions.
const CodeSeed = "seed"
