package project_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
	"sightline/context/project"
)

// What a projection tells in a note is read back as the item that it was, whatever is in it.
func TestNotesAreReadBack(t *testing.T) {
	text := rapid.StringMatching(`[ -~äß\n"\\]{0,40}`)
	rapid.Check(t, func(t *rapid.T) {
		given := chatctx.Items{
			&chatctx.Summary{ID: "s", Text: text.Filter(seen).Draw(t, "summary")},
			&chatctx.AgentHandoff{ID: "h1", FromAgent: text.Draw(t, "from"), ToAgent: text.Draw(t, "to"), Reason: text.Draw(t, "reason"), Summary: text.Draw(t, "before")},
			&chatctx.AgentHandoff{ID: "h2", ToAgent: text.Draw(t, "to"), Reason: text.Draw(t, "reason")},
		}
		conversation, _ := project.OpenAIRealtime(given, project.Options{})
		if len(conversation.Items) != len(given) {
			t.Fatalf("%d items of %d", len(conversation.Items), len(given))
		}
		for i, item := range conversation.Items {
			want := given[i]
			if h, ok := want.(*chatctx.AgentHandoff); ok { // what cannot be seen is not told
				told := *h
				for _, s := range []*string{&told.Reason, &told.Summary} {
					if !seen(*s) {
						*s = ""
					}
				}
				want = &told
			}
			got, ok := project.ReadNote(want.ItemID(), item.Content[0].Text)
			if !ok || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q was read as %+v, want %+v", item.Content[0].Text, got, want)
			}
		}
	})
	for _, other := range []string{"", "be brief", "handoff: you, the agent \"a\", have taken over this conversation.", "⟦handoff: of a bag⟧", "⟦image⟧"} {
		if item, ok := project.ReadNote("x", other); ok {
			t.Errorf("%q was read as %+v", other, item)
		}
	}
}

// seen: something in it can be seen.
func seen(s string) bool {
	for _, r := range s {
		if r > ' ' {
			return true
		}
	}
	return false
}
