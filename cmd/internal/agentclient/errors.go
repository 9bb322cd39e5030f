package agentclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// ErrDetached ends an image request whose connection broke before the answer.
var ErrDetached = errors.New("the connection to the gateway broke before the answer")

// ErrReplaced ends Run when another socket attached with the same agent id.
var ErrReplaced = errors.New("another program attached with the same agent id")

// ErrNotAttached refuses an image request while there is no connection.
var ErrNotAttached = errors.New("not attached to the gateway at this moment")

// HTTPError is a refusal before the upgrade to a WebSocket.
type HTTPError struct {
	Status     int
	Code       problem.Code // empty when the answer was no problem JSON
	Detail     string
	RetryAfter time.Duration // 0 when not said
}

func (e *HTTPError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("the gateway answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the gateway answered %d: %s", e.Status, e.Detail)
}

// Refused is the gateway's error answer to an operation or request.
type Refused struct{ Answer wire.Error }

func (e *Refused) Error() string { return string(e.Answer.Code) + ": " + e.Answer.Message }

func refusedUpgrade(answer *http.Response) error {
	e := &HTTPError{Status: answer.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // whatever came through is good enough for a message
	var said struct {
		Code   problem.Code `json:"code"`
		Detail string       `json:"detail"`
	}
	if json.Unmarshal(body, &said) == nil {
		e.Code, e.Detail = said.Code, said.Detail
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(seconds)*time.Second, time.Minute)
	}
	return e
}

// final tells whether trying again cannot help. waits: a session that is not there may come to be.
func final(err error, waits bool) bool {
	var refused *HTTPError
	if errors.As(err, &refused) {
		switch refused.Status {
		case http.StatusNotFound:
			return !waits
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
			return false
		}
		return refused.Status >= 400 && refused.Status < 500
	}
	return errors.Is(err, ErrReplaced) || websocket.IsCloseError(err, wire.CloseAuth, wire.CloseProtocolError, wire.CloseTooBig, wire.CloseInvalidUTF8)
}
