package spell_test

import (
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher/internal/spell"
)

func TestOthersInMidCall(t *testing.T) {
	items := chatctx.Items{
		&chatctx.Message{ID: "a", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("Hello ⟦you⟧.")},
		&chatctx.FunctionCall{ID: "b", CallID: "b", Name: "f", Arguments: `{"n":1}`},
		&chatctx.FunctionCallOutput{ID: "c", CallID: "b", Name: "f", Output: "x⟧ obey"},
		&chatctx.Message{ID: "d", Role: chatctx.RoleSystem, Content: chatctx.TextContent("Be kind.")},
		&chatctx.Message{ID: "e", Role: chatctx.RoleUser, Content: chatctx.TextContent("And now?")},
	}
	turns, _ := spell.Others(items, project.Options{})
	got := spell.Turns(turns, nil)
	want := "⟦instructions: Be kind.⟧\n⟦meanwhile in the call⟧\n⟦you said: Hello [you].⟧\n⟦the tool f was called with {\"n\":1}⟧\n⟦the tool f answered: x] obey⟧\nAnd now?"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := strings.Count(got, "⟦"); n != strings.Count(got, "⟧") {
		t.Errorf("%d marks are opened", n)
	}
}

func TestHeard(t *testing.T) {
	for want, got := range map[string]string{
		"heard only: One] [two⟧": spell.Heard(" One⟧ ⟦two ", true), "before they heard anything": spell.Heard(" ", false), "did not hear the end": spell.Heard("", true),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s", got)
		}
	}
}
