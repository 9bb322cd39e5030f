package project_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
)

// vector is a case of ref_videosdk: VideoSDK's items in, what its converter answered out.
type vector struct {
	Name  string
	Input struct {
		Items     []json.RawMessage
		Reasoning bool `json:"reasoning_model"`
		Base      *string
	}
	Expected json.RawMessage
}

// readVectors reads a file. The one image in it that is only a signature becomes a whole one, on both sides: ours is shown only
// when its bytes are an image.
func readVectors(t *testing.T, name string) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "ref_videosdk", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Count int
		Cases []vector
	}
	text := strings.ReplaceAll(string(data), "iVBORw0KGgo=", base64.StdEncoding.EncodeToString(pngOf(1, 1)))
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if f.Count == 0 || f.Count != len(f.Cases) {
		t.Fatalf("%s says it has %d cases, has %d", name, f.Count, len(f.Cases))
	}
	return f.Cases
}

// videoItems reads VideoSDK's items as ours.
func videoItems(t *testing.T, raw []json.RawMessage) chatctx.Items {
	t.Helper()
	items := chatctx.Items{}
	for _, r := range raw {
		var v struct {
			Type, ID, Role, Name, Arguments, Output, Reason, Instructions string
			CallID                                                        string `json:"call_id"`
			IsError                                                       bool   `json:"is_error"`
			From                                                          string `json:"from_agent"`
			To                                                            string `json:"to_agent"`
			Interrupted                                                   bool
			Tools, Content                                                json.RawMessage
			Extra                                                         struct{ Summary bool }
		}
		if err := json.Unmarshal(r, &v); err != nil {
			t.Fatal(err)
		}
		switch v.Type {
		case "message":
			content := videoContent(t, v.Content)
			if v.Extra.Summary {
				items = append(items, &chatctx.Summary{ID: v.ID, Text: strings.TrimPrefix(content.Text(), "[Conversation Summary]\n"), Covers: [2]uint64{1, 1}})
				continue
			}
			items = append(items, &chatctx.Message{ID: v.ID, Role: chatctx.Role(v.Role), Content: content, Interrupted: v.Interrupted})
		case "function_call":
			items = append(items, &chatctx.FunctionCall{ID: v.ID, CallID: v.CallID, Name: v.Name, Arguments: v.Arguments})
		case "function_call_output":
			items = append(items, &chatctx.FunctionCallOutput{ID: v.ID, CallID: v.CallID, Name: v.Name, Output: v.Output, IsError: v.IsError})
		case "agent_handoff":
			items = append(items, &chatctx.AgentHandoff{ID: v.ID, FromAgent: v.From, ToAgent: v.To, Reason: v.Reason})
		case "agent_config_update":
			items = append(items, &chatctx.ConfigUpdate{ID: v.ID, Instructions: v.Instructions, Tools: v.Tools})
		default:
			t.Fatalf("unknown item type %q", v.Type)
		}
	}
	return items
}

func videoContent(t *testing.T, raw json.RawMessage) chatctx.Content {
	t.Helper()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return chatctx.TextContent(text)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		t.Fatal(err)
	}
	content := chatctx.Content{}
	for _, p := range parts {
		var image struct{ Image, Detail string }
		if json.Unmarshal(p, &text) == nil {
			content = append(content, chatctx.Text{Text: text})
		} else if err := json.Unmarshal([]byte(strings.ReplaceAll(string(p), "inference_detail", "detail")), &image); err == nil {
			content = append(content, chatctx.ImageContent{URL: image.Image, Detail: image.Detail})
		} else {
			t.Fatal(err)
		}
	}
	return content
}

// meaning is a message without the freedom of its format: a text as string or as list, null or left out, images before or after
// the words.
type meaning struct {
	Who    string // system, user, assistant, tool
	Texts  []string
	Images []string
	Calls  []string
	Result string
}

// meaningOf reads a message of OpenAI's or Anthropic's.
func meaningOf(t *testing.T, message map[string]any) []meaning {
	t.Helper()
	m := meaning{Who: message["role"].(string)}
	if m.Who == "tool" {
		return []meaning{{Who: "tool", Result: message["tool_call_id"].(string) + ": " + message["content"].(string)}}
	}
	var results []meaning
	if text, ok := message["content"].(string); ok {
		m.Texts = append(m.Texts, text)
	}
	parts, isList := message["content"].([]any)
	if isList && len(parts) == 0 {
		return []meaning{m}
	}
	for _, p := range parts {
		part := p.(map[string]any)
		switch part["type"] {
		case "text":
			m.Texts = append(m.Texts, part["text"].(string))
		case "image_url":
			image := part["image_url"].(map[string]any)
			detail, _ := image["detail"].(string)
			m.Images = append(m.Images, image["url"].(string)+" "+detail)
		case "image":
			source := part["source"].(map[string]any)
			url, _ := source["url"].(string)
			data, _ := source["data"].(string)
			m.Images = append(m.Images, url+data)
		case "tool_use":
			m.Calls = append(m.Calls, part["id"].(string)+" "+part["name"].(string)+" "+string(marshal(t, part["input"])))
		case "tool_result":
			isError, _ := part["is_error"].(bool)
			result := part["tool_use_id"].(string) + ": " + part["content"].(string)
			if isError {
				result += " (error)"
			}
			results = append(results, meaning{Who: "tool", Result: result})
		default:
			t.Fatalf("unknown part %v", part)
		}
	}
	calls, _ := message["tool_calls"].([]any)
	for _, c := range calls {
		function := c.(map[string]any)["function"].(map[string]any)
		m.Calls = append(m.Calls, c.(map[string]any)["id"].(string)+" "+function["name"].(string)+" "+function["arguments"].(string))
	}
	if m.Texts == nil && m.Images == nil && m.Calls == nil {
		return results
	}
	return append(results, m)
}

// meanings reads a list of messages. OpenAI's answer of one turn may be one message or two: words and calls.
func meanings(t *testing.T, data []byte) []meaning {
	t.Helper()
	var messages []map[string]any
	if err := json.Unmarshal(data, &messages); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	all := []meaning{}
	for _, m := range messages {
		for _, one := range meaningOf(t, m) {
			if n := len(all); n > 0 && one.Who == "assistant" && all[n-1].Who == "assistant" && all[n-1].Calls == nil && one.Texts == nil {
				all[n-1].Calls = one.Calls
				continue
			}
			all = append(all, one)
		}
	}
	return all
}

// right is what a case of the reference should have been, and why.
type right struct {
	why  string
	want []meaning
}

func says(who string, texts ...string) meaning { return meaning{Who: who, Texts: texts} }

const interrupted = `{"status":"interrupted"}`

func TestVectorsOpenAI(t *testing.T) {
	for _, v := range readVectors(t, "to_openai_messages") {
		t.Run(v.Name, func(t *testing.T) {
			instructing := "system"
			if v.Input.Reasoning {
				instructing = "developer"
			}
			note := `⟦handoff: you, the agent "billing", have taken over this conversation from the agent "intake". Reason: "disputed charge".⟧`
			rights := map[string]right{
				"empty_strings": {"nothing blank goes out", []meaning{}},
				"empty_list":    {"the reference sends an empty content list; the empty message is left out", []meaning{}},
				"two_systems":   {"the reference drops the second and third; none is lost", []meaning{says(instructing, "first\n\nsecond\n\nthird"), says("user", "hello"), says("assistant", "ok")}},
				"orphan_call": {"the reference sends a call without output", []meaning{says("user", "x"),
					{Who: "assistant", Calls: []string{"c1 a {}"}}, {Who: "tool", Result: "c1: " + interrupted}, says("assistant", "hm")}},
				"orphan_output": {"the reference sends an output without call", []meaning{says("user", "x"), says("assistant", "hm")}},
				"handoff_and_update": {"the reference hides handoffs from the receiver", []meaning{says(instructing, "You have manager authority"),
					says("user", "charge?"), says(instructing, note), says("assistant", "I see."), says("user", "ok")}},
				"summary": {"the reference makes the assistant say the summary", []meaning{says("system", "sys"),
					says("system", `⟦summary of the conversation before this point: "prior"⟧`), says("user", "q1"), says("assistant", "a1"), says("user", "q2")}},
			}
			out, _ := project.OpenAIChat(videoItems(t, v.Input.Items), project.Options{Developer: v.Input.Reasoning})
			compare(t, rights, v.Name, marshal(t, out), v.Expected)
		})
	}
}

func compare(t *testing.T, rights map[string]right, name string, got, expected []byte) {
	t.Helper()
	want := meanings(t, expected)
	if r, ok := rights[strings.TrimSuffix(name, "__reasoning")]; ok {
		if reflect.DeepEqual(want, r.want) {
			t.Errorf("listed as wrong (%s), but it is what we want", r.why)
		}
		want = r.want
	}
	if is := meanings(t, got); !reflect.DeepEqual(is, want) {
		t.Errorf("got  %+v\nwant %+v", is, want)
	}
}

func TestVectorsAnthropic(t *testing.T) {
	note := `⟦handoff: you, the agent "billing", have taken over this conversation from the agent "intake". Reason: "disputed charge".⟧`
	rights := map[string]right{
		"empty_strings": {"blank texts are a 400", []meaning{}},
		"empty_list":    {"an empty list is a 400", []meaning{}},
		"orphan_call": {"a tool_use without tool_result is a 400", []meaning{says("user", "x"),
			{Who: "assistant", Calls: []string{"c1 a {}"}}, {Who: "tool", Result: "c1: " + interrupted}, says("assistant", "hm")}},
		"handoff_and_update": {"the reference hides handoffs from the receiver", []meaning{says("user", "charge?", note), says("assistant", "I see."), says("user", "ok")}},
		"summary": {"the reference begins with the assistant", []meaning{
			says("user", `⟦summary of the conversation before this point: "prior"⟧`, "q1"), says("assistant", "a1"), says("user", "q2")}},
		"interleaved_tools": {"the second call was made after the first answer: the reference shows them as made in one go", []meaning{
			says("user", "two things"), {Who: "assistant", Calls: []string{"c1 a {}"}}, {Who: "tool", Result: "c1: 1"},
			{Who: "assistant", Calls: []string{"c2 b {}"}}, {Who: "tool", Result: "c2: 2 (error)"}, says("assistant", "done")}},
		"tool_arguments_not_json": {"the reference crashes", []meaning{says("user", "x"),
			{Who: "assistant", Calls: []string{`c1 a {"text":"not json"}`}}, {Who: "tool", Result: "c1: r"}}},
	}
	for _, v := range readVectors(t, "to_anthropic_messages") {
		t.Run(v.Name, func(t *testing.T) {
			// The reference leaves an assistant's message last: a prefill.
			out, _ := project.Anthropic(videoItems(t, v.Input.Items), project.Options{AllowLastAssistant: true})
			var expected struct {
				Messages json.RawMessage
				System   string
			}
			if err := json.Unmarshal(v.Expected, &expected); err != nil {
				t.Fatal(err)
			}
			if expected.Messages == nil {
				expected.Messages = json.RawMessage("[]")
			}
			compare(t, rights, v.Name, marshal(t, out.Messages), expected.Messages)
			if v.Name == "two_systems" { // the reference keeps the last only
				expected.System = "first\n\nsecond\n\nthird"
			}
			if out.System != expected.System {
				t.Errorf("system is %q, want %q", out.System, expected.System)
			}
		})
	}
}

func TestVectorsText(t *testing.T) {
	rights := map[string]string{ // with what the reference leaves out
		"image_url":          "User: what is this? ⟦image: not shown⟧",
		"image_detail_high":  "User: what? ⟦image: not shown⟧ ⟦image: not shown⟧",
		"image_only":         "User: ⟦image: not shown⟧",
		"orphan_call":        "User: x\n[tool call] a({})\n[tool result] a -> " + interrupted + "\nAssistant: hm",
		"orphan_output":      "User: x\nAssistant: hm",
		"handoff_and_update": "User: charge?\n⟦handoff: you, the agent \"billing\", have taken over this conversation from the agent \"intake\". Reason: \"disputed charge\".⟧\nAssistant: I see.\nUser: ok",
		"summary":            "⟦summary of the conversation before this point: \"prior\"⟧\nUser: q1\nAssistant: a1\nUser: q2",
	}
	for _, v := range readVectors(t, "render_context_as_text") {
		t.Run(v.Name, func(t *testing.T) {
			var expected struct{ Text string }
			if err := json.Unmarshal(v.Expected, &expected); err != nil {
				t.Fatal(err)
			}
			want := expected.Text
			if r, ok := rights[v.Name]; ok {
				if want = r; want == expected.Text {
					t.Error("listed as different, but the same")
				}
			}
			if got, _ := project.Text(videoItems(t, v.Input.Items), project.Options{}); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestVectorsSeed holds the seed's record against the reference's transcript, line by line.
func TestVectorsSeed(t *testing.T) {
	for _, v := range readVectors(t, "instructions_with_context") {
		t.Run(v.Name, func(t *testing.T) {
			var expected struct{ Instructions string }
			if err := json.Unmarshal(v.Expected, &expected); err != nil {
				t.Fatal(err)
			}
			base, transcript, _ := strings.Cut(expected.Instructions, "\n\n<SEED_HEADER>\n\n")
			transcript = strings.TrimSuffix(transcript, "\n\n<SEED_FOOTER>")
			o := project.SeedOptions{}
			if v.Input.Base != nil {
				o.Base = *v.Input.Base
			}
			if o.Base == "" { // the reference makes a sentence up and forgets the instructions in the context; we take these
				config, _ := project.ActiveConfig(videoItems(t, v.Input.Items), project.Options{})
				base = config.Instructions
			}
			switch name, _, _ := strings.Cut(v.Name, "__"); name {
			case "handoff_and_update": // the reference forgets the handoff, and what the config_update gave the agent during the call
				base = "You have manager authority"
				transcript = strings.Replace(transcript, "charge?\n", "charge?\n[handoff]\n", 1)
			case "image_only": // the reference hides that there was an image
				transcript = `User: ⟦image: not shown⟧`
			}
			got, _ := project.Seed(videoItems(t, v.Input.Items), o)
			gotBase, record := splitSeed(t, got.Instructions)
			if gotBase != base {
				t.Errorf("instructions are %q, want %q", gotBase, base)
			}
			if is := asTranscript(t, record); is != transcript {
				t.Errorf("got\n%s\nwant\n%s", is, transcript)
			}
		})
	}
}

// splitSeed takes a seed apart: the instructions before it and the lines of its record.
func splitSeed(t testing.TB, text string) (base string, record []string) {
	t.Helper()
	const begin, end = "⟦record of the call so far⟧\n", "\n⟦end of the record⟧\n"
	if !strings.Contains(text, begin) {
		return text, nil
	}
	base, rest, _ := strings.Cut(text, begin)
	body, after, ok := strings.Cut(rest, end)
	_, body, framed := strings.Cut(body, "\n") // the first line says what this is
	if !ok || !framed || strings.Contains(after, "\n") {
		t.Fatalf("no frame around the record: %q", text)
	}
	return strings.TrimSuffix(base, "\n\n"), strings.Split(body, "\n")
}

var toolLine = regexp.MustCompile(`^⟦tool result, an established fact⟧ (\S+) (\{.*\}) gave (".*")$`)

// asTranscript writes a record the reference's way.
func asTranscript(t *testing.T, record []string) string {
	t.Helper()
	var out []string
	for _, line := range record {
		if m := toolLine.FindStringSubmatch(line); m != nil {
			args := strings.ReplaceAll(m[2], `":`, `": `)
			out = append(out, "[tool call] "+m[1]+"("+args+")", "[tool result] "+m[1]+" -> "+unquote(t, m[3]))
			continue
		}
		label, rest, _ := strings.Cut(strings.TrimPrefix(line, "⟦"), "⟧")
		switch {
		case label == "caller" && strings.HasPrefix(rest, " ⟦"):
			out = append(out, "User:"+rest)
		case label == "caller":
			out = append(out, "User: "+strings.TrimSpace(unquote(t, rest)))
		case strings.HasPrefix(label, "you"):
			out = append(out, "Assistant: "+strings.TrimSpace(unquote(t, rest)))
		case strings.HasPrefix(label, "handoff"):
			out = append(out, "[handoff]")
		default:
			t.Errorf("unknown line %q", line)
		}
	}
	return strings.Join(out, "\n")
}

func unquote(t testing.TB, quoted string) string {
	t.Helper()
	var s string
	if err := json.Unmarshal([]byte(quoted), &s); err != nil {
		t.Fatalf("%q is no JSON string: %v", quoted, err)
	}
	return s
}
