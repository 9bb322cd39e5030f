package dialect

import "encoding/json"

// Item types.
const (
	ItemMessage    = "message"
	ItemCall       = "function_call"
	ItemCallOutput = "function_call_output"
)

// Item statuses.
const (
	StatusCompleted  = "completed"
	StatusIncomplete = "incomplete"
	StatusInProgress = "in_progress"
)

// Item of a conversation: a message, a function_call or a function_call_output. An item of another type (MCP) has Raw.
type Item struct {
	ID     string `json:"id"`
	Object string `json:"object"` // server: realtime.item
	Type   string `json:"type"`
	Status string `json:"status"` // completed, incomplete, in_progress; a client's has no effect

	Role    string `json:"role"` // of a message: user, assistant, system
	Content []Part `json:"content"`

	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // of a function_call: JSON
	Output    string `json:"output"`    // of a function_call_output

	Raw json.RawMessage `json:"-"` // of other types: all of it
}

// Part is one piece of a message's content.
type Part struct {
	Type       string  `json:"type,omitempty"` // input_text, input_audio, input_image, output_text, output_audio; in content_part events text, audio
	Text       string  `json:"text,omitempty"`
	Audio      string  `json:"audio,omitempty"` // base64
	Transcript *string `json:"transcript,omitempty"`
	ImageURL   string  `json:"image_url,omitempty"` // data: URL of a PNG or JPEG
	Detail     string  `json:"detail,omitempty"`    // auto (which is high), low, high
}

type (
	itemHead struct {
		ID     string `json:"id,omitempty"`
		Object string `json:"object,omitempty"`
		Type   string `json:"type"`
		Status string `json:"status,omitempty"`
	}
	itemMessage struct {
		itemHead
		Role    string `json:"role"`
		Content []Part `json:"content"`
	}
	itemCall struct {
		itemHead
		CallID    string `json:"call_id,omitempty"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	itemOutput struct {
		itemHead
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}
)

// MarshalJSON writes what its type has.
func (i Item) MarshalJSON() ([]byte, error) {
	head := itemHead{i.ID, i.Object, i.Type, i.Status}
	switch i.Type {
	case ItemMessage:
		content := i.Content
		if content == nil {
			content = []Part{}
		}
		return json.Marshal(itemMessage{head, i.Role, content})
	case ItemCall:
		return json.Marshal(itemCall{head, i.CallID, i.Name, i.Arguments})
	case ItemCallOutput:
		return json.Marshal(itemOutput{head, i.CallID, i.Output})
	}
	if i.Raw != nil {
		return i.Raw, nil
	}
	return json.Marshal(head)
}

// UnmarshalJSON reads an item; the beta's content types text and audio of an assistant become output_text and output_audio.
func (i *Item) UnmarshalJSON(data []byte) error {
	type plain Item
	err := json.Unmarshal(data, (*plain)(i))
	switch i.Type {
	case ItemCall, ItemCallOutput:
	case ItemMessage:
		for k := range i.Content {
			if p := &i.Content[k]; i.Role == "assistant" && (p.Type == "text" || p.Type == "audio") {
				p.Type = "output_" + p.Type
			}
		}
	default:
		i.Raw = append(json.RawMessage(nil), data...)
	}
	return err
}

// Text joins the words of a message: texts and transcripts.
func (i Item) Text() string {
	var all string
	for _, p := range i.Content {
		all += p.Text
		if p.Transcript != nil {
			all += *p.Transcript
		}
	}
	return all
}
