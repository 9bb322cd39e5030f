package realtime

import (
	"encoding/json"
	"strings"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/realtime/dialect"
)

// call is a tool that the model wants run.
type call struct {
	wire    string // the provider's call_id
	answer  *response
	output  string
	settled bool
	twins   []*call // the same tool with the same arguments, asked for again before there was an answer
}

type tools struct {
	calls  map[string]*call // by our call id
	order  []string
	same   map[string]*call        // of this turn of the caller, by name and arguments
	others []*chatctx.FunctionCall // other people's, that wait for their outputs
}

const mostCalls = 256

// call asks for a tool, once for a call_id, and once for a name and arguments in a turn of the caller.
func (r *run) call(a *response, item dialect.Item) {
	wire := item.CallID
	if wire == "" {
		wire = item.ID
	}
	id := socket.ID(wire)
	if _, known := r.tools.calls[id]; known || a.suppressed || wire == "" || item.Name == "" {
		r.counts.repeatedCalls.Add(1)
		return
	}
	c := &call{wire: wire, answer: a}
	a.calls = append(a.calls, c)
	a.open++
	r.tools.calls[id] = c
	if r.tools.order = append(r.tools.order, id); len(r.tools.order) > mostCalls {
		delete(r.tools.calls, r.tools.order[0])
		r.tools.order = r.tools.order[1:]
	}
	key := item.Name + "\x00" + item.Arguments
	if first := r.tools.same[key]; first != nil {
		r.counts.repeatedCalls.Add(1)
		r.notice("tool_repeated", item.Name+" was asked for again with the same arguments; the first answer counts")
		if first.settled {
			r.settleCall(c, first.output)
		} else {
			first.twins = append(first.twins, c)
		}
		return
	}
	r.tools.same[key] = c
	r.say(switcher.ToolCallOut{CallID: id, Name: item.Name, Arguments: item.Arguments, Item: r.turnOf(a)})
}

// turnOf is the message that an answer has said, "" none.
func (r *run) turnOf(a *response) string {
	for _, item := range a.items {
		if t := r.turns.byItem[item]; t != nil && t.opened {
			return t.out
		}
	}
	return ""
}

// result answers a call. One that this connection does not know was asked for before it: the provider gets the pair.
func (r *run) result(in switcher.ToolResultIn) {
	output := in.Output
	if in.IsError && !strings.Contains(strings.ToLower(output), "error") {
		b, _ := json.Marshal(map[string]string{"error": output}) // the dialect has no flag for it
		output = string(b)
	}
	c := r.tools.calls[in.CallID]
	if c == nil {
		r.resultOfBefore(in, output)
		return
	}
	if c.settled {
		return
	}
	r.settleCall(c, output)
	for _, twin := range c.twins {
		r.settleCall(twin, output)
	}
	c.twins = nil
}

func (r *run) settleCall(c *call, output string) {
	c.settled, c.output = true, output
	r.send(&dialect.ItemCreate{EventID: r.id("result"), Item: r.ownItem(dialect.Item{Type: dialect.ItemCallOutput, CallID: c.wire, Output: output})})
	c.answer.open--
	r.continued(c.answer)
}

// continued asks for the next answer when all calls of one have theirs.
func (r *run) continued(a *response) {
	if !a.done || a.open > 0 {
		return
	}
	if len(a.calls) > 0 {
		r.respond(nil)
	}
	delete(r.response.known, a.id)
}

// resultOfBefore puts a call and its output in together: a lone output is an error, and the seed may have told of the call as
// running under its own id.
func (r *run) resultOfBefore(in switcher.ToolResultIn, output string) {
	items := r.start.Seed.Items
	if r.start.Items != nil {
		items = append(items[:len(items):len(items)], r.start.Items()...)
	}
	c := &chatctx.FunctionCall{ID: "late_" + in.CallID, CallID: in.CallID, Name: in.Name, Arguments: "{}"}
	for _, item := range items {
		if f, ok := item.(*chatctx.FunctionCall); ok && f.CallID == in.CallID {
			c.Name, c.Arguments = f.Name, f.Arguments
		}
	}
	if r.seed.calls[in.CallID] {
		c.CallID = "late_" + in.CallID
	}
	pair := chatctx.Items{c, &chatctx.FunctionCallOutput{ID: c.ID + "_output", CallID: c.CallID, Name: c.Name, Output: output}}
	conversation, _ := project.OpenAIRealtime(pair, project.Options{})
	r.create(conversation, "result", false)
	r.seed.calls[in.CallID] = true
	r.respond(nil)
}

// otherCall finds the call of an output that somebody else put in, nil when there is none.
func (r *run) otherCall(callID string) *chatctx.FunctionCall {
	for i, c := range r.tools.others {
		if c.CallID == callID {
			r.tools.others = append(r.tools.others[:i], r.tools.others[i+1:]...)
			return c
		}
	}
	if r.start.Items != nil {
		for _, item := range r.start.Items() {
			if c, ok := item.(*chatctx.FunctionCall); ok && c.CallID == callID && r.tools.calls[callID] == nil {
				return c
			}
		}
	}
	return nil
}
