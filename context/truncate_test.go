package chatctx

import (
	"fmt"
	"strings"
	"testing"
)

func TestTruncate(t *testing.T) {
	msg := func(id string, role Role, words int) Item {
		return &Message{ID: id, Role: role, Content: TextContent(strings.Repeat("w ", words))}
	}
	call := func(id, callID string) Item { return &FunctionCall{ID: id, CallID: callID, Name: "f", Arguments: "{}"} }
	output := func(id, callID string) Item { return &FunctionCallOutput{ID: id, CallID: callID, Output: "x y z"} }
	talk := Items{
		msg("sys", RoleSystem, 10),
		msg("u1", RoleUser, 10), msg("a1", RoleAssistant, 10),
		call("c1", "1"), msg("a2", RoleAssistant, 10), output("o1", "1"),
		&PipelineSwitch{ID: "sw", State: "committed"},
		&AgentHandoff{ID: "h", ToAgent: "b", Reason: "r"},
		msg("dev", RoleDeveloper, 10),
		&ConfigUpdate{ID: "cu", Instructions: "i"},
		&Summary{ID: "su", Text: "t", Covers: [2]uint64{1, 2}},
		msg("u2", RoleUser, 10), msg("a3", RoleAssistant, 10),
		call("c2", "2"), // in flight
	}
	protected := "sys h dev cu su u2 c2"
	for _, c := range []struct {
		name              string
		items             Items
		maxItems, maxToks *int
		removed           string
	}{
		{"nothing there", nil, new(1), new(1), ""},
		{"under both limits", talk, new(14), new(10000), ""},
		{"one too many", talk, new(13), nil, "u1"},
		{"oldest first", talk, new(12), nil, "u1 a1"},
		{"call and output go together, though only one is too many", talk, new(11), nil, "u1 a1 c1 o1"},
		{"and then the next", talk, new(9), nil, "u1 a1 c1 a2 o1"},
		{"a switch that is over goes", talk, new(8), nil, "u1 a1 c1 a2 o1 sw"},
		{"what is protected stays", talk, new(1), nil, "u1 a1 c1 a2 o1 sw a3"},
		{"tokens: just right", talk, nil, new(160), ""},
		{"tokens: one too many", talk, nil, new(159), "u1"},
		{"tokens: a pair", talk, nil, new(118), "u1 a1 c1 o1"},
		{"tokens: nothing but the protected", talk, nil, new(1), "u1 a1 c1 a2 o1 sw a3"},
		{"both: the stricter decides", talk, new(13), new(130), "u1 a1"},
		{"the newest user message, though it is the oldest item", Items{msg("u", RoleUser, 1), msg("a", RoleAssistant, 1), msg("b", RoleAssistant, 1)}, new(1), nil, "a b"},
		{"an output whose call is gone", Items{output("o", "9"), msg("u", RoleUser, 1)}, new(1), nil, "o"},
		{"an output before its call", Items{output("o", "9"), msg("u", RoleUser, 1), call("c", "9")}, new(2), nil, "o c"},
		{"an image weighs", Items{&Message{ID: "i", Role: RoleAssistant, Content: Content{ImageContent{URL: "http://x"}}}, msg("u", RoleUser, 1)}, nil, new(imageTokens), "i"},
	} {
		t.Run(c.name, func(t *testing.T) {
			places, err := planTruncate(c.items, c.maxItems, c.maxToks, itemTokens)
			var removed []string
			for _, i := range places {
				removed = append(removed, c.items[i].ItemID())
			}
			if err != nil || strings.Join(removed, " ") != c.removed {
				t.Errorf("removed %v, %v; want %s", removed, err, c.removed)
			}
			for _, id := range removed {
				for p := range strings.FieldsSeq(protected) {
					if id == p {
						t.Errorf("%s is protected", id)
					}
				}
			}
		})
	}
}

// TestTruncateWithoutIDs: the messages of the transport format often have none.
func TestTruncateWithoutIDs(t *testing.T) {
	var talk Items
	for i := range 5 {
		talk = append(talk, &Message{Role: RoleUser, Content: TextContent(fmt.Sprint(i))})
	}
	for keep, want := range map[int]string{1: "user: 4\n", 2: "user: 3\nuser: 4\n", 9: Transcript(talk)} {
		kept, err := talk.Truncate(&keep, nil)
		if err != nil || Transcript(kept) != want {
			t.Errorf("keep %d: %q, %v; want %q", keep, Transcript(kept), err, want)
		}
	}
	if len(talk) != 5 {
		t.Errorf("the original has %d items", len(talk))
	}
	_, err := talk.Truncate(nil, nil)
	wantError(t, err, InvalidArgument, "max_items")
}

// TestTruncateInALog: what truncate removes is gone from the fold, named in the entry, and its ids stay used.
func TestTruncateInALog(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	for i := range 6 {
		mustAppend(t, log, say(fmt.Sprint("m", i), RoleUser, "x"))
	}
	ack := mustAppend(t, log, Op{ID: "t", Kind: OpTruncate, MaxItems: new(2)})
	if ack.Seq != 7 || ack.ItemID != "" {
		t.Errorf("answer %+v", ack)
	}
	cursor, err := log.Follow(6)
	if err != nil {
		t.Fatal(err)
	}
	e, err := cursor.Next(t.Context())
	if err != nil || strings.Join(e.Removed, " ") != "m0 m1 m2 m3" {
		t.Errorf("entry %+v, %v", e, err)
	}
	for _, l := range []*Log{log, mustOpen(t, store)} {
		chat := l.Chat()
		if _, there := chat.Item("m3"); there || chat.Len() != 2 {
			t.Errorf("the fold still has %d items", chat.Len())
		}
		if got := chat.ItemsFrom(6); len(got) != 1 || got[0].ItemID() != "m5" {
			t.Errorf("items from 6: %v", got)
		}
		_, err = l.Append(t.Context(), origin, Op{ID: "again", Kind: OpAppend, Item: &Message{ID: "m0", Role: RoleUser, Content: TextContent("x")}})
		wantError(t, err, DuplicateID, "id")
	}
	if ack := mustAppend(t, log, Op{ID: "t2", Kind: OpTruncate, MaxItems: new(2)}); ack.Seq != 8 { // nothing to do is no error
		t.Errorf("answer %+v", ack)
	}
}

func TestWordCount(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, " \t\n": 0, "a": 1, " a  b\n": 2, "a\u2003b\u00a0c\u0085d": 4,
		"a\x1cb\x1db\x1eb\x1fc": 5, "a\u200bb\ufeffc\u180ed": 1, `{"a":1,"b":2}`: 1, "漢字漢字": 1,
	} {
		if got := wordCount(s); got != want {
			t.Errorf("%q: %d words, want %d", s, got, want)
		}
	}
}

func TestItemTokens(t *testing.T) {
	for want, item := range map[int]Item{
		4 + imageTokens: &Message{Content: Content{Text{"a b"}, ImageContent{}}},
		6:               &FunctionCall{Name: "f", Arguments: `{"a": 1}`},
		8:               &FunctionCallOutput{Name: "f", Output: "a b c d"},
		10:              &AgentHandoff{Reason: "a b c", Summary: "d e"},
		12:              &ConfigUpdate{Instructions: "a b c d", Tools: []byte(`[ 1]`)},
		14:              &Summary{Text: "a b c d e f g"},
		0:               &PipelineSwitch{Reason: "a b"},
	} {
		if got := itemTokens(item); got != want {
			t.Errorf("%s: %d tokens, want %d", item.Kind(), got, want)
		}
	}
}
