package realtime

import (
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// callbook is what is known of the calls in the conversation.
type callbook struct {
	known map[string]*toolCall
	order []string
}

// maxCalls bounds the callbook; the oldest goes first.
const maxCalls = 512

// toolCall is one that the leg has asked for, or one of the past that somebody told of.
type toolCall struct {
	id, name string
	live     bool // the leg waits for the client's output
	answered bool
	text     string // the output
	given    bool   // … which the leg has
}

func (b *callbook) put(t *toolCall) {
	b.known[t.id] = t
	if b.order = append(b.order, t.id); len(b.order) > maxCalls {
		delete(b.known, b.order[0])
		b.order = b.order[1:]
	}
}

// past notes a call that was made before.
func (b *callbook) past(id, name string) {
	if b.known[id] == nil {
		b.put(&toolCall{id: id, name: name})
	}
}

// open counts the calls whose outputs the leg waits for.
func (b *callbook) open() (n int) {
	for _, t := range b.known {
		if t.live && !t.given {
			n++
		}
	}
	return n
}

// output takes the client's output; live: the leg waits for it.
func (t *toolCall) output(text string) (live bool, f *fault) {
	switch {
	case !t.live:
		return false, nil // of the past: the log says whether it has one already
	case t.answered:
		return false, faultf("invalid_item_call_id", "item.call_id", "the call %.80q has an output already", t.id)
	}
	t.answered, t.text = true, text
	return true, nil
}

// release gives the leg the outputs that have come; it goes on when it has all.
func (c *core) release() (released bool) {
	for _, id := range c.tools.order {
		if t := c.tools.known[id]; t != nil && t.answered && !t.given {
			t.given, released = true, true
			c.do(eResult{t.id, t.text})
		}
	}
	return released
}

// late is called when a tool's time is over: the output that has come counts, without anybody asking for the answer to it.
func (c *core) late(callID string) (output string, ok bool) {
	t := c.tools.known[callID]
	if t == nil || t.given {
		return "", false
	}
	t.given = true
	return t.text, t.answered
}

// call is a tool call of the leg.
func (c *core) call(o switcher.ToolCallOut) {
	if !c.offers(o.Name) { // somebody else's tool: the answer goes on by itself
		c.answers.auto = true
		c.forward(o)
		return
	}
	r := c.answers.active
	it := &item{Item: dialect.Item{ID: c.cfg.newID("item"), Object: "realtime.item", Type: dialect.ItemCall, Status: dialect.StatusInProgress, CallID: o.CallID, Name: o.Name}}
	index := c.output(r, it)
	c.send(&dialect.ArgumentsDelta{EventID: c.eventID(), ResponseID: r.ID, ItemID: it.ID, OutputIndex: index, CallID: o.CallID, Delta: o.Arguments})
	c.send(&dialect.ArgumentsDone{EventID: c.eventID(), ResponseID: r.ID, ItemID: it.ID, OutputIndex: index, CallID: o.CallID, Name: o.Name, Arguments: o.Arguments})
	it.Arguments, it.Status, it.logged = o.Arguments, dialect.StatusCompleted, true
	c.outputDone(r, it, index)
	c.tools.put(&toolCall{id: o.CallID, name: o.Name, live: true})
	c.answers.owed, c.answers.auto = false, false // its output is answered when the client asks
	c.forward(o)
	r.calls++
	c.over(r)
}

// toolEnded: the session has given the leg a result.
func (c *core) toolEnded(callID string) {
	if t := c.tools.known[callID]; t != nil {
		t.given = true
	}
}
