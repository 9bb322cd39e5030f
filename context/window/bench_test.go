package window

import (
	"fmt"
	"testing"

	chatctx "sightline/context"
	"sightline/context/tokens"
)

// BenchmarkPlan plans on 10,000 items, of which all but the newest three turns would leave.
func BenchmarkPlan(b *testing.B) {
	v := NewView(tokens.Heuristic(), "system")
	for i := range 10_000 {
		var item chatctx.Item
		switch id := fmt.Sprint("i", i); i % 4 {
		case 0:
			item = say(id, chatctx.RoleUser, "where is my order, and when will it come?")
		case 1:
			item = &chatctx.FunctionCall{ID: id, CallID: fmt.Sprint("c", i), Name: "lookup", Arguments: `{"order":456}`}
		case 2:
			item = &chatctx.FunctionCallOutput{ID: id, CallID: fmt.Sprint("c", i-1), Name: "lookup", Output: `{"status":"shipped"}`}
		case 3:
			item = say(id, chatctx.RoleAssistant, "it is on its way and comes tomorrow")
		}
		if err := v.Apply(chatctx.Entry{Seq: uint64(i + 1), Op: chatctx.OpAppend, Item: item}); err != nil {
			b.Fatal(err)
		}
	}
	for name, bytes := range map[string]int{"all": 0, "one prompt": DefaultPromptBytes} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p := (ContextWindow{}).Plan(v, bytes); len(p.Fold) == 0 {
					b.Fatal("nothing to fold")
				}
			}
		})
	}
}
