package rules

import (
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

func user(text string) chatctx.Item {
	return &chatctx.Message{ID: "u", Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func assistant(text string) chatctx.Item {
	return &chatctx.Message{ID: "a", Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)}
}

func TestAnswers(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 5, 7, 0, time.UTC)
	camera := switcher.Sight{Source: "camera", State: "live", Width: 1024, Height: 1024, JPEG: make([]byte, 51234), Brightness: 118.4, Age: 210 * time.Millisecond}
	photo := &chatctx.Message{ID: "p", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.ImageContent{
		URL: "data:", Source: "camera", Width: 640, Height: 480, CapturedAt: chatctx.At(at.Add(-3 * time.Second))}}}
	saw := "I see your camera: 1024×1024, mean brightness 118 of 255 (normal light), captured 0.2 s ago."

	tests := []struct {
		name  string
		items chatctx.Items
		seen  []switcher.Sight
		want  string // exact, or "…" + a part of it
	}{
		{"nobody spoke", nil, nil, ""},
		{"only the system spoke", chatctx.Items{&chatctx.Message{ID: "s", Role: chatctx.RoleSystem, Content: chatctx.TextContent("hello")}}, nil, ""},
		{"what it sees", chatctx.Items{user("What do you SEE?")}, []switcher.Sight{camera}, saw},
		{"nothing to see", chatctx.Items{user("what do you see")}, nil, nothing},
		{"no image yet", chatctx.Items{user("look!")}, []switcher.Sight{{Source: "camera", State: "live"}}, "There is no image of your camera yet."},
		{"camera gone", chatctx.Items{user("look!")}, []switcher.Sight{{Source: "camera", State: "ended"}}, "Your camera has ended."},
		{"black camera", chatctx.Items{user("look")},
			[]switcher.Sight{{Source: "camera", State: "black", Width: 8, Height: 8, Brightness: 0.2, Age: time.Second}}, "…covered or muted"},
		{"two sources", chatctx.Items{user("look")}, []switcher.Sight{camera, {Source: "screen", Width: 2, Height: 1, Brightness: 250}},
			saw + " I see your screen: 2×1, mean brightness 250 of 255 (very bright), captured 0.0 s ago."},
		{"a stall of minutes", chatctx.Items{user("how old is it?")},
			[]switcher.Sight{{Source: "camera", State: "stalled", Width: 8, Height: 8, Age: 150 * time.Second}}, "The newest image of your camera was captured 2 min ago."},
		{"size", chatctx.Items{user("Which resolution?")}, []switcher.Sight{camera}, "The image of your camera has 1024×1024 pixels and 51234 bytes."},
		{"brightness", chatctx.Items{user("is it dark?")}, []switcher.Sight{camera}, "The mean brightness of your camera is 118 of 255: normal light."},
		{"first hello", chatctx.Items{user("hello")}, []switcher.Sight{camera}, "…Hello. I see"},
		{"second hello", chatctx.Items{user("hello"), assistant("Hello."), user("hi there")}, nil, "…Hello again."},
		{"a word inside a word is none", chatctx.Items{user("this seems odd")}, nil, `You said "this seems odd". I answer by rules only: ask "help". ` + nothing},
		{"counts", chatctx.Items{user("a"), assistant("b"), user("how many messages are there?")}, nil, "So far 2 messages from you and 1 answer from me."},
		{"images in the conversation", chatctx.Items{photo, user("how many images?")}, nil, "The conversation holds 1 image."},
		{"repeat", chatctx.Items{user("a red car"), assistant("b"), user("Repeat my last message")}, nil, `Before this you said "a red car".`},
		{"repeat an image", chatctx.Items{photo, user("repeat")}, nil, "Before this you sent 1 image without text."},
		{"nothing to repeat", chatctx.Items{user("repeat")}, nil, "This is your first message."},
		{"its own words", chatctx.Items{user("a"), assistant("b c"), user("what did you say?")}, nil, `I said "b c".`},
		{"time", chatctx.Items{user("what time is it?")}, nil, "It is 09:05:07 UTC on Monday, 30 November 2026."},
		{"help", chatctx.Items{user("help")}, nil, "…what do you see?"},
		{"an image alone", chatctx.Items{photo}, []switcher.Sight{camera}, "Your message shows an image of 640×480 from your camera, captured 3.0 s ago. " + saw},
		{"an empty message", chatctx.Items{user("")}, nil, "Your message is empty. " + nothing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Responder{}.Answer(t.Context(), Turn{At: at, Items: test.items, Seen: test.seen})
			part, loose := strings.CutPrefix(test.want, "…")
			if err != nil || (loose && !strings.Contains(got, part)) || (!loose && got != test.want) {
				t.Errorf("got  %q (%v)\nwant %q", got, err, test.want)
			}
		})
	}
}

func TestEveryRuleHasItsOwnAnswer(t *testing.T) {
	for _, r := range table {
		for _, phrase := range r.phrases {
			got, _ := Responder{}.Answer(t.Context(), Turn{Items: chatctx.Items{user(phrase)}})
			want := r.answer(Turn{}, readHistory(chatctx.Items{user(phrase)}))
			if got != want {
				t.Errorf("%q is answered by another rule: %q, want %q: a wider rule stands before it", phrase, got, want)
			}
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	got, _ := Responder{}.Answer(t.Context(), Turn{Items: chatctx.Items{user(strings.Repeat("ä", 5000))}})
	if len(got) > 800 || !strings.Contains(got, "…") {
		t.Errorf("%d bytes: %.80q", len(got), got)
	}
}
