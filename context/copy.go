package chatctx

import (
	"slices"
	"strings"

	"sightline/context/internal/idtable"
)

// CopyOptions say what Copy leaves out; the zero value leaves out nothing.
type CopyOptions struct {
	ExcludeSystemMessages bool     // system messages
	ExcludeInstructions   bool     // system and developer messages
	ExcludeEmptyMessages  bool     // messages without images whose text is blank
	ExcludeHandoffs       bool     // handoffs
	ExcludeConfigUpdates  bool     // config updates
	Tools                 []string // calls of other tools than these, with their outputs; nil leaves out none, an empty list all
	AgentID               string   // what other agents said and called; instructions, handoffs, config updates, summaries and switches stay
}

// Copy makes a copy that shares the items, which are immutable, and nothing else. (The seeds' copy takes options without a word
// about them; these are its predecessor's.)
func (c *ChatContext) Copy(o CopyOptions) *ChatContext {
	calls := c.calls()
	var keep []int
	for i, n := range c.nodes {
		if o.keeps(n.item, calls) {
			keep = append(keep, i)
		}
	}
	return c.pick(keep)
}

// calls finds the function calls by call_id; of several the first.
func (c *ChatContext) calls() map[string]*FunctionCall {
	calls := map[string]*FunctionCall{}
	for _, n := range c.nodes {
		if call, ok := n.item.(*FunctionCall); ok && calls[call.CallID] == nil {
			calls[call.CallID] = call
		}
	}
	return calls
}

func (o *CopyOptions) keeps(item Item, calls map[string]*FunctionCall) bool {
	switch it := item.(type) {
	case *Message:
		return o.keepsMessage(it)
	case *FunctionCall:
		return o.keepsTool(it.Name) && (o.AgentID == "" || it.AgentID == o.AgentID)
	case *FunctionCallOutput:
		if call := calls[it.CallID]; call != nil {
			return o.keeps(call, nil)
		}
		return o.keepsTool(it.Name) && o.AgentID == ""
	case *AgentHandoff:
		return !o.ExcludeHandoffs
	case *ConfigUpdate:
		return !o.ExcludeConfigUpdates
	}
	return true
}

func (o *CopyOptions) keepsMessage(m *Message) bool {
	switch {
	case o.ExcludeEmptyMessages && len(m.Content.Images()) == 0 && strings.TrimFunc(m.Content.Text(), isPythonSpace) == "":
		return false
	case m.Role == RoleSystem:
		return !o.ExcludeSystemMessages && !o.ExcludeInstructions
	case m.Role == RoleDeveloper:
		return !o.ExcludeInstructions
	}
	return o.AgentID == "" || m.AgentID == o.AgentID
}

func (o *CopyOptions) keepsTool(name string) bool {
	return o.Tools == nil || slices.Contains(o.Tools, name)
}

// pick makes a ChatContext of some of the nodes, in the order given. They keep what Placed tells of them.
func (c *ChatContext) pick(which []int) *ChatContext {
	p := &ChatContext{seq: c.seq, nodes: make([]node, 0, len(which)), index: idtable.New()}
	for _, i := range which {
		n := c.nodes[i]
		p.last += placeGap
		n.place = p.last
		id := n.item.ItemID()
		p.nodes = append(p.nodes, n)
		p.index.Put(p.index.Hash(id), n.place)
		if _, hidden := c.unnamed[id]; hidden {
			p.hideID(id)
		}
	}
	return p
}

// Truncate makes a copy of at most maxItems items and maxTokens estimated tokens (nil = no limit), the way a context.truncate
// operation does: instructions, handoffs, summaries and the newest user message stay, a call and its output go together, the
// oldest go first; images and arguments count. A limit below 1 is an *Error. TruncatePlain is the seeds' way.
func (c *ChatContext) Truncate(maxItems, maxTokens *int) (*ChatContext, error) {
	if maxItems == nil && maxTokens == nil {
		return c.Clone(), nil
	}
	removed, err := planTruncate(c.Items(), maxItems, maxTokens, itemTokens)
	if err != nil {
		return nil, err
	}
	return c.without(removed), nil
}

// TruncatePlain is the seeds' truncate, exactly: of the messages, as Messages counts them, the newest maxItems stay, then the
// oldest go until EstimatedTokens is at most maxTokens or one message is left; nil = no limit. Nothing is protected: the system
// message goes first and a call may lose its output. What is no message stays. A limit below 1, of which the seeds say nothing, is
// an *Error.
func (c *ChatContext) TruncatePlain(maxItems, maxTokens *int) (*ChatContext, error) {
	if err := checkLimits(maxItems, maxTokens); err != nil {
		return nil, err
	}
	units := c.messageUnits()
	first := 0
	if maxItems != nil {
		first = max(0, len(units)-*maxItems)
	}
	if maxTokens != nil {
		tokens := 0
		for _, unit := range units[first:] {
			tokens += 2 * contentWords(c.nodes[unit[0]].item)
		}
		for ; tokens > *maxTokens && first < len(units)-1; first++ {
			tokens -= 2 * contentWords(c.nodes[units[first][0]].item)
		}
	}
	return c.without(slices.Sorted(slices.Values(slices.Concat(units[:first]...)))), nil
}

// without is a copy that lacks the nodes at the places given, which rise.
func (c *ChatContext) without(removed []int) *ChatContext {
	keep := make([]int, 0, len(c.nodes)-len(removed))
	for i := range c.nodes {
		if len(removed) > 0 && removed[0] == i {
			removed = removed[1:]
			continue
		}
		keep = append(keep, i)
	}
	return c.pick(keep)
}
