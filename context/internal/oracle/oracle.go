// Package oracle reads the test vectors that were made with the predecessor's code into items; only tests import it.
package oracle

import (
	"encoding/json"
	"fmt"
	"os"

	chatctx "sightline/context"
)

// File is a file of vectors.
type File struct {
	Cases []Case `json:"cases"`
}

// Case is one vector; what Input and Expected hold depends on the file.
type Case struct {
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expected"`
}

// Read reads a file of vectors and refuses one without cases.
func Read(path string) ([]Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s has no cases", path)
	}
	return f.Cases, nil
}

// Items is a list of items in the predecessor's form.
type Items struct {
	chatctx.Items
}

type item struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Role         chatctx.Role    `json:"role"`
	Content      json.RawMessage `json:"content"`
	AgentID      *string         `json:"agent_id"`
	Interrupted  bool            `json:"interrupted"`
	Name         string          `json:"name"`
	Arguments    string          `json:"arguments"`
	CallID       string          `json:"call_id"`
	Output       string          `json:"output"`
	IsError      bool            `json:"is_error"`
	FromAgent    string          `json:"from_agent"`
	ToAgent      string          `json:"to_agent"`
	Reason       string          `json:"reason"`
	Instructions string          `json:"instructions"`
	Tools        json.RawMessage `json:"tools"`
	Extra        struct {
		Summary bool `json:"summary"`
	} `json:"extra"`
}

// UnmarshalJSON reads the predecessor's items. Its summaries, messages with a mark, become summaries.
func (s *Items) UnmarshalJSON(data []byte) error {
	var list []item
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, it := range list {
		read, err := it.read()
		if err != nil {
			return err
		}
		s.Items = append(s.Items, read)
	}
	return nil
}

func (it item) read() (chatctx.Item, error) {
	agent := ""
	if it.AgentID != nil {
		agent = *it.AgentID
	}
	switch it.Type {
	case "message":
		content, err := it.content()
		if err != nil {
			return nil, err
		}
		if it.Extra.Summary {
			return &chatctx.Summary{ID: it.ID, Text: content.Text(), Covers: [2]uint64{1, 1}}, nil
		}
		return &chatctx.Message{ID: it.ID, Role: it.Role, Content: content, AgentID: agent, Interrupted: it.Interrupted}, nil
	case "function_call":
		return &chatctx.FunctionCall{ID: it.ID, CallID: it.CallID, Name: it.Name, Arguments: it.Arguments, AgentID: agent}, nil
	case "function_call_output":
		return &chatctx.FunctionCallOutput{ID: it.ID, CallID: it.CallID, Name: it.Name, Output: it.Output, IsError: it.IsError}, nil
	case "agent_handoff":
		return &chatctx.AgentHandoff{ID: it.ID, FromAgent: it.FromAgent, ToAgent: it.ToAgent, Reason: it.Reason}, nil
	case "agent_config_update":
		return &chatctx.ConfigUpdate{ID: it.ID, Instructions: it.Instructions}, nil
	}
	return nil, fmt.Errorf("unknown type %q", it.Type)
}

// content reads a string or a list of strings and images.
func (it item) content() (chatctx.Content, error) {
	var text string
	if json.Unmarshal(it.Content, &text) == nil {
		return chatctx.TextContent(text), nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(it.Content, &parts); err != nil {
		return nil, err
	}
	content := chatctx.Content{}
	for _, p := range parts {
		var img struct {
			Image  string `json:"image"`
			Detail string `json:"inference_detail"`
		}
		if json.Unmarshal(p, &text) == nil {
			content = append(content, chatctx.Text{Text: text})
		} else if err := json.Unmarshal(p, &img); err != nil {
			return nil, err
		} else {
			content = append(content, chatctx.ImageContent{URL: img.Image, Detail: img.Detail})
		}
	}
	return content, nil
}
