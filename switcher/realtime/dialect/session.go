package dialect

import (
	"bytes"
	"encoding/json"
)

// Session is the configuration of a session: in session.update what changes, in session.created and session.updated all of it.
// A nil pointer, an empty string of a server's field and an unset Opt are absent.
type Session struct {
	Type      string `json:"type"`                 // realtime or transcription
	ID        string `json:"id,omitempty"`         // server
	Object    string `json:"object,omitempty"`     // server: realtime.session
	ExpiresAt int64  `json:"expires_at,omitempty"` // server: seconds since 1970
	Model     string `json:"model,omitempty"`

	Instructions     *string              `json:"instructions,omitempty"`      // "" clears them
	OutputModalities []string             `json:"output_modalities,omitempty"` // ["audio"] or ["text"]
	Tools            []Tool               `json:"tools,omitzero"`              // empty, not nil, clears them
	ToolChoice       json.RawMessage      `json:"tool_choice,omitempty"`
	MaxOutputTokens  json.RawMessage      `json:"max_output_tokens,omitempty"` // a number, or "inf"
	ParallelTools    *bool                `json:"parallel_tool_calls,omitempty"`
	Reasoning        json.RawMessage      `json:"reasoning,omitempty"`
	Truncation       json.RawMessage      `json:"truncation,omitempty"`
	Tracing          Opt[json.RawMessage] `json:"tracing,omitzero"`
	Prompt           Opt[json.RawMessage] `json:"prompt,omitzero"`
	Include          []string             `json:"include,omitzero"`
	Audio            *Audio               `json:"audio,omitempty"`
}

// Audio is the sound of a session both ways.
type Audio struct {
	Input  *AudioInput  `json:"input,omitempty"`
	Output *AudioOutput `json:"output,omitempty"`
}

// AudioInput says what sound comes in and what is done with it. Null turns a thing off.
type AudioInput struct {
	Format         *Format             `json:"format,omitempty"`
	NoiseReduction Opt[NoiseReduction] `json:"noise_reduction,omitzero"`
	Transcription  Opt[Transcription]  `json:"transcription,omitzero"`
	TurnDetection  Opt[TurnDetection]  `json:"turn_detection,omitzero"`
}

// AudioOutput says what sound goes out.
type AudioOutput struct {
	Format *Format         `json:"format,omitempty"`
	Voice  json.RawMessage `json:"voice,omitempty"` // a name, or an object with an id
	Speed  float64         `json:"speed,omitempty"`
}

// Format is audio/pcm (PCM16 little endian, mono), audio/pcmu or audio/pcma.
type Format struct {
	Type string `json:"type"`
	Rate int    `json:"rate,omitempty"` // Hz, of audio/pcm: 24000
}

// NoiseReduction of the input.
type NoiseReduction struct {
	Type string `json:"type"` // near_field or far_field
}

// Transcription of the input.
type Transcription struct {
	Model    string `json:"model,omitempty"`
	Language string `json:"language,omitempty"` // ISO 639-1
	Prompt   string `json:"prompt,omitempty"`   // at most 1,024 characters
}

// TurnDetection by the server; null: the client commits.
type TurnDetection struct {
	Type              string   `json:"type"` // server_vad or semantic_vad
	Threshold         *float64 `json:"threshold,omitempty"`
	PrefixPaddingMs   *Millis  `json:"prefix_padding_ms,omitempty"`
	SilenceDurationMs *Millis  `json:"silence_duration_ms,omitempty"`
	IdleTimeoutMs     *Millis  `json:"idle_timeout_ms,omitempty"`
	Eagerness         string   `json:"eagerness,omitempty"`          // semantic_vad: low, medium, high or auto
	CreateResponse    *bool    `json:"create_response,omitempty"`    // absent: true
	InterruptResponse *bool    `json:"interrupt_response,omitempty"` // absent: true
}

// Tool is a function that the model may call.
type Tool struct {
	Type        string          `json:"type"` // function
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema
}

// Opt is a field that may be absent, null or have a value. Its tag needs omitzero.
type Opt[T any] struct {
	Set   bool // not absent
	Null  bool
	Value T
}

// Some is a field with a value.
func Some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// Null is a field that says null.
func Null[T any]() Opt[T] { return Opt[T]{Set: true, Null: true} }

// IsZero says that the field is absent.
func (o Opt[T]) IsZero() bool { return !o.Set }

// Get gives the value, and whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.Value, o.Set && !o.Null }

// MarshalJSON writes the value or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.Set || o.Null {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}

// UnmarshalJSON reads a value or null.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	o.Set, o.Null = true, bytes.Equal(bytes.TrimSpace(data), []byte("null"))
	if o.Null {
		return nil
	}
	return json.Unmarshal(data, &o.Value)
}

// Merge puts what u holds into s, as a server does with a session.update. Type, ID, Object, ExpiresAt and Model stay.
func (s *Session) Merge(u Session) {
	set(&s.Instructions, u.Instructions, u.Instructions != nil)
	set(&s.OutputModalities, u.OutputModalities, len(u.OutputModalities) > 0)
	set(&s.Tools, u.Tools, u.Tools != nil)
	set(&s.ToolChoice, u.ToolChoice, u.ToolChoice != nil)
	set(&s.MaxOutputTokens, u.MaxOutputTokens, u.MaxOutputTokens != nil)
	set(&s.ParallelTools, u.ParallelTools, u.ParallelTools != nil)
	set(&s.Reasoning, u.Reasoning, u.Reasoning != nil)
	set(&s.Truncation, u.Truncation, u.Truncation != nil)
	set(&s.Tracing, u.Tracing, u.Tracing.Set)
	set(&s.Prompt, u.Prompt, u.Prompt.Set)
	set(&s.Include, u.Include, u.Include != nil)
	if u.Audio == nil {
		return
	}
	var a Audio
	if s.Audio != nil {
		a = *s.Audio
	}
	if in := u.Audio.Input; in != nil {
		var c AudioInput
		if a.Input != nil {
			c = *a.Input
		}
		set(&c.Format, in.Format, in.Format != nil)
		set(&c.NoiseReduction, in.NoiseReduction, in.NoiseReduction.Set)
		set(&c.Transcription, in.Transcription, in.Transcription.Set)
		set(&c.TurnDetection, in.TurnDetection, in.TurnDetection.Set)
		a.Input = &c
	}
	if out := u.Audio.Output; out != nil {
		var c AudioOutput
		if a.Output != nil {
			c = *a.Output
		}
		set(&c.Format, out.Format, out.Format != nil)
		set(&c.Voice, out.Voice, out.Voice != nil)
		set(&c.Speed, out.Speed, out.Speed != 0)
		a.Output = &c
	}
	s.Audio = &a
}

func set[T any](to *T, v T, given bool) {
	if given {
		*to = v
	}
}
