package chatctx

import (
	"fmt"
	"reflect"
)

// check asserts the invariants of the fold; tests call it after every step.
func (c *ChatContext) check() error {
	if c.index.Len() != len(c.nodes) {
		return fmt.Errorf("%d items but %d in the index", len(c.nodes), c.index.Len())
	}
	before := uint64(0)
	for i, n := range c.nodes {
		id := n.item.ItemID()
		if at, ok := c.find(id); !ok || at != i || id == "" {
			return fmt.Errorf("item %q is at %d, the index says %d (%t)", id, i, at, ok)
		}
		if n.place <= before || n.place > c.last {
			return fmt.Errorf("item %s: place %d after %d, last %d", id, n.place, before, c.last)
		}
		if n.added == 0 || n.added > n.modified || n.modified > c.seq {
			return fmt.Errorf("item %s: added %d, modified %d, head %d", id, n.added, n.modified, c.seq)
		}
		before = n.place
	}
	return nil
}

// sameChat compares all but the index, whose hashes differ; check looks at that.
func sameChat(a, b *ChatContext) bool {
	x, y := *a, *b
	x.index, y.index = nil, nil
	return reflect.DeepEqual(x, y) && a.check() == nil && b.check() == nil
}
