package recorder

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/context/internal/oracle"
)

// sameItem says which reports of a vector are one item of the provider's. The reference has no ids and compares texts; a pipeline
// has them, so what the reference drops rightly comes under the same id, and what it drops wrongly does not.
var sameItem = map[string][]string{
	"same_text_dedupe":                {"a1", "a1", "u1", "a2"},
	"dedupe_looks_through_tool_items": {"a1", "", "a1"},
	"say_then_transcript_dedupe":      {"m12"},
}

// rightInstead holds what is right where the reference has a bug.
var rightInstead = map[string][]string{
	"user_repeats_yes_is_lost":                       {"user: yes", "user: yes"},
	"call_recorded_but_output_missing_blocks_output": {"call a({})", "output a: late result"},
	// Two calls without a call_id are recorded under generated ones; what has no name is refused and counted.
	"missing_call_id_dropped": {"call a({})", "output a: 1", "call a({})", "output a: 1"},
}

func TestRecordingVectors(t *testing.T) {
	cases, err := oracle.Read("testdata/ref_realtime_recording.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var in struct {
				Start  oracle.Items `json:"start"`
				Events []struct {
					Kind string     `json:"kind"`
					Data vectorData `json:"data"`
				} `json:"events"`
			}
			if err := json.Unmarshal(c.Input, &in); err != nil {
				t.Fatal(err)
			}
			log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
			for _, item := range in.Start.Items {
				if _, err := log.Append(t.Context(), chatctx.Origin{Author: "other", At: t0}, chatctx.Op{ID: "x-" + item.ItemID(), Kind: chatctx.OpAppend, Item: item}); err != nil {
					t.Fatal(err)
				}
			}
			resume(t, core, log)
			for i, e := range in.Events {
				item := ""
				if ids := sameItem[c.Name]; ids != nil {
					item = ids[i]
				}
				play(t, core, log, e.Data.reports(e.Kind, item, float64(i))...)
			}
			apply(t, log, core.Close(at(100)), at(100))
			want := rightInstead[c.Name]
			if want == nil {
				want = strings.Split(strings.TrimSuffix(show(expected(t, c.Expected)), "\n"), "\n")
			}
			wantLog(t, log, want...)
			if s := core.Stats(); c.Name == "missing_call_id_dropped" && (s.Generated != 2 || s.Nameless != 2) {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func expected(t *testing.T, data []byte) chatctx.Items {
	var items oracle.Items
	if err := json.Unmarshal(data, &items); err != nil {
		t.Fatal(err)
	}
	return items.Items
}

// resume tells a Core what is in a log.
func resume(t testing.TB, core *Core, l *chatctx.Log) {
	t.Helper()
	cursor, err := l.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, ok, err := cursor.TryNext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		core.Resume(e)
	}
}

type vectorData struct {
	Role      string  `json:"role"`
	Text      *string `json:"text"`
	Final     bool    `json:"is_final"`
	Name      string  `json:"name"`
	CallID    string  `json:"call_id"`
	Arguments string  `json:"arguments"`
	Output    string  `json:"output"`
	IsError   bool    `json:"is_error"`
}

// reports is what a pipeline would report instead of the reference's event.
func (d vectorData) reports(kind, item string, when float64) []said {
	if kind == "function_executed" {
		return []said{
			{when, Event{Kind: ToolCall, CallID: d.CallID, Name: d.Name, Arguments: d.Arguments}},
			{when, Event{Kind: ToolOutput, CallID: d.CallID, Name: d.Name, Output: d.Output, IsError: d.IsError}},
		}
	}
	who, _ := SpeakerOf(d.Role)
	text := ""
	if d.Text != nil {
		text = *d.Text
	}
	e := Event{Kind: Final, Who: who, Item: item, Text: text}
	if !d.Final {
		e.Kind = Partial
	}
	out := []said{{when, e}}
	if who == Assistant {
		out = append(out, said{when, Event{Kind: Done, Who: who, Item: item}})
	}
	return out
}

// TestProviderEventVectors: what the reference's plugins emit for recording, and the right thing where they are wrong.
func TestProviderEventVectors(t *testing.T) {
	cases, err := oracle.Read("testdata/ref_realtime_provider_events.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		var want struct {
			Emitted [][]json.RawMessage `json:"emitted"`
		}
		if err := json.Unmarshal(c.Expected, &want); err != nil {
			t.Fatal(err)
		}
		if right, bug := providerBugs[c.Name]; bug {
			seen[c.Name] = true
			t.Run(c.Name, func(t *testing.T) {
				log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
				play(t, core, log, right.reports...)
				apply(t, log, core.Close(at(100)), at(100))
				wantLog(t, log, right.want...)
			})
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
			var lines []string
			for i, e := range want.Emitted {
				var kind string
				var d vectorData
				if json.Unmarshal(e[0], &kind) != nil || json.Unmarshal(e[1], &d) != nil {
					continue // an error's text
				}
				switch kind {
				case "realtime_model_function_executed":
					play(t, core, log, d.reports("function_executed", "", float64(i))...)
					line := "output " + d.Name + ": " + d.Output
					if d.IsError {
						line += " [error]"
					}
					lines = append(lines, "call "+d.Name+"("+d.Arguments+")", line)
				case "realtime_model_transcription":
					play(t, core, log, d.reports(kind, "", float64(i))...)
					lines = append(lines, d.Role+": "+*d.Text)
				}
			}
			apply(t, log, core.Close(at(100)), at(100))
			wantLog(t, log, lines...)
		})
	}
	for name := range providerBugs {
		if !seen[name] {
			t.Errorf("there is no vector %s", name)
		}
	}
}

// providerBugs are the vectors that record bugs, with what a pipeline reports and what must be recorded then.
var providerBugs = map[string]struct {
	reports []said
	want    []string
}{
	"openai__cancelled_response_recorded_as_complete": {
		[]said{
			{1, delta("a1", "I was going to say a lot", 2400*time.Millisecond)},
			{2, Event{Kind: Done, Who: Assistant, Item: "a1", Cancelled: true}},
			{2.1, Event{Kind: Interrupted, Who: Assistant, Item: "a1", Heard: 600 * time.Millisecond}},
		},
		[]string{"assistant: I was [cut of: I was going to say a lot]"},
	},
	"openai__function_call_unknown_tool": {
		[]said{
			{1, Event{Kind: ToolCall, CallID: "call_9", Name: "unknown_tool", Arguments: "{}"}},
			{1, Event{Kind: ToolOutput, CallID: "call_9", Name: "unknown_tool", Output: "there is no tool unknown_tool", IsError: true}},
		},
		[]string{"call unknown_tool({})", "output unknown_tool: there is no tool unknown_tool [error]"},
	},
	"gemini__tool_lookup_order": geminiTool("lookup_order", `{"status":"shipped"}`, false),
	"gemini__tool_say_str":      geminiTool("say_str", "plain text", false),
	"gemini__tool_boom":         geminiTool("boom", "db down", true),
	"gemini__tool_ret_none":     geminiTool("ret_none", "null", false),
}

// geminiTool: the caller's words come in pieces and without an end; they are recorded before the call that they led to.
func geminiTool(name, output string, isError bool) struct {
	reports []said
	want    []string
} {
	line := "output " + name + ": " + output
	if isError {
		line += " [error]"
	}
	return struct {
		reports []said
		want    []string
	}{
		[]said{
			{1, Event{Kind: Partial, Who: Caller, Text: "where is"}},
			{1.5, Event{Kind: Partial, Who: Caller, Text: "where is my order"}},
			{2, Event{Kind: ToolCall, CallID: "g1", Name: name, Arguments: "{}"}},
			{3, Event{Kind: ToolOutput, CallID: "g1", Name: name, Output: output, IsError: isError}},
		},
		[]string{"user: where is my order", "call " + name + "({})", line},
	}
}
