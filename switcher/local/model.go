package local

import (
	"context"
	"strings"

	"sightline/switcher/cascade"
	"sightline/switcher/rules"
)

// Model answers by rules: package rules as a cascade.Model.
type Model struct{}

// Name implements cascade.Model, as Answer does.
func (Model) Name() string { return "rules" }

// Answer gives the text sentence by sentence, then the calls.
func (Model) Answer(ctx context.Context, r cascade.Request, yield func(cascade.Delta) error) (cascade.Finish, error) {
	reply := rules.Responder{}.Reply(rules.Turn{At: r.At, Items: r.Items, Seen: r.Sights, Tools: r.Tools, Running: r.Running})
	for rest := reply.Text; rest != ""; {
		sentence := rest
		if i := strings.Index(rest, ". "); i >= 0 {
			sentence = rest[:i+2]
		}
		rest = rest[len(sentence):]
		if err := ctx.Err(); err != nil {
			return cascade.Finish{}, err
		}
		if err := yield(cascade.Delta{Text: sentence}); err != nil {
			return cascade.Finish{}, err
		}
	}
	for _, c := range reply.Calls {
		if err := yield(cascade.Delta{Call: &cascade.Call{Name: c.Name, Arguments: c.Arguments}}); err != nil {
			return cascade.Finish{}, err
		}
	}
	if len(reply.Calls) > 0 {
		return cascade.Finish{Reason: "tool_calls"}, nil
	}
	return cascade.Finish{Reason: "stop"}, nil
}
