package switcher

import "slices"

// request takes a switch that somebody asks for.
func (c *core) request(e evSwitch) {
	if f, ok := c.done[e.OpID]; ok {
		c.answer(e.ticket, f)
		return
	}
	target, ok := c.resolve(e.Target)
	if !ok {
		c.do(aAnswer{ticket: e.ticket, err: fail(NotFound, "target", "no pipeline is called %q, and none is of such a kind", e.Target)})
		return
	}
	ch := &change{
		opID: e.OpID, author: e.Author, why: "switch", reason: e.Reason, tickets: []uint64{e.ticket}, target: target, at: e.At, maxWait: e.MaxWait, patience: e.PrepareTimeout,
		instructions: e.Instructions, handoff: e.Handoff, asked: c.now,
	}
	c.ask(ch)
}

// ask begins, joins or refuses a change.
func (c *core) ask(ch *change) {
	now := c.change
	switch {
	case c.ending:
		c.refuse(ch, fail(Draining, "", "the session ends"))
	case now != nil && (now.opID == ch.opID || slices.Contains(now.joined, ch.opID)):
		c.join(now, ch)
	case c.active != nil && c.active.reg == ch.target.reg && ch.instructions == "" && ch.handoff == nil:
		c.noop(ch)
	case now != nil && now.target.reg == ch.target.reg && (ch.instructions == "" || ch.instructions == now.instructions) && ch.handoff == nil:
		now.joined = append(now.joined, ch.opID)
		c.join(now, ch)
	case now != nil && now.auto && !c.holding():
		c.dropAuto()
		c.open(ch)
	case now != nil:
		c.refuse(ch, fail(SwitchInProgress, "target", "the switch to %s is under way", now.target.Name))
	default:
		c.open(ch)
	}
}

func (c *core) join(to, ch *change) {
	to.tickets = append(to.tickets, ch.tickets...)
	if to.written {
		for _, t := range ch.tickets {
			c.do(aAck{t, to.seq})
		}
	}
	to.tools = append(to.tools, ch.tools...)
}

// noop: nothing has to be done, and nothing is left in the log.
func (c *core) noop(ch *change) {
	c.count.Noops++
	a := c.active
	f := finished{res: Result{Mode: a.Kind, From: a.Name, To: a.Name, Epoch: a.epoch, Noop: true}}
	c.remember(ch.opID, f)
	for _, t := range ch.tickets {
		c.answer(t, f)
	}
	res := f.res
	c.observe(Event{Kind: PipelineCommitted, Epoch: a.epoch, From: a.Name, To: a.Name, Reason: ch.reason, OpID: ch.opID, Result: &res})
	c.toolSwitched(ch.tools, &f.res, nil)
}

func (c *core) refuse(ch *change, err *Error) {
	for _, t := range ch.tickets {
		c.do(aAnswer{ticket: t, err: err})
	}
	c.toolSwitched(ch.tools, nil, err)
}

func (c *core) answer(ticket uint64, f finished) {
	c.do(aAck{ticket: ticket})
	c.do(aAnswer{ticket: ticket, res: f.res, err: f.err})
}

func (c *core) remember(opID string, f finished) {
	if _, known := c.done[opID]; !known {
		c.doneOrder = append(c.doneOrder, opID)
	}
	c.done[opID] = f
	if len(c.doneOrder) > maxFinished {
		delete(c.done, c.doneOrder[0])
		c.doneOrder = c.doneOrder[1:]
	}
}
