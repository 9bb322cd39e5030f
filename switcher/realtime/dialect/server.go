package dialect

import "encoding/json"

// The server's events. EventID is the server's own and required by the official types.
type (
	// SessionCreated comes first, unasked, with the whole session.
	SessionCreated struct {
		EventID string  `json:"event_id"`
		Session Session `json:"session"`
	}
	// SessionUpdated answers a SessionUpdate with the whole session.
	SessionUpdated struct {
		EventID string  `json:"event_id"`
		Session Session `json:"session"`
	}
	// ConversationCreated comes from servers of the beta's time, xAI among them.
	ConversationCreated struct {
		EventID      string       `json:"event_id"`
		Conversation Conversation `json:"conversation"`
	}
	// Error rarely ends the session.
	Error struct {
		EventID string      `json:"event_id"`
		Error   ErrorDetail `json:"error"`
	}
	// RateLimits says what is left.
	RateLimits struct {
		EventID    string      `json:"event_id"`
		RateLimits []RateLimit `json:"rate_limits"`
	}
	// InputAudioCommitted: the input buffer became an item, behind PreviousItemID.
	InputAudioCommitted struct {
		EventID        string  `json:"event_id"`
		ItemID         string  `json:"item_id"`
		PreviousItemID *string `json:"previous_item_id"`
	}
	// InputAudioCleared answers InputAudioClear.
	InputAudioCleared struct {
		EventID string `json:"event_id"`
	}
	// SpeechStarted: server VAD heard the caller begin. AudioStartMs counts the sound written to the buffer in this session.
	SpeechStarted struct {
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"` // the item that will be
		AudioStartMs Millis `json:"audio_start_ms"`
	}
	// SpeechStopped: server VAD heard the caller end.
	SpeechStopped struct {
		EventID    string `json:"event_id"`
		ItemID     string `json:"item_id"`
		AudioEndMs Millis `json:"audio_end_ms"`
	}
	// TimeoutTriggered: nobody spoke for idle_timeout_ms.
	TimeoutTriggered struct {
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"`
		AudioStartMs Millis `json:"audio_start_ms"`
		AudioEndMs   Millis `json:"audio_end_ms"`
	}
	// ItemAdded: an item is in the conversation; a model's is empty and in_progress at first.
	ItemAdded struct {
		EventID        string  `json:"event_id"`
		PreviousItemID *string `json:"previous_item_id,omitempty"`
		Item           Item    `json:"item"`
	}
	// ItemDone: an item is complete.
	ItemDone struct {
		EventID        string  `json:"event_id"`
		PreviousItemID *string `json:"previous_item_id,omitempty"`
		Item           Item    `json:"item"`
	}
	// ItemCreated is the beta's ItemAdded; some servers send both.
	ItemCreated struct {
		EventID        string  `json:"event_id"`
		PreviousItemID *string `json:"previous_item_id,omitempty"`
		Item           Item    `json:"item"`
	}
	// ItemRetrieved answers an ItemRetrieve.
	ItemRetrieved struct {
		EventID string `json:"event_id"`
		Item    Item   `json:"item"`
	}
	// ItemTruncated answers an ItemTruncate.
	ItemTruncated struct {
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"`
		ContentIndex int    `json:"content_index"`
		AudioEndMs   Millis `json:"audio_end_ms"`
	}
	// ItemDeleted answers an ItemDelete.
	ItemDeleted struct {
		EventID string `json:"event_id"`
		ItemID  string `json:"item_id"`
	}
	// TranscriptionDelta goes on with what the caller said.
	TranscriptionDelta struct {
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"`
		ContentIndex int    `json:"content_index"`
		Delta        string `json:"delta"`
	}
	// TranscriptionCompleted is all the caller said; it may come before or after the whole answer.
	TranscriptionCompleted struct {
		EventID      string `json:"event_id"`
		ItemID       string `json:"item_id"`
		ContentIndex int    `json:"content_index"`
		Transcript   string `json:"transcript"`
		Usage        Usage  `json:"usage"`
	}
	// TranscriptionFailed: there will be no transcript.
	TranscriptionFailed struct {
		EventID      string      `json:"event_id"`
		ItemID       string      `json:"item_id"`
		ContentIndex int         `json:"content_index"`
		Error        ErrorDetail `json:"error"`
	}
	// ResponseCreated: an answer has begun.
	ResponseCreated struct {
		EventID  string   `json:"event_id"`
		Response Response `json:"response"`
	}
	// ResponseDone: an answer is over, whatever its status. Always sent.
	ResponseDone struct {
		EventID  string   `json:"event_id"`
		Response Response `json:"response"`
	}
	// OutputItemAdded: the answer has a new item.
	OutputItemAdded struct {
		EventID     string `json:"event_id"`
		ResponseID  string `json:"response_id"`
		OutputIndex int    `json:"output_index"`
		Item        Item   `json:"item"`
	}
	// OutputItemDone: an item of the answer is over; also when it was interrupted.
	OutputItemDone struct {
		EventID     string `json:"event_id"`
		ResponseID  string `json:"response_id"`
		OutputIndex int    `json:"output_index"`
		Item        Item   `json:"item"`
	}
	// ContentPartAdded: an item of the answer has a new part.
	ContentPartAdded struct {
		EventID string `json:"event_id"`
		Place
		Part Part `json:"part"` // type text or audio
	}
	// ContentPartDone: a part is over.
	ContentPartDone struct {
		EventID string `json:"event_id"`
		Place
		Part Part `json:"part"` // type text or audio
	}
	// OutputTextDelta goes on with a text.
	OutputTextDelta struct {
		EventID string `json:"event_id"`
		Place
		Delta string `json:"delta"`
	}
	// OutputTextDone has the whole text.
	OutputTextDone struct {
		EventID string `json:"event_id"`
		Place
		Text string `json:"text"`
	}
	// OutputAudioDelta goes on with the sound: base64.
	OutputAudioDelta struct {
		EventID string `json:"event_id"`
		Place
		Delta string `json:"delta"`
	}
	// OutputAudioDone: no more sound of this part.
	OutputAudioDone struct {
		EventID string `json:"event_id"`
		Place
	}
	// OutputTranscriptDelta goes on with what the sound says.
	OutputTranscriptDelta struct {
		EventID string `json:"event_id"`
		Place
		Delta string `json:"delta"`
	}
	// OutputTranscriptDone has all that the sound says.
	OutputTranscriptDone struct {
		EventID string `json:"event_id"`
		Place
		Transcript string `json:"transcript"`
	}
	// ArgumentsDelta goes on with the arguments of a call.
	ArgumentsDelta struct {
		EventID     string `json:"event_id"`
		ResponseID  string `json:"response_id"`
		ItemID      string `json:"item_id"`
		OutputIndex int    `json:"output_index"`
		CallID      string `json:"call_id"`
		Delta       string `json:"delta"`
	}
	// ArgumentsDone has the whole call; it is also sent for a cancelled one.
	ArgumentsDone struct {
		EventID     string `json:"event_id"`
		ResponseID  string `json:"response_id"`
		ItemID      string `json:"item_id"`
		OutputIndex int    `json:"output_index"`
		CallID      string `json:"call_id"`
		Name        string `json:"name"`
		Arguments   string `json:"arguments"`
	}
	// OutputBufferStarted: playback began; WebRTC and sidebands only.
	OutputBufferStarted struct {
		EventID    string `json:"event_id"`
		ResponseID string `json:"response_id"`
	}
	// OutputBufferStopped: all was played.
	OutputBufferStopped struct {
		EventID    string `json:"event_id"`
		ResponseID string `json:"response_id"`
	}
	// OutputBufferCleared: playback was cut off.
	OutputBufferCleared struct {
		EventID    string `json:"event_id"`
		ResponseID string `json:"response_id"`
	}
)

// Place says which part of which item of which answer an event is about.
type Place struct {
	ResponseID   string `json:"response_id"`
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
}

// Conversation of a ConversationCreated.
type Conversation struct {
	ID     string `json:"id,omitempty"`
	Object string `json:"object,omitempty"` // realtime.conversation
}

// ErrorDetail says what went wrong.
type ErrorDetail struct {
	Type    string `json:"type"` // invalid_request_error, server_error, …
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	EventID string `json:"event_id,omitempty"` // of the client's event at fault
}

// RateLimit is one limit of RateLimits.
type RateLimit struct {
	Name         string  `json:"name,omitempty"` // requests or tokens
	Limit        int64   `json:"limit"`
	Remaining    int64   `json:"remaining"`
	ResetSeconds float64 `json:"reset_seconds"`
}

// Response statuses besides those of items.
const (
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"
)

// Response is an answer of the model.
type Response struct {
	ID               string            `json:"id,omitempty"`
	Object           string            `json:"object,omitempty"` // realtime.response
	Status           string            `json:"status,omitempty"` // in_progress, completed, cancelled, failed, incomplete
	StatusDetails    *StatusDetails    `json:"status_details,omitempty"`
	Output           []Item            `json:"output,omitzero"`
	ConversationID   string            `json:"conversation_id,omitempty"`
	OutputModalities []string          `json:"output_modalities,omitempty"`
	MaxOutputTokens  json.RawMessage   `json:"max_output_tokens,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"` // as the response.create had it
	Usage            *Usage            `json:"usage,omitempty"`
}

// StatusDetails says why an answer ended.
type StatusDetails struct {
	Type   string       `json:"type,omitempty"`   // as the status
	Reason string       `json:"reason,omitempty"` // turn_detected, client_cancelled, max_output_tokens, content_filter
	Error  *StatusError `json:"error,omitempty"`
}

// StatusError of a failed answer.
type StatusError struct {
	Type    string `json:"type,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Usage counts tokens, or seconds where that is what is paid for (Type duration).
type Usage struct {
	Type         string   `json:"type,omitempty"` // of a transcription: tokens or duration
	Seconds      *float64 `json:"seconds,omitempty"`
	TotalTokens  *int     `json:"total_tokens,omitempty"`
	InputTokens  *int     `json:"input_tokens,omitempty"`
	OutputTokens *int     `json:"output_tokens,omitempty"`
}
