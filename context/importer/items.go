package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	chatctx "sightline/context"
)

// items reads our own format: items, or entries of a log, which are folded.
func (r *reader) items(s *survey, c *conversation) error {
	if c != nil {
		if err := r.lists(*c, (*builder).item); err != nil || r.b.count > 0 {
			return err
		}
		return r.foldIfEntries(c)
	}
	el, err := r.in.at(s.from, "")
	if err != nil {
		return err
	}
	if el.object().has("op") {
		return r.fold(s.from, false)
	}
	return r.stream(s.from, "", false, (*builder).item)
}

func (r *reader) foldIfEntries(c *conversation) error {
	for _, l := range c.lists {
		if !l.one && r.b.entries {
			return r.fold(l.off, true)
		}
	}
	return nil
}

// item reads one item. An entry among items is remembered, so that the list is read again as entries.
func (b *builder) item(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	if o.has("op") && o.has("seq") && b.count == 0 {
		b.entries = true
		return
	}
	if b.entries {
		return
	}
	item := b.ownItem(el, o)
	if item == nil {
		return
	}
	switch it := item.(type) {
	case *chatctx.FunctionCall:
		b.call(*it, el)
	case *chatctx.FunctionCallOutput:
		b.output(*it, el)
	default:
		b.give(b.identified(item, el), el)
	}
}

// ownItem decodes an item by the rules of package chatctx, with the place of what is wrong.
func (b *builder) ownItem(el node, o object) chatctx.Item {
	raw := b.texts(el)
	if o.str("role") == "tool" || o.str("type") == "" {
		b.fail(el, "type", "an item needs a type: message, function_call, function_call_output, handoff, config_update, summary or pipeline_switch")
		return nil
	}
	item, err := chatctx.UnmarshalItem(raw)
	if err == nil {
		err = problem(item)
	}
	if err != nil {
		field := ""
		var e *chatctx.Error
		if errors.As(err, &e) {
			field = strings.TrimPrefix(strings.TrimPrefix(e.Field, "item."), "item")
			err = errors.New(e.Detail)
		}
		b.fail(b.find(el, field), field, "%s", err.Error())
		return nil
	}
	return item
}

// find gives the value that a field's path leads to, or the last on the way that is there: errors of package chatctx name no
// numbers, so the first of a list that lacks what is asked for cannot be told.
func (b *builder) find(el node, path string) node {
	at := el
	for path != "" && at.kind() == objectKind {
		name := path
		for i := range path {
			if path[i] == '.' || path[i] == '[' {
				name = path[:i]
				break
			}
		}
		next := at.object().get(name)
		if next.kind() == noKind {
			return at
		}
		at, path = next, path[min(len(name)+1, len(path)):]
	}
	return at
}

// texts is el with U+FFFD in place of what is no text, which it notes: package chatctx refuses that.
func (b *builder) texts(el node) []byte {
	broken := brokenText(el.raw)
	if broken == "" {
		return el.raw
	}
	b.lose(el, "", NoteText, "%s became U+FFFD", broken)
	d := json.NewDecoder(bytes.NewReader(el.raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return el.raw
	}
	mended, err := json.Marshal(v)
	if err != nil {
		return el.raw
	}
	return mended
}

// brokenText looks through the strings of a value.
func brokenText(raw []byte) string {
	for i := 0; i < len(raw); i++ {
		if raw[i] == '"' {
			end := skipString(raw, i)
			if _, broken := unquote(raw[i:end]); broken != "" {
				return broken
			}
			i = end - 1
		}
	}
	return ""
}

// problem says what a log would refuse in an item; nil when nothing.
func problem(item chatctx.Item) error {
	bad := func(field, format string, args ...any) error {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	switch it := item.(type) {
	case *chatctx.Message:
		switch it.Role {
		case chatctx.RoleSystem, chatctx.RoleDeveloper, chatctx.RoleUser, chatctx.RoleAssistant:
		default:
			return bad("role", "role %q: allowed are system, developer, user and assistant", clip(string(it.Role)))
		}
		if it.Content == nil {
			return bad("content", "a message needs content: a string or a list of parts")
		}
	case *chatctx.AgentHandoff:
		if it.ToAgent == "" {
			return bad("to_agent", "a handoff needs to_agent")
		}
	case *chatctx.ConfigUpdate:
		if it.Instructions == "" && len(it.Tools) == 0 {
			return bad("instructions", "a config_update changes instructions or tools: give at least one")
		}
		if len(it.Tools) > 0 && it.Tools[0] != '[' {
			return bad("tools", "tools must be a list")
		}
	case *chatctx.Summary:
		if it.Text == "" {
			return bad("text", "a summary needs text")
		}
		if it.Covers[0] == 0 || it.Covers[0] > it.Covers[1] {
			return bad("covers", "covers is [first_seq, last_seq] with 1 <= first_seq <= last_seq")
		}
	case *chatctx.PipelineSwitch:
		if it.State != "started" && it.State != "committed" && it.State != "aborted" {
			return bad("state", "state %q: allowed are started, committed and aborted", clip(it.State))
		}
	}
	return nil
}

// identified is the item with an id that it may have.
func (b *builder) identified(item chatctx.Item, at node) chatctx.Item {
	id := b.id(item.ItemID(), at)
	if id == item.ItemID() {
		return item
	}
	switch it := item.(type) {
	case *chatctx.Message:
		it.ID = id
	case *chatctx.AgentHandoff:
		it.ID = id
	case *chatctx.ConfigUpdate:
		it.ID = id
	case *chatctx.Summary:
		it.ID = id
	case *chatctx.PipelineSwitch:
		it.ID = id
	}
	return item
}

// slot is where the last version of an item stands in a log of entries.
type slot struct {
	off  int64
	gone bool
	next int // the slot that stands after it; 0 = none
}

// folding is what a log of entries comes to, without the items themselves.
type folding struct {
	slots  []slot // in the order of appending; slots[0] holds no item, it comes before the first
	places map[key]int
	end    int    // the slot that stands last
	last   uint64 // seq
}

// fold reads entries: first where each item's last version is, then those versions in the order of the conversation.
func (r *reader) fold(from int64, list bool) error {
	f := &folding{places: map[key]int{}, slots: make([]slot, 1)}
	if err := r.stream(from, "", list, f.entry); err != nil {
		return err
	}
	r.b.entries, r.b.path = false, "item"
	for i := f.slots[0].next; i != 0; i = f.slots[i].next {
		s := f.slots[i]
		if s.gone {
			continue
		}
		el, err := r.in.at(s.off, "item")
		if err != nil {
			return err
		}
		if r.b.item(el); r.b.err != nil {
			return r.b.err
		}
	}
	return nil
}

// entryHead is an entry without its item.
type entryHead struct {
	Seq     uint64         `json:"seq"`
	Op      chatctx.OpKind `json:"op"`
	ItemID  string         `json:"item_id"`
	After   string         `json:"after_item_id"`
	Removed []string       `json:"removed"`
}

// head reads what is small of an entry.
func (b *builder) head(o object) (e entryHead) {
	small := map[string]json.RawMessage{}
	for _, name := range []string{"seq", "op", "item_id", "after_item_id", "removed"} {
		if v := o.get(name); v.given() {
			small[name] = v.raw
		}
	}
	data, err := json.Marshal(small)
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		field := ""
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			field = t.Field
		}
		b.fail(b.find(o.node, field), field, "an entry's %s is of the wrong kind", field)
	}
	return e
}

func (f *folding) entry(b *builder, el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	e := b.head(o)
	switch {
	case b.err != nil:
		return
	case e.Seq <= f.last:
		b.fail(o.get("seq"), "seq", "entry %d follows entry %d: seq rises", e.Seq, f.last)
		return
	case f.last != 0 && e.Seq != f.last+1:
		b.lose(o.get("seq"), "seq", NoteEarlier, "entries are missing before this one")
	}
	f.last = e.Seq
	item := o.get("item")
	switch e.Op {
	case chatctx.OpAppend:
		b.object(item, "item")
		f.add(b, el, item, e.After)
		f.remove(b, el, e.Removed)
	case chatctx.OpUpdate:
		b.object(item, "item")
		f.change(b, el, e.ItemID, "item_id", func(s *slot) { s.off = item.off })
	case chatctx.OpRemove:
		f.change(b, el, e.ItemID, "item_id", func(s *slot) { s.gone = true })
	case chatctx.OpTruncate:
		f.remove(b, el, e.Removed)
	default:
		b.fail(o.get("op"), "op", "unknown op %q: allowed are append, update, remove and truncate", clip(string(e.Op)))
	}
}

// add puts an item at the end, or right after the item called after: what is not in this input was said before all that is.
func (f *folding) add(b *builder, el, item node, after string) {
	at := f.end
	if after != "" {
		var ok bool
		if at, ok = f.places[keyOf(after)]; !ok {
			b.lose(el, "after_item_id", NoteEarlier, "an item is put after one that is not in this input: it comes first")
		}
	}
	n := len(f.slots)
	f.slots = append(f.slots, slot{off: item.off, next: f.slots[at].next})
	f.slots[at].next = n
	if at == f.end {
		f.end = n
	}
	f.places[keyOf(item.object().str("id"))] = n
}

func (f *folding) remove(b *builder, el node, ids []string) {
	for _, id := range ids {
		f.change(b, el, id, "removed", func(s *slot) { s.gone = true })
	}
}

// change does something to the slot of an item.
func (f *folding) change(b *builder, el node, id, field string, do func(*slot)) {
	k, ok := f.places[keyOf(id)]
	if !ok {
		b.lose(el, field, NoteEarlier, "an item that is not in this input is changed or removed")
		return
	}
	do(&f.slots[k])
}
