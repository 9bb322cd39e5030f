package tokens

import (
	"context"
	"fmt"

	chatctx "sightline/context"
)

// Tally is the token count of a conversation, kept up to date by the entries of its log: each entry costs as much as the items
// it touches, however long the history is. It belongs to one goroutine.
type Tally struct {
	counter Counter
	costs   map[string]int // item id → tokens
	total   int
	seq     uint64
}

// NewTally makes the tally of an empty conversation.
func NewTally(c Counter) *Tally { return &Tally{counter: c, costs: map[string]int{}} }

// TallyOf makes the tally of a conversation that is there already, at a cost that grows with it.
func TallyOf(c Counter, s chatctx.Snapshot) *Tally {
	t := NewTally(c)
	for _, item := range s.Items {
		t.set(item)
	}
	t.seq = s.Seq
	return t
}

// Apply counts the next entry. One that is not the next is an *chatctx.Error of kind LogDamaged and changes nothing.
func (t *Tally) Apply(e chatctx.Entry) error {
	if e.Seq != t.seq+1 {
		return &chatctx.Error{Kind: chatctx.LogDamaged, Field: "seq", Detail: fmt.Sprintf("entry %d follows entry %d", e.Seq, t.seq)}
	}
	t.seq = e.Seq
	if e.Item != nil {
		t.set(e.Item)
	} else if e.Op == chatctx.OpRemove {
		t.drop(e.ItemID)
	}
	for _, id := range e.Removed {
		t.drop(id)
	}
	return nil
}

// CatchUp applies what the cursor has not given yet and returns at the head.
func (t *Tally) CatchUp(ctx context.Context, c *chatctx.Cursor) error {
	for {
		e, ok, err := c.TryNext(ctx)
		if err != nil || !ok {
			return err
		}
		if err := t.Apply(e); err != nil {
			return err
		}
	}
}

func (t *Tally) set(item chatctx.Item) {
	id, cost := item.ItemID(), t.counter.Item(item)
	t.total += cost - t.costs[id]
	t.costs[id] = cost
}

func (t *Tally) drop(id string) {
	t.total -= t.costs[id]
	delete(t.costs, id)
}

// Total is the number of tokens of all items.
func (t *Tally) Total() int { return t.total }

// Item is the number of tokens of one item, 0 when it is not there.
func (t *Tally) Item(id string) int { return t.costs[id] }

// Len is the number of items.
func (t *Tally) Len() int { return len(t.costs) }

// Seq is the last entry counted.
func (t *Tally) Seq() uint64 { return t.seq }
