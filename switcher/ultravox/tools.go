package ultravox

import (
	"bytes"
	"encoding/json"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/internal/spell"
)

const mostCalls = 256

// call is a tool that the model wants run.
type call struct {
	wire    string // invocationId
	result  toolResult
	settled bool
	twins   []*call // the same tool with the same arguments, asked for again before there was an answer
}

type tools struct {
	calls  map[string]*call // by our call id
	order  []string
	same   map[string]*call        // of this turn of the caller, by name and arguments
	others []*chatctx.FunctionCall // other people's, that wait for their outputs
}

// keep holds somebody else's call until its output comes.
func (t *tools) keep(c *chatctx.FunctionCall) {
	if t.others = append(t.others, c); len(t.others) > mostCalls {
		t.others = t.others[1:]
	}
}

// call asks for a tool, once for an invocation, and once for a name and arguments in a turn of the caller.
func (r *run) call(m server, _ time.Time) {
	id := socket.ID(m.InvocationID)
	if r.tools.calls[id] != nil || m.InvocationID == "" || m.ToolName == "" || !r.floor {
		r.counts.repeatedCalls.Add(1)
		return
	}
	r.asked, r.silent = time.Time{}, 0
	c := &call{wire: m.InvocationID}
	r.tools.calls[id] = c
	if r.tools.order = append(r.tools.order, id); len(r.tools.order) > mostCalls {
		delete(r.tools.calls, r.tools.order[0])
		r.tools.order = r.tools.order[1:]
	}
	arguments := canonical(m.Parameters)
	key := m.ToolName + "\x00" + arguments
	if first := r.tools.same[key]; first != nil {
		r.counts.repeatedCalls.Add(1)
		r.notice("tool_repeated", m.ToolName+" was asked for again with the same arguments; the first answer counts")
		if first.settled {
			r.answerCall(c, first.result)
		} else {
			first.twins = append(first.twins, c)
		}
		return
	}
	r.tools.same[key] = c
	out := switcher.ToolCallOut{CallID: id, Name: m.ToolName, Arguments: arguments}
	t := r.turns.current
	if t != nil && t.opened && !t.closed {
		out.Item = t.id
	}
	r.say(out)
	if t != nil && t.opened { // what the model says then is another turn
		r.finish(t, switcher.TurnCompleted)
	}
}

// canonical is an object of arguments as one line of JSON.
func canonical(args json.RawMessage) string {
	var b bytes.Buffer
	if len(args) == 0 || json.Compact(&b, args) != nil || b.String() == "null" {
		return "{}"
	}
	return b.String()
}

// result answers a call. One that this call does not know was asked for before it.
func (r *run) result(in switcher.ToolResultIn, now time.Time) {
	c := r.tools.calls[in.CallID]
	if c == nil {
		r.resultOfBefore(in, now)
		return
	}
	result := toolResult{Type: typeToolResult, Result: in.Output, ResponseType: "tool-response"}
	if in.IsError {
		result = toolResult{Type: typeToolResult, ErrorType: "implementation-error", ErrorMessage: in.Output}
	}
	r.answerCall(c, result)
	for _, twin := range c.twins {
		r.answerCall(twin, result)
	}
	c.twins = nil
}

func (r *run) answerCall(c *call, result toolResult) {
	if c.settled {
		return
	}
	c.settled, c.result = true, result
	result.InvocationID = c.wire
	r.send(result)
	r.asked = time.Now()
}

// resultOfBefore tells a call with its output, and asks for the answer that waits for it.
func (r *run) resultOfBefore(in switcher.ToolResultIn, now time.Time) {
	items := r.start.Seed.Items
	if r.start.Items != nil {
		items = append(items[:len(items):len(items)], r.start.Items()...)
	}
	c := &chatctx.FunctionCall{ID: "late", CallID: "late", Name: in.Name, Arguments: "{}"}
	for _, item := range items {
		if f, ok := item.(*chatctx.FunctionCall); ok && f.CallID == in.CallID {
			c.Name, c.Arguments = f.Name, f.Arguments
		}
	}
	text := r.spelt(chatctx.Items{c, &chatctx.FunctionCallOutput{ID: "late_output", CallID: c.CallID, Name: c.Name, Output: in.Output, IsError: in.IsError}})
	r.ask(text+"\n"+spell.Marked(spell.AnswerNow), now)
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
