package chatctx

import (
	"reflect"
	"strings"
	"testing"
)

// TestConflictsArePerItem: two authors that change different items never get into each other's way; on one item the one with
// the older view loses.
func TestConflictsArePerItem(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	mustAppend(t, log, say("a", RoleUser, "x"))
	mustAppend(t, log, say("b", RoleUser, "y"))
	update := func(op, id string, base uint64) error {
		_, err := log.Append(t.Context(), origin, Op{ID: op, Kind: OpUpdate, ItemID: id, BaseSeq: base, Changes: Changes{Content: new(TextContent(op))}})
		return err
	}
	for _, c := range []struct {
		op, id string
		base   uint64
		stale  bool
	}{
		{"1", "a", 2, false}, // seq 3
		{"2", "b", 2, false}, // seq 4: a's change does not matter
		{"3", "a", 2, true},
		{"4", "a", 3, false}, // seq 5: what b became does not matter
		{"5", "b", 3, true},
		{"6", "b", 5, false}, // seq 6
		{"7", "a", 0, false}, // seq 7: not checked
		{"8", "a", 6, true},
	} {
		if err := update(c.op, c.id, c.base); c.stale {
			wantError(t, err, Conflict, "base_seq")
			if err != nil && !strings.Contains(err.Error(), "read it and try again") {
				t.Errorf("the conflict does not say what to do: %v", err)
			}
		} else if err != nil {
			t.Errorf("op %s: %v", c.op, err)
		}
	}
	remove := func(op string, base uint64) error {
		_, err := log.Append(t.Context(), origin, Op{ID: op, Kind: OpRemove, ItemID: "b", BaseSeq: base})
		return err
	}
	wantError(t, remove("9", 5), Conflict, "base_seq")
	if err := remove("10", 6); err != nil {
		t.Error(err)
	}
	wantError(t, update("11", "b", 8), NotFound, "item_id")
	item, _ := log.Chat().Item("a")
	if got := item.(*Message).Content.Text(); got != "7" || log.Head() != 8 {
		t.Errorf("a is %q, head %d", got, log.Head())
	}
}

// TestUpdateLeavesTheOldItem: items are immutable; who holds the old one keeps it.
func TestUpdateLeavesTheOldItem(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	mustAppend(t, log, say("m", RoleAssistant, "all of it"))
	mustAppend(t, log, Op{ID: "c", Kind: OpAppend, Item: &FunctionCall{ID: "c", CallID: "1", Name: "f"}})
	mustAppend(t, log, Op{ID: "o", Kind: OpAppend, Item: &FunctionCallOutput{ID: "o", CallID: "1"}})
	old, snapshot := log.Chat(), log.Snapshot()
	mustAppend(t, log, Op{ID: "1", Kind: OpUpdate, ItemID: "m", Changes: Changes{Content: new(TextContent("all")), Interrupted: new(true), AgentID: new("a")}})
	mustAppend(t, log, Op{ID: "2", Kind: OpUpdate, ItemID: "c", Changes: Changes{AgentID: new("a")}})
	mustAppend(t, log, Op{ID: "3", Kind: OpUpdate, ItemID: "o", Changes: Changes{Output: new("x"), IsError: new(true)}})
	mustAppend(t, log, Op{ID: "4", Kind: OpRemove, ItemID: "c"})
	want := `[{"type":"message","id":"m","role":"assistant","content":[{"type":"text","text":"all of it"}]},` +
		`{"type":"function_call","id":"c","call_id":"1","name":"f","arguments":""},` +
		`{"type":"function_call_output","id":"o","call_id":"1","name":"","output":"","is_error":false}]`
	if got := string(mustJSON(t, old.Items())); got != want {
		t.Errorf("the old copy became\n%s", got)
	}
	if got := string(mustJSON(t, snapshot.Items)); got != want {
		t.Errorf("the old snapshot became\n%s", got)
	}
	want = `[{"type":"message","id":"m","role":"assistant","content":[{"type":"text","text":"all"}],"agent_id":"a","interrupted":true},` +
		`{"type":"function_call_output","id":"o","call_id":"1","name":"","output":"x","is_error":true}]`
	if got := string(mustJSON(t, log.Snapshot().Items)); got != want {
		t.Errorf("now\n%s\nwant\n%s", got, want)
	}
}

// TestClone: what is applied to one copy is not seen in the other.
func TestClone(t *testing.T) {
	m := func(id, text string) Item { return &Message{ID: id, Role: RoleUser, Content: TextContent(text)} }
	for _, change := range []Entry{
		{Seq: 4, Op: OpAppend, Item: m("d", "x")},
		{Seq: 4, Op: OpUpdate, ItemID: "b", Item: m("b", "changed")},
		{Seq: 4, Op: OpRemove, ItemID: "a"},
		{Seq: 4, Op: OpTruncate, Removed: []string{"a", "b"}},
	} {
		c := New()
		for i, id := range []string{"a", "b", "c"} {
			if err := c.Apply(Entry{Seq: uint64(i + 1), Op: OpAppend, Item: m(id, "x")}); err != nil {
				t.Fatal(err)
			}
		}
		d, items, want := c.Clone(), c.Items(), Transcript(c.Items())
		if err := c.Apply(change); err != nil {
			t.Fatal(err)
		}
		if d.Seq() != 3 || Transcript(d.Items()) != want || Transcript(items) != want || d.check() != nil {
			t.Errorf("%s in the original shows in the copy: %v", change.Op, d.Items())
		}
		if err := d.Apply(change); err != nil || !reflect.DeepEqual(c, d) {
			t.Errorf("%s in both: %v", change.Op, err)
		}
	}
}

func TestSnapshots(t *testing.T) {
	m := func(id string) Item { return &Message{ID: id, Role: RoleUser, Content: TextContent("x")} }
	for _, bad := range []Snapshot{
		{Seq: 0, Items: Items{m("a")}},
		{Seq: 3, Items: Items{m("a"), m("b"), m("a")}},
		{Seq: 3, Items: Items{m("")}},
	} {
		if c, err := FromSnapshot(bad); c != nil || err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	c, err := FromSnapshot(Snapshot{Seq: 7, Items: Items{m("a"), m("b")}})
	if err != nil || c.check() != nil || c.Seq() != 7 || c.Len() != 2 {
		t.Fatalf("%+v, %v, %v", c, err, c.check())
	}
	if err := c.Apply(Entry{Seq: 8, Op: OpRemove, ItemID: "a"}); err != nil || c.Len() != 1 || c.check() != nil {
		t.Errorf("the next entry: %v", err)
	}
	if _, ok := c.Item("a"); ok {
		t.Error("the removed item is still found")
	}
	if c, err := FromSnapshot(Snapshot{}); err != nil || c.Apply(Entry{Seq: 1, Op: OpAppend, Item: m("a")}) != nil {
		t.Errorf("an empty snapshot: %v", err)
	}
}

// TestReplace: a summary and what it stands for are one entry, which stands where the caller said, and which a restart, a replica
// and a repetition of the operation read the same.
func TestReplace(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		mustAppend(t, log, say(id, RoleUser, id))
	}
	op := Op{ID: "fold", Kind: OpAppend, Item: &Summary{ID: "s", Text: "t", Covers: [2]uint64{1, 4}}, After: "d", Remove: []string{"d", "b", "a"}, BaseSeq: 5}
	ack := mustAppend(t, log, op)
	if got := strings.Join(itemIDs(log.Chat().Items()), " "); got != "c s e" || ack.Seq != 6 || ack.ItemID != "s" {
		t.Errorf("items %s, %+v", got, ack)
	}
	if err := log.Chat().check(); err != nil {
		t.Error(err)
	}
	if again := mustAppend(t, log, op); !again.Duplicate || again.Seq != 6 || again.ItemID != "s" {
		t.Errorf("again: %+v", again)
	}
	entries, err := store.Read(t.Context(), "s", 5, 10)
	if err != nil || len(entries) != 1 || strings.Join(entries[0].Removed, " ") != "a b d" {
		t.Errorf("entries %+v, %v", entries, err)
	}
	restarted := mustOpen(t, store)
	if !sameChat(restarted.Chat(), log.Chat()) {
		t.Error("after a restart it is another conversation")
	}
	for _, l := range []*Log{log, restarted} {
		for _, id := range []string{"a", "b", "d", "s"} {
			taken := Op{ID: "taken", Kind: OpAppend, Item: &Message{ID: id, Role: RoleUser, Content: TextContent("x")}}
			_, err := l.Append(t.Context(), origin, taken)
			wantError(t, err, DuplicateID, "id")
		}
	}
	mustAppend(t, log, Op{ID: "drop", Kind: OpTruncate, Remove: []string{"e", "c"}})
	if got := strings.Join(itemIDs(log.Chat().Items()), " "); got != "s" || log.Head() != 7 {
		t.Errorf("items %s", got)
	}
}
