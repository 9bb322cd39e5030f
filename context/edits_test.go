package chatctx

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestInsertAfter(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	insert := func(id, after string, base uint64) error {
		op := say(id, RoleUser, id)
		op.After, op.BaseSeq = after, base
		_, err := log.Append(t.Context(), origin, op)
		return err
	}
	order := func(l *Log) string { return strings.Join(itemIDs(l.Chat().Items()), " ") }
	for _, id := range []string{"a", "b", "c"} {
		mustAppend(t, log, say(id, RoleUser, id))
	}
	for _, step := range []struct{ id, after, want string }{
		{"d", "a", "a d b c"},
		{"e", "a", "a e d b c"}, // the later one comes closer
		{"f", "c", "a e d b c f"},
		{"g", "", "a e d b c f g"},
		{"h", "f", "a e d b c f h g"},
	} {
		if err := insert(step.id, step.after, log.Head()); err != nil || order(log) != step.want || log.Chat().check() != nil {
			t.Errorf("%s after %q: %s, %v; want %s", step.id, step.after, order(log), err, step.want)
		}
	}
	if again := mustOpen(t, store); order(again) != order(log) || !sameChat(again.Chat(), log.Chat()) {
		t.Errorf("after a restart: %s", order(again))
	}
	before := stateOf(t, log)
	wantError(t, insert("x", "nobody", 0), NotFound, "after_item_id")
	taken := Op{ID: "taken", Kind: OpAppend, After: "b", Item: &Message{ID: "a", Role: RoleUser, Content: TextContent("x")}}
	_, err := log.Append(t.Context(), origin, taken)
	wantError(t, err, DuplicateID, "id")
	wantError(t, insert("x", "a", 99), InvalidArgument, "base_seq")
	if after := stateOf(t, log); !reflect.DeepEqual(before, after) {
		t.Error("a refused insertion changed the log")
	}
	head := log.Head()
	mustAppend(t, log, Op{ID: "up", Kind: OpUpdate, ItemID: "b", Changes: Changes{Interrupted: new(true)}})
	wantError(t, insert("x", "b", head), Conflict, "base_seq")
	if err := insert("x", "a", head); err != nil { // what b became does not matter
		t.Error(err)
	}
	mustAppend(t, log, Op{ID: "rm", Kind: OpRemove, ItemID: "b"})
	wantError(t, insert("y", "b", 0), NotFound, "after_item_id")
	if seq, at, ok := log.Chat().Placed("d"); seq != 4 || !at.Equal(origin.At) || !ok {
		t.Errorf("d was added by entry %d at %v, %v", seq, at, ok)
	}
	if _, _, ok := log.Chat().Placed("b"); ok {
		t.Error("a removed item is placed")
	}
}

// TestInsertManyAtOneSpot: places run out and are given anew.
func TestInsertManyAtOneSpot(t *testing.T) {
	c := New()
	want := []string{"first", "last"}
	for _, id := range want {
		c.take(&Message{ID: id, Role: RoleUser, Content: Content{}}, origin.At)
	}
	for i := range 500 {
		id, at := fmt.Sprint(i), 1
		if i%2 == 1 {
			at = len(want) / 2
		}
		if err := c.push(&Message{ID: id, Role: RoleUser, Content: Content{}}, origin.At, want[at-1]); err != nil {
			t.Fatal(err)
		}
		want = slices.Insert(want, at, id)
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
	}
	if got := itemIDs(c.Items()); !slices.Equal(got, want) {
		t.Errorf("order %v\nwant %v", got, want)
	}
	if err := c.Apply(Entry{Seq: c.seq + 1, Op: OpAppend, Item: &Message{ID: "x"}, After: "nobody"}); err == nil {
		t.Error("an entry after an item that is not there was applied")
	} else {
		wantError(t, err, LogDamaged, "after_item_id")
	}
}

// TestPropertyTwoAgentsEdit: two agents that each see the log late edit at once, by random schedules: append, insert after, update
// and remove, each with the seq it has applied. After every step replicas that have applied the same are equal, the log is what a
// plain list says, a conflict is told exactly when the item had changed since the agent's view, and a refusal changes nothing.
func TestPropertyTwoAgentsEdit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := mustOpen(t, NewMemStore())
		w := &editors{log: log, names: map[string]string{}, changed: map[string]uint64{}}
		for i := range w.agents {
			cursor, err := log.Follow(0)
			if err != nil {
				t.Fatal(err)
			}
			w.agents[i] = editor{view: New(), cursor: cursor}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"catch up": func(rt *rapid.T) { w.catchUp(t, rt, w.agent(rt), rapid.IntRange(1, 4).Draw(rt, "entries")) },
			"append":   func(rt *rapid.T) { w.edit(t, rt, w.agent(rt), OpAppend, false) },
			"insert":   func(rt *rapid.T) { w.edit(t, rt, w.agent(rt), OpAppend, true) },
			"update":   func(rt *rapid.T) { w.edit(t, rt, w.agent(rt), OpUpdate, true) },
			"remove":   func(rt *rapid.T) { w.edit(t, rt, w.agent(rt), OpRemove, true) },
			"replace":  func(rt *rapid.T) { w.replace(t, rt, w.agent(rt), OpAppend) },
			"drop":     func(rt *rapid.T) { w.replace(t, rt, w.agent(rt), OpTruncate) },
			"": func(rt *rapid.T) {
				w.check(rt)
			},
		})
		for i := range w.agents {
			w.catchUp(t, rt, &w.agents[i], 1<<30)
		}
		if a, b := w.agents[0].view, w.agents[1].view; a.Seq() != log.Head() || !sameChat(a, b) {
			rt.Fatal("both have applied everything and differ")
		}
	})
}

type editor struct {
	view   *ChatContext // what it has applied
	cursor *Cursor
}

type editors struct {
	log     *Log
	agents  [2]editor
	order   []string          // the model: ids in order
	names   map[string]string // id → text
	changed map[string]uint64 // id → seq of its last change
	ops     int
}

func (w *editors) agent(rt *rapid.T) *editor {
	return &w.agents[rapid.IntRange(0, 1).Draw(rt, "agent")]
}

// catchUp applies up to n entries, over the wire's JSON.
func (w *editors) catchUp(t *testing.T, rt *rapid.T, a *editor, n int) {
	for ; n > 0; n-- {
		e, ok, err := a.cursor.TryNext(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if !ok {
			return
		}
		var read Entry
		if err := json.Unmarshal(mustJSON(t, e), &read); err != nil {
			rt.Fatal(err)
		}
		if err := a.view.Apply(read); err != nil {
			rt.Fatal(err)
		}
	}
}

// edit sends an operation made of the agent's own view; the item it is about is one the agent sees.
func (w *editors) edit(t *testing.T, rt *rapid.T, a *editor, kind OpKind, about bool) {
	w.ops++
	op := Op{ID: fmt.Sprint("op", w.ops), Kind: kind, BaseSeq: a.view.Seq()}
	target := ""
	if about {
		seen := itemIDs(a.view.Items())
		if len(seen) == 0 {
			return
		}
		target = rapid.SampledFrom(seen).Draw(rt, "item")
	}
	text := fmt.Sprint("text", w.ops)
	newID := fmt.Sprint("i", w.ops)
	switch kind {
	case OpAppend:
		op.Item, op.After = &Message{ID: newID, Role: RoleUser, Content: TextContent(text)}, target
	case OpUpdate:
		op.ItemID, op.Changes.Content = target, new(TextContent(text))
	case OpRemove:
		op.ItemID = target
	}
	before := stateOf(t, w.log)
	ack, err := w.log.Append(t.Context(), origin, op)
	at := slices.Index(w.order, target)
	wantKind := ErrorKind("")
	switch {
	case target != "" && at < 0:
		wantKind = NotFound
	case target != "" && op.BaseSeq != 0 && w.changed[target] > op.BaseSeq:
		wantKind = Conflict
	}
	var e *Error
	if errors.As(err, &e); (err != nil) != (wantKind != "") || err != nil && e.Kind != wantKind {
		rt.Fatalf("op %+v: %v, want %q", op, err, wantKind)
	}
	if err != nil {
		if !reflect.DeepEqual(stateOf(t, w.log), before) {
			rt.Fatalf("the refused op %+v changed the log", op)
		}
		return
	}
	switch kind {
	case OpAppend:
		if target == "" {
			at = len(w.order) - 1
		}
		w.order = slices.Insert(w.order, at+1, newID)
		w.names[newID], w.changed[newID] = text, ack.Seq
	case OpUpdate:
		w.names[target], w.changed[target] = text, ack.Seq
	case OpRemove:
		w.order = slices.Delete(w.order, at, at+1)
	}
}

// replace sends an operation that removes several items that the agent sees, and for an append puts one in their place.
func (w *editors) replace(t *testing.T, rt *rapid.T, a *editor, kind OpKind) {
	seen := itemIDs(a.view.Items())
	if len(seen) == 0 {
		return
	}
	w.ops++
	op := Op{ID: fmt.Sprint("op", w.ops), Kind: kind, BaseSeq: a.view.Seq()}
	op.Remove = rapid.SliceOfNDistinct(rapid.SampledFrom(seen), 1, min(4, len(seen)), rapid.ID[string]).Draw(rt, "remove")
	newID, text := fmt.Sprint("i", w.ops), fmt.Sprint("text", w.ops)
	touched := slices.Clone(op.Remove)
	if kind == OpAppend {
		op.Item = &Message{ID: newID, Role: RoleUser, Content: TextContent(text)}
		if rapid.Bool().Draw(rt, "in a place") {
			op.After = rapid.SampledFrom(seen).Draw(rt, "after")
			touched = append(touched, op.After)
		}
	}
	gone := slices.ContainsFunc(touched, func(id string) bool { return !slices.Contains(w.order, id) })
	stale := slices.ContainsFunc(touched, func(id string) bool { return op.BaseSeq != 0 && w.changed[id] > op.BaseSeq })
	before := stateOf(t, w.log)
	ack, err := w.log.Append(t.Context(), origin, op)
	var e *Error
	switch {
	case gone || stale:
		if !errors.As(err, &e) || e.Kind != NotFound && e.Kind != Conflict || e.Kind == NotFound && !gone || e.Kind == Conflict && !stale {
			rt.Fatalf("op %+v: %v; gone %t, stale %t", op, err, gone, stale)
		}
		if !reflect.DeepEqual(stateOf(t, w.log), before) {
			rt.Fatalf("the refused op %+v changed the log", op)
		}
		return
	case err != nil:
		rt.Fatalf("op %+v: %v", op, err)
	}
	if kind == OpAppend {
		at := len(w.order)
		if op.After != "" {
			at = slices.Index(w.order, op.After) + 1
		}
		w.order = slices.Insert(w.order, at, newID)
		w.names[newID], w.changed[newID] = text, ack.Seq
	}
	w.order = slices.DeleteFunc(w.order, func(id string) bool { return slices.Contains(op.Remove, id) })
	if w.log.Head() != before.head+1 {
		rt.Fatalf("op %+v made %d entries", op, w.log.Head()-before.head)
	}
}

func (w *editors) check(rt *rapid.T) {
	chat := w.log.Chat()
	if err := chat.check(); err != nil {
		rt.Fatal(err)
	}
	if got := itemIDs(chat.Items()); !slices.Equal(got, w.order) {
		rt.Fatalf("order %v, want %v", got, w.order)
	}
	for _, m := range chat.Messages() {
		if m.Content != w.names[m.MessageID] {
			rt.Fatalf("%s says %q, want %q", m.MessageID, m.Content, w.names[m.MessageID])
		}
	}
	for _, a := range w.agents {
		if err := a.view.check(); err != nil {
			rt.Fatal(err)
		}
		if a.view.Seq() == chat.Seq() && !sameChat(a.view, chat) {
			rt.Fatal("a replica that has applied everything differs from the log")
		}
	}
	if a, b := w.agents[0].view, w.agents[1].view; a.Seq() == b.Seq() && !sameChat(a, b) {
		rt.Fatal("two replicas at one seq differ")
	}
}
