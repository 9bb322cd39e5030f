package load

import (
	"fmt"
	"strings"
	"testing"

	chatctx "sightline/context"

	"sightline/gateway/wire"
)

func entry(seq uint64, text string) chatctx.Entry {
	return chatctx.Entry{Seq: seq, OpID: fmt.Sprint("op-", seq), Author: "a", Op: chatctx.OpAppend,
		Item: &chatctx.Message{ID: fmt.Sprint("m", seq), Role: chatctx.RoleSystem, Content: chatctx.TextContent(text)}}
}

func book(logID string, entries ...chatctx.Entry) *logBook {
	b := &logBook{}
	b.welcome(wire.Welcome{LogID: logID})
	for _, e := range entries {
		b.entry(e)
	}
	return b
}

func TestCompareFindsEveryPlantedDifference(t *testing.T) {
	t.Parallel()
	same := []chatctx.Entry{entry(1, "a"), entry(2, "b"), entry(3, "c")}
	for name, test := range map[string]struct {
		other *logBook
		want  string // empty: none
	}{
		"the same":             {book("x", same...), ""},
		"a word":               {book("x", same[0], entry(2, "B"), same[2]), "different entries 2"},
		"one less at the end":  {book("x", same[:2]...), "different entries 3"},
		"one more":             {book("x", same[0], same[1], same[2], entry(4, "d")), "different entries 4"},
		"a hole":               {book("x", same[0], same[2]), "entry 3 came where 2 was due"},
		"one twice":            {book("x", same[0], same[0], same[1], same[2]), "entry 1 came where 2 was due"},
		"another log":          {book("y", same...), "different logs"},
		"a new log on the way": {func() *logBook { b := book("x", same...); b.welcome(wire.Welcome{LogID: "y"}); return b }(), "has begun a new log"},
		"a snapshot stands for the first": {func() *logBook {
			b := &logBook{}
			b.welcome(wire.Welcome{LogID: "x", Snapshot: &chatctx.Snapshot{Seq: 2}})
			b.entry(same[2])
			return b
		}(), ""},
	} {
		got := strings.Join(compare(map[string]*logBook{"1": book("x", same...), "2": test.other}), "; ")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if a, b := book("x", same...).digest(), book("x", same[0], entry(2, "B"), same[2]).digest(); a == b || a != book("x", same...).digest() || len(a) != 16 {
		t.Errorf("digests %s, %s", a, b)
	}
}

func TestMissingFindsWhatWasAcknowledgedAndIsNotThere(t *testing.T) {
	t.Parallel()
	commit := chatctx.Entry{Seq: 3, OpID: "s", Op: chatctx.OpAppend, Item: &chatctx.PipelineSwitch{ID: "p", State: "committed", Epoch: 5}}
	again := commit
	again.Seq = 4
	for name, test := range map[string]struct {
		book    *logBook
		acked   map[string]uint64
		commits map[uint64]string
		want    string
	}{
		"all there":      {book("x", entry(1, "a"), entry(2, "b"), commit), map[string]uint64{"op-1": 1, "op-2": 2}, map[uint64]string{5: "s"}, ""},
		"not there":      {book("x", entry(1, "a")), map[string]uint64{"op-2": 2}, nil, "op-2 was acknowledged as entry 2 and is in the log as []"},
		"elsewhere":      {book("x", entry(1, "a")), map[string]uint64{"op-1": 2}, nil, "in the log as [1]"},
		"no commit":      {book("x", entry(1, "a")), nil, map[uint64]string{5: "s"}, "epoch 5 (s) was told and is 0 times"},
		"a commit twice": {book("x", entry(1, "a"), entry(2, "b"), commit, again), nil, map[uint64]string{5: "s"}, "is 2 times"},
	} {
		got := strings.Join(test.book.missing(test.acked, test.commits), "; ")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
