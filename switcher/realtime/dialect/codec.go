// Package dialect reads and writes the events of the OpenAI Realtime API (GA) for both ends of a socket, strict in what it writes and lax in what it reads; it opens no connection and keeps no state.
//
// A client encodes ClientEvents and decodes ServerEvents, a server the other way round. What is written has GA names and every
// field that the official types require; what is read may have beta names, fields nobody knows, and fields of the wrong type,
// which count as absent. An event type that is not in here is read as Unknown, with its bytes.
package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Event is a ClientEvent or a ServerEvent: a struct whose JSON lacks nothing but its type.
type Event interface {
	// EventType is the wire's name of the event.
	EventType() string
}

// ClientEvent goes from the client to the server.
type ClientEvent interface {
	Event
	client()
}

// ServerEvent goes from the server to the client.
type ServerEvent interface {
	Event
	server()
}

// Unknown is an event that this package has no type for, of either direction.
type Unknown struct {
	Type    string          // as received
	EventID string          // "" when it has none
	Raw     json.RawMessage // all of it
}

// EventType implements Event.
func (u Unknown) EventType() string { return u.Type }
func (Unknown) client()             {}
func (Unknown) server()             {}

// ErrMalformed says that a message is no event at all: no JSON object, or one without a type.
var ErrMalformed = errors.New("an event is a JSON object with a string field type")

// FieldError says that a field of a client's event has the wrong type. The event that comes with it has everything else.
type FieldError struct {
	EventID string // of the event, for error.event_id
	Param   string // path of the field: "session.audio.input.format"
	Want    string // a Go type, roughly
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s has the wrong type, want %s", e.Param, e.Want)
}

// Encode writes an event, its type first. It fails only for an Unknown whose Raw is no JSON object.
func Encode(e Event) ([]byte, error) {
	if u, ok := e.(Unknown); ok {
		if !isObject(u.Raw) {
			return nil, ErrMalformed
		}
		return u.Raw, nil
	}
	var b bytes.Buffer
	b.WriteString(`{"type":"` + e.EventType() + `"`)
	head := b.Len()
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.EventType(), err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(out) == head+len("{}") {
		return append(out[:head], '}'), nil
	}
	out[head] = ',' // the object's brace
	return out, nil
}

func isObject(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 1 && data[0] == '{' && json.Valid(data)
}

// head is what every event has.
type head struct {
	Type    *string `json:"type"`
	EventID string  `json:"event_id"`
}

func readHead(data []byte) (typ, eventID string, err error) {
	var h head
	if err := lax(json.Unmarshal(data, &h)); err != nil || h.Type == nil || *h.Type == "" {
		return "", "", ErrMalformed
	}
	return *h.Type, h.EventID, nil
}

// unmarshal is json.Unmarshal that goes on behind a field of the wrong type, whoever reads it; the error is still returned.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return err
	}
	for name, value := range fields {
		key, _ := json.Marshal(name)
		one := append(append(append([]byte{'{'}, key...), ':'), value...)
		_ = json.Unmarshal(append(one, '}'), into)
	}
	return err
}

// lax forgets that a field had the wrong type.
func lax(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return nil
	}
	return err
}

// DecodeServer reads what a server sent. The only error is ErrMalformed.
func DecodeServer(data []byte) (ServerEvent, error) {
	typ, id, err := readHead(data)
	if err != nil {
		return nil, err
	}
	if ga, ok := betaNames[typ]; ok {
		typ = ga
	}
	e := newServer(typ)
	if e == nil {
		return Unknown{typ, id, bytes.Clone(data)}, nil
	}
	if lax(unmarshal(data, e)) != nil {
		return nil, ErrMalformed
	}
	return e, nil
}

// DecodeClient reads what a client sent. A *FieldError comes with the event as far as it could be read.
func DecodeClient(data []byte) (ClientEvent, error) {
	typ, id, err := readHead(data)
	if err != nil {
		return nil, err
	}
	e := newClient(typ)
	if e == nil {
		return Unknown{typ, id, bytes.Clone(data)}, nil
	}
	err = unmarshal(data, e)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return e, &FieldError{EventID: id, Param: strings.TrimPrefix(wrong.Field, "."), Want: wrong.Type.String()}
	case err != nil:
		return nil, ErrMalformed
	}
	return e, nil
}

// betaNames are the names that the beta had, and servers of that time still send.
var betaNames = map[string]string{
	"response.audio.delta":            "response.output_audio.delta",
	"response.audio.done":             "response.output_audio.done",
	"response.audio_transcript.delta": "response.output_audio_transcript.delta",
	"response.audio_transcript.done":  "response.output_audio_transcript.done",
	"response.text.delta":             "response.output_text.delta",
	"response.text.done":              "response.output_text.done",
}
