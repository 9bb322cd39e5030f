package chatctx

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The normative vectors, each run through the ChatContext.

func fromTransport(t *testing.T, messages json.RawMessage) *ChatContext {
	t.Helper()
	c, _, err := NewFromContextMessages(messages)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	return c
}

func vectorInput[T any](t *testing.T, data json.RawMessage) T {
	t.Helper()
	var in T
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

func shownIDs(messages []ChatMessage) []string {
	ids := []string{}
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	return ids
}

func TestVectorsEstimatedTokens(t *testing.T) {
	for _, c := range readVectors(t, "estimated_tokens.json").Cases {
		in := vectorInput[struct{ Messages json.RawMessage }](t, c.Input)
		if got, want := fromTransport(t, in.Messages).EstimatedTokens(), vectorInput[int](t, c.Expected); got != want {
			t.Errorf("%s: %d, want %d", c.Name, got, want)
		}
	}
}

func TestVectorsTruncatePlain(t *testing.T) {
	for _, c := range readVectors(t, "truncate.json").Cases {
		in := vectorInput[struct {
			Messages  json.RawMessage
			MaxItems  *int `json:"max_items"`
			MaxTokens *int `json:"max_tokens"`
		}](t, c.Input)
		want := vectorInput[struct {
			MessageIDs []string `json:"message_ids"`
		}](t, c.Expected)
		chat := fromTransport(t, in.Messages)
		before := chat.Clone()
		got, err := chat.TruncatePlain(in.MaxItems, in.MaxTokens)
		if err != nil || !reflect.DeepEqual(shownIDs(got.Messages()), want.MessageIDs) || got.check() != nil {
			t.Errorf("%s: %v, %v, %v; want %v", c.Name, shownIDs(got.Messages()), err, got.check(), want.MessageIDs)
		}
		if !reflect.DeepEqual(chat, before) || got == chat {
			t.Errorf("%s: the original changed", c.Name)
		}
	}
}

func TestVectorsToOpenAIMessages(t *testing.T) {
	for _, c := range readVectors(t, "to_openai_messages.json").Cases {
		in := vectorInput[struct {
			Messages       json.RawMessage
			ReasoningModel bool `json:"reasoning_model"`
		}](t, c.Input)
		got := fromTransport(t, in.Messages).ToOpenAIMessages(in.ReasoningModel)
		if got, want := generic(t, mustJSON(t, got)), generic(t, c.Expected); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", c.Name, got, want)
		}
	}
}

// TestVectorsContextMessages: the same through the ChatContext as TestVectorsTransport through items; ids that nobody gave stay
// away.
func TestVectorsContextMessages(t *testing.T) {
	for _, name := range []string{"to_context_messages.json", "from_context_messages.json"} {
		for _, c := range readVectors(t, name).Cases {
			chat := fromTransport(t, c.Input)
			for _, h := range c.Handoffs {
				if _, err := chat.AddHandoff(h.ToAgent, "", ""); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := generic(t, mustJSON(t, chat.ToContextMessages())), generic(t, c.Expected); !reflect.DeepEqual(got, want) {
				t.Errorf("%s/%s: got %v\nwant %v", name, c.Name, got, want)
			}
		}
	}
}

func TestVectorsImageContent(t *testing.T) {
	for _, c := range readVectors(t, "image_content.json").Cases {
		in := vectorInput[struct {
			Op, URL, Detail string
			DataURL         string `json:"data_url"`
			Base64          string `json:"base64_str"`
			Data            string `json:"data_b64"`
			MIME            string `json:"mime_type"`
			Frame           map[string]any
		}](t, c.Input)
		if in.Op == "ImageContent()" {
			continue // Go has no defaults of fields: TestImageDetail
		}
		data, err := base64.StdEncoding.DecodeString(in.Data)
		if err != nil {
			t.Fatal(err)
		}
		var img ImageContent
		switch in.Op {
		case "from_url":
			img, err = ImageFromURL(in.URL, in.Detail)
		case "from_data_url":
			img, _, err = ImageFromDataURL(in.DataURL, in.Detail)
		case "from_base64":
			img, _, err = ImageFromBase64(in.Base64, in.MIME, in.Detail)
		case "from_bytes":
			img, _, err = ImageFromBytes(data, in.MIME, in.Detail)
		case "from_frame":
			if in.Frame["data"], err = base64.StdEncoding.DecodeString(in.Frame["data_b64"].(string)); err != nil {
				t.Fatal(err)
			}
			img, _, err = ImageFromFrame(in.Frame, in.Detail, nil)
		default:
			t.Fatalf("%s: unknown op %q", c.Name, in.Op)
		}
		if err != nil || !reflect.DeepEqual(generic(t, mustJSON(t, img)), generic(t, c.Expected)) {
			t.Errorf("%s: %s, %v; want %s", c.Name, mustJSON(t, img), err, c.Expected)
		}
	}
}

func TestVectorsMIMEFromFile(t *testing.T) {
	for _, c := range readVectors(t, "mime_from_file.json").Cases {
		in := vectorInput[struct{ Path string }](t, c.Input)
		want := vectorInput[struct{ MIME, Guessed string }](t, c.Expected)
		if guessed, mime := guessMIME(in.Path), mimeOfName(in.Path); guessed != want.Guessed || mime != want.MIME {
			t.Errorf("%s: guessed %q, taken %q; want %q, %q", c.Name, guessed, mime, want.Guessed, want.MIME)
		}
	}
	for path, want := range map[string]string{ // what the vectors have none of
		"a.svgz": "image/svg+xml", "a.SVGZ": "image/svg+xml", "a.tgz": "application/x-tar", "a.png.Z": "image/png", "a.png.z": "", "...png": "", "a..png": "image/png", "d/.png": "",
	} {
		if got := guessMIME(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestNewChatContext: the lists are copied, in both directions.
func TestNewChatContext(t *testing.T) {
	images := []ImageContent{{URL: "https://x/y.png", Detail: "low"}}
	messages := []ChatMessage{
		{Role: RoleSystem, Content: "be kind", MessageID: "s"},
		{Content: "look", MessageID: "u", Images: images},
		{Role: RoleAssistant, MessageID: "a", AgentID: "ann", ToolCalls: []FunctionCall{{CallID: "c1", Name: "f", Arguments: "{}"}, {CallID: "c2", Name: "g", Arguments: "{}"}}},
		{Role: RoleTool, ToolCallID: "c1", Content: "done"},
		{Role: RoleUser, ToolCallID: "c2", Content: "also"},
	}
	handoffs := []AgentHandoff{{ToAgent: "billing", FromAgent: "intake", Reason: "a charge"}}
	c, err := NewChatContext(messages, handoffs)
	if err != nil {
		t.Fatal(err)
	}
	messages[0].Content, images[0].URL, handoffs[0].Reason = "changed", "https://changed/", "changed"
	got := c.Messages()
	if len(got) != 5 || got[0].Content != "be kind" || got[1].Images[0].URL != "https://x/y.png" || got[1].Role != RoleUser {
		t.Errorf("messages %+v", got)
	}
	if m := got[2]; m.MessageID != "a" || m.AgentID != "ann" || len(m.ToolCalls) != 2 || m.ToolCalls[1].AgentID != "ann" || m.ToolCalls[1].Name != "g" {
		t.Errorf("the calls: %+v", m)
	}
	for _, m := range got[3:] {
		if m.Role != RoleTool || m.MessageID != "" {
			t.Errorf("a tool's result: %+v", m)
		}
	}
	if h := c.Handoffs(); len(h) != 1 || h[0].Reason != "a charge" || h[0].ID == "" {
		t.Errorf("handoffs %+v", h)
	}
	got[0].Content, c.Handoffs()[0].Reason = "changed", "changed"
	if c.Messages()[0].Content != "be kind" || c.Handoffs()[0].Reason != "a charge" {
		t.Error("what was given out is shared")
	}
	again, err := NewChatContext(c.Messages(), c.Handoffs())
	if err != nil || !reflect.DeepEqual(again.ToContextMessages(), c.ToContextMessages()) || again.check() != nil {
		t.Errorf("made again of its own messages: %v, %v", err, again.check())
	}
	if c.TurnCount() != 1 { // neither tool's result is a turn
		t.Errorf("%d turns", c.TurnCount())
	}
	if e := Empty(); e.Len() != 0 || len(e.Messages()) != 0 || len(e.Handoffs()) != 0 || e.TurnCount() != 0 || e.EstimatedTokens() != 0 || len(e.ToContextMessages()) != 0 {
		t.Error("empty is not empty")
	}
	if _, ok := Empty().LastHandoff(); ok {
		t.Error("an empty context has a last handoff")
	}
}

func TestNewChatContextRefusals(t *testing.T) {
	ok := ChatMessage{Role: RoleUser, Content: "x", MessageID: "m"}
	for _, c := range []struct {
		bad   ChatMessage
		kind  ErrorKind
		field string
	}{
		{ChatMessage{Role: "critic", Content: "x"}, InvalidArgument, "messages[1].role"},
		{ChatMessage{Role: RoleTool, Content: "x"}, InvalidArgument, "messages[1].role"},
		{ChatMessage{Role: RoleUser, Content: "\xff"}, InvalidArgument, "messages[1].content.text"},
		{ChatMessage{Role: RoleUser, Content: "x", MessageID: "m"}, DuplicateID, "messages[1].id"},
		{ChatMessage{Role: RoleUser, Content: "x", MessageID: "not valid"}, InvalidArgument, "messages[1].id"},
		{ChatMessage{Role: RoleUser, Images: []ImageContent{{URL: "ftp://x"}}}, InvalidArgument, "messages[1].content.url"},
		{ChatMessage{Role: RoleUser, ToolCalls: []FunctionCall{{CallID: "c", Name: "f"}}}, InvalidArgument, "messages[1].tool_calls"},
		{ChatMessage{Role: RoleAssistant, ToolCalls: []FunctionCall{{Name: "f"}}}, InvalidArgument, "messages[1].call_id"},
		{ChatMessage{ToolCallID: "c", Images: []ImageContent{{}}}, InvalidArgument, "messages[1].tool_call_id"},
	} {
		chat, err := NewChatContext([]ChatMessage{ok, c.bad}, nil)
		wantError(t, err, c.kind, c.field)
		if chat != nil {
			t.Errorf("%+v: a context beside an error", c.bad)
		}
	}
	_, err := NewChatContext(nil, []AgentHandoff{{}})
	wantError(t, err, InvalidArgument, "handoffs[0].to_agent")
}

// TestNewFromContextMessagesRepeatedIDs: nothing is lost, and no id occurs twice.
func TestNewFromContextMessagesRepeatedIDs(t *testing.T) {
	c, warnings, err := NewFromContextMessages([]byte(`[{"role":"user","content":"yes","message_id":"m"},{"role":"user","content":"yes","message_id":"m"},
		{"role":"user","content":"an id no log takes","message_id":"msg 1/é"},{"role":"tool","content":"r","tool_call_id":"c"}]`))
	if err != nil || len(warnings) != 2 || !strings.Contains(strings.Join(warnings, "|"), "the id m is taken") {
		t.Fatalf("%q, %v", warnings, err)
	}
	if got := shownIDs(c.Messages()); !reflect.DeepEqual(got, []string{"m", "", "msg 1/é", ""}) || c.check() != nil || c.TurnCount() != 3 {
		t.Errorf("ids %q, %d turns, %v", got, c.TurnCount(), c.check())
	}
	_, _, err = NewFromContextMessages([]byte(`{}`))
	wantError(t, err, InvalidArgument, "messages")
}
