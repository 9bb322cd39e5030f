package project

import (
	"encoding/json"
	"strings"
	"unicode"

	chatctx "sightline/context"
)

// AnthropicRequest is the part of a Messages request that is made of the conversation. A request with tool_use blocks also has to
// define its tools: ActiveConfig.
type AnthropicRequest struct {
	System   string             `json:"system,omitempty"`
	Messages []AnthropicMessage `json:"messages"`
}

// AnthropicMessage is one turn; user and assistant take turns.
type AnthropicMessage struct {
	Role    string           `json:"role"`
	Content []AnthropicBlock `json:"content"`
}

// AnthropicBlock is a text, image, tool_use or tool_result block.
type AnthropicBlock struct {
	Type      string           `json:"type"`
	Text      string           `json:"text,omitempty"`
	Source    *AnthropicSource `json:"source,omitempty"`
	ID        string           `json:"id,omitempty"`          // tool_use
	Name      string           `json:"name,omitempty"`        // tool_use
	Input     json.RawMessage  `json:"input,omitempty"`       // tool_use: a JSON object
	ToolUseID string           `json:"tool_use_id,omitempty"` // tool_result
	Content   string           `json:"content,omitempty"`     // tool_result
	IsError   bool             `json:"is_error,omitempty"`    // tool_result
}

// AnthropicSource is an image: base64 bytes with their type, or an https URL.
type AnthropicSource struct {
	Type      string `json:"type"` // base64 or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// anthropicMessages is how many messages a request may have.
const anthropicMessages = 100_000

// Anthropic gives a conversation for the Messages API. Handoffs and summaries, for which the API has no role, are marked texts of
// the user.
func Anthropic(items chatctx.Items, o Options) (AnthropicRequest, []Loss) {
	c := normalise(items, o, anthropicImages())
	out := AnthropicRequest{System: c.instructions, Messages: make([]AnthropicMessage, 0, len(c.steps)+2)}
	losses := append(c.losses, instructionRoles(items, Options{})...)
	turn := func(role chatctx.Role) *AnthropicMessage {
		if n := len(out.Messages); n == 0 || out.Messages[n-1].Role != string(role) {
			out.Messages = append(out.Messages, AnthropicMessage{Role: string(role)})
		}
		return &out.Messages[len(out.Messages)-1]
	}
	note := func(text string) {
		t := turn(chatctx.RoleUser)
		t.Content = append(t.Content, AnthropicBlock{Type: "text", Text: mark(text)})
	}
	for i, s := range c.steps {
		if i == 0 && firstRole(s) != chatctx.RoleUser {
			note(noteStart)
			losses = append(losses, Loss{AddedTurn, s.id, "the first message has to be the user's"})
		}
		switch s.kind {
		case stepSay:
			t := turn(s.role)
			t.Content = appendBlocks(t.Content, s.parts)
		case stepNote:
			note(s.note)
		case stepCalls:
			ids := make([]string, len(s.calls))
			t := turn(chatctx.RoleAssistant)
			for k, call := range s.calls {
				id, name := outerNames(call, anthropicID, false, &losses)
				ids[k] = id
				t.Content = append(t.Content, AnthropicBlock{Type: "tool_use", ID: id, Name: name, Input: rawObject(call.arguments)})
			}
			t = turn(chatctx.RoleUser)
			for k, call := range s.calls {
				t.Content = append(t.Content, AnthropicBlock{Type: "tool_result", ToolUseID: ids[k], Content: call.output, IsError: call.isError})
			}
		}
	}
	if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == "assistant" {
		if o.AllowLastAssistant {
			last := &out.Messages[n-1].Content[len(out.Messages[n-1].Content)-1]
			last.Text = strings.TrimRightFunc(last.Text, unicode.IsSpace) // "final assistant content cannot end with trailing whitespace"
		} else {
			note(noteSilence)
			losses = append(losses, Loss{AddedTurn, "", "the last message has to be the user's"})
		}
	}
	out.Messages, losses = boundMessages(out.Messages, losses)
	return out, losses
}

// What stands where a provider wants the user to speak and the caller did not.
const (
	noteStart   = "the conversation begins here"
	noteSilence = "the caller has said nothing since"
)

func firstRole(s step) chatctx.Role {
	switch s.kind {
	case stepSay:
		return s.role
	case stepNote:
		return chatctx.RoleUser
	}
	return chatctx.RoleAssistant
}

func appendBlocks(blocks []AnthropicBlock, parts []part) []AnthropicBlock {
	for _, p := range parts {
		if p.pic == nil {
			blocks = append(blocks, AnthropicBlock{Type: "text", Text: p.text})
			continue
		}
		if p.pic.caption != "" {
			blocks = append(blocks, AnthropicBlock{Type: "text", Text: p.pic.caption})
		}
		switch {
		case p.pic.url == "":
		case p.pic.data == 0:
			blocks = append(blocks, AnthropicBlock{Type: "image", Source: &AnthropicSource{Type: "url", URL: p.pic.url}})
		default:
			blocks = append(blocks, AnthropicBlock{Type: "image", Source: &AnthropicSource{Type: "base64", MediaType: p.pic.mime, Data: p.pic.base64()}})
		}
	}
	return blocks
}

// boundMessages drops the oldest messages when there are too many, from a user message on that answers no call.
func boundMessages(messages []AnthropicMessage, losses []Loss) ([]AnthropicMessage, []Loss) {
	from := max(0, len(messages)-anthropicMessages)
	for from > 0 && from < len(messages) && (messages[from].Role != "user" || messages[from].Content[0].Type == "tool_result") {
		from++
	}
	if from > 0 {
		losses = append(losses, Loss{LostOlder, "", "the oldest messages, more than a request may have"})
	}
	return messages[from:], losses
}
