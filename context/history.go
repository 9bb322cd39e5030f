package chatctx

// HistoryOptions say what of a conversation History gives; the zero value gives all of it.
type HistoryOptions struct {
	LastN                 int  // only the newest so many messages, of those that remain; 0 = all
	ExcludeFunctionCalls  bool // no calls and no outputs
	ExcludeSystemMessages bool // no system messages; developer messages stay
}

// History is a part of the items. LastN counts messages as Messages does, after the exclusions, and never begins with an output
// whose call it cuts off: that one is left out too. Handoffs, config updates, summaries and switches do not count; those that come
// after the cut stay.
func (s Items) History(o HistoryOptions) (Items, error) {
	if o.LastN < 0 {
		return nil, fail(InvalidArgument, "last_n", "last_n must be at least 1; leave it out for all")
	}
	c := &ChatContext{}
	for _, item := range s {
		switch it := item.(type) {
		case *Message:
			if o.ExcludeSystemMessages && it.Role == RoleSystem {
				continue
			}
		case *FunctionCall, *FunctionCallOutput:
			if o.ExcludeFunctionCalls {
				continue
			}
		}
		c.nodes = append(c.nodes, node{item: item})
	}
	units := c.messageUnits()
	if o.LastN == 0 || len(units) <= o.LastN {
		return c.Items(), nil
	}
	start := units[len(units)-o.LastN][0]
	cut := map[string]bool{} // calls before the start
	for _, n := range c.nodes[:start] {
		if call, ok := n.item.(*FunctionCall); ok {
			cut[call.CallID] = true
		}
	}
	items := Items{}
	for _, n := range c.nodes[start:] {
		if output, ok := n.item.(*FunctionCallOutput); ok && cut[output.CallID] {
			continue
		}
		items = append(items, n.item)
	}
	return items, nil
}
