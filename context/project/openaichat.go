package project

import (
	"encoding/json"

	chatctx "sightline/context"
)

// ChatMessageParam is a message of OpenAI's chat completions, as most other servers take it too.
type ChatMessageParam struct {
	Role       string         `json:"role"` // system, developer, user, assistant or tool
	Content    ChatContent    `json:"content"`
	ToolCalls  []ChatToolCall `json:"tool_calls,omitempty"`   // assistant
	ToolCallID string         `json:"tool_call_id,omitempty"` // tool
}

// ChatContent is one text, written as a string, or parts; neither is written as null.
type ChatContent struct {
	Text  string
	Parts []ChatPart
}

// MarshalJSON writes a string, a list or null.
func (c ChatContent) MarshalJSON() ([]byte, error) {
	switch {
	case c.Parts != nil:
		return json.Marshal(c.Parts)
	case c.Text == "":
		return []byte("null"), nil
	}
	return json.Marshal(c.Text)
}

// ChatPart is a text or an image of a user message.
type ChatPart struct {
	Type     string        `json:"type"` // text or image_url
	Text     string        `json:"text,omitempty"`
	ImageURL *ChatImageURL `json:"image_url,omitempty"`
}

// ChatImageURL is an https or data: URL.
type ChatImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// ChatToolCall is a call of a function.
type ChatToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // function
	Function ChatFunction `json:"function"`
}

// ChatFunction is what is called; Arguments is the text of a JSON object.
type ChatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// OpenAIChat gives the messages of a chat completion: the instructions first, in one message; then the conversation, with
// handoffs and summaries as system messages at their place, or as marked user messages with Options.NotesAsUser.
func OpenAIChat(items chatctx.Items, o Options) ([]ChatMessageParam, []Loss) {
	c := normalise(items, o, openAIImages())
	losses := append(c.losses, instructionRoles(items, o)...)
	out := make([]ChatMessageParam, 0, len(c.steps)+1)
	instructing := "system"
	if o.Developer {
		instructing = "developer"
	}
	if c.instructions != "" {
		out = append(out, ChatMessageParam{Role: instructing, Content: ChatContent{Text: c.instructions}})
	}
	for i, s := range c.steps {
		switch s.kind {
		case stepSay:
			out = append(out, ChatMessageParam{Role: string(s.role), Content: chatContent(s.parts)})
		case stepNote:
			role := instructing
			if o.NotesAsUser {
				role = "user"
			}
			out = append(out, ChatMessageParam{Role: role, Content: ChatContent{Text: mark(s.note)}})
		case stepCalls:
			// As the model itself answers: what it said and what it called are one message.
			if i == 0 || c.steps[i-1].kind != stepSay || c.steps[i-1].role != chatctx.RoleAssistant {
				out = append(out, ChatMessageParam{Role: "assistant"})
			}
			calls := make([]ChatToolCall, len(s.calls))
			for k, call := range s.calls {
				id, name := outerNames(call, chatCallID, false, &losses)
				calls[k] = ChatToolCall{id, "function", ChatFunction{name, call.arguments}}
			}
			out[len(out)-1].ToolCalls = calls
			for k, call := range s.calls {
				out = append(out, ChatMessageParam{Role: "tool", Content: ChatContent{Text: call.output}, ToolCallID: calls[k].ID})
				noErrorFlag(call, &losses)
			}
		}
	}
	return out, losses
}

func chatContent(parts []part) ChatContent {
	if len(parts) == 1 && parts[0].pic == nil {
		return ChatContent{Text: parts[0].text}
	}
	content := ChatContent{Parts: make([]ChatPart, 0, 2*len(parts))}
	for _, p := range parts {
		if p.pic == nil {
			content.Parts = append(content.Parts, ChatPart{Type: "text", Text: p.text})
			continue
		}
		if p.pic.caption != "" {
			content.Parts = append(content.Parts, ChatPart{Type: "text", Text: p.pic.caption})
		}
		if p.pic.url != "" {
			content.Parts = append(content.Parts, ChatPart{Type: "image_url", ImageURL: &ChatImageURL{p.pic.url, detail(p.pic.img, "")}})
		}
	}
	return content
}

// detail is what an image is to be looked at with; everything but low and high is the provider's own choice.
func detail(img chatctx.ImageContent, auto string) string {
	if img.Detail == "low" || img.Detail == "high" {
		return img.Detail
	}
	return auto
}

// outerNames gives a call's id and name as the provider takes them.
func outerNames(c *call, idLength int, gemini bool, losses *[]Loss) (id, name string) {
	if id = mapID(c.outer, idLength); id != c.callID {
		*losses = append(*losses, Loss{ChangedCallID, c.id, id})
	}
	if name = toolName(c.name, gemini); name != c.name {
		*losses = append(*losses, Loss{ChangedName, c.id, name})
	}
	return id, name
}

// noErrorFlag reports an error that the format has no mark for: its text is all that tells.
func noErrorFlag(c *call, losses *[]Loss) {
	if c.isError {
		*losses = append(*losses, Loss{LostErrorFlag, c.outputID, "the output was an error"})
	}
}

// instructionRoles reports the system and developer messages that go out under the other name.
func instructionRoles(items chatctx.Items, o Options) []Loss {
	lost := chatctx.RoleDeveloper
	if o.Developer {
		lost = chatctx.RoleSystem
	}
	var losses []Loss
	for _, item := range items {
		if m, ok := item.(*chatctx.Message); ok && m.Role == lost {
			losses = append(losses, Loss{ChangedRole, m.ID, "instructions of role " + string(m.Role)})
		}
	}
	return losses
}
