package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
)

func interrupted(id string, heard time.Duration, text string) Event {
	return Event{Kind: Interrupted, Who: Assistant, Item: id, Heard: heard, HeardText: text}
}

func partial(id, text string) Event {
	return Event{Kind: Partial, Who: Caller, Item: id, Text: text}
}

func calls(id, name string) Event {
	return Event{Kind: ToolCall, CallID: id, Name: name, Arguments: "{}"}
}

func output(id, name, text string) Event {
	return Event{Kind: ToolOutput, CallID: id, Name: name, Output: text}
}

func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []said
		want   []string
		stats  Stats // of these, those that are not zero are compared
	}{
		{
			"a transcript that comes after its answer, and after the next speech", // livekit/agents PR 6616
			[]said{
				{1, starts(Caller, "u1", 1)}, {2.2, starts(Assistant, "a1", 2.2)}, {2.3, delta("a1", "It shipped.", 0)}, {2.4, done("a1")},
				{3.5, starts(Caller, "u2", 3.5)}, {3.8, user("u2", "Thanks.")}, {3.9, user("u1", "Where is order 456?")},
			},
			[]string{"user: Where is order 456?", "assistant: It shipped.", "user: Thanks."}, Stats{Late: 0, Written: 3},
		},
		{
			"a transcript that comes much too late goes to its place", []said{
				{1, user("u0", "Hello.")},
				{2, starts(Caller, "u1", 2)}, {4, delta("a1", "It shipped.", 0)}, {4, done("a1")}, {20, user("u1", "Where is it?")},
			},
			[]string{"user: Hello.", "user: Where is it?", "assistant: It shipped."}, Stats{Late: 1},
		},
		{
			"the first words come much too late: a place is kept for them", []said{
				{2, starts(Caller, "u1", 2)}, {4, delta("a1", "It shipped.", 0)}, {4, done("a1")}, {20, user("u1", "Where is it?")},
			},
			[]string{"user: Where is it?", "assistant: It shipped."}, Stats{Provisional: 1},
		},
		{
			"the first words never come: the place is taken back", []said{
				{2, starts(Caller, "u1", 2)}, {4, delta("a1", "Hello?", 0)}, {4, done("a1")}, {60, user("u2", "Yes.")},
			},
			[]string{"assistant: Hello?", "user: Yes."}, Stats{Vanished: 1, Provisional: 1},
		},
		{
			"a failed transcript holds nothing back", []said{
				{1, starts(Caller, "u1", 1)}, {2, Event{Kind: TranscriptFailed, Who: Caller, Item: "u1"}},
				{2, delta("a1", "Pardon?", 0)}, {2, done("a1")},
			},
			[]string{"assistant: Pardon?"}, Stats{Vanished: 1},
		},
		{
			"a start that is reported late goes to its place", []said{
				{1, user("u0", "Hello.")}, {3, user("u2", "second")}, {5, starts(Caller, "u1", 2)}, {5, user("u1", "first")},
			},
			[]string{"user: Hello.", "user: first", "user: second"}, Stats{Late: 1},
		},
		{
			"partials become final", []said{
				{1, partial("u1", "where")}, {1.5, partial("u1", "where is")}, {2, user("u1", "Where is it?")}, {2.1, partial("u1", "where is it")},
			},
			[]string{"user: Where is it?"}, Stats{Written: 1, Duplicates: 1},
		},
		{
			"a partial without an end settles", []said{{1, partial("u1", "where is")}, {9, user("u2", "Hello?")}},
			[]string{"user: where is", "user: Hello?"}, Stats{Provisional: 1},
		},
		{
			"a partial that settled becomes final in place", []said{
				{1, partial("u1", "where is")}, {9, user("u2", "Hello?")}, {10, user("u1", "Where is it?")},
			},
			[]string{"user: Where is it?", "user: Hello?"}, Stats{Written: 3},
		},
		{
			"a blank partial vanishes", []said{{1, partial("u1", " \u200b")}, {50, user("u2", "Hello?")}, {51, user("u1", " ")}},
			[]string{"user: Hello?"}, Stats{Vanished: 1, Duplicates: 1},
		},
		{
			"who says yes twice has said it twice", []said{
				{1, user("u1", "yes")}, {2, user("u2", "yes")}, {2.1, user("u2", "yes")}, {3, user("", "yes")}, {4, user("", "yes")},
			},
			[]string{"user: yes", "user: yes", "user: yes", "user: yes"}, Stats{Duplicates: 1},
		},
		{
			"speech without ids", []said{
				{1, starts(Caller, "", 1)}, {1.2, partial("", "one")}, {2, Event{Kind: SpeechStopped, Who: Caller}}, {3, starts(Caller, "", 3)},
				{3.5, user("", "one.")}, {4, user("", "two.")}, {4.1, Event{Kind: Done, Who: Assistant}},
			},
			[]string{"user: one.", "user: two."}, Stats{Ignored: 1},
		},
		{
			"what was interrupted is stored as heard", []said{
				{1, delta("a1", "Your order has left the ", time.Second)}, {1.1, delta("a1", "warehouse in Lyon.", time.Second)}, {1.2, done("a1")},
				{2, interrupted("a1", 900*time.Millisecond, "")}, {2.1, user("u1", "Stop.")},
			},
			[]string{"assistant: Your order has [cut of: Your order has left the warehouse in Lyon.]", "user: Stop."}, Stats{},
		},
		{
			"the word where it stopped is known", []said{
				{1, delta("a1", "Your order has left.", time.Second)}, {1.2, interrupted("a1", 500*time.Millisecond, "Your order")}, {1.3, done("a1")},
			},
			[]string{"assistant: Your order [cut of: Your order has left.]"}, Stats{},
		},
		{
			"what nobody heard is not stored", []said{
				{1, delta("a1", "Your order has left.", time.Second)}, {1.1, interrupted("a1", 0, "")}, {1.2, done("a1")}, {2, user("u1", "Wait.")},
			},
			[]string{"user: Wait."}, Stats{Unheard: 1},
		},
		{
			"interrupted after the end is not interrupted", []said{
				{1, delta("a1", "Yes.", time.Second)}, {1.1, done("a1")}, {3, interrupted("a1", 2*time.Second, "")},
			},
			[]string{"assistant: Yes."}, Stats{},
		},
		{
			"a long answer is written while it plays, and cut when it is interrupted", []said{
				{1, delta("a1", strings.Repeat("word ", 100), 40*time.Second)}, {2, done("a1")}, {9, calls("c1", "f")}, {21, interrupted("a1", 20*time.Second, "")},
			},
			[]string{"assistant: " + strings.TrimSpace(strings.Repeat("word ", 50)) + " [cut of: " + strings.Repeat("word ", 100) + "]", "call f({})"}, Stats{Provisional: 1},
		},
		{
			"a cancelled answer of which nobody says what was heard", []said{
				{1, delta("a1", "one two three four", 4*time.Second)}, {3, Event{Kind: Done, Who: Assistant, Item: "a1", Cancelled: true}},
			},
			[]string{"assistant: one two [cut of: one two three four]"}, Stats{},
		},
		{
			"an answer that stops in the middle settles", []said{{1, delta("a1", "Well, I", 0)}, {60, user("u1", "Hello?")}},
			[]string{"assistant: Well, I", "user: Hello?"}, Stats{Provisional: 1},
		},
		{
			"an output is faster than its call", []said{{1, output("c1", "f", "42")}, {1.2, calls("c1", "f")}},
			[]string{"call f({})", "output f: 42"}, Stats{Orphans: 0, Written: 2},
		},
		{
			"an output joins its call late, once", []said{
				{1, calls("c1", "f")}, {2, user("u1", "Hello?")}, {100, output("c1", "", "42")}, {101, output("c1", "", "43")}, {102, calls("c1", "f")},
			},
			[]string{"call f({})", "user: Hello?", "output f: 42"}, Stats{Duplicates: 2},
		},
		{
			"calls without ids get some, and their outputs find them", []said{
				{1, calls("", "f")}, {1.1, calls("", "g")}, {1.2, calls("", "f")}, {2, output("", "g", "G")}, {3, output("", "f", "F1")}, {4, output("", "", "F2")},
			},
			[]string{"call f({})", "call g({})", "call f({})", "output g: G", "output f: F1", "output f: F2"}, Stats{Generated: 3},
		},
		{
			"an output whose call nobody reports", []said{{1, output("c1", "f", "42")}, {2, output("c2", "", "lost")}, {3, output("", "g", "7")}},
			[]string{"call f({})", "output f: 42", "call g({})", "output g: 7"}, Stats{Orphans: 2, Nameless: 1},
		},
		{
			"the same ids in another epoch are other things", []said{
				{1, user("item_1", "one")}, {2, Event{Kind: Final, Who: Caller, Item: "item_1", Epoch: 2, Text: "two"}},
			},
			[]string{"user: one", "user: two"}, Stats{},
		},
		{
			"a place after a place that is taken back", []said{
				{1.2, starts(Assistant, "a1", 1.2)}, {1.3, interrupted("a1", 0, "")}, {1.4, starts(Assistant, "a2", 1.4)}, {1.6, user("u1", "yes")},
				{8, delta("a1", "never heard", time.Second)}, {8, done("a1")}, {9, delta("a2", "Let me see.", 0)}, {9.1, done("a2")},
			},
			[]string{"assistant: Let me see.", "user: yes"}, Stats{Unheard: 1, Provisional: 2},
		},
		{
			"what belonged before everything goes to the end when its place is gone", []said{
				{1, starts(Caller, "u1", 1)}, {2, delta("a1", "Hello?", 0)}, {2, done("a1")}, {10, Event{Kind: TranscriptFailed, Who: Caller, Item: "u1"}},
				{11, starts(Caller, "u2", 1.5)}, {11, user("u2", "Yes.")},
			},
			[]string{"assistant: Hello?", "user: Yes."}, Stats{Late: 1},
		},
		{
			"an output follows its call to the end", []said{
				{10, user("u1", "one")}, {11, Event{Kind: ToolCall, CallID: "c1", Name: "f", At: at(2)}}, {12, user("u2", "two")},
				{13, Event{Kind: ToolOutput, CallID: "c1", Output: "42", At: at(10)}},
			},
			[]string{"user: one", "call f({})", "output f: 42", "user: two"}, Stats{Late: 2},
		},
		{
			"an answer can be cut as long as it plays", []said{
				{1, delta("a1", "one two three four", time.Minute)}, {2, done("a1")}, {46, interrupted("a1", 45*time.Second, "")},
			},
			[]string{"assistant: one two three [cut of: one two three four]"}, Stats{Provisional: 1},
		},
		{
			"nonsense is counted", []said{
				{1, Event{Kind: 99, Who: Caller, Text: "x"}}, {1, Event{Kind: Final, Text: "x"}}, {1, Event{Kind: Error}},
				{1, calls("c1", " ")}, {1, user("", "")},
			},
			nil, Stats{Ignored: 3, Errors: 1, Nameless: 1},
		},
		{
			"a clock that is ahead", []said{{1, starts(Caller, "u1", 1e6)}, {2, user("u1", "one")}, {3, user("u2", "two")}},
			[]string{"user: one", "user: two"}, Stats{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
			play(t, core, log, c.events...)
			apply(t, log, core.Close(at(200)), at(200))
			wantLog(t, log, c.want...)
			checkStats(t, core.Stats(), c.stats)
			if len(core.queue)+len(core.waiting)+len(core.slots) > 0 {
				t.Errorf("%d are still open", len(core.queue))
			}
		})
	}
}

func checkStats(t *testing.T, got, want Stats) {
	t.Helper()
	for _, n := range []struct {
		name      string
		got, want uint64
	}{
		{"written", got.Written, want.Written}, {"duplicates", got.Duplicates, want.Duplicates}, {"ignored", got.Ignored, want.Ignored},
		{"late", got.Late, want.Late}, {"provisional", got.Provisional, want.Provisional}, {"vanished", got.Vanished, want.Vanished},
		{"unheard", got.Unheard, want.Unheard}, {"generated", got.Generated, want.Generated}, {"orphans", got.Orphans, want.Orphans},
		{"nameless", got.Nameless, want.Nameless}, {"errors", got.Errors, want.Errors}, {"cut", got.Cut, want.Cut}, {"forced", got.Forced, want.Forced},
	} {
		if n.want != 0 && n.got != n.want || n.want == 0 && n.got != 0 && n.name != "written" {
			switch n.name { // of these a scenario need not say how many there are
			case "late", "provisional", "vanished", "generated", "orphans":
				if n.want == 0 {
					continue
				}
			}
			t.Errorf("%s: %d, want %d", n.name, n.got, n.want)
		}
	}
}

// TestNothingHasToWait: what has no earlier thing open is written at once, not after Wait.
func TestNothingHasToWait(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log, said{1, starts(Caller, "u1", 1)}, said{2, user("u1", "Hello.")})
	wantLog(t, log, "user: Hello.")
}

// TestLongSpeechHoldsBackAgain: speech that was passed over while nothing was heard of it holds its answer back when it ends.
func TestLongSpeechHoldsBackAgain(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log,
		said{0.5, user("u0", "Hi.")}, said{1, starts(Caller, "u1", 1)}, said{3, calls("c1", "f")},
		said{20, Event{Kind: SpeechStopped, Who: Caller, Item: "u1"}}, said{20.5, delta("a1", "I see.", 0)}, said{20.6, done("a1")}, said{23, Event{Kind: Error}})
	wantLog(t, log, "user: Hi.", "call f({})")
	play(t, core, log, said{23, user("u1", "So, last week …")})
	wantLog(t, log, "user: Hi.", "user: So, last week …", "call f({})", "assistant: I see.")
}

// TestRestart feeds the same reports to a second Core that has read the log, and to a third that has not.
func TestRestart(t *testing.T) {
	events := []said{
		{1, starts(Caller, "u1", 1)}, {2, user("u1", "Where is it?")}, {3, calls("c1", "f")}, {4, output("c1", "f", "42")},
		{5, delta("a1", "It is here.", 0)}, {5, done("a1")}, {6, calls("", "g")}, {7, output("", "g", "7")}, {8, user("", "yes")},
	}
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log, events...)
	head := log.Head()
	second := NewCore(Times{})
	resume(t, second, log)
	play(t, second, log, events[:6]...)
	if log.Head() != head {
		t.Errorf("%d entries were written twice", log.Head()-head)
	}
	if s := second.Stats(); s.Written != 0 {
		t.Errorf("stats %+v", s)
	}
	play(t, second, log, said{9, user("", "yes")}, said{10, calls("", "g")}) // new ones, though without ids
	apply(t, log, second.Advance(at(11)), at(11))
	if log.Head() != head+2 {
		t.Errorf("%d entries for a second yes and a second call", log.Head()-head)
	}
	third := NewCore(Times{})
	for _, e := range events[:6] {
		e.At = at(e.reported)
		for _, o := range third.Handle(e.Event, e.At) {
			if ack, err := log.Append(t.Context(), chatctx.Origin{Author: o.Author}, o.Op); err != nil || !ack.Duplicate {
				t.Errorf("op %s of a recorder that knows nothing: %+v, %v", o.Op.ID, ack, err)
			}
		}
	}
}

// TestRestartWithAPartial: the final text fills what was written before the restart.
func TestRestartWithAPartial(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log, said{1, partial("u1", "where is")}, said{9, user("u2", "Hello?")})
	apply(t, log, core.Advance(at(9.5)), at(9.5))
	second := NewCore(Times{})
	resume(t, second, log)
	play(t, second, log, said{10, user("u1", "Where is it?")})
	wantLog(t, log, "user: Where is it?", "user: Hello?")
	third := NewCore(Times{})
	resume(t, third, log)
	play(t, third, log, said{11, user("u1", "Where is it?")})
	wantLog(t, log, "user: Where is it?", "user: Hello?")
}

// TestFlush: before a switch everything is in the log; what comes later still finds its place.
func TestFlush(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log, said{0.5, user("u0", "Hi.")}, said{1, partial("u1", "I want to")}, said{2, delta("a1", "Of course", time.Second)}, said{2, calls("c1", "f")})
	apply(t, log, core.Flush(at(2.1)), at(2.1))
	wantLog(t, log, "user: Hi.", "user: I want to", "assistant:  [cut of: Of course]", "call f({})")
	play(t, core, log, said{3, user("u1", "I want to cancel.")}, said{3.1, delta("a1", ", which one?", 0)}, said{3.2, done("a1")}, said{4, Event{Kind: Played, Who: Assistant, Item: "a1"}})
	wantLog(t, log, "user: Hi.", "user: I want to cancel.", "assistant: Of course, which one?", "call f({})")
}

// TestBounds: neither many open things nor long or broken texts grow without end.
func TestBounds(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	for i := range 2 * maxOpen {
		play(t, core, log, said{1 + float64(i)/1000, partial(fmt.Sprint("u", i), "never final")})
	}
	if n := len(core.queue); n > maxOpen {
		t.Errorf("%d are open", n)
	}
	if s := core.Stats(); s.Forced == 0 {
		t.Errorf("stats %+v", s)
	}
	play(t, core, log, said{3, user("long", strings.Repeat("é", MaxText))}, said{3, user("bad\xff id "+strings.Repeat("x", 500), "bad \xff text\x00")})
	apply(t, log, core.Close(at(10)), at(10))
	item, ok := log.Chat().Item("long")
	if !ok {
		t.Fatal("the long text is not there")
	}
	if n := len(item.(*chatctx.Message).Content.Text()); n > MaxText || n < MaxText-8 {
		t.Errorf("%d bytes of a long text", n)
	}
	if text := show(log.Snapshot().Items); !strings.Contains(text, "user: bad \uFFFD text\x00\n") {
		t.Error("the broken text is not there")
	}
	if core.Stats().Cut != 1 || len(core.places) > maxPlaces {
		t.Errorf("stats %+v, %d places", core.Stats(), len(core.places))
	}
}

func TestHeardPart(t *testing.T) {
	for _, c := range []struct {
		text         string
		heard, audio time.Duration
		want         string
	}{
		{"one two three", 0, time.Second, ""}, {"one two three", time.Second, time.Second, "one two three"},
		{"one two three", 500 * time.Millisecond, time.Second, "one"}, {"one two three", 550 * time.Millisecond, time.Second, "one two"},
		{"one two three", time.Second, 0, "one two three"}, {"one two three", 500 * time.Millisecond, 0, "one two"},
		{"onetwothree", 500 * time.Millisecond, time.Second, ""}, {"", time.Second, time.Second, ""},
		{"我想取消昨天的订单", 500 * time.Millisecond, time.Second, "我想取消"},
	} {
		if got := heardPart(c.text, c.heard, c.audio); got != c.want {
			t.Errorf("%v of %v of %q: %q, want %q", c.heard, c.audio, c.text, got, c.want)
		}
	}
}
