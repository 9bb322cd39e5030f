package chatctx

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestPropertyReplicasConverge drives a log with random operations of several authors, right ones and wrong ones, and checks
// after every step: the invariants hold, a refusal changes nothing, a repetition gives the first answer, and three replicas
// are equal to the log: one that applies each entry, one that began at a random snapshot, and one that got all over JSON.
func TestPropertyReplicasConverge(t *testing.T) {
	image := DataURL("image/png", pngBytes(t, 1, 1))
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{log: mustOpen(t, NewMemStore()), applied: New(), wire: New(), first: map[string]Ack{}, image: image}
		w.store = w.log.cfg.Store
		rt.Repeat(map[string]func(*rapid.T){
			"append":   func(rt *rapid.T) { w.try(t, rt, w.appendOp(rt)) },
			"update":   func(rt *rapid.T) { w.try(t, rt, w.updateOp(rt)) },
			"remove":   func(rt *rapid.T) { w.try(t, rt, Op{Kind: OpRemove, ItemID: w.anID(rt), BaseSeq: w.aSeq(rt)}) },
			"truncate": func(rt *rapid.T) { w.try(t, rt, w.truncateOp(rt)) },
			"snapshot": func(rt *rapid.T) { w.join(t, rt) },
			"restart":  func(*rapid.T) { w.log = mustOpen(t, w.store) },
			"":         func(rt *rapid.T) { w.check(t, rt) },
		})
	})
}

// world is a log, its replicas, and what is known to be true of them.
type world struct {
	log   *Log
	store Store
	image string

	applied *ChatContext // every entry, by Apply
	joined  *ChatContext // a snapshot, then by Apply; nil before the first
	wire    *ChatContext // every entry, written to JSON and read again

	ops   []Op           // accepted ones
	first map[string]Ack // op_id → first answer
}

func (w *world) anID(rt *rapid.T) string {
	return fmt.Sprint("i", rapid.IntRange(0, 25).Draw(rt, "id"))
}

func (w *world) aSeq(rt *rapid.T) uint64 {
	return rapid.Uint64Range(0, w.log.Head()+1).Draw(rt, "base_seq")
}

func (w *world) content(rt *rapid.T) Content {
	c := Content{}
	for range rapid.IntRange(0, 3).Draw(rt, "parts") {
		switch rapid.IntRange(0, 5).Draw(rt, "part") {
		case 0:
			c = append(c, ImageContent{URL: w.image, Detail: "auto"})
		case 1:
			c = append(c, ImageContent{URL: "https://x/y.png", Detail: "low", Width: 3})
		case 2:
			c = append(c, ImageContent{URL: "data:image/png;base64,AAAA", Detail: "auto"}) // refused
		default:
			c = append(c, Text{rapid.StringN(0, 8, -1).Draw(rt, "text")})
		}
	}
	return c
}

func (w *world) appendOp(rt *rapid.T) Op {
	id := rapid.SampledFrom([]string{"", w.anID(rt), w.anID(rt), "not valid"}).Draw(rt, "item id")
	callID := fmt.Sprint("c", rapid.IntRange(0, 6).Draw(rt, "call_id"))
	item := rapid.SampledFrom([]Item{
		&Message{ID: id, Role: RoleUser, Content: w.content(rt)},
		&Message{ID: id, Role: RoleAssistant, Content: w.content(rt), AgentID: "a", TextGenerated: "more"},
		&Message{ID: id, Role: RoleSystem, Content: TextContent("be kind")},
		&Message{ID: id, Role: "tool", Content: TextContent("refused")},
		&FunctionCall{ID: id, CallID: callID, Name: "f", Arguments: "{}"},
		&FunctionCallOutput{ID: id, CallID: callID, Name: "f", Output: "done"},
		&AgentHandoff{ID: id, ToAgent: "b"},
		&ConfigUpdate{ID: id, Tools: json.RawMessage(`[{"name":"f"}]`)},
		&Summary{ID: id, Text: "so far", Covers: [2]uint64{1, 2}},
		&PipelineSwitch{ID: id, State: "started", Epoch: 2},
	}).Draw(rt, "item")
	op := Op{Kind: OpAppend, Item: item}
	if rapid.Bool().Draw(rt, "insert") {
		op.After, op.BaseSeq = w.anID(rt), w.aSeq(rt)
	}
	return op
}

func (w *world) updateOp(rt *rapid.T) Op {
	var c Changes
	if rapid.Bool().Draw(rt, "change content") {
		c.Content = new(w.content(rt))
	}
	if rapid.Bool().Draw(rt, "change interrupted") {
		c.Interrupted = new(true)
	}
	if rapid.IntRange(0, 3).Draw(rt, "change output") == 0 {
		c.Output = new("changed")
	}
	if rapid.IntRange(0, 3).Draw(rt, "change agent_id") == 0 {
		c.AgentID = new("b")
	}
	return Op{Kind: OpUpdate, ItemID: w.anID(rt), BaseSeq: w.aSeq(rt), Changes: c}
}

func (w *world) truncateOp(rt *rapid.T) Op {
	op := Op{Kind: OpTruncate}
	if rapid.IntRange(0, 3).Draw(rt, "by ids") == 0 {
		op.Remove, op.BaseSeq = []string{w.anID(rt), w.anID(rt)}, w.aSeq(rt)
		return op
	}
	if rapid.Bool().Draw(rt, "by items") {
		op.MaxItems = new(rapid.IntRange(-1, 20).Draw(rt, "max_items"))
	}
	if rapid.Bool().Draw(rt, "by tokens") {
		op.MaxTokens = new(rapid.IntRange(-1, 2000).Draw(rt, "max_tokens"))
	}
	return op
}

// try sends op under a new op_id, or now and then under one that is known.
func (w *world) try(t *testing.T, rt *rapid.T, op Op) {
	op.ID = fmt.Sprint("op", len(w.ops), "-", w.log.Head())
	if len(w.ops) > 0 && rapid.IntRange(0, 9).Draw(rt, "repeat") == 0 {
		op.ID = rapid.SampledFrom(w.ops).Draw(rt, "known op").ID
	}
	from := origin
	from.Author = rapid.SampledFrom([]string{"ann", "bob", "leg:x"}).Draw(rt, "author")
	before := stateOf(t, w.log)
	protected := w.protected()
	ack, err := w.log.Append(t.Context(), from, op)
	first, known := w.first[op.ID]
	switch {
	case known:
		first.Duplicate, first.Warnings, ack.Warnings = true, nil, nil // a restart may have been between
		if err != nil || !reflect.DeepEqual(ack, first) {
			rt.Fatalf("op %s again: %+v, %v; first %+v", op.ID, ack, err, first)
		}
		fallthrough
	case err != nil:
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Kind == LogDamaged || e.Kind == EngineUnavailable) {
			rt.Fatalf("op %+v: %v", op, err)
		}
		if after := stateOf(t, w.log); !reflect.DeepEqual(after, before) {
			rt.Fatalf("op %+v (%v) changed the log:\n%+v\nwas\n%+v", op, err, after, before)
		}
	default:
		if ack.Duplicate || ack.Seq != before.head+1 {
			rt.Fatalf("op %+v: answer %+v after head %d", op, ack, before.head)
		}
		w.ops, w.first[op.ID] = append(w.ops, op), ack
		if op.Kind == OpTruncate && op.Remove == nil {
			w.checkTruncated(rt, op, protected)
		}
	}
}

// protected are the ids that a truncation must keep.
func (w *world) protected() []string {
	var ids []string
	newest := ""
	for _, item := range w.log.Snapshot().Items {
		switch it := item.(type) {
		case *Message:
			if it.Role == RoleSystem || it.Role == RoleDeveloper {
				ids = append(ids, it.ID)
			}
			if it.Role == RoleUser {
				newest = it.ID
			}
		case *AgentHandoff, *ConfigUpdate, *Summary:
			ids = append(ids, item.ItemID())
		}
	}
	if newest != "" {
		ids = append(ids, newest)
	}
	return ids
}

func (w *world) checkTruncated(rt *rapid.T, op Op, protected []string) {
	chat := w.log.Chat()
	for _, id := range protected {
		if _, there := chat.Item(id); !there {
			rt.Fatalf("truncate %+v removed the protected %s", op, id)
		}
	}
	tokens, free := 0, len(removable(chat.Items()))
	for _, item := range chat.Items() {
		tokens += itemTokens(item)
	}
	if free > 0 && (op.MaxItems != nil && chat.Len() > *op.MaxItems || op.MaxTokens != nil && tokens > *op.MaxTokens) {
		rt.Fatalf("truncate %+v left %d items, %d tokens, of which %d could go", op, chat.Len(), tokens, free)
	}
}

// join replaces the replica that began at a snapshot; the snapshot travels as JSON.
func (w *world) join(t *testing.T, rt *rapid.T) {
	var s Snapshot
	if err := json.Unmarshal(mustJSON(t, w.log.Snapshot()), &s); err != nil {
		rt.Fatal(err)
	}
	c, err := FromSnapshot(s)
	if err != nil {
		rt.Fatal(err)
	}
	w.joined = c
}

func (w *world) check(t *testing.T, rt *rapid.T) {
	chat := w.log.Chat()
	entries, err := w.store.Read(t.Context(), "s", w.applied.Seq(), 1000)
	if err != nil {
		rt.Fatal(err)
	}
	for _, e := range entries {
		var read Entry
		if err := json.Unmarshal(mustJSON(t, e), &read); err != nil {
			rt.Fatalf("entry %+v over JSON: %v", e, err)
		}
		for _, err := range []error{w.applied.Apply(e), w.wire.Apply(read)} {
			if err != nil {
				rt.Fatal(err)
			}
		}
		if w.joined != nil && e.Seq > w.joined.Seq() {
			if err := w.joined.Apply(e); err != nil {
				rt.Fatal(err)
			}
		}
	}
	want := chat.Snapshot()
	for name, c := range map[string]*ChatContext{"log": chat, "applied": w.applied, "wire": w.wire, "joined": w.joined, "clone": w.applied.Clone()} {
		if c == nil {
			continue
		}
		if err := c.check(); err != nil {
			rt.Fatalf("%s: %v", name, err)
		}
		if got := c.Snapshot(); !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s differs from the log:\n%s\nwant\n%s", name, mustJSON(t, got), mustJSON(t, want))
		}
	}
	for name, c := range map[string]*ChatContext{"applied": w.applied, "wire": w.wire} {
		for i, n := range c.nodes {
			if m := chat.nodes[i]; n.added != m.added || n.modified != m.modified || n.place != m.place {
				rt.Fatalf("%s remembers %+v, the log %+v", name, n, m)
			}
		}
	}
}
