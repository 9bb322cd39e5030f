package recorder

import (
	"fmt"
	"strings"
	"time"

	chatctx "sightline/context"
)

// toolCall takes the report of a call in.
func (c *Core) toolCall(e Event, now time.Time) {
	if strings.TrimSpace(e.Name) == "" {
		c.stats.Nameless++
		return
	}
	id, generated := c.clean(e.CallID), false
	if id == "" {
		id, generated = c.newCallID(e.Epoch), true
	}
	k := c.callOf(id)
	if k.called {
		c.stats.Duplicates++
		return
	}
	*k = call{start: e.At, name: e.Name, epoch: e.Epoch, generated: generated, called: true, answered: k.answered}
	args := c.clean(e.Arguments)
	if args == "" {
		args = "{}"
	}
	s := c.open(c.tool(e, "c", id, now))
	s.item = &chatctx.FunctionCall{CallID: id, Name: c.clean(e.Name), Arguments: args, AgentID: e.AgentID}
	if o := c.waiting[id]; o != nil { // its output was faster
		delete(c.waiting, id)
		c.joins(o, k)
		c.open(o)
	}
}

// newCallID makes an id for a call that came without.
func (c *Core) newCallID(epoch uint64) string {
	c.stats.Generated++
	for n := uint64(1); ; n++ {
		id := fmt.Sprintf("call-%d-%d", epoch, n)
		if k := c.calls[id]; k == nil {
			return id
		}
	}
}

// tool makes the slot of a call or an output.
func (c *Core) tool(e Event, class, callID string, now time.Time) *slot {
	k := key{class: class, epoch: e.Epoch, item: short(callID)}
	return &slot{order: order{start: e.At, rank: rankOf(class), key: k}, active: now, began: true, leg: e.Leg, agent: e.AgentID, final: true, done: true}
}

// toolOutput takes the report of a result in. It joins its call, however late it is; a result without a call_id belongs to the
// oldest call of that tool that came without one and waits.
func (c *Core) toolOutput(e Event, now time.Time) {
	id := c.clean(e.CallID)
	if id == "" {
		id = c.unanswered(e)
	}
	if id == "" {
		if strings.TrimSpace(e.Name) == "" {
			c.stats.Nameless++
			return
		}
		c.stats.Orphans++
		id = c.newCallID(e.Epoch)
		call := e
		call.CallID = id
		c.toolCall(call, now)
	}
	k := c.callOf(id)
	if k.answered {
		c.stats.Duplicates++
		return
	}
	name := e.Name
	if name == "" {
		name = k.name
	}
	if strings.TrimSpace(name) == "" && !k.called {
		delete(c.calls, id)
		c.stats.Nameless++
		return
	}
	k.answered = true
	s := c.tool(e, "o", id, now)
	s.item = &chatctx.FunctionCallOutput{CallID: id, Name: c.clean(name), Output: c.clean(e.Output), IsError: e.IsError}
	if !k.called {
		c.waiting[id] = s
		return
	}
	c.joins(s, k)
	c.open(s)
}

// joins puts an output after its call.
func (c *Core) joins(s *slot, k *call) {
	if s.start.Before(k.start) {
		s.start = k.start
	}
	if o := s.item.(*chatctx.FunctionCallOutput); o.Name == "" {
		o.Name = k.name
	}
}

// unanswered finds the call that a result without a call_id belongs to.
func (c *Core) unanswered(e Event) string {
	best := ""
	for id, k := range c.calls {
		if !k.generated || k.answered || k.epoch != e.Epoch || e.Name != "" && k.name != e.Name {
			continue
		}
		if best == "" || k.start.Before(c.calls[best].start) || k.start.Equal(c.calls[best].start) && id < best {
			best = id
		}
	}
	return best
}

// makeUpCall writes a call for a result whose call nobody reported in time.
func (c *Core) makeUpCall(id string, s *slot, now time.Time) {
	c.stats.Orphans++
	o := s.item.(*chatctx.FunctionCallOutput)
	c.toolCall(Event{Kind: ToolCall, CallID: id, Name: o.Name, At: s.start, Epoch: s.key.epoch, Leg: s.leg, AgentID: s.agent}, now)
}
