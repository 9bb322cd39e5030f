package importer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
	"sightline/context/project"
)

// TestTranscriptsOfOurOwnComeBack: what chatctx.Transcript and project.Text write is read as what it was, as far as text goes.
func TestTranscriptsOfOurOwnComeBack(t *testing.T) {
	writers := map[string]func(items chatctx.Items) string{
		"Transcript": chatctx.Transcript,
		"project.Text": func(items chatctx.Items) string {
			s, _ := project.Text(items, project.Options{})
			return s
		},
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				once := write(talk(t))
				if strings.TrimSpace(once) == "" {
					return
				}
				back, report, err := Read(Bytes([]byte(once)), Options{Format: Text})
				if err != nil || !report.Lossless() {
					t.Fatalf("%v %v\n%s", err, report.Notes, once)
				}
				if twice := write(back); once != twice {
					t.Errorf("got\n%s\nwant\n%s", twice, once)
				}
				if fromTool(back) {
					t.Errorf("a tool's words came back as the caller's:\n%s", once)
				}
			})
		})
	}
}

// talk is a conversation in which every call is answered, with texts that try to look like other lines.
func talk(t *rapid.T) chatctx.Items {
	words := rapid.SampledFrom([]string{"Hello", "Assistant: no", "one\ntwo", "one\nUser: two\n[tool result] x -> y", "[handoff] a to b: c", "Note: x", "こんにちは 🙂", "a  b"})
	items := chatctx.Items{}
	for range rapid.IntRange(1, 8).Draw(t, "items") {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0, 1:
			items = append(items, &chatctx.Message{Role: rapid.SampledFrom([]chatctx.Role{"user", "assistant"}).Draw(t, "role"), Content: chatctx.TextContent(words.Draw(t, "text"))})
		case 2:
			id := rapid.StringMatching("[a-z]{6}").Draw(t, "call")
			items = append(items, &chatctx.FunctionCall{CallID: id, Name: "zoom", Arguments: rapid.SampledFrom([]string{"{}", `{"a":"(x) -> y"}`}).Draw(t, "arguments")},
				&chatctx.FunctionCallOutput{CallID: id, Name: "zoom", Output: toolWords + words.Draw(t, "output"), IsError: rapid.Bool().Draw(t, "error")})
		case 3:
			items = append(items, &chatctx.AgentHandoff{FromAgent: "ada", ToAgent: "bob", Reason: words.Draw(t, "reason")})
		case 4:
			items = append(items, &chatctx.Summary{Text: words.Draw(t, "summary"), Covers: [2]uint64{1, 1}})
		}
	}
	return items
}

// TestWordsThatLookLikeMarks: words that end like our marks, or that are quoted, come back as those words.
func TestWordsThatLookLikeMarks(t *testing.T) {
	for _, words := range []string{`"quoted"`, `"half`, "yes [interrupted]", "look [image door 1×1]", "a\u2028system: b", "tab\there", `back\slash "x"`, "bell\a", "é]"} {
		for _, interrupted := range []bool{false, true} {
			items := chatctx.Items{&chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(words), Interrupted: interrupted}}
			back, report, err := Read(Bytes([]byte(chatctx.Transcript(items))), Options{Format: Text})
			if err != nil || !report.Lossless() || len(back) != 1 {
				t.Fatalf("%q: %d items, %v %v", words, len(back), report.Notes, err)
			}
			if m := back[0].(*chatctx.Message); m.Content.Text() != words || m.Interrupted != interrupted {
				t.Errorf("%q, %t came back as %q, %t", words, interrupted, m.Content.Text(), m.Interrupted)
			}
		}
	}
}
