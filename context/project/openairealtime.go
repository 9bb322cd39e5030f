package project

import (
	"strconv"

	chatctx "sightline/context"
)

// RealtimeConversation is what a session of the OpenAI Realtime API is opened with: instructions for session.update, which the
// server never drops, and items for conversation.item.create.
type RealtimeConversation struct {
	Instructions string         `json:"instructions,omitempty"`
	Items        []RealtimeItem `json:"items"`
	// ItemIDs finds the item of ours by the id it has at the provider. A call's output has an id of its own; what was made up has
	// none of ours and is not in it.
	ItemIDs map[string]string `json:"-"`
}

// RealtimeItem is a conversation item: a message, a function_call or a function_call_output.
type RealtimeItem struct {
	ID        string         `json:"id,omitempty"`
	Type      string         `json:"type"`
	Role      string         `json:"role,omitempty"` // message: system, user or assistant
	Content   []RealtimePart `json:"content,omitempty"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments string         `json:"arguments,omitempty"` // the text of a JSON object
	Output    string         `json:"output,omitempty"`
}

// RealtimePart is input_text or input_image in a user or system message, output_text in an assistant's.
type RealtimePart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"` // data: URL of a PNG or JPEG
	Detail   string `json:"detail,omitempty"`    // auto (which is high), low or high
}

// RealtimeCreate is the client event that adds an item.
type RealtimeCreate struct {
	Type           string       `json:"type"` // conversation.item.create
	EventID        string       `json:"event_id,omitempty"`
	PreviousItemID string       `json:"previous_item_id,omitempty"`
	Item           RealtimeItem `json:"item"`
}

// Events gives the client events that add the items in order, the first after the item named after ("" = at the end, "root" = in
// front). Each names the item before it, so that one that is refused is noticed; its event_id is "seed_" and the item's id.
func (c RealtimeConversation) Events(after string) []RealtimeCreate {
	events := make([]RealtimeCreate, len(c.Items))
	for i, item := range c.Items {
		events[i] = RealtimeCreate{"conversation.item.create", "seed_" + item.ID, after, item}
		after = item.ID
	}
	return events
}

// OpenAIRealtime gives a conversation as realtime items. Live frames (images with a source) of detail auto go out as low: auto
// means high here, and one frame of many need not be.
func OpenAIRealtime(items chatctx.Items, o Options) (RealtimeConversation, []Loss) {
	o.Developer = false // the API knows no such role
	c := normalise(items, o, realtimeImages())
	out := RealtimeConversation{Instructions: c.instructions, Items: make([]RealtimeItem, 0, len(c.steps)), ItemIDs: make(map[string]string, len(c.steps))}
	losses := append(c.losses, instructionRoles(items, o)...)
	used := make(map[string]bool, len(c.steps))
	// An item that becomes two (an assistant's message and the images in it) needs a second id; so does what was made up.
	add := func(ours, second string, at int, item RealtimeItem) {
		item.ID = mapID(ours, realtimeID)
		if ours == "" || used[item.ID] {
			second += " of " + ours
			if ours == "" {
				second += strconv.Itoa(at)
			}
			for item.ID = mapID(second, realtimeID); used[item.ID]; item.ID = mapID(second, realtimeID) {
				second += "'"
			}
		}
		used[item.ID] = true
		if ours != "" {
			out.ItemIDs[item.ID] = ours
		}
		out.Items = append(out.Items, item)
	}
	for i, s := range c.steps {
		switch s.kind {
		case stepSay:
			add(s.id, "second", i, RealtimeItem{Type: "message", Role: string(s.role), Content: realtimeContent(s)})
		case stepNote:
			add(s.id, "second", i, RealtimeItem{Type: "message", Role: "system", Content: []RealtimePart{{Type: "input_text", Text: mark(s.note)}}})
		case stepCalls:
			ids := make([]string, len(s.calls))
			for k, call := range s.calls {
				id, name := outerNames(call, realtimeID, false, &losses)
				ids[k] = id
				add(call.id, call.callID, i, RealtimeItem{Type: "function_call", CallID: id, Name: name, Arguments: call.arguments})
			}
			for k, call := range s.calls {
				add(call.outputID, "output of "+call.callID, i, RealtimeItem{Type: "function_call_output", CallID: ids[k], Output: call.output})
				noErrorFlag(call, &losses)
			}
		}
	}
	return out, losses
}

func realtimeContent(s step) []RealtimePart {
	kind := "input_text"
	if s.role == chatctx.RoleAssistant {
		kind = "output_text"
	}
	content := make([]RealtimePart, 0, len(s.parts))
	for _, p := range s.parts {
		if p.pic == nil {
			content = append(content, RealtimePart{Type: kind, Text: p.text})
			continue
		}
		if p.pic.caption != "" {
			content = append(content, RealtimePart{Type: kind, Text: p.pic.caption})
		}
		if p.pic.url != "" {
			auto := "auto"
			if p.pic.img.Source != "" {
				auto = "low"
			}
			content = append(content, RealtimePart{Type: "input_image", ImageURL: p.pic.url, Detail: detail(p.pic.img, auto)})
		}
	}
	return content
}
