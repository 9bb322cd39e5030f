package chatctx

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A sub-agent works on a ChatContext of its own, a fork, and what it did comes back by a merge. Neither touches the other while
// it works. Instructions never come back: a child's stay with the child.

// Fork makes an independent copy of everything.
func (c *ChatContext) Fork() *ChatContext { return c.Clone() }

// ForkFiltered makes a copy of the instructions (system and developer messages, config updates), which come first, of earlier
// summaries, and of all from the recentTurns-th last user message on. Calls of other tools than tools are left out with their
// outputs; nil leaves out none. An output whose call is older brings its call along. recentTurns must be at least 1; with fewer
// turns than that it is a copy of everything.
func (c *ChatContext) ForkFiltered(recentTurns int, tools []string) (*ChatContext, error) {
	if recentTurns < 1 {
		return nil, fail(InvalidArgument, "recent_turns", "recent_turns must be at least 1")
	}
	start := c.turnStart(recentTurns)
	answered := map[string]bool{} // call ids of the outputs that are kept
	for _, n := range c.nodes[start:] {
		if o, ok := n.item.(*FunctionCallOutput); ok {
			answered[o.CallID] = true
		}
	}
	filter, calls := CopyOptions{Tools: tools}, c.calls()
	var front, recent []int
	for i, n := range c.nodes {
		_, summary := n.item.(*Summary)
		call, isCall := n.item.(*FunctionCall)
		switch {
		case isInstructions(n.item), summary && i < start:
			front = append(front, i)
		case (i >= start || isCall && answered[call.CallID]) && filter.keeps(n.item, calls):
			recent = append(recent, i)
		}
	}
	return c.pick(append(front, recent...)), nil
}

// turnStart is where the n-th last user message is; 0 when there are fewer.
func (c *ChatContext) turnStart(n int) int {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		if m, ok := c.nodes[i].item.(*Message); ok && m.Role == RoleUser {
			if n--; n == 0 {
				return i
			}
		}
	}
	return 0
}

func isInstructions(item Item) bool {
	switch it := item.(type) {
	case *Message:
		return it.Role == RoleSystem || it.Role == RoleDeveloper
	case *ConfigUpdate:
		return true
	}
	return false
}

// ForkBrief makes the ChatContext of a sub-agent that gets nothing but its instructions and, unless brief is empty, its task as
// a user message; both are attributed to agentID, so that the task is not taken for the caller's words when it is merged back.
func ForkBrief(instructions, brief, agentID string) (*ChatContext, error) {
	if instructions == "" {
		return nil, fail(InvalidArgument, "instructions", "a sub-agent needs instructions")
	}
	c, now := New(), time.Now()
	if err := c.push(newMessage(RoleSystem, instructions, uuid.NewString(), agentID, nil), now, ""); err != nil {
		return nil, err
	}
	if brief == "" {
		return c, nil
	}
	return c, c.push(newMessage(RoleUser, brief, uuid.NewString(), agentID, nil), now, "")
}

// Merge takes over what child has and c has not, told by item ids and call ids, each item at the place of its time: c's items that
// are not younger stay before it. Left out are the child's instructions and switches; a summary, whose seqs are the child's, comes
// as a message. What has no agent yet is attributed to agentID, unless that is empty. It returns how many items came.
func (c *ChatContext) Merge(child *ChatContext, agentID string) int {
	steps := c.planMerge(child, agentID)
	for _, s := range steps {
		_ = c.Apply(c.next(Entry{At: s.at, Op: OpAppend, Item: s.item, After: s.after})) // planned: the id is free, after is there
	}
	return len(steps)
}

// MergeOps are the operations that do to a Log what Merge does to its fold c: append them in order. Op ids are prefix and the
// item's id, so that merging the same child twice changes nothing the second time.
func (c *ChatContext) MergeOps(child *ChatContext, agentID, prefix string) []Op {
	var ops []Op
	for _, s := range c.planMerge(child, agentID) {
		ops = append(ops, Op{ID: prefix + s.item.ItemID(), Kind: OpAppend, Item: s.item, After: s.after})
	}
	return ops
}

type mergeStep struct {
	item  Item
	after string // "" = at the end
	at    Time
}

// planMerge never places an item before c's first one, nor one of the child's before another that precedes it there.
func (c *ChatContext) planMerge(child *ChatContext, agentID string) []mergeStep {
	var steps []mergeStep
	known := c.callIDs()
	i, after := 0, "" // nodes[:i] stay before the item that comes next, and after is the last thing before it
	for _, n := range child.nodes {
		item := mergeable(n.item, agentID)
		if item == nil || !known.admits(item) {
			continue
		}
		if c.has(item.ItemID()) {
			continue
		}
		if i == 0 && len(c.nodes) > 0 {
			i, after = 1, c.nodes[0].item.ItemID()
		}
		for ; i < len(c.nodes) && (n.at == noTime || c.nodes[i].at <= n.at || isInstructions(c.nodes[i].item)); i++ {
			after = c.nodes[i].item.ItemID()
		}
		step := mergeStep{item: item, after: after, at: At(time.UnixMilli(n.at))}
		if i == len(c.nodes) {
			step.after = ""
		}
		steps, after = append(steps, step), item.ItemID()
	}
	return steps
}

// mergeable is item as it comes to the parent, nil when it stays with the child.
func mergeable(item Item, agentID string) Item {
	switch it := item.(type) {
	case *Message:
		if !isInstructions(it) {
			return attributed(it, agentID)
		}
	case *FunctionCall:
		if it.AgentID == "" && agentID != "" {
			call := *it
			call.AgentID = agentID
			return &call
		}
		return it
	case *FunctionCallOutput, *AgentHandoff:
		return it
	case *Summary:
		return newMessage(RoleAssistant, subSummary+it.Text, it.ID, agentID, nil)
	}
	return nil
}

// subSummary begins a message that tells what a sub-agent did.
const subSummary = "[Sub-agent Summary]\n"

func attributed(m *Message, agentID string) *Message {
	if m.AgentID != "" || agentID == "" {
		return m
	}
	named := *m
	named.AgentID = agentID
	return &named
}

// knownCalls are the call ids that have a call, and those that have an output (G4).
type knownCalls struct{ called, answered map[string]bool }

func (c *ChatContext) callIDs() knownCalls {
	k := knownCalls{map[string]bool{}, map[string]bool{}}
	for _, n := range c.nodes {
		k.admits(n.item)
	}
	return k
}

// admits reports whether item is the first of its kind for its call id, and notes it.
func (k knownCalls) admits(item Item) bool {
	set, id := map[string]bool(nil), ""
	switch it := item.(type) {
	case *FunctionCall:
		set, id = k.called, it.CallID
	case *FunctionCallOutput:
		set, id = k.answered, it.CallID
	default:
		return true
	}
	if set[id] {
		return false
	}
	set[id] = true
	return true
}

// MergeResult appends the child's last assistant message, attributed to agentID unless that is empty, and returns it. When c has
// that message already, or there is none, nothing is added and ok is false.
func (c *ChatContext) MergeResult(child *ChatContext, agentID string) (result ChatMessage, ok bool) {
	for _, n := range slices.Backward(child.nodes) {
		m, is := n.item.(*Message)
		if !is || m.Role != RoleAssistant {
			continue
		}
		if c.has(m.ID) {
			return ChatMessage{}, false
		}
		named := *m
		if agentID != "" {
			named.AgentID = agentID
		}
		_ = c.Apply(c.next(Entry{At: At(time.UnixMilli(n.at)), Op: OpAppend, Item: &named})) // the id is free
		return named.view(named.ID), true
	}
	return ChatMessage{}, false
}

// Summarizer makes a short text of a transcript, for instance by a language model. It may take its time; ctx bounds it.
type Summarizer func(ctx context.Context, transcript string) (string, error)

// MergeWithSummary appends one assistant message of agentID that tells what the child did: summarize is given the transcript of
// the child's own items, without instructions and without what c has. When it fails, or makes nothing, or there is nothing to tell,
// nothing is added and ok is false.
func (c *ChatContext) MergeWithSummary(ctx context.Context, child *ChatContext, agentID string, summarize Summarizer) (result ChatMessage, ok bool, err error) {
	var own Items
	for _, s := range c.planMerge(child, "") {
		own = append(own, s.item)
	}
	if len(own) == 0 {
		return ChatMessage{}, false, nil
	}
	text, err := summarize(ctx, Transcript(own))
	if err != nil || text == "" {
		return ChatMessage{}, false, err
	}
	result, err = c.addMessage(newMessage(RoleAssistant, subSummary+text, "", agentID, nil), MessageOptions{})
	return result, err == nil, err
}
