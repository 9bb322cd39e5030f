package project

import (
	"encoding/json"

	chatctx "sightline/context"
)

// ResponsesItem is an input item of OpenAI's Responses API: a message, a function_call or a function_call_output. It has no id:
// the API takes only ids it has given itself.
type ResponsesItem struct {
	Type      string           `json:"type"`
	Role      string           `json:"role,omitempty"` // message: system, developer, user or assistant
	Content   ResponsesContent `json:"content,omitzero"`
	CallID    string           `json:"call_id,omitempty"`
	Name      string           `json:"name,omitempty"`      // function_call
	Arguments string           `json:"arguments,omitempty"` // function_call: the text of a JSON object
	Output    string           `json:"output,omitempty"`    // function_call_output
}

// ResponsesContent is one text, written as a string, or parts. An assistant's is always a string, because the parts for it are
// others than the input parts.
type ResponsesContent struct {
	Text  string
	Parts []ResponsesPart
}

// IsZero tells encoding/json to leave it out.
func (c ResponsesContent) IsZero() bool { return c.Text == "" && c.Parts == nil }

// MarshalJSON writes a string or a list.
func (c ResponsesContent) MarshalJSON() ([]byte, error) {
	if c.Parts != nil {
		return json.Marshal(c.Parts)
	}
	return json.Marshal(c.Text)
}

// ResponsesPart is an input_text or an input_image.
type ResponsesPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"` // https or data: URL
	Detail   string `json:"detail,omitempty"`    // input_image: auto, low or high
}

// OpenAIResponses gives the input of a Responses request: the instructions as its first message, handoffs and summaries as
// messages of the same role at their place.
func OpenAIResponses(items chatctx.Items, o Options) ([]ResponsesItem, []Loss) {
	c := normalise(items, o, openAIImages())
	losses := append(c.losses, instructionRoles(items, o)...)
	instructing := "system"
	if o.Developer {
		instructing = "developer"
	}
	out := make([]ResponsesItem, 0, len(c.steps)+1)
	say := func(role, text string) {
		out = append(out, ResponsesItem{Type: "message", Role: role, Content: ResponsesContent{Text: text}})
	}
	if c.instructions != "" {
		say(instructing, c.instructions)
	}
	for _, s := range c.steps {
		switch s.kind {
		case stepSay:
			if s.role == chatctx.RoleAssistant {
				say("assistant", joinTexts(s.parts, "\n"))
				continue
			}
			out = append(out, ResponsesItem{Type: "message", Role: "user", Content: responsesContent(s.parts)})
		case stepNote:
			say(instructing, mark(s.note))
		case stepCalls:
			ids := make([]string, len(s.calls))
			for k, call := range s.calls {
				id, name := outerNames(call, responsesID, false, &losses)
				ids[k] = id
				out = append(out, ResponsesItem{Type: "function_call", CallID: id, Name: name, Arguments: call.arguments})
			}
			for k, call := range s.calls {
				out = append(out, ResponsesItem{Type: "function_call_output", CallID: ids[k], Output: call.output})
				noErrorFlag(call, &losses)
			}
		}
	}
	return out, losses
}

func responsesContent(parts []part) ResponsesContent {
	if len(parts) == 1 && parts[0].pic == nil {
		return ResponsesContent{Text: parts[0].text}
	}
	content := ResponsesContent{Parts: make([]ResponsesPart, 0, 2*len(parts))}
	for _, p := range parts {
		if p.pic == nil {
			content.Parts = append(content.Parts, ResponsesPart{Type: "input_text", Text: p.text})
			continue
		}
		if p.pic.caption != "" {
			content.Parts = append(content.Parts, ResponsesPart{Type: "input_text", Text: p.pic.caption})
		}
		if p.pic.url != "" {
			content.Parts = append(content.Parts, ResponsesPart{Type: "input_image", ImageURL: p.pic.url, Detail: detail(p.pic.img, "auto")})
		}
	}
	return content
}

// joinTexts is the texts of parts, images by their captions.
func joinTexts(parts []part, between string) string {
	if len(parts) == 1 && parts[0].pic == nil {
		return parts[0].text
	}
	text := ""
	for _, p := range parts {
		piece := p.text
		if p.pic != nil {
			piece = p.pic.caption
		}
		if text != "" && piece != "" {
			text += between
		}
		text += piece
	}
	return text
}
