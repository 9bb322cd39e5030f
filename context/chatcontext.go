package chatctx

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sightline/context/internal/idtable"
)

// ChatContext is the conversation as the fold of a log's entries: pure and deterministic, so that every replica that has
// applied the same entries is equal. It is not safe for concurrent use; Clone one per reader.
type ChatContext struct {
	seq   uint64
	last  uint64         // place given last
	nodes []node         // in order of place
	index *idtable.Table // item id → place

	unnamed map[string]struct{} // item ids made for authors who gave none: the seeds' formats show none either; nil when none
}

// node is an item with what the fold remembers of it.
type node struct {
	item     Item
	place    uint64 // rises along nodes, so that a node is found by halving; see placeGap
	added    uint64 // seq of its append
	modified uint64 // seq of its last append or update
	at       int64  // when it was appended, in Unix milliseconds; noTime when a snapshot brought it
}

// placeGap is what lies between the places of neighbours, so that an insertion finds room; when there is none left, after 32
// insertions at one spot, all places are given anew.
const placeGap = 1 << 32

// noTime is the zero time.Time in Unix milliseconds.
const noTime = -62135596800000

// New makes an empty ChatContext.
func New() *ChatContext { return &ChatContext{index: idtable.New()} }

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
	i, ok := c.find(id)
	if !ok {
		return nil, false
	}
	return c.nodes[i].item, true
}

// find gives where in nodes an item is.
func (c *ChatContext) find(id string) (at int, ok bool) { return c.findHash(id, c.index.Hash(id)) }

func (c *ChatContext) findHash(id string, hash uint64) (at int, ok bool) {
	_, ok = c.index.Find(hash, func(place uint64) bool {
		at, _ = slices.BinarySearchFunc(c.nodes, place, func(n node, place uint64) int { return cmp.Compare(n.place, place) })
		return c.nodes[at].item.ItemID() == id
	})
	return at, ok
}

// has reports whether an item is there.
func (c *ChatContext) has(id string) bool {
	_, ok := c.find(id)
	return ok
}

func (c *ChatContext) add(item Item, seq uint64, at int64) {
	c.last += placeGap
	c.index.Put(c.index.Hash(item.ItemID()), c.last)
	if len(c.nodes) == cap(c.nodes) { // doubled, also when large: a quarter more would copy each node five times
		c.nodes = slices.Grow(c.nodes, max(len(c.nodes), 8))
	}
	c.nodes = append(c.nodes, node{item: item, place: c.last, added: seq, modified: seq, at: at})
}

// insert puts an item at i, before the node that is there now.
func (c *ChatContext) insert(i int, item Item, seq uint64, at int64) {
	if i == len(c.nodes) {
		c.add(item, seq, at)
		return
	}
	before := uint64(0)
	if i > 0 {
		before = c.nodes[i-1].place
	}
	if c.nodes[i].place-before < 2 {
		c.spread()
		before = uint64(i) * placeGap
	}
	place := before + (c.nodes[i].place-before)/2
	c.index.Put(c.index.Hash(item.ItemID()), place)
	c.nodes = slices.Insert(c.nodes, i, node{item: item, place: place, added: seq, modified: seq, at: at})
}

// spread gives all places anew.
func (c *ChatContext) spread() {
	c.last = 0
	for i := range c.nodes {
		c.last += placeGap
		c.nodes[i].place = c.last
	}
	c.indexed()
}

// Placed says when an item was added: the seq of its append, and the time. The time is zero and the seq the snapshot's for an
// item that came with a snapshot.
func (c *ChatContext) Placed(id string) (seq uint64, at time.Time, ok bool) {
	i, ok := c.find(id)
	if !ok {
		return 0, time.Time{}, false
	}
	return c.nodes[i].added, time.UnixMilli(c.nodes[i].at).UTC(), true
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
	return &ChatContext{seq: c.seq, last: c.last, nodes: slices.Clone(c.nodes), index: c.index.Clone(), unnamed: maps.Clone(c.unnamed)}
}

// indexed makes the index of nodes.
func (c *ChatContext) indexed() *ChatContext {
	c.index = idtable.New()
	for _, n := range c.nodes {
		c.index.Put(c.index.Hash(n.item.ItemID()), n.place)
	}
	return c
}

// FromSnapshot makes the ChatContext that a snapshot describes. Items of a snapshot count as added at its seq. A snapshot that
// no conversation can have (an item without an id, or an id twice) is an *Error of kind InvalidArgument.
func FromSnapshot(s Snapshot) (*ChatContext, error) {
	if s.Seq == 0 && len(s.Items) > 0 {
		return nil, fail(InvalidArgument, "snapshot.seq", "a snapshot with items has a seq of at least 1")
	}
	c := New()
	c.seq = s.Seq
	for i, item := range s.Items {
		id := item.ItemID()
		if id == "" || c.has(id) {
			return nil, fail(InvalidArgument, "snapshot.items", "snapshot item %d has the id %q: ids are not empty and occur once", i, id)
		}
		c.add(item, s.Seq, noTime)
	}
	return c, nil
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
func (c *ChatContext) Apply(e Entry) error { return c.apply(&e) }

func (c *ChatContext) apply(e *Entry) error {
	if e.Seq != c.seq+1 {
		return fail(LogDamaged, "seq", "entry %d follows entry %d", e.Seq, c.seq)
	}
	switch e.Op {
	case OpAppend:
		if err := c.applyAppend(e); err != nil {
			return err
		}
	case OpUpdate:
		i, ok := c.find(e.ItemID)
		if !ok {
			return fail(LogDamaged, "item_id", "entry %d updates item %q, which is not there", e.Seq, e.ItemID)
		}
		if e.Item == nil || e.Item.ItemID() != e.ItemID {
			return fail(LogDamaged, "item", "entry %d updates item %q without being it", e.Seq, e.ItemID)
		}
		c.nodes[i].item = e.Item
		c.nodes[i].modified = e.Seq
	case OpRemove:
		i, ok := c.find(e.ItemID)
		if !ok {
			return fail(LogDamaged, "item_id", "entry %d removes item %q, which is not there", e.Seq, e.ItemID)
		}
		c.removeAt([]int{i})
	case OpTruncate:
		gone, err := c.removal(e)
		if err != nil {
			return err
		}
		c.removeAt(gone)
	default:
		return fail(LogDamaged, "op", "entry %d has the unknown op %q", e.Seq, e.Op)
	}
	c.seq = e.Seq
	return nil
}

// applyAppend adds an item and removes what it stands for.
func (c *ChatContext) applyAppend(e *Entry) error {
	if e.Item == nil {
		return fail(LogDamaged, "item", "append entry %d has no item", e.Seq)
	}
	if id := e.Item.ItemID(); id == "" || c.has(id) {
		return fail(LogDamaged, "item", "entry %d appends item %q: an id is not empty and is not given twice", e.Seq, id)
	}
	i := len(c.nodes)
	if e.After != "" {
		after, ok := c.find(e.After)
		if !ok {
			return fail(LogDamaged, "after_item_id", "entry %d appends after item %q, which is not there", e.Seq, e.After)
		}
		i = after + 1
	}
	if len(e.Removed) > 0 {
		gone, err := c.removal(e)
		if err != nil {
			return err
		}
		before, _ := slices.BinarySearch(gone, i) // After may be among them: the item stands where it stood
		c.removeAt(gone)
		i -= before
	}
	c.insert(i, e.Item, e.Seq, e.At.UnixMilli())
	return nil
}

// removal gives where in nodes what an entry removes is, rising.
func (c *ChatContext) removal(e *Entry) ([]int, error) {
	gone := make([]int, len(e.Removed))
	for n, id := range e.Removed {
		i, ok := c.find(id)
		if !ok {
			return nil, fail(LogDamaged, "removed", "entry %d removes item %q, which is not there", e.Seq, id)
		}
		gone[n] = i
	}
	slices.Sort(gone)
	for n := 1; n < len(gone); n++ {
		if gone[n] == gone[n-1] {
			return nil, fail(LogDamaged, "removed", "entry %d removes item %q twice", e.Seq, c.nodes[gone[n]].item.ItemID())
		}
	}
	return gone, nil
}

// removeAt takes the nodes at the indices given away, which rise.
func (c *ChatContext) removeAt(gone []int) {
	if len(gone) == 0 {
		return
	}
	for _, i := range gone {
		c.index.Delete(c.index.Hash(c.nodes[i].item.ItemID()), c.nodes[i].place)
	}
	first := gone[0]
	if gone[len(gone)-1]-first == len(gone)-1 {
		c.nodes = slices.Delete(c.nodes, first, first+len(gone))
		return
	}
	kept := c.nodes[:first]
	for i := first; i < len(c.nodes); i++ {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			continue
		}
		kept = append(kept, c.nodes[i])
	}
	clear(c.nodes[len(kept):])
	c.nodes = kept
}
