package window

import (
	"cmp"
	"math"
	"slices"

	chatctx "sightline/context"
)

// Plan is what would leave the context, and what stays.
type Plan struct {
	Fold   chatctx.Items // what the summary is to stand for, earlier summaries among it; empty = there is nothing to do
	Keep   chatctx.Items // everything else, in order
	Covers [2]uint64     // first and last seq that the summary stands for
	Turns  int           // user messages in Fold
	Tokens int           // of Fold

	fold fold
}

// Plan says what a summary should stand for now, whether or not the conversation is over the limits: all that is older than the
// newest KeepRecentTurns turns and may leave, as far as it goes into maxBytes of a prompt (0 = all). It is pure.
func (w ContextWindow) Plan(v *View, maxBytes int) Plan {
	nodes := v.nodes()
	old, limit := w.old(nodes)
	if maxBytes > 0 {
		limit = boundBytes(old, limit, maxBytes)
	}
	limit = boundItems(old, limit)
	f := fold{covers: [2]uint64{math.MaxUint64, 0}, at: v.Seq()}
	for _, n := range old {
		if !n.ours && n.added < limit {
			f.covers = [2]uint64{min(f.covers[0], n.added), max(f.covers[1], n.added)}
		}
	}
	p := Plan{fold: f, Covers: f.covers}
	said := false
	out := v.foldSet(nodes, f)
	p.Fold = make(chatctx.Items, 0, len(out))
	for _, n := range out {
		p.Fold = append(p.Fold, n.Item)
		p.Tokens += n.tokens
		switch it := n.Item.(type) {
		case *chatctx.Message:
			said = true
			if it.Role == chatctx.RoleUser {
				p.Turns++
			}
		case *chatctx.FunctionCallOutput:
			said = true
		case *chatctx.Summary: // what it covered is covered still
			p.Covers = [2]uint64{min(p.Covers[0], it.Covers[0]), max(p.Covers[1], it.Covers[1])}
		}
	}
	if !said { // only earlier summaries and switches: nothing to say of them that is not said
		p.Fold, p.Tokens, p.Covers, out = nil, 0, [2]uint64{}, nil
	}
	p.Keep = make(chatctx.Items, 0, len(nodes)-len(out))
	for _, n := range nodes { // out is a part of nodes, in the same order
		if len(out) > 0 && out[0].Item == n.Item {
			out = out[1:]
			continue
		}
		p.Keep = append(p.Keep, n.Item)
	}
	return p
}

// old gives the nodes that may be folded, oldest append first, and the seq before which they were appended: that of the oldest
// item of the turns that are kept.
func (w ContextWindow) old(nodes []node) ([]node, uint64) {
	begin, turns := len(nodes), 0
	if keep := w.keep(); keep > 0 {
		for begin = len(nodes) - 1; begin >= 0; begin-- {
			if m, ok := nodes[begin].Item.(*chatctx.Message); ok && m.Role == chatctx.RoleUser {
				if turns++; turns == keep {
					break
				}
			}
		}
	}
	begin = max(begin, 0)
	limit := uint64(math.MaxUint64)
	for _, n := range nodes[begin:] {
		if !n.ours { // a summary of ours was appended later than what it stands before
			limit = min(limit, n.added)
		}
	}
	old := make([]node, 0, len(nodes))
	for i, n := range nodes {
		if foldable(n.Item) && (n.ours || i < begin && n.added < limit) {
			old = append(old, n)
		}
	}
	slices.SortStableFunc(old, func(a, b node) int { return cmp.Compare(a.added, b.added) })
	return old, limit
}

// boundBytes lowers limit so that what is rendered of the nodes before it has at most maxBytes, though never to nothing.
func boundBytes(old []node, limit uint64, maxBytes int) uint64 {
	size, any := 0, false
	for _, n := range old {
		if n.ours {
			size += len(line(n.Item))
		}
	}
	for _, n := range old {
		if n.ours {
			continue
		}
		if size += len(line(n.Item)); size > maxBytes && any {
			return n.added
		}
		switch n.Item.(type) {
		case *chatctx.Message, *chatctx.FunctionCallOutput: // with these there is something to sum up
			any = true
		}
	}
	return limit
}

// boundItems lowers limit so that one operation can remove what goes; pairs and earlier summaries only make it fewer, or go whole.
func boundItems(old []node, limit uint64) uint64 {
	n := 0
	for _, o := range old {
		if n++; n > chatctx.MaxRemove && !o.ours {
			return min(limit, o.added)
		}
	}
	return limit
}

// worthwhile reports whether folding is worth a summary: two turns, or a tenth of a limit. Otherwise each turn of a conversation
// whose kept turns fill the window would cost one.
func (w ContextWindow) worthwhile(p Plan) bool {
	return len(p.Fold) > 0 && (p.Turns >= 2 ||
		w.MaxTokens != nil && p.Tokens*10 >= *w.MaxTokens ||
		w.MaxContextItems != nil && len(p.Fold)*10 >= *w.MaxContextItems)
}

// Drop says what to remove when there is no Summarizer: the oldest that may leave, until the limits are kept or nothing more may
// go. A call and its output leave together.
func (w ContextWindow) Drop(v *View) chatctx.Items {
	var out chatctx.Items
	for _, unit := range w.dropUnits(v) {
		for _, id := range unit {
			item, _ := v.chat.Item(id)
			out = append(out, item)
		}
	}
	return out
}

// dropUnits is Drop with the ids that go together side by side.
func (w ContextWindow) dropUnits(v *View) [][]string {
	nodes := v.nodes()
	old, limit := w.old(nodes)
	tokens, items := v.Tokens(), v.Len()
	if !w.over(tokens, items) || len(old) == 0 {
		return nil
	}
	may := map[string]bool{}
	whole := v.foldSet(nodes, fold{covers: [2]uint64{1, min(limit-1, v.Seq())}, at: v.Seq()})
	halves := map[string][]node{}
	for _, n := range whole {
		may[n.ItemID()] = true
		if id, _ := pairID(n.Item); id != "" {
			halves[id] = append(halves[id], n)
		}
	}
	var out [][]string
	gone := map[string]bool{}
	for _, n := range old {
		if !w.over(tokens, items) {
			break
		}
		if _, summary := n.Item.(*chatctx.Summary); summary || !may[n.ItemID()] || gone[n.ItemID()] {
			continue
		}
		unit := []node{n}
		if id, _ := pairID(n.Item); id != "" {
			unit = halves[id]
		}
		together := make([]string, 0, len(unit))
		for _, u := range unit {
			together = append(together, u.ItemID())
			gone[u.ItemID()] = true
			tokens -= u.tokens
			items--
		}
		out = append(out, together)
	}
	return out
}
