package chatctx

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// UnmarshalItem reads one item by its type; unknown fields are ignored. An unknown type, a field of the wrong kind and one with
// what is no text (encoding/json would put U+FFFD in its place without a word) is an *Error that names it. The item is not yet
// validated: Log.Append does that.
func UnmarshalItem(data []byte) (Item, error) {
	if !isText(data) {
		return nil, noText(data, "", "item")
	}
	var head struct {
		Type *ItemKind `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Type == nil {
		return nil, fail(InvalidArgument, "item.type", "an item is an object with a type: "+kindList)
	}
	item := newItem(*head.Type)
	if item == nil {
		return nil, fail(InvalidArgument, "item.type", "unknown item type %q: allowed are "+kindList, *head.Type)
	}
	if err := json.Unmarshal(data, item); err != nil {
		return nil, badField(err, "", "item")
	}
	if u, ok := item.(*ConfigUpdate); ok {
		u.Tools = normalTools(u.Tools)
	}
	return item, nil
}

// normalTools makes a tool list byte for byte what it will be when it is read back from a log; null is no list.
func normalTools(tools json.RawMessage) json.RawMessage {
	if len(tools) == 0 || string(tools) == "null" {
		return nil
	}
	written, err := json.Marshal(tools)
	if err != nil {
		return tools
	}
	return bytes.ToValidUTF8(written, []byte("\uFFFD")) // as encoding/json does with strings
}

const kindList = "message, function_call, function_call_output, handoff, config_update, summary, pipeline_switch"

func newItem(kind ItemKind) Item {
	switch kind {
	case KindMessage:
		return &Message{}
	case KindFunctionCall:
		return &FunctionCall{}
	case KindFunctionCallOutput:
		return &FunctionCallOutput{}
	case KindHandoff:
		return &AgentHandoff{}
	case KindConfigUpdate:
		return &ConfigUpdate{}
	case KindSummary:
		return &Summary{}
	case KindPipelineSwitch:
		return &PipelineSwitch{}
	}
	return nil
}

// Items is a list of items that reads and writes JSON.
type Items []Item

// MarshalJSON writes a list, [] when empty.
func (s Items) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]Item(s))
}

// UnmarshalJSON reads a list of items.
func (s *Items) UnmarshalJSON(data []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fail(InvalidArgument, "items", "items must be a list")
	}
	items := make(Items, 0, len(raw))
	for _, r := range raw {
		item, err := UnmarshalItem(r)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	*s = items
	return nil
}

// The type discriminator comes first in every item's JSON. Each MarshalJSON embeds a method-less copy of its type, so that
// encoding/json does not call the method again.
type typed struct {
	Type ItemKind `json:"type"`
}

// MarshalJSON adds the type discriminator, for each kind of item.
func (m *Message) MarshalJSON() ([]byte, error) {
	type plain Message
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindMessage}, (*plain)(m)})
}

// MarshalJSON adds the type discriminator.
func (c *FunctionCall) MarshalJSON() ([]byte, error) {
	type plain FunctionCall
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindFunctionCall}, (*plain)(c)})
}

// MarshalJSON adds the type discriminator.
func (o *FunctionCallOutput) MarshalJSON() ([]byte, error) {
	type plain FunctionCallOutput
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindFunctionCallOutput}, (*plain)(o)})
}

// MarshalJSON adds the type discriminator.
func (h *AgentHandoff) MarshalJSON() ([]byte, error) {
	type plain AgentHandoff
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindHandoff}, (*plain)(h)})
}

// MarshalJSON adds the type discriminator.
func (u *ConfigUpdate) MarshalJSON() ([]byte, error) {
	type plain ConfigUpdate
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindConfigUpdate}, (*plain)(u)})
}

// MarshalJSON adds the type discriminator.
func (s *Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindSummary}, (*plain)(s)})
}

// MarshalJSON adds the type discriminator.
func (p *PipelineSwitch) MarshalJSON() ([]byte, error) {
	type plain PipelineSwitch
	return json.Marshal(struct {
		typed
		*plain
	}{typed{KindPipelineSwitch}, (*plain)(p)})
}

// isText reports whether JSON is UTF-8 and every surrogate in it has its other half.
func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 || i+1 >= len(data) {
			return true
		}
		unit, ok := codeUnit(data[i:])
		if !ok {
			data = data[i+2:]
			continue
		}
		data = data[i+6:]
		switch {
		case unit < 0xD800 || unit > 0xDFFF:
		case unit > 0xDBFF:
			return false
		default:
			if low, ok := codeUnit(data); !ok || low < 0xDC00 || low > 0xDFFF {
				return false
			}
			data = data[6:]
		}
	}
}

// codeUnit reads the \uXXXX that data begins with.
func codeUnit(data []byte) (uint64, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return unit, err == nil
}

// noText names the field of an object that is no text.
func noText(data []byte, path, fallback string) error {
	field := fallback
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) == nil {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if isText([]byte(name)) && !isText(fields[name]) {
				field = join(path, name)
				break
			}
		}
	}
	return fail(InvalidArgument, field, "%s must be text: it has half of a surrogate pair, or bytes that are no UTF-8", field)
}
