package window

import (
	"fmt"
	"strings"

	chatctx "sightline/context"
	"sightline/context/tokens"
)

// View is a conversation with what a plan needs to know besides the items. It is built from a log's entries and belongs to one
// goroutine.
type View struct {
	chat  *chatctx.ChatContext
	tally *tokens.Tally
	marks map[string]mark
	pairs map[string]*pair // by call_id; a log has each half at most once, ever
	epoch uint64

	author string // of the summaries that are ours
}

// mark is what the view remembers of an item.
type mark struct {
	item            chatctx.Item
	added, modified uint64 // seq of its append, and of its last append or update
	ours            bool   // a summary that a Manager wrote
}

// pair is what the view remembers of a call and its output, after their removal too: what a fold stands for is told by how things
// were when it was planned.
type pair struct{ call, output half }

// half is one of a pair; zero when it was never there.
type half struct{ added, modified, removed uint64 }

func (h half) at(seq uint64) bool {
	return h.added != 0 && h.added <= seq && (h.removed == 0 || h.removed > seq)
}

// node is an item with its mark and its price.
type node struct {
	chatctx.Item
	mark
	tokens int
}

// NewView makes the view of an empty conversation whose Manager writes as author.
func NewView(c tokens.Counter, author string) *View {
	return &View{chat: chatctx.New(), tally: tokens.NewTally(c), marks: map[string]mark{}, pairs: map[string]*pair{}, author: author}
}

// Apply takes the next entry in; the cost does not grow with the history.
func (v *View) Apply(e chatctx.Entry) error {
	if err := v.chat.Apply(e); err != nil {
		return err
	}
	if err := v.tally.Apply(e); err != nil {
		return err
	}
	v.epoch = e.Epoch
	switch {
	case e.Op == chatctx.OpRemove:
		v.forget(e.ItemID, e.Seq)
	case e.Item != nil:
		id := e.Item.ItemID()
		m, known := v.marks[id]
		if !known {
			_, ours := v.begun(e)
			m = mark{item: e.Item, added: e.Seq, ours: ours}
		}
		m.modified = e.Seq
		v.marks[id] = m
		if h := v.half(e.Item); h != nil {
			h.added, h.modified = m.added, m.modified
		}
	}
	for _, id := range e.Removed {
		v.forget(id, e.Seq)
	}
	return nil
}

func (v *View) forget(id string, seq uint64) {
	if h := v.half(v.marks[id].item); h != nil {
		h.removed = seq
	}
	delete(v.marks, id)
}

// half finds an item's half of its pair, nil when it is none.
func (v *View) half(item chatctx.Item) *half {
	id, call := pairID(item)
	if id == "" {
		return nil
	}
	p := v.pairs[id]
	if p == nil {
		p = &pair{}
		v.pairs[id] = p
	}
	if call {
		return &p.call
	}
	return &p.output
}

// begun reports which fold an entry begins. Only the Manager's own summaries do: an agent may choose any op_id.
func (v *View) begun(e chatctx.Entry) (fold, bool) {
	if _, summary := e.Item.(*chatctx.Summary); !summary || e.Op != chatctx.OpAppend || e.Author != v.author {
		return fold{}, false
	}
	return parseOpID(e.OpID)
}

// Seq is the last entry applied.
func (v *View) Seq() uint64 { return v.chat.Seq() }

// Tokens is what all items cost.
func (v *View) Tokens() int { return v.tally.Total() }

// Len is the number of items.
func (v *View) Len() int { return v.chat.Len() }

// Items are the items, in order.
func (v *View) Items() chatctx.Items { return v.chat.Items() }

func (v *View) nodes() []node {
	items := v.chat.Items()
	nodes := make([]node, len(items))
	for i, item := range items {
		id := item.ItemID()
		nodes[i] = node{item, v.marks[id], v.tally.Item(id)}
	}
	return nodes
}

// fold names what one summary stands for: the items of foldSet(covers, at).
type fold struct {
	covers [2]uint64
	at     uint64 // the seq at which it was planned
}

// opID names the fold in the log, so that whoever reads the log can finish it.
func (f fold) opID() string {
	return fmt.Sprintf("%s%d-%d@%d", opPrefix, f.covers[0], f.covers[1], f.at)
}

const opPrefix = "window:"

func parseOpID(id string) (fold, bool) {
	rest, ok := strings.CutPrefix(id, opPrefix)
	if !ok {
		return fold{}, false
	}
	var f fold
	n, err := fmt.Sscanf(rest, "%d-%d@%d", &f.covers[0], &f.covers[1], &f.at)
	return f, n == 3 && err == nil && f.opID() == id
}

// foldable reports whether an item may be summed up: what was said and done may, instructions, handoffs and config updates not.
func foldable(item chatctx.Item) bool {
	switch it := item.(type) {
	case *chatctx.Message:
		return it.Role == chatctx.RoleUser || it.Role == chatctx.RoleAssistant
	case *chatctx.FunctionCall, *chatctx.FunctionCallOutput, *chatctx.Summary, *chatctx.PipelineSwitch:
		return true
	}
	return false
}

// foldSet is what a fold takes out of the conversation. It depends only on the log, so that a restart finds the same: items whose
// appends are within covers and that nobody changed since the plan; pairs of which both halves are; and earlier summaries.
func (v *View) foldSet(nodes []node, f fold) []node {
	out := make([]node, 0, len(nodes))
	for _, n := range nodes {
		if f.holds(n) && (!isHalf(n.Item) || f.holdsPair(v.pairs[callID(n.Item)])) {
			out = append(out, n)
		}
	}
	return out
}

func (f fold) holds(n node) bool {
	if _, summary := n.Item.(*chatctx.Summary); summary && n.ours {
		return n.added <= f.at && n.modified <= f.at
	}
	return foldable(n.Item) && f.inside(n.added, n.modified)
}

func (f fold) inside(added, modified uint64) bool {
	return added >= f.covers[0] && added <= f.covers[1] && modified <= f.at
}

// holdsPair reports whether the halves that were there at the plan may go, both, or an output that had no call; a half that came
// later keeps the other.
func (f fold) holdsPair(p *pair) bool {
	for _, h := range []half{p.call, p.output} {
		if (h.at(f.at) || h.added != 0 && h.removed == 0) && !f.inside(h.added, h.modified) {
			return false
		}
	}
	return p.output.at(f.at)
}

func isHalf(item chatctx.Item) bool { return callID(item) != "" }

func callID(item chatctx.Item) string {
	id, _ := pairID(item)
	return id
}

// pairID is the call_id of a call or an output, "" of other items.
func pairID(item chatctx.Item) (id string, call bool) {
	switch it := item.(type) {
	case *chatctx.FunctionCall:
		return it.CallID, true
	case *chatctx.FunctionCallOutput:
		return it.CallID, false
	}
	return "", false
}
