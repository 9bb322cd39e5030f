package chatctx

import (
	"slices"

	"github.com/google/uuid"
)

// plan makes the entry that op would become, without changing anything. The caller holds turn.
func (l *Log) plan(from Origin, op Op) (Entry, error) {
	select {
	case <-l.closed:
		return Entry{}, fail(EngineUnavailable, "", "the session's log is closed")
	default:
	}
	e := Entry{Seq: l.chat.seq + 1, OpID: op.ID, Author: from.Author, At: At(from.At), Epoch: from.Epoch, Op: op.Kind}
	var err error
	switch op.Kind {
	case OpAppend:
		e.After = op.After
		if op.After != "" {
			_, err = l.touch("after_item_id", op.After, op.BaseSeq)
		}
		if err == nil {
			e.Item, err = l.planAppend(op.Item)
		}
		if err == nil && len(op.Remove) > 0 {
			e.Removed, err = l.planRemoval(op)
		}
	case OpUpdate:
		e.ItemID = op.ItemID
		e.Item, err = l.planUpdate(op)
	case OpRemove:
		e.ItemID = op.ItemID
		_, err = l.touch("item_id", op.ItemID, op.BaseSeq)
	case OpTruncate:
		e.Removed, err = l.planTruncation(op)
	default:
		err = fail(InvalidArgument, "op", "unknown operation %q: allowed are append, update, remove and truncate", op.Kind)
	}
	return e, err
}

func (l *Log) planTruncation(op Op) ([]string, error) {
	if len(op.Remove) > 0 {
		if op.MaxItems != nil || op.MaxTokens != nil {
			return nil, fail(InvalidArgument, "remove", "a truncate is either to limits or of the items that it names")
		}
		return l.planRemoval(op)
	}
	items := l.chat.Items()
	places, err := planTruncate(items, op.MaxItems, op.MaxTokens, itemTokens)
	var removed []string
	for _, i := range places {
		removed = append(removed, items[i].ItemID())
	}
	return removed, err
}

// planRemoval gives op.Remove in the order of the conversation.
func (l *Log) planRemoval(op Op) ([]string, error) {
	if len(op.Remove) > MaxRemove {
		return nil, fail(InvalidArgument, "remove", "%d items to remove: at most %d are allowed at once", len(op.Remove), MaxRemove)
	}
	places, halves := make([]int, len(op.Remove)), map[string]bool{}
	for n, id := range op.Remove {
		item, err := l.touch("remove", id, op.BaseSeq)
		if err != nil {
			return nil, err
		}
		if call := callIDOf(item); call != "" {
			halves[call] = true
		}
		places[n], _ = l.chat.find(id)
	}
	slices.Sort(places)
	removed := make([]string, len(places))
	for n, i := range places {
		removed[n] = l.chat.nodes[i].item.ItemID()
		if n > 0 && i == places[n-1] {
			return nil, fail(InvalidArgument, "remove", "item %s is named twice", removed[n])
		}
	}
	if op.BaseSeq == 0 || len(halves) == 0 {
		return removed, nil
	}
	for _, n := range l.chat.nodes {
		if n.added > op.BaseSeq && halves[callIDOf(n.item)] {
			return nil, fail(Conflict, "base_seq", "entry %d, after base_seq %d, added the other half of a call that is to go: read it and try again", n.added, op.BaseSeq)
		}
	}
	return removed, nil
}

// callIDOf is the call_id of a call or an output, "" of other items.
func callIDOf(item Item) string {
	switch it := item.(type) {
	case *FunctionCall:
		return it.CallID
	case *FunctionCallOutput:
		return it.CallID
	}
	return ""
}

func (l *Log) planAppend(item Item) (Item, error) {
	if item == nil {
		return nil, fail(InvalidArgument, "item", "an append needs an item")
	}
	if err := l.checkItem(item); err != nil {
		return nil, err
	}
	id := item.ItemID()
	if id == "" {
		item = item.withID(uuid.NewString())
	} else if !ValidID(id) {
		return nil, fail(InvalidArgument, "id", "id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", id)
	} else if l.used(id) {
		return nil, fail(DuplicateID, "id", "the item id %s is taken by another op_id: choose another or leave it out", id)
	}
	switch it := item.(type) {
	case *FunctionCall:
		if l.calls[it.CallID].called {
			return nil, fail(DuplicateID, "call_id", "the call %s is recorded already", it.CallID)
		}
	case *FunctionCallOutput:
		if l.calls[it.CallID].answered {
			return nil, fail(Conflict, "call_id", "the call %s has its output already", it.CallID)
		}
	}
	return item, nil
}

// used reports whether an item had this id ever.
func (l *Log) used(id string) bool {
	return l.chat.has(id) || l.answers.wasRemoved(id)
}

func (l *Log) planUpdate(op Op) (Item, error) {
	old, err := l.touch("item_id", op.ItemID, op.BaseSeq)
	if err != nil {
		return nil, err
	}
	item, err := op.Changes.apply(old)
	if err != nil {
		return nil, err
	}
	return item, l.checkItem(item)
}

// touch finds the item that an operation is about, which field names, and checks its base_seq: conflicts are per item, so that
// two agents that change different items never get into each other's way.
func (l *Log) touch(field, id string, baseSeq uint64) (Item, error) {
	i, ok := l.chat.find(id)
	if !ok {
		return nil, fail(NotFound, field, "there is no item %q", id)
	}
	n := l.chat.nodes[i]
	if baseSeq > l.chat.seq {
		return nil, fail(InvalidArgument, "base_seq", "base_seq %d is past the head %d", baseSeq, l.chat.seq)
	}
	if baseSeq != 0 && n.modified > baseSeq {
		return nil, fail(Conflict, "base_seq", "item %s was changed by entry %d, after base_seq %d: read it and try again", id, n.modified, baseSeq)
	}
	return n.item, nil
}

func (l *Log) checkItem(item Item) error {
	if err := item.validate(); err != nil {
		return err
	}
	return checkTexts(item, l.cfg.MaxItemBytes)
}
