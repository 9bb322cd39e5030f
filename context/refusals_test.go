package chatctx

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestG12RefusalsChangeNothing goes through the refusals: each leaves log, fold, blobs and op ids as they were, and the same
// op_id is good for the corrected operation.
func TestG12RefusalsChangeNothing(t *testing.T) {
	image := pngBytes(t, 3, 2)
	withImage := func(url string) Item {
		return &Message{Role: RoleUser, Content: Content{ImageContent{URL: url, Detail: "auto"}}}
	}
	update := func(id string, base uint64, c Changes) Op {
		return Op{Kind: OpUpdate, ItemID: id, BaseSeq: base, Changes: c}
	}
	content := func(url string) *Content { return &Content{ImageContent{URL: url, Detail: "auto"}} }
	msg := func(change func(m *Message)) Op {
		m := &Message{Role: RoleUser, Content: TextContent("x")}
		change(m)
		return Op{Kind: OpAppend, Item: m}
	}
	appendOf := func(item Item) Op { return Op{Kind: OpAppend, Item: item} }
	unknown := BlobPrefix + strings.Repeat("0", 64)
	for _, c := range []struct {
		name  string
		op    Op
		kind  ErrorKind
		field string
	}{
		{"unknown op", Op{Kind: "merge"}, InvalidArgument, "op"},
		{"no item", Op{Kind: OpAppend}, InvalidArgument, "item"},
		{"unknown role", msg(func(m *Message) { m.Role = "tool" }), InvalidArgument, "role"},
		{"no content", msg(func(m *Message) { m.Content = nil }), InvalidArgument, "content"},
		{"bad id", msg(func(m *Message) { m.ID = "a b" }), InvalidArgument, "id"},
		{"long id", msg(func(m *Message) { m.ID = strings.Repeat("a", 65) }), InvalidArgument, "id"},
		{"used id", msg(func(m *Message) { m.ID = "m1" }), DuplicateID, "id"},
		{"id of a removed item", msg(func(m *Message) { m.ID = "gone" }), DuplicateID, "id"},
		{"text that is not UTF-8", msg(func(m *Message) { m.Content = TextContent("caf\xe9") }), InvalidArgument, "content.text"},
		{"agent_id that is not UTF-8", msg(func(m *Message) { m.AgentID = "caf\xe9" }), InvalidArgument, "agent_id"},
		{"too large", msg(func(m *Message) { m.Content = TextContent(strings.Repeat("x", DefaultMaxItemBytes+1)) }), TooLarge, "item"},
		{"too large once escaped", msg(func(m *Message) { m.Content = TextContent(strings.Repeat("\x00", DefaultMaxItemBytes/5)) }), TooLarge, "item"},
		{"too many parts", msg(func(m *Message) {
			for range 20000 {
				m.Content = append(m.Content, Text{})
			}
		}), TooLarge, "item"},
		{"call without call_id", appendOf(&FunctionCall{Name: "f"}), InvalidArgument, "call_id"},
		{"call without name", appendOf(&FunctionCall{CallID: "c9"}), InvalidArgument, "name"},
		{"call again", appendOf(&FunctionCall{CallID: "c1", Name: "f"}), DuplicateID, "call_id"},
		{"output without call_id", appendOf(&FunctionCallOutput{}), InvalidArgument, "call_id"},
		{"output again", appendOf(&FunctionCallOutput{CallID: "c1"}), Conflict, "call_id"},
		{"handoff to nobody", appendOf(&AgentHandoff{FromAgent: "a"}), InvalidArgument, "to_agent"},
		{"empty config update", appendOf(&ConfigUpdate{}), InvalidArgument, "instructions"},
		{"tools that are no list", appendOf(&ConfigUpdate{Tools: json.RawMessage(`{"a":1}`)}), InvalidArgument, "tools"},
		{"tools that are no JSON", appendOf(&ConfigUpdate{Tools: json.RawMessage(`[1`)}), InvalidArgument, "tools"},
		{"summary of nothing", appendOf(&Summary{Text: "t"}), InvalidArgument, "covers"},
		{"summary backwards", appendOf(&Summary{Text: "t", Covers: [2]uint64{3, 2}}), InvalidArgument, "covers"},
		{"summary without text", appendOf(&Summary{Covers: [2]uint64{1, 2}}), InvalidArgument, "text"},
		{"unknown switch state", appendOf(&PipelineSwitch{State: "paused"}), InvalidArgument, "state"},
		{"image detail", appendOf(&Message{Role: RoleUser, Content: Content{ImageContent{URL: DataURL("image/png", image), Detail: "huge"}}}), InvalidArgument, "content.detail"},
		{"image url scheme", appendOf(withImage("ftp://x/y.png")), InvalidArgument, "content.url"},
		{"image without url", appendOf(withImage("")), InvalidArgument, "content.url"},
		{"image that is garbage", appendOf(withImage(DataURL("image/png", []byte("no image at all")))), InvalidImage, "content.url"},
		{"image that is empty", appendOf(withImage("data:image/png;base64,")), InvalidImage, "content.url"},
		{"image with broken base64", appendOf(withImage("data:image/png;base64,%%%")), InvalidImage, "content.url"},
		{"image too large", appendOf(withImage(DataURL("image/png", make([]byte, DefaultMaxImageBytes+1)))), TooLarge, "content.url"},
		{"image of another session", appendOf(withImage(unknown)), InvalidImage, "content.url"},
		{"image under a path", appendOf(withImage(BlobPrefix + "../../etc/passwd")), InvalidImage, "content.url"},
		{"good image in a bad message", appendOf(&Message{ID: "m1", Role: RoleUser, Content: Content{ImageContent{URL: DataURL("image/png", image), Detail: "auto"}}}), DuplicateID, "id"},
		{"update of nothing", update("nobody", 0, Changes{Interrupted: new(true)}), NotFound, "item_id"},
		{"update of a removed item", update("gone", 0, Changes{Interrupted: new(true)}), NotFound, "item_id"},
		{"empty update", update("m1", 0, Changes{}), InvalidArgument, "changes"},
		{"update that does not fit a message", update("m1", 0, Changes{Output: new("x")}), InvalidArgument, "changes.output"},
		{"update that does not fit a message, either", update("m1", 0, Changes{IsError: new(true)}), InvalidArgument, "changes.is_error"},
		{"update that does not fit a call", update("call", 0, Changes{AgentID: new("a"), Output: new("x")}), InvalidArgument, "changes.output"},
		{"update that does not fit an output", update("out", 0, Changes{Content: content("http://x")}), InvalidArgument, "changes.content"},
		{"update of a handoff", update("handoff", 0, Changes{AgentID: new("a")}), InvalidArgument, "changes.agent_id"},
		{"update to no content", update("m1", 0, Changes{Content: new(Content(nil))}), InvalidArgument, "content"},
		{"update that grows too large", update("out", 0, Changes{Output: new(strings.Repeat("x", DefaultMaxItemBytes))}), TooLarge, "item"},
		{"update with a bad image", update("m1", 0, Changes{Content: content("data:,x")}), InvalidImage, "content.url"},
		{"update with an unknown image", update("m1", 0, Changes{Content: content(unknown)}), InvalidImage, "content.url"},
		{"update with an image, stale", update("m1", 1, Changes{Content: content(DataURL("image/png", image))}), Conflict, "base_seq"},
		{"stale update", update("m1", 1, Changes{Interrupted: new(true)}), Conflict, "base_seq"},
		{"base_seq past the head", update("m1", 999, Changes{Interrupted: new(true)}), InvalidArgument, "base_seq"},
		{"remove of nothing", Op{Kind: OpRemove, ItemID: "nobody"}, NotFound, "item_id"},
		{"remove without an id", Op{Kind: OpRemove}, NotFound, "item_id"},
		{"stale remove", Op{Kind: OpRemove, ItemID: "m1", BaseSeq: 1}, Conflict, "base_seq"},
		{"truncate without a limit", Op{Kind: OpTruncate}, InvalidArgument, "max_items"},
		{"truncate to 0 items", Op{Kind: OpTruncate, MaxItems: new(0)}, InvalidArgument, "max_items"},
		{"truncate to -1 tokens", Op{Kind: OpTruncate, MaxItems: new(1), MaxTokens: new(-1)}, InvalidArgument, "max_tokens"},
		{"truncate to nothing twice", Op{Kind: OpTruncate, MaxItems: new(0), MaxTokens: new(0)}, InvalidArgument, "max_items"},
		{"truncate of nothing there", Op{Kind: OpTruncate, Remove: []string{"m1", "nobody"}}, NotFound, "remove"},
		{"truncate of what is gone", Op{Kind: OpTruncate, Remove: []string{"gone"}}, NotFound, "remove"},
		{"truncate of one twice", Op{Kind: OpTruncate, Remove: []string{"m1", "call", "m1"}}, InvalidArgument, "remove"},
		{"truncate both ways", Op{Kind: OpTruncate, Remove: []string{"m1"}, MaxItems: new(1)}, InvalidArgument, "remove"},
		{"truncate of too many", Op{Kind: OpTruncate, Remove: make([]string, MaxRemove+1)}, InvalidArgument, "remove"},
		{"stale truncate", Op{Kind: OpTruncate, Remove: []string{"handoff", "m1"}, BaseSeq: 6}, Conflict, "base_seq"},
		{"truncate of a call whose output came since", Op{Kind: OpTruncate, Remove: []string{"call"}, BaseSeq: 2}, Conflict, "base_seq"},
		{"stale replacement", Op{Kind: OpAppend, Remove: []string{"m1"}, BaseSeq: 6, Item: &Summary{Text: "t", Covers: [2]uint64{1, 2}}}, Conflict, "base_seq"},
		{"replacement of nothing there", Op{Kind: OpAppend, Remove: []string{"gone"}, Item: &Summary{Text: "t", Covers: [2]uint64{1, 2}}}, NotFound, "remove"},
		{"replacement by the same id", Op{Kind: OpAppend, Remove: []string{"m1"}, Item: &Message{ID: "m1", Role: RoleUser, Content: TextContent("x")}}, DuplicateID, "id"},
		{"bad item in a replacement", Op{Kind: OpAppend, Remove: []string{"m1"}, Item: &Summary{Text: "t"}}, InvalidArgument, "covers"},
		{"a long field is not repeated", update(strings.Repeat("é", 5000), 0, Changes{Interrupted: new(true)}), NotFound, "item_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &faultyStore{Store: NewMemStore()}
			log := mustOpen(t, store)
			mustAppend(t, log, say("m1", RoleUser, "hello"))
			mustAppend(t, log, Op{ID: "2", Kind: OpAppend, Item: &FunctionCall{ID: "call", CallID: "c1", Name: "f"}})
			mustAppend(t, log, Op{ID: "3", Kind: OpAppend, Item: &FunctionCallOutput{ID: "out", CallID: "c1"}})
			mustAppend(t, log, Op{ID: "4", Kind: OpAppend, Item: &AgentHandoff{ID: "handoff", ToAgent: "b"}})
			mustAppend(t, log, say("gone", RoleUser, "x"))
			mustAppend(t, log, Op{ID: "6", Kind: OpRemove, ItemID: "gone"})
			mustAppend(t, log, Op{ID: "7", Kind: OpUpdate, ItemID: "m1", Changes: Changes{AgentID: new("a")}})
			before := stateOf(t, log)

			c.op.ID = "the op"
			ack, err := log.Append(t.Context(), origin, c.op)
			wantError(t, err, c.kind, c.field)
			if !reflect.DeepEqual(ack, Ack{}) {
				t.Errorf("a refusal with an answer: %+v", ack)
			}
			if after := stateOf(t, log); !reflect.DeepEqual(after, before) {
				t.Errorf("the refusal changed the log:\n%+v\nwas\n%+v", after, before)
			}
			if store.puts != 0 {
				t.Errorf("the refusal left %d blobs in the store", store.puts)
			}
			if ack := mustAppend(t, log, Op{ID: "the op", Kind: OpAppend, Item: &Message{ID: "good", Role: RoleUser, Content: TextContent("x")}}); ack.Duplicate || ack.Seq != 8 {
				t.Errorf("the corrected op: %+v", ack)
			}
		})
	}
}

func TestG12OpIDs(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	for _, id := range []string{"", strings.Repeat("x", 129), "caf\xe9"} {
		_, err := log.Append(t.Context(), origin, Op{ID: id, Kind: OpAppend, Item: &Message{Role: RoleUser, Content: TextContent("x")}})
		wantError(t, err, InvalidArgument, "op_id")
	}
	for _, id := range []string{"x", strings.Repeat("x", 128), "any text. Also größer > * \n"} {
		mustAppend(t, log, Op{ID: id, Kind: OpAppend, Item: &Message{Role: RoleUser, Content: TextContent("x")}})
	}
	_, err := OpenLog(t.Context(), LogConfig{Store: NewMemStore(), Session: "a/b"})
	wantError(t, err, InvalidArgument, "session")
}

// state is all that an operation can change.
type state struct {
	head     uint64
	snapshot Snapshot
	modified []uint64
	answers  []answer
	ops      int
	removed  int
	calls    map[string]callState
	stored   []Entry
}

func stateOf(t *testing.T, l *Log) state {
	t.Helper()
	chat := l.Chat()
	if err := chat.check(); err != nil {
		t.Fatal(err)
	}
	s := state{head: l.Head(), snapshot: l.Snapshot(), calls: map[string]callState{}}
	for _, n := range chat.nodes {
		s.modified = append(s.modified, n.modified)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for seq := uint64(1); seq <= l.answers.n; seq++ {
		a := *l.answers.at(seq)
		if found, ok := l.answers.find(a.opID); !ok || found != seq {
			t.Errorf("the operation %q is at %d, %t; want %d", a.opID, found, ok, seq)
		}
		s.answers = append(s.answers, a)
	}
	s.ops, s.removed = l.answers.ops.Len(), l.answers.removed.Len()
	for k, v := range l.calls {
		s.calls[k] = v
	}
	for {
		entries, err := l.cfg.Store.Read(t.Context(), "s", uint64(len(s.stored)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			return s
		}
		s.stored = append(s.stored, entries...)
	}
}
