package dialect

import "encoding/json"

// The client's events. EventID is optional; an error that the event causes names it.
type (
	// SessionUpdate merges what it holds into the session; the answer is SessionUpdated.
	SessionUpdate struct {
		EventID string  `json:"event_id,omitempty"`
		Session Session `json:"session"`
	}
	// InputAudioAppend adds sound to the input buffer: base64 of the session's input format, at most 15 MiB.
	InputAudioAppend struct {
		EventID string `json:"event_id,omitempty"`
		Audio   string `json:"audio"`
	}
	// InputAudioCommit makes the input buffer a user message.
	InputAudioCommit struct {
		EventID string `json:"event_id,omitempty"`
	}
	// InputAudioClear empties the input buffer.
	InputAudioClear struct {
		EventID string `json:"event_id,omitempty"`
	}
	// OutputAudioClear stops playback; WebRTC and sidebands only.
	OutputAudioClear struct {
		EventID string `json:"event_id,omitempty"`
	}
	// ItemCreate adds an item; PreviousItemID "" = at the end, "root" = in front.
	ItemCreate struct {
		EventID        string `json:"event_id,omitempty"`
		PreviousItemID string `json:"previous_item_id,omitempty"`
		Item           Item   `json:"item"`
	}
	// ItemRetrieve asks for an item.
	ItemRetrieve struct {
		EventID string `json:"event_id,omitempty"`
		ItemID  string `json:"item_id"`
	}
	// ItemTruncate cuts the sound of an assistant's message, which must be at least that long.
	ItemTruncate struct {
		EventID      string `json:"event_id,omitempty"`
		ItemID       string `json:"item_id"`
		ContentIndex int    `json:"content_index"`
		AudioEndMs   Millis `json:"audio_end_ms"`
	}
	// ItemDelete removes an item.
	ItemDelete struct {
		EventID string `json:"event_id,omitempty"`
		ItemID  string `json:"item_id"`
	}
	// ResponseCreate asks for an answer. One at a time.
	ResponseCreate struct {
		EventID  string          `json:"event_id,omitempty"`
		Response *ResponseParams `json:"response,omitempty"`
	}
	// ResponseCancel stops an answer, the active one when ResponseID is "".
	ResponseCancel struct {
		EventID    string `json:"event_id,omitempty"`
		ResponseID string `json:"response_id,omitempty"`
	}
)

// ResponseParams are overrides of the session for one response.
type ResponseParams struct {
	Conversation     string            `json:"conversation,omitempty"` // auto or none
	Instructions     string            `json:"instructions,omitempty"`
	OutputModalities []string          `json:"output_modalities,omitempty"` // ["audio"] or ["text"]
	Input            []json.RawMessage `json:"input,omitzero"`              // items and references to items: a context of its own
	Tools            json.RawMessage   `json:"tools,omitempty"`
	ToolChoice       json.RawMessage   `json:"tool_choice,omitempty"`
	Audio            json.RawMessage   `json:"audio,omitempty"`
	MaxOutputTokens  json.RawMessage   `json:"max_output_tokens,omitempty"` // a number, or "inf"
	Metadata         map[string]string `json:"metadata,omitempty"`
}

// EventType implements Event, as it does for every other type.
func (SessionUpdate) EventType() string { return "session.update" }

func (InputAudioAppend) EventType() string { return "input_audio_buffer.append" }  // EventType implements Event.
func (InputAudioCommit) EventType() string { return "input_audio_buffer.commit" }  // EventType implements Event.
func (InputAudioClear) EventType() string  { return "input_audio_buffer.clear" }   // EventType implements Event.
func (OutputAudioClear) EventType() string { return "output_audio_buffer.clear" }  // EventType implements Event.
func (ItemCreate) EventType() string       { return "conversation.item.create" }   // EventType implements Event.
func (ItemRetrieve) EventType() string     { return "conversation.item.retrieve" } // EventType implements Event.
func (ItemTruncate) EventType() string     { return "conversation.item.truncate" } // EventType implements Event.
func (ItemDelete) EventType() string       { return "conversation.item.delete" }   // EventType implements Event.
func (ResponseCreate) EventType() string   { return "response.create" }            // EventType implements Event.
func (ResponseCancel) EventType() string   { return "response.cancel" }            // EventType implements Event.

func (SessionUpdate) client()    {}
func (InputAudioAppend) client() {}
func (InputAudioCommit) client() {}
func (InputAudioClear) client()  {}
func (OutputAudioClear) client() {}
func (ItemCreate) client()       {}
func (ItemRetrieve) client()     {}
func (ItemTruncate) client()     {}
func (ItemDelete) client()       {}
func (ResponseCreate) client()   {}
func (ResponseCancel) client()   {}

// newClient gives a pointer to an empty event of a type, nil for one that is not known.
func newClient(typ string) ClientEvent {
	switch typ {
	case "session.update":
		return new(SessionUpdate)
	case "input_audio_buffer.append":
		return new(InputAudioAppend)
	case "input_audio_buffer.commit":
		return new(InputAudioCommit)
	case "input_audio_buffer.clear":
		return new(InputAudioClear)
	case "output_audio_buffer.clear":
		return new(OutputAudioClear)
	case "conversation.item.create":
		return new(ItemCreate)
	case "conversation.item.retrieve":
		return new(ItemRetrieve)
	case "conversation.item.truncate":
		return new(ItemTruncate)
	case "conversation.item.delete":
		return new(ItemDelete)
	case "response.create":
		return new(ResponseCreate)
	case "response.cancel":
		return new(ResponseCancel)
	}
	return nil
}
