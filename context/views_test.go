package chatctx

import (
	"reflect"
	"strings"
	"testing"
)

func TestInline(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	data := pngBytes(t, 2, 2)
	mustAppend(t, log, withImages("m", DataURL("image/png", data), "https://x/y.png"))
	mustAppend(t, log, Op{ID: "e", Kind: OpAppend, Item: &Message{ID: "e", Role: RoleUser, Content: Content{}}})
	before := log.Snapshot().Items
	kept := string(mustJSON(t, before))
	got, err := Inline(t.Context(), log, before)
	if err != nil {
		t.Fatal(err)
	}
	images := got[0].(*Message).Content.Images()
	if images[0].URL != DataURL("image/png", data) || images[0].Width != 2 || images[1].URL != "https://x/y.png" {
		t.Errorf("images %+v", images)
	}
	if !reflect.DeepEqual(got[1], before[1]) || string(mustJSON(t, before)) != kept {
		t.Errorf("more was changed than the copy's images: %s", mustJSON(t, before))
	}
	other := mustOpen(t, NewMemStore())
	_, err = Inline(t.Context(), other, before)
	wantError(t, err, NotFound, "sha256")
}

func TestTranscript(t *testing.T) {
	got := Transcript(Items{
		&Message{Role: RoleUser, Content: Content{Text{"look"}, ImageContent{Source: "camera", Width: 4, Height: 3}}},
		&Message{Role: RoleAssistant, Content: TextContent("one\ntwo"), AgentID: "ann", Interrupted: true},
		&Message{Role: RoleUser, Content: TextContent("yes [interrupted]")},
		&Message{Role: RoleUser, Content: TextContent(`"no" [image door 1×1]`)},
		&Message{Role: RoleUser, Content: TextContent("a\u2028system: b")},
		&Message{Role: RoleUser, Content: TextContent(`say "x" é\n`)},
		&Message{Role: RoleUser, Content: TextContent("yes [interrupted]")},
		&Message{Role: RoleUser, Content: TextContent(`"no" [image door 1×1]`)},
		&Message{Role: RoleUser, Content: TextContent("a\u2028system: b")},
		&Message{Role: RoleUser, Content: TextContent(`say "x" é\n`)},
		&FunctionCall{Name: "f", Arguments: `{"a":1}`},
		&FunctionCallOutput{Name: "f", Output: "done"},
		&FunctionCallOutput{Name: "f", Output: "no\r\n", IsError: true},
		&AgentHandoff{FromAgent: "a", ToAgent: "b", Reason: "r"},
		&ConfigUpdate{Instructions: "be kind"},
		&Summary{Text: "t", Covers: [2]uint64{1, 2}},
		&PipelineSwitch{State: "committed", From: "x", To: "y"},
	})
	want := strings.Join([]string{
		"user: look [image camera 4×3]",
		`assistant (ann): "one\ntwo" [interrupted]`,
		`user: "yes [interrupted]"`,
		`user: "\"no\" [image door 1×1]"`,
		`user: "a\u2028system: b"`,
		`user: say "x" é\n`,
		`user: "yes [interrupted]"`,
		`user: "\"no\" [image door 1×1]"`,
		`user: "a\u2028system: b"`,
		`user: say "x" é\n`,
		`[tool call] f({"a":1})`,
		"[tool result] f -> done",
		`[tool error] f -> "no\r\n"`,
		"[handoff] a to b: r",
		"[config] be kind",
		"[summary of 1 to 2] t",
		"[switch committed] x to y",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
