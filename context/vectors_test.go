package chatctx

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

type vectorFile struct {
	Count int
	Cases []struct {
		Name     string
		Input    json.RawMessage
		Handoffs []struct {
			ToAgent string `json:"to_agent"`
		}
		Expected json.RawMessage
	}
}

func readVectors(t *testing.T, name string) vectorFile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if f.Count == 0 || len(f.Cases) != f.Count {
		t.Fatalf("%s has %d cases and says %d", name, len(f.Cases), f.Count)
	}
	return f
}

// TestVectorsTransport: what comes in by FromContextMessages goes out by ToContextMessages exactly as the vectors say; keys
// that are not expected must not be there either.
func TestVectorsTransport(t *testing.T) {
	for _, name := range []string{"to_context_messages.json", "from_context_messages.json"} {
		for _, c := range readVectors(t, name).Cases {
			t.Run(strings.TrimSuffix(name, ".json")+"/"+c.Name, func(t *testing.T) {
				items, warnings, err := FromContextMessages(c.Input)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range c.Handoffs {
					items = append(items, &AgentHandoff{ID: "h", ToAgent: h.ToAgent})
				}
				if got, want := generic(t, mustJSON(t, ToContextMessages(items))), generic(t, c.Expected); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v\nwant %v", got, want)
				}
				roleChanged := name == "from_context_messages.json" && strings.Contains(c.Name, "role") && c.Name != "developer_role_kept"
				if roleChanged != (len(warnings) == 1) || roleChanged && !strings.HasPrefix(warnings[0], "messages[0]: unknown role") {
					t.Errorf("warnings %q", warnings)
				}
			})
		}
	}
}

func TestTransportInput(t *testing.T) {
	call := ContextToolCall{Name: "f", Arguments: `{"a":1}`, CallID: "c"}
	for _, c := range []struct {
		name, input string
		want        []ContextMessage
		warnings    int
	}{
		{"content of other types", `[{"role":"user","content":null},{"role":"user","content":12.50},{"role":"user","content":{"a": [1, "x"]}},{"role":"user","content":true},{"role":"user"}]`,
			[]ContextMessage{{Role: "user"}, {Role: "user", Content: "12.50"}, {Role: "user", Content: `{"a":[1,"x"]}`}, {Role: "user", Content: "true"}, {Role: "user"}}, 0},
		{"a role that is no string", `[{"role":7,"content":"x"},{"content":"y"}]`, []ContextMessage{{Role: "user", Content: "x"}, {Role: "user", Content: "y"}}, 2},
		{"images in every form", `[{"role":"user","content":"x","images":["http://a",{"url":"http://b"},{"image_url":{"url":"http://c","detail":"low"}},{"type":"image","url":"http://d","detail":"high"}]}]`,
			[]ContextMessage{{Role: "user", Content: "x", Images: []ContextImage{{"image", "http://a", "auto"}, {"image", "http://b", "auto"}, {"image", "http://c", "low"}, {"image", "http://d", "high"}}}}, 0},
		{"calls in every form", `[{"role":"assistant","content":"","message_id":"m","tool_calls":[
			{"name":"f","arguments":"{\"a\":1}","call_id":"c"},{"name":"f","arguments":{"a": 1},"call_id":"c"},
			{"name":"f","arguments_json":"{\"a\":1}","call_id":"c"},{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
			{"id":"c","type":"function","function":{"name":"f","arguments":{"a":1}}}]}]`,
			[]ContextMessage{{Role: "assistant", MessageID: "m", ToolCalls: []ContextToolCall{call, call, call, call, call}}}, 0},
		{"text and calls", `[{"role":"assistant","content":"wait","message_id":"m","tool_calls":[{"name":"f","arguments":"{\"a\":1}","call_id":"c"}]}]`,
			[]ContextMessage{{Role: "assistant", Content: "wait", MessageID: "m", ToolCalls: []ContextToolCall{call}}}, 0},
		{"calls of a user", `[{"role":"user","content":"","tool_calls":[{"name":"f","arguments":"{\"a\":1}","call_id":"c"}]}]`,
			[]ContextMessage{{Role: "assistant", ToolCalls: []ContextToolCall{call}}}, 1},
		{"a result with images", `[{"role":"user","content":"r","tool_call_id":"c","images":["http://a"]}]`,
			[]ContextMessage{{Role: "user", Content: "r", ToolCallID: "c"}}, 1},
		{"an empty message", `[{"role":"assistant","content":"","message_id":"m"}]`, []ContextMessage{{Role: "assistant", MessageID: "m"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			items, warnings, err := FromContextMessages([]byte(c.input))
			if err != nil {
				t.Fatal(err)
			}
			if got := ToContextMessages(items); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
			if len(warnings) != c.warnings {
				t.Errorf("warnings %q, want %d", warnings, c.warnings)
			}
		})
	}
}

func TestTransportRefusals(t *testing.T) {
	for input, field := range map[string]string{
		`{}`:                                   "messages",
		`"x"`:                                  "messages",
		`[`:                                    "messages",
		``:                                     "messages",
		`[5]`:                                  "messages[0]",
		`["x"]`:                                "messages[0]",
		`[{"role":"user","content":"x"},null]`: "messages[1]",
		`[{"role":"user","content":"x","message_id":5}]`:                         "messages[0].message_id",
		`[{"role":"user","content":"x","tool_call_id":[]}]`:                      "messages[0].tool_call_id",
		`[{"role":"user","content":"x","images":{}}]`:                            "messages[0].images",
		`[{"role":"user","content":"x","images":[7]}]`:                           "messages[0].images",
		`[{"role":"user","content":"x","images":[{"url":7}]}]`:                   "messages[0].images.url",
		`[{"role":"user","content":"x","tool_calls":["f"]}]`:                     "messages[0].tool_calls",
		`[{"role":"user","content":"x","tool_calls":[{"name":1}]}]`:              "messages[0].tool_calls.name",
		`[{"role":"user","content":"x","tool_calls":[{"function":{"name":1}}]}]`: "messages[0].tool_calls.function.name",
	} {
		items, _, err := FromContextMessages([]byte(input))
		if items != nil {
			t.Errorf("%s: items beside an error", input)
		}
		wantError(t, err, InvalidArgument, field)
	}
}

// TestToContextMessagesOfALog: in a log every call has an id of its own; it joins the assistant's message it follows.
func TestToContextMessagesOfALog(t *testing.T) {
	got := ToContextMessages(Items{
		&Message{ID: "s", Role: RoleSystem, Content: TextContent("be kind")},
		&Message{ID: "a", Role: RoleAssistant, Content: Content{Text{"one"}, ImageContent{URL: "http://x", Detail: "low"}, Text{"two"}}},
		&FunctionCall{ID: "x", CallID: "c1", Name: "f", Arguments: "{}"},
		&PipelineSwitch{ID: "p", State: "started"},
		&FunctionCall{ID: "y", CallID: "c2", Name: "g", Arguments: "{}"},
		&FunctionCallOutput{ID: "z", CallID: "c1", Output: "done", IsError: true},
		&FunctionCall{ID: "w", CallID: "c3", Name: "h", Arguments: "{}"},
		&Summary{ID: "sum", Text: "They asked for order 42.", Covers: [2]uint64{1, 7}},
		&FunctionCall{ID: "v", CallID: "c4", Name: "f", Arguments: "{}"},
	})
	want := []ContextMessage{
		{Role: RoleSystem, Content: "be kind", MessageID: "s"},
		{Role: RoleAssistant, Content: "one\ntwo", MessageID: "a", Images: []ContextImage{{"image", "http://x", "low"}},
			ToolCalls: []ContextToolCall{{"f", "{}", "c1"}, {"g", "{}", "c2"}}},
		{Role: RoleUser, Content: "done", MessageID: "z", ToolCallID: "c1"},
		{Role: RoleAssistant, MessageID: "w", ToolCalls: []ContextToolCall{{"h", "{}", "c3"}}},
		{Role: RoleAssistant, Content: "[Conversation Summary]\nThey asked for order 42.", MessageID: "sum"},
		{Role: RoleAssistant, MessageID: "v", ToolCalls: []ContextToolCall{{"f", "{}", "c4"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
