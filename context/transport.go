package chatctx

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// ContextMessage is one message of the seeds' transport format. It has no place for a tool role, summaries, handoffs, times or
// agents: what a tool answered travels as a user message with tool_call_id, a summary as an assistant message that begins with
// SummaryHeading, and the rest is left out.
type ContextMessage struct {
	Role       Role              `json:"role"`
	Content    string            `json:"content"`
	MessageID  string            `json:"message_id,omitempty"`
	Images     []ContextImage    `json:"images,omitempty"`
	ToolCalls  []ContextToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

// ContextImage is an image of the transport format.
type ContextImage struct {
	Type   string `json:"type"`
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// ContextToolCall is a tool call of the transport format; Arguments is a JSON string.
type ContextToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	CallID    string `json:"call_id"`
}

// SummaryHeading begins a summary in the transport format, as in the seeds' predecessor. The assistant says it: a summary is made of
// what callers and tools said, so it is neither an instruction nor the words of the caller.
const SummaryHeading = "[Conversation Summary]\n"

// ToContextMessages writes items as transport messages, in order. Calls join the assistant message or the calls that they directly
// follow; the format has one id for all of these.
func ToContextMessages(items Items) []ContextMessage {
	out := []ContextMessage{}
	summary := -1 // the place of the last summary, which no calls join
	for _, item := range items {
		switch it := item.(type) {
		case *Message:
			m := ContextMessage{Role: it.Role, Content: it.Content.Text(), MessageID: it.ID}
			for _, img := range it.Content.Images() {
				m.Images = append(m.Images, ContextImage{"image", img.URL, img.Detail})
			}
			out = append(out, m)
		case *FunctionCall:
			call := ContextToolCall{it.Name, it.Arguments, it.CallID}
			if n := len(out); n > 0 && out[n-1].Role == RoleAssistant && n-1 != summary {
				out[n-1].ToolCalls = append(out[n-1].ToolCalls, call)
			} else {
				out = append(out, ContextMessage{Role: RoleAssistant, MessageID: it.ID, ToolCalls: []ContextToolCall{call}})
			}
		case *Summary:
			summary = len(out)
			out = append(out, ContextMessage{Role: RoleAssistant, Content: SummaryHeading + it.Text, MessageID: it.ID})
		case *FunctionCallOutput:
			out = append(out, ContextMessage{Role: RoleUser, Content: it.Output, MessageID: it.ID, ToolCallID: it.CallID})
		}
	}
	return out
}

// FromContextMessages reads a transport list (JSON; null is an empty one) into items. As the seeds say, an unknown role
// becomes user; what is taken otherwise than it was sent, or left out, is reported in warnings. Missing ids stay empty: a
// message that only calls tools gives its id to its first call. Memory is linear in the input, which the caller bounds.
func FromContextMessages(data []byte) (items Items, warnings []string, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, nil, fail(InvalidArgument, "messages", "messages must be a list of messages, or null")
	}
	r := transportReader{items: Items{}}
	for n, raw := range list {
		r.at = fmt.Sprintf("messages[%d]", n)
		var m *wireMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, nil, badField(err, r.at, r.at)
		}
		if m == nil {
			return nil, nil, fail(InvalidArgument, r.at, "%s must be an object, got null", r.at)
		}
		r.read(m)
	}
	return r.items, r.warnings, nil
}

type transportReader struct {
	items    Items
	at       string // the message being read, for warnings
	warnings []string
}

func (r *transportReader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, r.at+": "+fmt.Sprintf(format, args...))
}

func (r *transportReader) read(m *wireMessage) {
	role := Role(m.Role)
	if !role.valid() {
		r.warn("unknown role %q taken as user", clip(string(m.Role)))
		role = RoleUser
	}
	if m.ToolCallID != "" {
		if len(m.Images) > 0 || len(m.ToolCalls) > 0 {
			r.warn("a tool's result has no images and no calls: left out")
		}
		r.items = append(r.items, &FunctionCallOutput{ID: m.MessageID, CallID: m.ToolCallID, Output: string(m.Content)})
		return
	}
	callsOnly := m.Content == "" && len(m.Images) == 0 && len(m.ToolCalls) > 0
	if !callsOnly {
		content := TextContent(string(m.Content))
		for _, img := range m.Images {
			content = append(content, ImageContent(img))
		}
		r.items = append(r.items, &Message{ID: m.MessageID, Role: role, Content: content})
	}
	if role != RoleAssistant && len(m.ToolCalls) > 0 {
		r.warn("tool calls of a %s message taken as the assistant's", role)
	}
	for n, c := range m.ToolCalls {
		call := &FunctionCall{CallID: c.CallID, Name: c.Name, Arguments: c.Arguments}
		if callsOnly && n == 0 {
			call.ID = m.MessageID
		}
		r.items = append(r.items, call)
	}
}

// wireMessage reads the forms that ContextMessage may come in from elsewhere.
type wireMessage struct {
	Role       looseText    `json:"role"`
	Content    looseText    `json:"content"`
	MessageID  string       `json:"message_id"`
	Images     []looseImage `json:"images"`
	ToolCalls  []looseCall  `json:"tool_calls"`
	ToolCallID string       `json:"tool_call_id"`
}

// looseText is a string; null is "", any other JSON value is its own compact text (the seeds coerce with str).
type looseText string

func (t *looseText) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = looseText(s)
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return err
	}
	*t = looseText(strings.ToValidUTF8(b.String(), "\uFFFD"))
	return nil
}

// looseImage is a URL, {url} or {image_url: {url}}.
type looseImage ImageContent

func (i *looseImage) UnmarshalJSON(data []byte) error {
	i.Detail = "auto"
	if json.Unmarshal(data, &i.URL) == nil {
		return nil
	}
	var form struct {
		URL      string `json:"url"`
		Detail   string `json:"detail"`
		ImageURL struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return badField(err, "images", "images")
	}
	i.URL = cmp.Or(form.URL, form.ImageURL.URL)
	i.Detail = cmp.Or(form.Detail, form.ImageURL.Detail, "auto")
	return nil
}

// looseCall is {name, arguments, call_id}, with arguments as object or as arguments_json, or OpenAI's {id, function}.
type looseCall ContextToolCall

func (c *looseCall) UnmarshalJSON(data []byte) error {
	var form struct {
		Name          string    `json:"name"`
		Arguments     looseText `json:"arguments"`
		ArgumentsJSON string    `json:"arguments_json"`
		CallID        string    `json:"call_id"`
		ID            string    `json:"id"`
		Function      struct {
			Name      string    `json:"name"`
			Arguments looseText `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return badField(err, "tool_calls", "tool_calls")
	}
	*c = looseCall{
		Name:      cmp.Or(form.Name, form.Function.Name),
		Arguments: cmp.Or(string(form.Arguments), form.ArgumentsJSON, string(form.Function.Arguments)),
		CallID:    cmp.Or(form.CallID, form.ID),
	}
	return nil
}
