package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

var from = chatctx.Origin{Author: "tester", Epoch: 1, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func openLog(t testing.TB) *chatctx.Log {
	t.Helper()
	l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPropertyTallyIsARecount drives a log with random operations; after each, a tally that follows it, one that began at a
// snapshot, and a full recount are equal.
func TestPropertyTallyIsARecount(t *testing.T) {
	exact, err := Exact("gpt-4o")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		counter := rapid.SampledFrom([]Counter{Plain(), Heuristic(), exact, Quarters()}).Draw(rt, "counter")
		log := openLog(t)
		cursor, err := log.Follow(0)
		if err != nil {
			rt.Fatal(err)
		}
		tally, n := NewTally(counter), 0
		id := func(rt *rapid.T) string { return fmt.Sprint("i", rapid.IntRange(0, 15).Draw(rt, "id")) }
		try := func(op chatctx.Op) {
			n++
			op.ID = fmt.Sprint("op", n)
			_, _ = log.Append(t.Context(), from, op) // refusals are part of the schedule: they change nothing
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { try(chatctx.Op{Kind: chatctx.OpAppend, Item: anItem(rt, id(rt))}) },
			"update": func(rt *rapid.T) {
				content := chatctx.TextContent(rapid.StringN(0, 20, -1).Draw(rt, "text"))
				try(chatctx.Op{Kind: chatctx.OpUpdate, ItemID: id(rt), Changes: chatctx.Changes{Content: &content}})
			},
			"remove": func(rt *rapid.T) { try(chatctx.Op{Kind: chatctx.OpRemove, ItemID: id(rt)}) },
			"truncate": func(rt *rapid.T) {
				try(chatctx.Op{Kind: chatctx.OpTruncate, MaxItems: new(rapid.IntRange(1, 8).Draw(rt, "n"))})
			},
			"restart": func(*rapid.T) { tally = TallyOf(counter, log.Snapshot()); cursor, _ = log.Follow(log.Head()) },
			"": func(rt *rapid.T) {
				if err := tally.CatchUp(t.Context(), cursor); err != nil {
					rt.Fatal(err)
				}
				items := log.Snapshot().Items
				if want := counter.Items(items); tally.Total() != want || tally.Len() != len(items) || tally.Seq() != log.Head() {
					rt.Fatalf("tally: %d tokens, %d items, seq %d; recount: %d, %d, %d", tally.Total(), tally.Len(), tally.Seq(), want, len(items), log.Head())
				}
			},
		})
	})
}

func anItem(rt *rapid.T, id string) chatctx.Item {
	text := rapid.StringN(0, 30, -1).Draw(rt, "text")
	call := fmt.Sprint("c", rapid.IntRange(0, 9).Draw(rt, "call"))
	return rapid.SampledFrom([]chatctx.Item{
		&chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.Text{Text: text}, chatctx.ImageContent{URL: "https://x/y", Detail: "auto", Width: 700, Height: 300}}},
		&chatctx.Message{ID: id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)},
		&chatctx.FunctionCall{ID: id, CallID: call, Name: "f", Arguments: text},
		&chatctx.FunctionCallOutput{ID: id, CallID: call, Name: "f", Output: text},
		&chatctx.AgentHandoff{ID: id, ToAgent: "b", Reason: text},
		&chatctx.ConfigUpdate{ID: id, Instructions: text + "x", Tools: json.RawMessage(`[{"name":"f"}]`)},
		&chatctx.Summary{ID: id, Text: text + "x", Covers: [2]uint64{1, 1}},
		&chatctx.PipelineSwitch{ID: id, State: "started"},
	}).Draw(rt, "item")
}

func TestTallyRefusesAGap(t *testing.T) {
	tally := NewTally(Heuristic())
	err := tally.Apply(chatctx.Entry{Seq: 2, Op: chatctx.OpAppend, Item: &chatctx.Summary{ID: "s", Text: "x"}})
	var e *chatctx.Error
	if !errors.As(err, &e) || e.Kind != chatctx.LogDamaged || tally.Total() != 0 || tally.Seq() != 0 {
		t.Errorf("a gap: %v, total %d, seq %d", err, tally.Total(), tally.Seq())
	}
}

// TestWhatIsCounted: the heuristic counts what the seeds' estimate leaves out.
func TestWhatIsCounted(t *testing.T) {
	args := `{"order_id": "456", "reason": "` + strings.Repeat("late ", 20) + `"}`
	for name, c := range map[string]struct {
		item        chatctx.Item
		plain, more int
	}{
		"arguments":       {&chatctx.FunctionCall{Name: "f", Arguments: args}, 0, 30},
		"an image":        {&chatctx.Message{Content: chatctx.Content{chatctx.ImageContent{Width: 640, Height: 480}}}, 0, 400},
		"Thai":            {&chatctx.Message{Content: chatctx.TextContent(strings.Repeat("สวัสดีครับ", 10))}, 2, 30},
		"instructions":    {&chatctx.ConfigUpdate{Instructions: "be kind to the caller"}, 0, 5},
		"a handoff":       {&chatctx.AgentHandoff{ToAgent: "billing", Reason: "dispute of a charge"}, 0, 5},
		"a tool's result": {&chatctx.FunctionCallOutput{Output: `{"status":"shipped"}`}, 2, 5},
	} {
		if got := Plain().Item(c.item); got != c.plain {
			t.Errorf("%s: the seeds count %d, want %d", name, got, c.plain)
		}
		if got := Heuristic().Item(c.item); got < c.more {
			t.Errorf("%s: the heuristic counts %d, want at least %d", name, got, c.more)
		}
	}
	if got := (Counter{}).Item(&chatctx.Summary{Text: "x y"}) + (Counter{}).Text("x") + (Counter{}).Image(chatctx.ImageContent{}); got != 0 {
		t.Errorf("the zero Counter counts %d", got)
	}
}
