package switcher

import (
	"strings"

	chatctx "sightline/context"
)

// entry is one that has come into the log.
func (c *core) entry(e chatctx.Entry) {
	if e.Op != chatctx.OpAppend {
		return
	}
	if o, ok := e.Item.(*chatctx.FunctionCallOutput); ok && !ownEntry(e) {
		c.answeredByOthers(o)
		return
	}
	if c.active == nil || e.Seq <= c.active.seen || ownEntry(e) || isSwitch(e.Item) {
		return
	}
	m, ok := e.Item.(*chatctx.Message)
	typed := ok && m.Role == chatctx.RoleUser
	if typed {
		c.spoke = true
		c.newTurn()
	}
	item := e.Item
	if strings.HasPrefix(e.OpID, "rec:ap:") && ok && m.TextGenerated != "" { // the session is saying it: the leg is told all of it
		whole := *m
		whole.Content, whole.Interrupted, whole.TextGenerated = chatctx.TextContent(m.TextGenerated), false, ""
		item = &whole
	}
	c.give(c.active, ItemIn{Seq: e.Seq, Item: item, Respond: typed})
}

// ownEntry: the session, a leg, or what the caller said to it caused the entry. What the session said itself is none: no leg
// knows of it.
func ownEntry(e chatctx.Entry) bool {
	switch {
	case strings.HasPrefix(e.OpID, opPrefix):
		return true
	case !strings.HasPrefix(e.OpID, "rec:"):
		return false
	}
	m, ok := e.Item.(*chatctx.Message)
	return !ok || m.Role != chatctx.RoleAssistant || e.Author != "system"
}

// opPrefix begins the op_ids of the switcher's own entries.
const opPrefix = "sw:"

func isSwitch(item chatctx.Item) bool {
	_, ok := item.(*chatctx.PipelineSwitch)
	return ok
}
