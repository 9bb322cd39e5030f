package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

// fuzz feeds one importer: nothing panics, what comes out a log would take, and it comes out the same the second time.
func fuzz(f *testing.F, format Format) {
	dumps, err := filepath.Glob("testdata/dumps/*")
	if err != nil || len(dumps) == 0 {
		f.Fatal(err)
	}
	for _, dump := range dumps {
		data, err := os.ReadFile(dump)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, format, data) })
}

// failer is a test or a rapid test.
type failer interface{ Errorf(string, ...any) }

// check holds an import against what every import promises.
func check(t failer, format Format, data []byte) {
	{
		o := Options{Format: format, Conversation: 1, FillIDs: true, MaxElement: 1 << 20}
		items, report, err := Read(Bytes(data), o)
		if err != nil {
			return
		}
		if report.Items != len(items) || report.Format == "" || report.Why == "" {
			t.Errorf("report %+v of %d items", report, len(items))
		}
		seen := map[string]bool{}
		for _, item := range items {
			if err := problem(item); err != nil {
				t.Errorf("%v: %v", item, err)
			}
			if id := item.ItemID(); !chatctx.ValidID(id) || seen[id] {
				t.Errorf("id %q", id)
			}
			seen[item.ItemID()] = true
			valid(t, item)
		}
		for _, n := range report.Notes {
			if n.Offset < 0 || n.Offset > int64(len(data)) || n.Line < 1 || !utf8.ValidString(n.String()) || len(n.String()) > 2000 {
				t.Errorf("note %+v", n)
			}
		}
		again, _, err := Read(Bytes(data), o)
		if err != nil || len(again) != len(items) {
			t.Errorf("not the same the second time: %v", err)
		}
	}
}

// valid checks the texts of an item.
func valid(t failer, item chatctx.Item) {
	var texts []string
	switch it := item.(type) {
	case *chatctx.Message:
		texts = append(texts, it.Content.Text(), it.AgentID)
		for _, img := range it.Content.Images() {
			texts = append(texts, img.URL, img.Source)
		}
	case *chatctx.FunctionCall:
		texts = append(texts, it.Name, it.Arguments, it.CallID)
		if it.CallID == "" || it.Name == "" {
			t.Errorf("%+v", it)
		}
	case *chatctx.FunctionCallOutput:
		texts = append(texts, it.Name, it.Output, it.CallID)
		if it.CallID == "" {
			t.Errorf("%+v", it)
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			t.Errorf("%q is not UTF-8", s)
		}
	}
}

func FuzzAuto(f *testing.F)      { fuzz(f, Auto) }
func FuzzItems(f *testing.F)     { fuzz(f, Items) }
func FuzzTransport(f *testing.F) { fuzz(f, Transport) }
func FuzzOpenAI(f *testing.F)    { fuzz(f, OpenAI) }
func FuzzResponses(f *testing.F) { fuzz(f, Responses) }
func FuzzRealtime(f *testing.F)  { fuzz(f, Realtime) }
func FuzzAnthropic(f *testing.F) { fuzz(f, Anthropic) }
func FuzzGemini(f *testing.F)    { fuzz(f, Gemini) }
func FuzzLiveKit(f *testing.F)   { fuzz(f, LiveKit) }
func FuzzChatGPT(f *testing.F)   { fuzz(f, ChatGPT) }
func FuzzText(f *testing.F)      { fuzz(f, Text) }

// vocabulary are the names that any importer looks at.
var vocabulary = []string{"type", "role", "content", "text", "id", "call_id", "name", "arguments", "output", "is_error", "tool_calls", "tool_call_id",
	"function", "function_call", "images", "url", "image_url", "detail", "message_id", "parts", "functionCall", "functionResponse", "args", "response",
	"inlineData", "mimeType", "data", "source", "input", "tool_use_id", "items", "messages", "contents", "system", "instructions", "tools", "item",
	"item_id", "op", "seq", "removed", "covers", "to_agent", "from_agent", "new_agent_id", "image", "audio", "transcript", "event", "session", "output",
	"previous_item_id", "content_index", "mapping", "message", "author", "parent", "recipient", "current_node", "sender", "llm", "format", "context",
	"state", "thought", "error", "chat_history", "choices", "candidates", "refusal", "status", "interrupted", "agent_id"}

var valuesOf = map[string][]string{
	"type": {"message", "function_call", "function_call_output", "handoff", "agent_handoff", "config_update", "summary", "pipeline_switch", "text", "image",
		"input_text", "output_text", "input_image", "image_url", "image_content", "tool_use", "tool_result", "thinking", "conversation.item.added",
		"conversation.item.create", "conversation.item.truncated", "conversation.item.deleted", "response.done", "session.update", "reasoning", "mcp_call",
		"conversation.item.input_audio_transcription.completed", "output_audio", "instructions"},
	"role": {"user", "assistant", "system", "developer", "tool", "function", "model", "king"},
	"op":   {"append", "update", "remove", "truncate"}, "state": {"started", "done"}, "format": {"items", "text", "openai"},
	"url": {"https://a/b", "data:image/png;base64,AA==", "data:,x", "ftp://x"},
}

// TestRandomShapes: objects of the known names with values of any kind, in any nesting: where the fuzzer would mostly find broken
// JSON, this finds broken shapes.
func TestRandomShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(shape(t, 0, ""))
		switch rapid.IntRange(0, 3).Draw(t, "outside") {
		case 0:
			data = []byte("[" + string(data) + "," + shape(t, 0, "") + "]")
		case 1:
			data = []byte(`{"` + rapid.SampledFrom([]string{"items", "messages", "input", "contents", "context"}).Draw(t, "list") + `":[` + string(data) + "," + shape(t, 0, "") + "]}")
		case 2:
			data = append(data, "\n"+shape(t, 0, "")...)
		}
		for _, format := range Formats() {
			check(t, format, data)
		}
	})
}

func shape(t *rapid.T, depth int, name string) string {
	kind := rapid.IntRange(0, 11).Draw(t, "kind")
	switch name {
	case "id", "call_id", "name", "tool_call_id", "tool_use_id", "message_id", "text", "output", "url", "detail", "agent_id", "transcript", "mimeType", "data", "llm":
		if kind < 10 {
			kind = 11 // mostly what it should be
		}
	}
	switch {
	case depth == 0 || kind <= 3 && depth < 4:
		var fields []string
		if rapid.IntRange(0, 9).Draw(t, "usual") > 0 { // what an element mostly has, so that the rest is reached
			for _, key := range []string{"type", "role"} {
				if depth == 0 || rapid.Bool().Draw(t, key) {
					fields = append(fields, fmt.Sprintf("%q:%q", key, rapid.SampledFrom(valuesOf[key]).Draw(t, "value")))
				}
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "fields") {
			key := rapid.SampledFrom(vocabulary).Draw(t, "key")
			fields = append(fields, fmt.Sprintf("%q:%s", key, shape(t, depth+1, key)))
		}
		return "{" + strings.Join(fields, ",") + "}"
	case kind <= 5 && depth < 4:
		var elements []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			elements = append(elements, shape(t, depth+1, name))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case kind == 6:
		return rapid.SampledFrom([]string{"null", "true", "false", "0", "1", "-1.5e3", `"\ud83d"`, `"\u0000"`, "\"\xff\""}).Draw(t, "scalar")
	}
	if values := valuesOf[name]; values != nil {
		return fmt.Sprintf("%q", rapid.SampledFrom(values).Draw(t, "value"))
	}
	return rapid.SampledFrom([]string{`"a"`, `"b"`, `"x y"`, `""`, `"⟦image: x⟧"`, `"User: hi"`}).Draw(t, "string")
}
