package chatctx

import "slices"

// ChatContext is the conversation as the fold of a log's entries: pure and deterministic, so that every replica that has
// applied the same entries is equal. It is not safe for concurrent use; Clone one per reader.
type ChatContext struct {
	seq   uint64
	nodes []node
	index map[string]int // item id → place in nodes
}

// node is an item with what the fold remembers of it.
type node struct {
	item     Item
	added    uint64 // seq of its append
	modified uint64 // seq of its last append or update
}

// New makes an empty ChatContext.
func New() *ChatContext { return &ChatContext{index: map[string]int{}} }

// Seq is the last entry applied; 0 when none.
func (c *ChatContext) Seq() uint64 { return c.seq }

// Len is the number of items.
func (c *ChatContext) Len() int { return len(c.nodes) }

// Items is a copy of the items in order; the items themselves are shared and immutable.
func (c *ChatContext) Items() Items {
	items := make(Items, len(c.nodes))
	for i, n := range c.nodes {
		items[i] = n.item
	}
	return items
}

// Item finds an item by its id.
func (c *ChatContext) Item(id string) (Item, bool) {
	i, ok := c.index[id]
	if !ok {
		return nil, false
	}
	return c.nodes[i].item, true
}

// ItemsFrom is the items whose append has a seq of at least from (inclusive), in order.
func (c *ChatContext) ItemsFrom(from uint64) Items {
	items := Items{}
	for _, n := range c.nodes {
		if n.added >= from {
			items = append(items, n.item)
		}
	}
	return items
}

// Clone is an independent copy that shares the immutable items.
func (c *ChatContext) Clone() *ChatContext {
	d := &ChatContext{seq: c.seq, nodes: slices.Clone(c.nodes), index: make(map[string]int, len(c.nodes))}
	for i, n := range d.nodes {
		d.index[n.item.ItemID()] = i
	}
	return d
}

// FromSnapshot makes the ChatContext that a snapshot describes. Items of a snapshot count as added at its seq.
func FromSnapshot(s Snapshot) *ChatContext {
	c := New()
	c.seq = s.Seq
	for _, item := range s.Items {
		c.index[item.ItemID()] = len(c.nodes)
		c.nodes = append(c.nodes, node{item: item, added: s.Seq, modified: s.Seq})
	}
	return c
}

// Snapshot is the state of a conversation at a seq.
type Snapshot struct {
	Seq   uint64 `json:"seq"`
	Items Items  `json:"items"`
}

// Snapshot is the present state.
func (c *ChatContext) Snapshot() Snapshot { return Snapshot{Seq: c.seq, Items: c.Items()} }

// Apply folds the next entry in. An entry that is not the next one, or that names an item that is not there, means a damaged
// log: the ChatContext stays as it was and the error's Kind is LogDamaged.
func (c *ChatContext) Apply(e Entry) error {
	if e.Seq != c.seq+1 {
		return fail(LogDamaged, "seq", "entry %d follows entry %d", e.Seq, c.seq)
	}
	switch e.Op {
	case OpAppend:
		if e.Item == nil {
			return fail(LogDamaged, "item", "append entry %d has no item", e.Seq)
		}
		id := e.Item.ItemID()
		if _, taken := c.index[id]; taken {
			return fail(LogDamaged, "item", "entry %d appends item %s a second time", e.Seq, id)
		}
		c.index[id] = len(c.nodes)
		c.nodes = append(c.nodes, node{item: e.Item, added: e.Seq, modified: e.Seq})
	case OpUpdate:
		i, ok := c.index[e.ItemID]
		if !ok || e.Item == nil {
			return fail(LogDamaged, "item_id", "entry %d updates item %s, which is not there", e.Seq, e.ItemID)
		}
		c.nodes[i].item = e.Item
		c.nodes[i].modified = e.Seq
	case OpRemove:
		if _, ok := c.index[e.ItemID]; !ok {
			return fail(LogDamaged, "item_id", "entry %d removes item %s, which is not there", e.Seq, e.ItemID)
		}
		c.remove(e.ItemID)
	case OpTruncate:
		for _, id := range e.Removed {
			if _, ok := c.index[id]; !ok {
				return fail(LogDamaged, "removed", "entry %d removes item %s, which is not there", e.Seq, id)
			}
		}
		c.remove(e.Removed...)
	default:
		return fail(LogDamaged, "op", "entry %d has the unknown op %q", e.Seq, e.Op)
	}
	c.seq = e.Seq
	return nil
}

func (c *ChatContext) remove(ids ...string) {
	for _, id := range ids {
		delete(c.index, id)
	}
	kept := c.nodes[:0]
	for _, n := range c.nodes {
		id := n.item.ItemID()
		if _, ok := c.index[id]; ok {
			c.index[id] = len(kept)
			kept = append(kept, n)
		}
	}
	clear(c.nodes[len(kept):])
	c.nodes = kept
}

// check asserts the invariants; tests call it after every step.
func (c *ChatContext) check() error {
	if len(c.index) != len(c.nodes) {
		return fail(LogDamaged, "", "%d items but %d in the index", len(c.nodes), len(c.index))
	}
	for i, n := range c.nodes {
		if c.index[n.item.ItemID()] != i {
			return fail(LogDamaged, "", "item %s is not where the index says", n.item.ItemID())
		}
		if n.added == 0 || n.added > n.modified || n.modified > c.seq {
			return fail(LogDamaged, "", "item %s: added %d, modified %d, head %d", n.item.ItemID(), n.added, n.modified, c.seq)
		}
	}
	return nil
}
