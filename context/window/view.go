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
	epoch uint64

	author string // of the summaries that are ours
}

// mark is what the view remembers of an item.
type mark struct {
	added, modified uint64 // seq of its append, and of its last append or update
	ours            bool   // a summary that a Manager wrote
}

// node is an item with its mark and its price.
type node struct {
	chatctx.Item
	mark
	tokens int
}

// NewView makes the view of an empty conversation whose Manager writes as author.
func NewView(c tokens.Counter, author string) *View {
	return &View{chat: chatctx.New(), tally: tokens.NewTally(c), marks: map[string]mark{}, author: author}
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
	case e.Op == chatctx.OpUpdate:
		m := v.marks[e.ItemID]
		m.modified = e.Seq
		v.marks[e.ItemID] = m
	case e.Item != nil:
		_, ours := v.begun(e)
		v.marks[e.Item.ItemID()] = mark{added: e.Seq, modified: e.Seq, ours: ours}
	case e.Op == chatctx.OpRemove:
		delete(v.marks, e.ItemID)
	}
	for _, id := range e.Removed {
		delete(v.marks, id)
	}
	return nil
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

// foldSet is what a fold takes out of the nodes. It depends only on the log, so that a restart finds the same: items whose
// appends are within covers and that nobody changed since the plan; pairs of which both halves are; and earlier summaries.
func foldSet(nodes []node, f fold) []node {
	inside := func(n node) bool {
		if _, ok := n.Item.(*chatctx.Summary); ok && n.ours {
			return n.added <= f.at && n.modified <= f.at
		}
		return foldable(n.Item) && n.added >= f.covers[0] && n.added <= f.covers[1] && n.modified <= f.at
	}
	type halves struct{ calls, outputs, in int }
	pairs := map[string]halves{}
	each := func(n node, do func(h *halves, call bool)) bool {
		id, call := pairID(n.Item)
		if id != "" {
			h := pairs[id]
			do(&h, call)
			pairs[id] = h
		}
		return id != ""
	}
	for _, n := range nodes {
		each(n, func(h *halves, call bool) {
			if call {
				h.calls++
			} else {
				h.outputs++
			}
			if inside(n) {
				h.in++
			}
		})
	}
	var out []node
	for _, n := range nodes {
		if !inside(n) {
			continue
		}
		whole := true
		each(n, func(h *halves, _ bool) { whole = h.outputs > 0 && h.in == h.calls+h.outputs })
		if whole {
			out = append(out, n)
		}
	}
	return out
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
