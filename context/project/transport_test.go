package project

import (
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
)

func TestTransportLosses(t *testing.T) {
	items := chatctx.Items{
		&chatctx.Message{ID: "m", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("Wait"), TextGenerated: "Wait a little"},
		&chatctx.FunctionCall{ID: "f1", CallID: "c1", Name: "a"},
		&chatctx.AgentHandoff{ID: "h", ToAgent: "b"}, // does not come between a message and its calls
		&chatctx.FunctionCall{ID: "f2", CallID: "c2", Name: "a"},
		&chatctx.FunctionCallOutput{ID: "o1", CallID: "c1", IsError: true},
		&chatctx.FunctionCallOutput{ID: "o2", CallID: "c2"},
		&chatctx.FunctionCall{ID: "f3", CallID: "c3", Name: "a"}, // a message of its own, with its id
		&chatctx.Summary{ID: "s", Text: "t", Covers: [2]uint64{1, 1}},
		&chatctx.FunctionCall{ID: "f4", CallID: "c4", Name: "a"},
		&chatctx.Message{ID: "i", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.ImageContent{URL: "https://a.example/b", CapturedAt: chatctx.At(time.Unix(1, 0))}}},
	}
	got := ""
	for _, l := range TransportLosses(items) {
		got += fmt.Sprint(l.ItemID, ":", l.Kind, " ")
	}
	if want := "m:unheard_text f1:merged h:handoff f2:merged o1:error_flag s:summary i:image_changed "; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	ids := map[string]bool{}
	for _, m := range chatctx.ToContextMessages(items) {
		ids[m.MessageID] = true
	}
	for id, there := range map[string]bool{"f1": false, "f2": false, "f3": true, "f4": true} {
		if ids[id] != there {
			t.Errorf("the id of %s is there: %v", id, ids[id])
		}
	}
}
