package gemini

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/socket"
)

const mostCalls = 256

// call is a function that the model wants run.
type call struct {
	wire, name string // the provider's id, "" where it gave none
	batch      *batch
	output     project.GeminiAnswer
	settled    bool
	cancelled  bool
	first      *call   // the same function with the same arguments, which the session was asked for: its answer counts here, too
	twins      []*call // whose first this is, until there is an answer
}

// batch are the calls of one message: they are answered by one.
type batch struct {
	open  int // not answered yet
	calls []*call
}

type tools struct {
	calls  map[string]*call // by our call id
	order  []string
	same   map[string]*call        // of this turn of the caller, by name and arguments
	others []*chatctx.FunctionCall // other people's, that wait for their outputs
	open   int                     // calls that the model waits for
}

// keep holds somebody else's call until its output comes.
func (t *tools) keep(c *chatctx.FunctionCall) {
	if t.others = append(t.others, c); len(t.others) > mostCalls {
		t.others = t.others[1:]
	}
}

// called takes a message of calls; the model waits for what they give.
func (r *run) called(calls []project.GeminiFunctionCall, now time.Time) {
	b := &batch{}
	for _, c := range calls {
		r.call(c, b, now)
	}
	r.turns.generating, r.turns.begun, r.gate.asked, r.gate.silent = false, now, time.Time{}, 0
}

// call asks for a function, once for an id, wherever the provider tells of it, and once for a name and arguments in a turn of the
// caller.
func (r *run) call(c project.GeminiFunctionCall, b *batch, now time.Time) {
	arguments := canonical(c.Args)
	key := c.Name + "\x00" + arguments
	first := r.tools.same[key]
	id := socket.ID(c.ID)
	switch {
	case c.Name == "" || !r.floor:
		r.counts.repeatedCalls.Add(1)
		return
	case c.ID == "" && first != nil: // told of once more, without its id
		r.counts.repeatedCalls.Add(1)
		return
	case c.ID != "" && r.tools.calls[id] != nil:
		r.counts.repeatedCalls.Add(1)
		return
	case c.ID != "" && first != nil && first.wire == "" && !first.settled: // now with its id
		first.wire = c.ID
		r.tools.calls[id] = first
		r.counts.repeatedCalls.Add(1)
		return
	case c.ID == "":
		id = r.id("call")
	}
	k := &call{wire: c.ID, name: c.Name, batch: b}
	b.calls = append(b.calls, k)
	b.open++
	r.tools.open++
	r.tools.calls[id] = k
	if r.tools.order = append(r.tools.order, id); len(r.tools.order) > mostCalls {
		delete(r.tools.calls, r.tools.order[0])
		r.tools.order = r.tools.order[1:]
	}
	if first != nil {
		r.counts.repeatedCalls.Add(1)
		r.notice("tool_repeated", c.Name+" was asked for again with the same arguments; the first answer counts")
		if first.settled {
			r.settleCall(k, first.output, now)
		} else {
			k.first, first.twins = first, append(first.twins, k)
		}
		return
	}
	r.tools.same[key] = k
	out := switcher.ToolCallOut{CallID: id, Name: c.Name, Arguments: arguments}
	if t := r.turns.current; t != nil && t.opened && !t.closed {
		out.Item = t.id
	}
	r.say(out)
	r.ending(now.Add(afterGeneration)) // what the model says then is another turn
}

// canonical is an object of arguments as one line of JSON; the provider writes an object, we a string.
func canonical(args json.RawMessage) string {
	var b bytes.Buffer
	if len(args) == 0 || json.Compact(&b, args) != nil || b.String() == "null" {
		return "{}"
	}
	return b.String()
}

// cancelled: the provider takes calls back; what they give is not told to it any more.
func (r *run) cancelled(ids []string) {
	var ours []string
	for _, wire := range ids {
		id := socket.ID(wire)
		k := r.tools.calls[id]
		if k == nil || k.settled || k.cancelled {
			continue
		}
		k.cancelled = true
		r.tools.open--
		k.batch.open--
		r.answerBatch(k.batch, time.Now())
		if k.first != nil {
			k = k.first
		}
		if k.cancelled && !slices.ContainsFunc(k.twins, func(t *call) bool { return !t.cancelled }) {
			ours = append(ours, r.ourID(k))
		}
	}
	if len(ours) > 0 {
		r.say(switcher.ToolCancelOut{CallIDs: ours})
	}
}

// ourID is the id by which the session knows a call.
func (r *run) ourID(k *call) string {
	for _, id := range r.tools.order {
		if r.tools.calls[id] == k {
			return id
		}
	}
	return socket.ID(k.wire)
}

// result answers a call. One that this connection does not know was asked for before it.
func (r *run) result(in switcher.ToolResultIn, now time.Time) {
	output := project.GeminiAnswer{Output: in.Output}
	if in.IsError {
		output = project.GeminiAnswer{Error: in.Output}
	}
	if output == (project.GeminiAnswer{}) {
		output.Output = "(no output)"
	}
	k := r.tools.calls[in.CallID]
	if k == nil {
		r.resultOfBefore(in)
		return
	}
	r.settleCall(k, output, now)
	for _, twin := range k.twins {
		r.settleCall(twin, output, now)
	}
	k.twins = nil
}

func (r *run) settleCall(k *call, output project.GeminiAnswer, now time.Time) {
	if k.settled {
		return
	}
	k.settled, k.output = true, output
	if k.cancelled {
		return
	}
	r.tools.open--
	k.batch.open--
	r.answerBatch(k.batch, now)
}

// answerBatch answers the calls of a message when all have their results; the model goes on by itself then.
func (r *run) answerBatch(b *batch, now time.Time) {
	if b.open > 0 {
		return
	}
	var all live.ToolResponse
	for _, k := range b.calls {
		if k.settled && !k.cancelled {
			all.FunctionResponses = append(all.FunctionResponses, project.GeminiFunctionResponse{ID: k.wire, Name: k.name, Response: k.output})
		}
	}
	b.calls = nil
	if len(all.FunctionResponses) > 0 {
		if t := r.turns.current; t != nil {
			r.finish(t, switcher.TurnCompleted)
		}
		r.send(live.Client{ToolResponse: &all})
		r.gate.asked = now
	}
}

// resultOfBefore tells a call with its output: an output alone is an error.
func (r *run) resultOfBefore(in switcher.ToolResultIn) {
	items := r.start.Seed.Items
	if r.start.Items != nil {
		items = append(items[:len(items):len(items)], r.start.Items()...)
	}
	c := &chatctx.FunctionCall{ID: "late_" + in.CallID, CallID: "late_" + in.CallID, Name: in.Name, Arguments: "{}"}
	for _, item := range items {
		if f, ok := item.(*chatctx.FunctionCall); ok && f.CallID == in.CallID {
			c.Name, c.Arguments = f.Name, f.Arguments
		}
	}
	r.waits(word{item: c})
	r.waits(word{item: &chatctx.FunctionCallOutput{ID: c.ID + "_output", CallID: c.CallID, Name: c.Name, Output: in.Output, IsError: in.IsError}})
	r.gate.wants = true
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
