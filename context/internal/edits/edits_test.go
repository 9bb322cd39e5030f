package edits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

func openLog(t testing.TB, s chatctx.Store) *chatctx.Log {
	t.Helper()
	l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// agent is an editor with a replica of its own that lags behind: it edits what it sees, with the seq that it has.
type agent struct {
	name   string
	view   *chatctx.ChatContext
	cursor *chatctx.Cursor
	wants  []wish // edits that met a conflict and will be tried again after catching up
}

type wish struct{ itemID, text string }

// world is a log, its agents, and a model of what the log must do, which is written without looking at how the log does it.
type world struct {
	t      *testing.T
	store  chatctx.Store
	log    *chatctx.Log
	agents []*agent
	n      int

	order   []string           // ids as they must stand
	text    map[string]string  // what must be in them
	touched map[string]uint64  // seq of the last append or update
	past    []chatctx.Snapshot // by seq, of a replica that reads the store itself
	reader  *chatctx.ChatContext
}

// TestPropertyOptimisticEdits: random schedules of agents that append, insert, update and remove with base_seq while each sees
// another past. After every step the log is what the model says, conflicts are exactly those of the item that was touched since,
// and every replica, at whatever seq it is, is equal to what the log was then; at the end all are equal.
func TestPropertyOptimisticEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, store: chatctx.NewMemStore(), text: map[string]string{}, touched: map[string]uint64{}, reader: chatctx.New()}
		w.log = openLog(t, w.store)
		w.past = append(w.past, w.reader.Snapshot())
		for i := range rapid.IntRange(2, 4).Draw(rt, "agents") {
			c, err := w.log.Follow(0)
			if err != nil {
				rt.Fatal(err)
			}
			w.agents = append(w.agents, &agent{name: fmt.Sprint("agent", i), view: chatctx.New(), cursor: c})
		}
		pick := func(rt *rapid.T) *agent { return rapid.SampledFrom(w.agents).Draw(rt, "agent") }
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { w.insert(rt, pick(rt), false) },
			"insert": func(rt *rapid.T) { w.insert(rt, pick(rt), true) },
			"update": func(rt *rapid.T) { w.update(rt, pick(rt)) },
			"remove": func(rt *rapid.T) { w.remove(rt, pick(rt)) },
			"read":   func(rt *rapid.T) { w.read(rt, pick(rt), rapid.IntRange(1, 5).Draw(rt, "entries")) },
			"again":  func(rt *rapid.T) { w.again(rt, pick(rt)) },
			"reopen": func(*rapid.T) { w.reopen() },
			"":       func(rt *rapid.T) { w.check(rt) },
		})
		for _, a := range w.agents {
			w.read(rt, a, 1<<30)
			if !reflect.DeepEqual(a.view.Snapshot(), w.log.Snapshot()) {
				rt.Fatalf("%s did not converge", a.name)
			}
		}
	})
}

func (w *world) send(a *agent, op chatctx.Op) (chatctx.Ack, error) {
	w.n++
	op.ID = fmt.Sprint(a.name, "-", w.n)
	return w.log.Append(w.t.Context(), chatctx.Origin{Author: a.name, At: time.Unix(int64(w.n), 0)}, op)
}

// seen picks an item that the agent sees, which may be gone or changed by now.
func (a *agent) seen(rt *rapid.T) (string, bool) {
	items := a.view.Items()
	if len(items) == 0 {
		return "", false
	}
	return rapid.SampledFrom(items).Draw(rt, "item").ItemID(), true
}

func (w *world) insert(rt *rapid.T, a *agent, after bool) {
	id := fmt.Sprint("m", w.n)
	op := chatctx.Op{Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(id)}}
	if after {
		anchor, ok := a.seen(rt)
		if !ok {
			return
		}
		op.After, op.BaseSeq = anchor, a.view.Seq()
	}
	ack, err := w.send(a, op)
	if after && !w.expect(rt, a, op.After, err) {
		return
	}
	if err != nil {
		rt.Fatalf("append: %v", err)
	}
	at := len(w.order)
	if after {
		at = slices.Index(w.order, op.After) + 1
	}
	w.order = slices.Insert(w.order, at, id)
	w.text[id], w.touched[id] = id, ack.Seq
}

func (w *world) update(rt *rapid.T, a *agent) {
	if id, ok := a.seen(rt); ok {
		w.change(rt, a, wish{id, fmt.Sprint(a.name, " wrote ", w.n)})
	}
}

// change updates an item and reports whether that was taken.
func (w *world) change(rt *rapid.T, a *agent, x wish) bool {
	ack, err := w.send(a, chatctx.Op{Kind: chatctx.OpUpdate, ItemID: x.itemID, BaseSeq: a.view.Seq(), Changes: chatctx.Changes{Content: new(chatctx.TextContent(x.text))}})
	if !w.expect(rt, a, x.itemID, err) {
		if w.text[x.itemID] != "" {
			a.wants = append(a.wants, x)
		}
		return false
	}
	w.text[x.itemID], w.touched[x.itemID] = x.text, ack.Seq
	return true
}

func (w *world) remove(rt *rapid.T, a *agent) {
	id, ok := a.seen(rt)
	if !ok {
		return
	}
	_, err := w.send(a, chatctx.Op{Kind: chatctx.OpRemove, ItemID: id, BaseSeq: a.view.Seq()})
	if w.expect(rt, a, id, err) {
		w.order = slices.DeleteFunc(w.order, func(o string) bool { return o == id })
		delete(w.text, id)
		delete(w.touched, id)
	}
}

// expect checks an answer to an edit of an item against the model, and reports whether the edit must have been taken: it is
// refused when the item is gone, or was touched after what the agent had seen, and never for what happened to other items.
func (w *world) expect(rt *rapid.T, a *agent, id string, err error) bool {
	var e *chatctx.Error
	kind := chatctx.ErrorKind("")
	if errors.As(err, &e) {
		kind = e.Kind
	}
	touched, there := w.touched[id]
	want := chatctx.ErrorKind("")
	switch {
	case !there:
		want = chatctx.NotFound
	case touched > a.view.Seq():
		want = chatctx.Conflict
	}
	if kind != want || err != nil && e == nil {
		rt.Fatalf("%s at %d edits %s, last touched by %d (%v): %v, want %q", a.name, a.view.Seq(), id, touched, there, err, want)
	}
	return err == nil
}

// again catches up and tries what met a conflict: then it must succeed, so that nobody is kept from writing for ever.
func (w *world) again(rt *rapid.T, a *agent) {
	w.read(rt, a, 1<<30)
	wants := a.wants
	a.wants = nil
	for _, x := range wants {
		if _, there := a.view.Item(x.itemID); !there {
			continue
		}
		if !w.change(rt, a, x) {
			rt.Fatalf("%s has seen all and still meets a conflict at %s", a.name, x.itemID)
		}
		w.read(rt, a, 1<<30)
	}
}

func (w *world) read(rt *rapid.T, a *agent, n int) {
	for range n {
		e, ok, err := a.cursor.TryNext(w.t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if !ok {
			return
		}
		data, err := json.Marshal(e) // as over a socket
		if err != nil {
			rt.Fatal(err)
		}
		var read chatctx.Entry
		if err := json.Unmarshal(data, &read); err != nil {
			rt.Fatal(err)
		}
		if err := a.view.Apply(read); err != nil {
			rt.Fatal(err)
		}
	}
}

// reopen begins anew with what the store has; agents go on where they were.
func (w *world) reopen() {
	w.log = openLog(w.t, w.store)
	for _, a := range w.agents {
		c, err := w.log.Follow(a.view.Seq())
		if err != nil {
			w.t.Fatal(err)
		}
		a.cursor = c
	}
}

func (w *world) check(rt *rapid.T) {
	entries, err := w.store.Read(w.t.Context(), "s", w.reader.Seq(), 1<<20)
	for ; err == nil && len(entries) > 0; entries, err = w.store.Read(w.t.Context(), "s", w.reader.Seq(), 1<<20) {
		for _, e := range entries {
			if err := w.reader.Apply(e); err != nil {
				rt.Fatal(err)
			}
			w.past = append(w.past, w.reader.Snapshot())
		}
	}
	if err != nil {
		rt.Fatal(err)
	}
	now := w.log.Snapshot()
	if now.Seq != uint64(len(w.past)-1) || !reflect.DeepEqual(now, w.past[now.Seq]) {
		rt.Fatalf("the log at %d is not what it was", now.Seq)
	}
	var order []string
	for _, item := range now.Items {
		order = append(order, item.ItemID())
		if got := item.(*chatctx.Message).Content.Text(); got != w.text[item.ItemID()] {
			rt.Fatalf("%s says %q, want %q", item.ItemID(), got, w.text[item.ItemID()])
		}
	}
	if !slices.Equal(order, w.order) {
		rt.Fatalf("order %v, want %v", order, w.order)
	}
	for _, a := range w.agents {
		if got := a.view.Snapshot(); !reflect.DeepEqual(got, w.past[got.Seq]) {
			rt.Fatalf("%s at %d differs from what the log was then", a.name, got.Seq)
		}
	}
}

// TestConcurrentEdits lets agents edit at once, really: each counts up one shared item and items of its own, retrying conflicts.
// No increment is lost, and all replicas are equal in the end.
func TestConcurrentEdits(t *testing.T) {
	const agents, rounds = 4, 50
	log := openLog(t, chatctx.NewMemStore())
	seed := chatctx.Op{ID: "seed", Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: "shared", Role: chatctx.RoleUser, Content: chatctx.TextContent("")}}
	if _, err := log.Append(t.Context(), chatctx.Origin{Author: "x"}, seed); err != nil {
		t.Fatal(err)
	}
	views := make([]*chatctx.ChatContext, agents)
	var group sync.WaitGroup
	for i := range agents {
		group.Go(func() { views[i] = count(t, log, i, rounds) })
	}
	group.Wait()
	want := log.Snapshot()
	for i, v := range views {
		cursor, err := log.Follow(v.Seq())
		if err != nil {
			t.Fatal(err)
		}
		follow(t, v, cursor)
		if !reflect.DeepEqual(v.Snapshot(), want) {
			t.Errorf("agent %d did not converge", i)
		}
	}
	item, _ := log.Chat().Item("shared")
	if n := len(item.(*chatctx.Message).Content.Text()); n != agents*rounds {
		t.Errorf("%d increments are there, %d were made", n, agents*rounds)
	}
}

func follow(t testing.TB, v *chatctx.ChatContext, c *chatctx.Cursor) {
	for {
		e, ok, err := c.TryNext(context.Background())
		if err != nil {
			t.Error(err)
		}
		if err != nil || !ok {
			return
		}
		if err := v.Apply(e); err != nil {
			t.Error(err)
			return
		}
	}
}

// count is one agent: read, add a letter, write with the seq that was read, and again when somebody was faster.
func count(t testing.TB, log *chatctx.Log, me, rounds int) *chatctx.ChatContext {
	v := chatctx.New()
	cursor, err := log.Follow(0)
	if err != nil {
		t.Error(err)
		return v
	}
	for round, try := 0, 0; round < rounds; try++ {
		follow(t, v, cursor)
		item, _ := v.Item("shared")
		text := item.(*chatctx.Message).Content.Text() + string(rune('a'+me))
		op := chatctx.Op{ID: fmt.Sprint(me, "-", try), Kind: chatctx.OpUpdate, ItemID: "shared", BaseSeq: v.Seq(), Changes: chatctx.Changes{Content: new(chatctx.TextContent(text))}}
		_, err := log.Append(context.Background(), chatctx.Origin{Author: fmt.Sprint("agent", me)}, op)
		var e *chatctx.Error
		switch {
		case err == nil:
			round++
			own := chatctx.Op{ID: fmt.Sprint(me, "-own-", round), Kind: chatctx.OpAppend, After: "shared", Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("own")}}
			if _, err := log.Append(context.Background(), chatctx.Origin{Author: fmt.Sprint("agent", me)}, own); err != nil {
				t.Error(err)
				return v
			}
		case !errors.As(err, &e) || e.Kind != chatctx.Conflict:
			t.Error(err)
			return v
		}
	}
	return v
}
