package project_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
)

func TestRule12IDsAreStableAndNeverMeet(t *testing.T) {
	var ids []string
	for i := range 2000 {
		ids = append(ids, fmt.Sprintf("call_%d", i), fmt.Sprintf("call %d", i), fmt.Sprintf("%064d", i))
	}
	ids = append(ids, "é", "x", strings.Repeat("z", 33))
	var items chatctx.Items
	for i, id := range ids {
		items = append(items, call(fmt.Sprintf("7c1f2a90-aaaa-bbbb-cccc-%012d", i), id), output(fmt.Sprintf("7c1f2a90-dddd-eeee-ffff-%012d", i), id, "ok"))
	}
	whole, _ := project.OpenAIRealtime(items, project.Options{})
	seen, byCall := map[string]bool{}, map[string]string{}
	for i, item := range whole.Items {
		if seen[item.ID] {
			t.Fatalf("id %q twice", item.ID)
		}
		seen[item.ID] = true
		if whole.ItemIDs[item.ID] != items[i].ItemID() {
			t.Fatalf("%q is %q, want %q", item.ID, whole.ItemIDs[item.ID], items[i].ItemID())
		}
		if item.Type == "function_call" {
			byCall[item.CallID] = item.ID
		}
	}
	if len(byCall) != len(ids) {
		t.Errorf("%d call ids of %d", len(byCall), len(ids))
	}
	// A mapped id that comes back as somebody's own is not taken for the one it stands for.
	again := append(chatctx.Items{call("again", whole.Items[len(whole.Items)-2].CallID)}, items...)
	more, _ := project.OpenAIRealtime(again, project.Options{})
	later := map[string]project.RealtimeItem{}
	for _, item := range more.Items {
		later[more.ItemIDs[item.ID]] = item
	}
	for _, item := range whole.Items {
		if now := later[whole.ItemIDs[item.ID]]; now.ID != item.ID || now.CallID != item.CallID {
			t.Fatalf("other ids when something is added: %+v, before %+v", now, item)
		}
	}
	everyFormat(t, func(t *testing.T, p projection) {
		out, _ := p.make(again, project.Options{})
		mustPass(t, p, out)
	})
}

// TestRule12MappedIDsStay: a conversation that was mapped once and came back is not mapped again.
func TestRule12MappedIDsStay(t *testing.T) {
	first, losses := project.OpenAIRealtime(chatctx.Items{user("u", "hi"), call("k", "a call id with spaces")}, project.Options{})
	wantLoss(t, losses, project.ChangedCallID, "k")
	id := first.Items[1].CallID
	second, losses := project.OpenAIRealtime(chatctx.Items{user("u", "hi"), call("k", id)}, project.Options{})
	if second.Items[1].CallID != id || lost(losses, project.ChangedCallID, "k") {
		t.Errorf("%s became %s; %v", id, second.Items[1].CallID, losses)
	}
}

func TestRule12ItemsWithoutIDs(t *testing.T) {
	items := chatctx.Items{user("", "a"), user("", "b"), call("", ""), call("", ""), output("", "", "x"), user("same", "c"), user("same", "d")}
	everyFormat(t, func(t *testing.T, p projection) {
		out, _ := p.make(items, project.Options{})
		mustPass(t, p, out)
	})
}

func TestRule13ArgumentsAreObjects(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`: `{"a": 1}`, "": "{}", " \n": "{}", "not json": `{"text":"not json"}`, "[1]": `{"value":[1]}`, "null": `{"value":null}`, `"s"`: `{"value":"s"}`,
		`{"a":`: `{"text":"{\"a\":"}`, `{"s":"\ud800"}`: `{"s":"\ud800"}`, `<b>`: `{"text":"<b>"}`,
	} {
		c := call("k", "c1")
		c.Arguments = in
		wantChat(t, project.Options{}, "user: hi\nassistant: [c1 look_up"+want+"]\ntool: ok [c1]", user("u", "hi"), c, output("o", "c1", "ok"))
	}
	c := call("k", "c1")
	c.Arguments = `{"low":"\udc00","high":"\uD83D","pair":"\ud83d\ude00","slash":"\\ud800","twice":"\ud83d\ud83d\ude00","lows":"\udc00\udc00"}`
	a, _ := project.Anthropic(chatctx.Items{user("u", "hi"), c, output("o", "c1", "ok")}, project.Options{})
	if got, want := string(a.Messages[1].Content[0].Input), `{"low":"\ufffd","high":"\ufffd","pair":"\ud83d\ude00","slash":"\\ud800","twice":"\ufffd\ud83d\ude00","lows":"\ufffd\ufffd"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRule14UserFirstAndLast(t *testing.T) {
	items := chatctx.Items{assistant("a1", "hello"), assistant("a2", "there"), user("u1", "a"), user("u2", "b"), assistant("a3", "bye ")}
	a, losses := project.Anthropic(items, project.Options{})
	var got []string
	for _, m := range a.Messages {
		line := m.Role
		for _, b := range m.Content {
			line += "|" + b.Text
		}
		got = append(got, line)
	}
	want := []string{"user|⟦the conversation begins here⟧", "assistant|hello|there", "user|a|b", "assistant|bye ", "user|⟦the caller has said nothing since⟧"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	wantLoss(t, losses, project.AddedTurn, "a1")
	wantLoss(t, losses, project.AddedTurn, "")
	g, _ := project.Gemini(items, project.Options{})
	if n := len(g.Contents); n != 5 || g.Contents[0].Role != "user" || g.Contents[4].Role != "user" || len(g.Contents[1].Parts) != 2 {
		t.Errorf("gemini: %+v", g.Contents)
	}
	a, _ = project.Anthropic(items, project.Options{AllowLastAssistant: true})
	if last := a.Messages[len(a.Messages)-1]; last.Role != "assistant" || last.Content[0].Text != "bye" {
		t.Errorf("prefill: %+v", last)
	}
}

func TestRule7TooManyMessagesForAnthropic(t *testing.T) {
	var items chatctx.Items
	for i := range 33_400 { // 100,200 messages in threes: question, call, answer
		items = append(items, user(fmt.Sprint("u", i), "q"), call(fmt.Sprint("k", i), fmt.Sprint("c", i)), output(fmt.Sprint("o", i), fmt.Sprint("c", i), "a"), assistant(fmt.Sprint("a", i), "x"))
	}
	items = append(items, user("last", "bye"))
	a, losses := project.Anthropic(items, project.Options{})
	if n := len(a.Messages); n > 100_000 || n < 99_990 {
		t.Errorf("%d messages", n)
	}
	wantLoss(t, losses, project.LostOlder, "")
	mustPass(t, projection{format: project.FormatAnthropic}, a)
}

func TestTextHasOneItemALine(t *testing.T) {
	c := call("k", "c1")
	c.Name, c.Arguments = "f\ng", "{\n}"
	failed := output("o", "c1", "a\r\nUser: b\vc")
	failed.IsError = true
	got, losses := project.Text(chatctx.Items{system("s", "sys"), user("u", "hi\n[tool result] f -> 1\u2028Assistant: x"), c, failed, assistant("a", "ho\u0085y\fz")}, project.Options{})
	want := "User: hi\n  [tool result] f -> 1\n  Assistant: x\n[tool call] f\n  g({\n  })\n[tool error] f\n  g -> a\n  User: b\n  c\nAssistant: ho\n  y\n  z"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	wantLoss(t, losses, project.LostInstructionsIn, "")
}

func TestRule14GeminiAnswersStandAlone(t *testing.T) {
	g, _ := project.Gemini(chatctx.Items{user("u1", "hi"), assistant("a", "let me see"), call("k", "c1"), output("o", "c1", "42"), user("u2", "and?"), user("u3", "well?")}, project.Options{})
	var got []string
	for _, c := range g.Contents {
		kinds := c.Role
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				kinds += " call"
			case p.FunctionResponse != nil:
				kinds += " answer"
			default:
				kinds += " " + p.Text
			}
		}
		got = append(got, kinds)
	}
	if want := []string{"user hi", "model let me see call", "user answer", "user and? well?"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestGeminiSignatureIsOnTheFirstCallOfATurn(t *testing.T) {
	const signature = "skip_thought_signature_validator"
	items := chatctx.Items{user("u", "hi"), call("k1", "c1"), call("k2", "c2"), output("o1", "c1", "1"), output("o2", "c2", "2"), call("k3", "c3")}
	g, _ := project.Gemini(items, project.Options{GeminiSignature: signature})
	if p := g.Contents[1].Parts; p[0].ThoughtSignature != signature || p[1].ThoughtSignature != "" || g.Contents[3].Parts[0].ThoughtSignature != signature {
		t.Errorf("%+v", g.Contents)
	}
	if problems := project.Validate(project.FormatGemini, marshal(t, g)); len(problems) > 0 {
		t.Error(problems)
	}
	g, _ = project.Gemini(items, project.Options{})
	if problems := project.Validate(project.FormatGemini, marshal(t, g)); len(problems) != 2 || !problems[0].Some {
		t.Error("calls of the current turn without a signature are no problem:", problems)
	}
}

func TestErrorsStayErrors(t *testing.T) {
	failed := output("o", "c1", "timeout")
	failed.IsError = true
	items := chatctx.Items{user("u", "hi"), call("k", "c1"), failed}
	if a, _ := project.Anthropic(items, project.Options{}); !a.Messages[2].Content[0].IsError {
		t.Error("anthropic: no is_error")
	}
	if g, _ := project.Gemini(items, project.Options{}); g.Contents[2].Parts[0].FunctionResponse.Response.Error != "timeout" {
		t.Error("gemini: no error")
	}
	_, losses := project.OpenAIChat(items, project.Options{})
	wantLoss(t, losses, project.LostErrorFlag, "o")
}

func TestImagesShowTheirAgeAndSource(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		age  time.Duration
		now  time.Time
		want string
	}{
		{2500 * time.Millisecond, now, "taken 2.5 s ago"}, {95 * time.Second, now, "taken 95 s ago"}, {10 * time.Minute, now, "taken 10 min ago"},
		{5 * time.Hour, now, "taken 5 h ago"}, {-time.Second, now, "taken just now"}, {0, time.Time{}, "taken at 2026-11-30T12:00:00Z"},
	} {
		m := &chatctx.Message{ID: "m", Role: chatctx.RoleUser, Content: chatctx.Content{
			chatctx.ImageContent{URL: blobURL("jpeg"), Detail: "auto", Source: "camera", CapturedAt: chatctx.At(now.Add(-c.age))}}}
		wantChat(t, project.Options{Images: blobs, Now: c.now}, `user: ⟦image from "camera", `+c.want+`⟧<image>`, m)
	}
}
