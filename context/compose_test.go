package chatctx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustAdd(t *testing.T, c *ChatContext, role Role, text, id string) {
	t.Helper()
	if _, err := c.AddMessage(role, text, MessageOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
}

func chatOf(t *testing.T, items ...Item) *ChatContext {
	t.Helper()
	c := New()
	for i, item := range items {
		if err := c.push(item, time.UnixMilli(int64(i+1)), ""); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestAddMessage(t *testing.T) {
	c := Empty()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
	img := ImageContent{URL: "https://x/y.png"}
	images := []ImageContent{img}
	m, err := c.AddMessage(RoleUser, "look", MessageOptions{ID: "m", Images: images, CreatedAt: at})
	images[0].URL = "https://changed/"
	want := ChatMessage{Role: RoleUser, Content: "look", MessageID: "m", Images: []ImageContent{{URL: img.URL, Detail: "auto"}}}
	if err != nil || !reflect.DeepEqual(m, want) || !reflect.DeepEqual(c.Messages(), []ChatMessage{want}) {
		t.Errorf("%+v, %v, in the context %+v", m, err, c.Messages())
	}
	if seq, placed, ok := c.Placed("m"); seq != 1 || !placed.Equal(at) || !ok {
		t.Errorf("placed %d, %v, %v", seq, placed, ok)
	}
	a, err := c.AddAttributedMessage(RoleAssistant, "", "ann", "", nil)
	if err != nil || a.AgentID != "ann" || len(a.MessageID) != 36 || shownIDs(c.Messages())[1] != a.MessageID {
		t.Errorf("%+v, %v", a, err)
	}
	before := c.Clone()
	refused := func(err error, kind ErrorKind, field string) {
		t.Helper()
		wantError(t, err, kind, field)
		if !reflect.DeepEqual(c, before) {
			t.Error("a refusal changed the context")
		}
	}
	_, err = c.AddMessage("critic", "x", MessageOptions{})
	refused(err, InvalidArgument, "role")
	_, err = c.AddMessage(RoleTool, "x", MessageOptions{})
	refused(err, InvalidArgument, "role")
	_, err = c.AddMessage(RoleUser, "x", MessageOptions{ID: "m"})
	refused(err, DuplicateID, "id")
	_, err = c.AddMessage(RoleUser, "a\xffb", MessageOptions{})
	refused(err, InvalidArgument, "content.text")
	_, err = c.AddMessage(RoleUser, "x", MessageOptions{Images: []ImageContent{{URL: "x"}}})
	refused(err, InvalidArgument, "content.url")
	_, err = c.AddAttributedMessage(RoleUser, "x", "", "", nil)
	refused(err, InvalidArgument, "agent_id")
	_, err = c.AddHandoff("", "a", "r")
	refused(err, InvalidArgument, "to_agent")
	for _, text := range []string{"", "  ", "\x00", strings.Repeat("x", 10<<20)} {
		if m, err := c.AddMessage(RoleUser, text, MessageOptions{}); err != nil || m.Content != text {
			t.Errorf("a text of %d bytes: %v", len(text), err)
		}
	}
}

func TestAddMessageReplace(t *testing.T) {
	c := Empty()
	mustAdd(t, c, RoleSystem, "be kind", "s")
	mustAdd(t, c, RoleUser, "hello", "u")
	mustAdd(t, c, RoleSystem, "be brief", "s2")
	mustAdd(t, c, RoleAssistant, "hi", "a")
	if _, err := c.RecordToolCall(FunctionCall{ID: "f", CallID: "c", Name: "f"}, FunctionCallOutput{CallID: "c"}); err != nil {
		t.Fatal(err)
	}
	replace := func(role Role, text, id string) (ChatMessage, error) {
		return c.AddMessage(role, text, MessageOptions{ID: id, Replace: true})
	}
	_, before, _ := c.Placed("u")
	if m, err := replace(RoleUser, "good evening", "u"); err != nil || m.Content != "good evening" {
		t.Errorf("%+v, %v", m, err)
	}
	if got := c.Messages()[1]; got.Content != "good evening" || c.Len() != 6 {
		t.Errorf("in its place stands %+v of %d", got, c.Len())
	}
	if seq, at, _ := c.Placed("u"); seq != 2 || !at.Equal(before) {
		t.Errorf("the replaced message was added by %d at %v", seq, at)
	}
	_, err := replace(RoleAssistant, "x", "u")
	wantError(t, err, InvalidArgument, "role")
	_, err = replace(RoleAssistant, "x", "f")
	wantError(t, err, InvalidArgument, "id")
	_, err = replace(RoleUser, "\xff", "u")
	wantError(t, err, InvalidArgument, "content.text")
	m, err := replace(RoleSystem, "be precise", "")
	if got := itemIDs(c.Items())[:3]; err != nil || !slices.Equal(got, []string{m.MessageID, "u", "a"}) || c.check() != nil {
		t.Errorf("the instructions: %v, %v, %v", got, err, c.check())
	}
	if _, err := replace(RoleSystem, "be loud", m.MessageID); err != nil || c.Messages()[0].Content != "be loud" {
		t.Errorf("%v, %v", c.Messages()[0], err)
	}
}

func TestHandoffsHaveOrderAndTime(t *testing.T) {
	c := Empty()
	mustAdd(t, c, RoleUser, "a charge", "u")
	start := time.Now().Truncate(time.Millisecond)
	h, err := c.AddHandoff("billing", "intake", "disputed charge")
	if err != nil || h.ToAgent != "billing" || h.FromAgent != "intake" || h.Reason != "disputed charge" || h.ID == "" {
		t.Fatalf("%+v, %v", h, err)
	}
	mustAdd(t, c, RoleAssistant, "I see", "a")
	last, err := c.AddHandoff("intake", "", "")
	if err != nil || last.ID == h.ID {
		t.Fatalf("%+v, %v", last, err)
	}
	if got := c.Handoffs(); !slices.Equal(got, []AgentHandoff{h, last}) {
		t.Errorf("handoffs %+v", got)
	}
	if got, ok := c.LastHandoff(); got != last || !ok {
		t.Errorf("last %+v", got)
	}
	seq, at, ok := c.Placed(h.ID)
	if seq != 2 || at.Before(start) || at.After(time.Now()) || !ok {
		t.Errorf("placed %d, %v, %v", seq, at, ok)
	}
	if got := itemIDs(c.Items()); !slices.Equal(got, []string{"u", h.ID, "a", last.ID}) {
		t.Errorf("order %v", got)
	}
	joined, err := FromSnapshot(c.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if seq, at, ok := joined.Placed(h.ID); seq != 4 || !at.IsZero() || !ok {
		t.Errorf("after a snapshot: placed %d, %v, %v", seq, at, ok)
	}
}

func TestRecordToolCall(t *testing.T) {
	c := Empty()
	record := func(call FunctionCall, out FunctionCallOutput, want bool) {
		t.Helper()
		if got, err := c.RecordToolCall(call, out); err != nil || got != want || c.check() != nil {
			t.Errorf("%+v: %v, %v, %v", call, got, err, c.check())
		}
	}
	record(FunctionCall{CallID: "1", Name: "f", Arguments: `{"a":1}`}, FunctionCallOutput{Output: "x", IsError: true}, true)
	record(FunctionCall{CallID: "1", Name: "f"}, FunctionCallOutput{Output: "other"}, false)
	if err := c.push(&FunctionCall{ID: "c2", CallID: "2", Name: "g", Arguments: "{}"}, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, c, RoleUser, "well?", "u")
	record(FunctionCall{CallID: "2", Name: "g"}, FunctionCallOutput{Output: "late"}, true) // the output joins its call
	record(FunctionCall{Name: "h"}, FunctionCallOutput{Output: "no id"}, true)
	record(FunctionCall{Name: "h"}, FunctionCallOutput{Output: "no id"}, true) // two calls, as far as anybody can tell
	var got []string
	for _, item := range c.Items() {
		switch it := item.(type) {
		case *FunctionCall:
			got = append(got, "call "+it.Name+it.Arguments)
		case *FunctionCallOutput:
			got = append(got, fmt.Sprint("output ", it.Name, it.Output, it.IsError))
		default:
			got = append(got, "-")
		}
	}
	want := []string{`call f{"a":1}`, "output fxtrue", "call g{}", "-", "output glatefalse", "call h{}", "output hno idfalse", "call h{}", "output hno idfalse"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	_, err := c.RecordToolCall(FunctionCall{CallID: "a", Name: "f"}, FunctionCallOutput{CallID: "b"})
	wantError(t, err, InvalidArgument, "call_id")
	_, err = c.RecordToolCall(FunctionCall{CallID: "a"}, FunctionCallOutput{})
	wantError(t, err, InvalidArgument, "name")
}

// TestG4RecordToolCallInALog: whoever records it, however often, call and output are there once.
func TestG4RecordToolCallInALog(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	mustAppend(t, log, Op{ID: "x", Kind: OpAppend, Item: &FunctionCall{CallID: "2", Name: "g", Arguments: "{}"}})
	for n, want := range []bool{true, false} {
		for _, id := range []string{"1", "2", strings.Repeat("long/é", 100)} {
			if got, err := log.RecordToolCall(t.Context(), origin, FunctionCall{CallID: id, Name: "g"}, FunctionCallOutput{Output: id}); err != nil || got != want {
				t.Errorf("%s, time %d: %v, %v", id, n, got, err)
			}
		}
		log = mustOpen(t, store)
	}
	if log.Head() != 6 {
		t.Errorf("head %d", log.Head())
	}
	_, err := log.RecordToolCall(t.Context(), origin, FunctionCall{CallID: "9"}, FunctionCallOutput{})
	wantError(t, err, InvalidArgument, "name")
	_, err = log.RecordToolCall(t.Context(), origin, FunctionCall{CallID: "9"}, FunctionCallOutput{CallID: "8"})
	wantError(t, err, InvalidArgument, "call_id")
}

func TestForkFiltered(t *testing.T) {
	msg := func(id string, role Role) Item { return &Message{ID: id, Role: role, Content: TextContent(id)} }
	c := chatOf(t,
		&Summary{ID: "su", Text: "t", Covers: [2]uint64{1, 2}}, msg("u1", RoleUser), msg("sys", RoleSystem),
		&FunctionCall{ID: "c1", CallID: "1", Name: "f", Arguments: "{}"}, &FunctionCall{ID: "c2", CallID: "2", Name: "g", Arguments: "{}"},
		&FunctionCallOutput{ID: "o1", CallID: "1"}, &AgentHandoff{ID: "h1", ToAgent: "b"},
		msg("u2", RoleUser), &FunctionCallOutput{ID: "o2", CallID: "2"}, &ConfigUpdate{ID: "cu", Instructions: "i"}, &AgentHandoff{ID: "h2", ToAgent: "c"}, msg("a2", RoleAssistant),
	)
	for _, f := range []struct {
		turns int
		tools []string
		want  string
	}{
		{1, nil, "su sys cu c2 u2 o2 h2 a2"}, // o2 brings its call along
		{1, []string{"f"}, "su sys cu u2 h2 a2"},
		{1, []string{}, "su sys cu u2 h2 a2"},
		{9, nil, "sys cu su u1 c1 c2 o1 h1 u2 o2 h2 a2"},
	} {
		got, err := c.ForkFiltered(f.turns, f.tools)
		if ids := strings.Join(itemIDs(got.Items()), " "); err != nil || ids != f.want || got.check() != nil {
			t.Errorf("%d turns, tools %q: %s, %v, %v; want %s", f.turns, f.tools, ids, err, got.check(), f.want)
		}
	}
}

func TestMerge(t *testing.T) {
	parent := chatOf(t,
		&Message{ID: "sys", Role: RoleSystem, Content: TextContent("be kind")},
		&Message{ID: "u", Role: RoleUser, Content: TextContent("a refund?")},
		&FunctionCall{ID: "pc", CallID: "shared", Name: "f", Arguments: "{}"},
	)
	child := parent.Fork()
	add := func(item Item, ms int64) {
		t.Helper()
		if err := child.push(item, time.UnixMilli(ms), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := child.AddMessage(RoleSystem, "you are in charge now", MessageOptions{Replace: true}); err != nil {
		t.Fatal(err)
	}
	add(&Message{ID: "dev", Role: RoleDeveloper, Content: TextContent("ignore the parent")}, 100)
	add(&ConfigUpdate{ID: "cu", Instructions: "ignore the parent"}, 101)
	add(&Message{ID: "task", Role: RoleUser, Content: TextContent("check order 1"), AgentID: "rc"}, 102)
	add(&FunctionCall{ID: "cc", CallID: "shared", Name: "f", Arguments: "{}"}, 103) // recorded by both
	add(&FunctionCallOutput{ID: "co", CallID: "shared", Output: "x"}, 104)
	add(&FunctionCall{ID: "c2", CallID: "own", Name: "g", Arguments: "{}"}, 105)
	add(&FunctionCallOutput{ID: "o2", CallID: "own", Output: "y"}, 106)
	add(&Summary{ID: "su", Text: "it was long", Covers: [2]uint64{1, 2}}, 107)
	add(&PipelineSwitch{ID: "sw", State: "started"}, 108)
	add(&AgentHandoff{ID: "h", ToAgent: "x"}, 109)
	add(&Message{ID: "a", Role: RoleAssistant, Content: TextContent("refundable")}, 300)
	if err := parent.push(&Message{ID: "later", Role: RoleUser, Content: TextContent("hello?")}, time.UnixMilli(200), ""); err != nil {
		t.Fatal(err)
	}

	log := mustOpen(t, NewMemStore()) // the same in a log
	for i, item := range parent.Items() {
		_, at, _ := parent.Placed(item.ItemID())
		if _, err := log.Append(t.Context(), Origin{Author: "x", At: at}, Op{ID: fmt.Sprint(i), Kind: OpAppend, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time nothing changes
		for _, op := range log.Chat().MergeOps(child, "rc", "merge/") {
			mustAppend(t, log, op)
		}
	}

	want := "sys u pc task co c2 o2 su h later a"
	if n := parent.Merge(child, "rc"); n != 7 || parent.Merge(child, "rc") != 0 {
		t.Errorf("%d items came", n)
	}
	for name, c := range map[string]*ChatContext{"context": parent, "log": log.Chat()} {
		if ids := strings.Join(itemIDs(c.Items()), " "); ids != want || c.check() != nil {
			t.Errorf("%s: %s, %v; want %s", name, ids, c.check(), want)
		}
		for _, m := range c.Messages() {
			if mine := slices.Contains([]string{"task", "c2", "su", "a"}, m.MessageID); mine != (m.AgentID == "rc") {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	if su, _ := parent.Item("su"); su.(*Message).Content.Text() != "[Sub-agent Summary]\nit was long" {
		t.Errorf("the summary came as %+v", su)
	}
	if child.Len() != 14 {
		t.Errorf("the child has %d items", child.Len())
	}
	if empty := Empty(); empty.Merge(child, "") != 9 || empty.check() != nil {
		t.Errorf("into an empty context came %v, %v", itemIDs(empty.Items()), empty.check())
	}
}

func TestMergeResult(t *testing.T) {
	parent := chatOf(t, &Message{ID: "u", Role: RoleUser, Content: TextContent("x")})
	child := parent.Fork()
	if _, ok := parent.MergeResult(child, "rc"); ok {
		t.Error("a child that said nothing has a result")
	}
	mustAdd(t, child, RoleAssistant, "first", "a1")
	mustAdd(t, child, RoleAssistant, "second", "a2")
	mustAdd(t, child, RoleUser, "thanks", "u2")
	m, ok := parent.MergeResult(child, "rc")
	if want := (ChatMessage{Role: RoleAssistant, Content: "second", MessageID: "a2", AgentID: "rc"}); !ok || !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, %v", m, ok)
	}
	if _, ok := parent.MergeResult(child, "rc"); ok || parent.Len() != 2 || parent.check() != nil {
		t.Errorf("again: %v, %d items, %v", ok, parent.Len(), parent.check())
	}
	failure := errors.New("no model")
	_, ok, err := parent.MergeWithSummary(t.Context(), child, "rc", func(context.Context, string) (string, error) { return "x", failure })
	if ok || !errors.Is(err, failure) || parent.Len() != 2 {
		t.Errorf("a failing summary: %v, %v, %d items", ok, err, parent.Len())
	}
	_, ok, err = parent.MergeWithSummary(t.Context(), parent.Fork(), "rc", func(context.Context, string) (string, error) {
		t.Error("asked to sum up nothing")
		return "", nil
	})
	if ok || err != nil {
		t.Errorf("nothing to sum up: %v, %v", ok, err)
	}
}

func TestReadOnlyIsLive(t *testing.T) {
	c := Empty()
	v := c.ReadOnly()
	mustAdd(t, c, RoleUser, "one two", "u")
	h, err := c.AddHandoff("b", "a", "r")
	if err != nil {
		t.Fatal(err)
	}
	last, ok := v.LastHandoff()
	item, there := v.Item("u")
	seq, _, placed := v.Placed("u")
	if v.Seq() != 2 || v.Len() != 2 || len(v.Items()) != 2 || len(v.ItemsFrom(2)) != 1 || !there || item.ItemID() != "u" || v.Messages()[0].Content != "one two" ||
		v.Handoffs()[0] != h || last != h || !ok || v.TurnCount() != 1 || v.EstimatedTokens() != 4 || v.ToContextMessages()[0].MessageID != "u" ||
		v.ToOpenAIMessages(true)[0].Content != "one two" || len(v.Snapshot().Items) != 2 || seq != 1 || !placed {
		t.Error("the view shows something else than the context")
	}
	mustAdd(t, v.Copy(CopyOptions{}), RoleUser, "x", "")
	if v.Len() != 2 {
		t.Error("a copy of the view changes the context")
	}
	mutators := []string{"AddMessage", "AddAttributedMessage", "AddHandoff", "RecordToolCall", "Apply", "Merge", "MergeResult", "MergeWithSummary"}
	for _, typ := range []reflect.Type{reflect.TypeFor[View](), reflect.TypeFor[*View]()} {
		for _, name := range mutators {
			if _, has := typ.MethodByName(name); has {
				t.Errorf("%v has %s", typ, name)
			}
			if _, has := reflect.TypeFor[*ChatContext]().MethodByName(name); !has {
				t.Errorf("ChatContext has no %s", name)
			}
		}
	}
}

func TestHistory(t *testing.T) {
	msg := func(id string, role Role) Item { return &Message{ID: id, Role: role, Content: TextContent(id)} }
	items := Items{
		msg("s", RoleSystem), msg("d", RoleDeveloper), msg("u1", RoleUser), msg("a1", RoleAssistant), &FunctionCall{ID: "c", CallID: "1", Name: "f"},
		&FunctionCallOutput{ID: "o", CallID: "1"}, &AgentHandoff{ID: "h", ToAgent: "b"}, msg("a2", RoleAssistant),
	}
	for _, c := range []struct {
		o    HistoryOptions
		want string
	}{
		{HistoryOptions{}, "s d u1 a1 c o h a2"},
		{HistoryOptions{LastN: 99}, "s d u1 a1 c o h a2"},
		{HistoryOptions{ExcludeSystemMessages: true}, "d u1 a1 c o h a2"},
		{HistoryOptions{ExcludeFunctionCalls: true}, "s d u1 a1 h a2"},
		{HistoryOptions{LastN: 1}, "a2"},
		{HistoryOptions{LastN: 2}, "h a2"}, // the output's call is cut off
		{HistoryOptions{LastN: 3}, "a1 c o h a2"},
		{HistoryOptions{LastN: 2, ExcludeFunctionCalls: true}, "a1 h a2"}, // the exclusion comes first
		{HistoryOptions{LastN: 5, ExcludeSystemMessages: true}, "d u1 a1 c o h a2"},
	} {
		got, err := items.History(c.o)
		if ids := strings.Join(itemIDs(got), " "); err != nil || ids != c.want {
			t.Errorf("%+v: %s, %v; want %s", c.o, ids, err, c.want)
		}
	}
	_, err := items.History(HistoryOptions{LastN: -1})
	wantError(t, err, InvalidArgument, "last_n")
}

// TestInlineIsBounded: one image shown many times is refused before it is too much.
func TestInlineIsBounded(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	data := append(pngBytes(t, 1, 1), make([]byte, 900<<10)...) // a PNG may have anything after its end
	url, _, err := log.PutImage(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	each := len(DataURL("image/png", data))
	fits := MaxInlineBytes / each
	content := Content{}
	for range fits {
		content = append(content, ImageContent{URL: url, Detail: "auto"})
	}
	if _, err := Inline(t.Context(), log, Items{&Message{Content: content}}); err != nil {
		t.Errorf("%d images of %d bytes: %v", fits, each, err)
	}
	_, err = Inline(t.Context(), log, Items{&Message{Content: content}, &Message{Content: content[:1]}})
	wantError(t, err, TooLarge, "inline")
}

func TestAuthorIsBounded(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	for author, ok := range map[string]bool{"": true, "leg:é": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "a\xff": false} {
		_, err := log.Append(t.Context(), Origin{Author: author}, say(fmt.Sprint("m", len(author)), RoleUser, "x"))
		if ok && err != nil {
			wantError(t, err, InvalidArgument, "nothing: it is allowed")
		} else if !ok {
			wantError(t, err, InvalidArgument, "author")
		}
	}
}

// TestOpsBringAContextIntoALog: twice is once.
func TestOpsBringAContextIntoALog(t *testing.T) {
	c := Empty()
	mustAdd(t, c, RoleSystem, "be kind", "")
	if _, err := c.RecordToolCall(FunctionCall{Name: "f"}, FunctionCallOutput{Output: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddHandoff("b", "a", "r"); err != nil {
		t.Fatal(err)
	}
	log := mustOpen(t, NewMemStore())
	for range 2 {
		for _, op := range c.Ops("import/") {
			mustAppend(t, log, op)
		}
	}
	if !reflect.DeepEqual(log.Chat().Items(), c.Items()) || log.Head() != 4 {
		t.Errorf("the log has %v", itemIDs(log.Chat().Items()))
	}
}
