package recorder

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

func playing(id string, heard time.Duration, text string) Event {
	return Event{Kind: Playing, Who: Assistant, Item: id, Heard: heard, HeardText: text}
}

// TestG8PlayingWhenItIsWritten: what has to be written of an answer that is still playing is written as far as it was heard. After
// a crash it stays like that; without one it is completed, or cut.
func TestG8PlayingWhenItIsWritten(t *testing.T) {
	const text = "It has shipped on Monday."
	voiced := Event{Kind: SpeechStarted, Who: Assistant, Item: "a1", Voiced: true}
	for name, x := range map[string]struct {
		before []said // and a flush at 3
		then   string
		after  []said
		end    string
	}{
		"completed": {
			[]said{{1, delta("a1", text, 2*time.Second)}, {2, playing("a1", time.Second, "It has")}}, "assistant: It has [cut of: " + text + "]",
			[]said{{4, done("a1")}, {5, Event{Kind: Played, Who: Assistant, Item: "a1"}}}, "assistant: " + text,
		},
		"cut": {
			[]said{{1, delta("a1", text, 2*time.Second)}, {2, playing("a1", time.Second, "It has")}}, "assistant: It has [cut of: " + text + "]",
			[]said{{4, Event{Kind: Interrupted, Who: Assistant, Item: "a1", Heard: 1500 * time.Millisecond, HeardText: "It has shipped"}}, {4, Event{Kind: Done, Who: Assistant, Item: "a1", Cancelled: true}}},
			"assistant: It has shipped [cut of: " + text + "]",
		},
		"by the share of the sound": {
			[]said{{1, delta("a1", text, 2*time.Second)}, {1, done("a1")}, {2, playing("a1", 1300*time.Millisecond, "")}}, "assistant: It has shipped [cut of: " + text + "]",
			[]said{{5, Event{Kind: Played, Who: Assistant, Item: "a1"}}}, "assistant: " + text,
		},
		"the text is ahead of the sound": {
			[]said{{1, delta("a1", text, 500*time.Millisecond)}, {2, playing("a1", 500*time.Millisecond, "")}}, "assistant: It has [cut of: " + text + "]",
			[]said{{4, delta("a1", "", time.Second)}, {4, done("a1")}, {5, Event{Kind: Played, Who: Assistant, Item: "a1"}}}, "assistant: " + text,
		},
		"not begun": {
			[]said{{1, voiced}, {1, delta("a1", text, 0)}}, "assistant:  [cut of: " + text + "]",
			[]said{{4, delta("a1", "", time.Second)}, {4, done("a1")}, {5, Event{Kind: Played, Who: Assistant, Item: "a1"}}}, "assistant: " + text,
		},
		"not begun, and stopped": {
			[]said{{1, voiced}, {1, delta("a1", text, 0)}}, "assistant:  [cut of: " + text + "]",
			[]said{{4, Event{Kind: Interrupted, Who: Assistant, Item: "a1"}}, {4, Event{Kind: Done, Who: Assistant, Item: "a1", Cancelled: true}}}, "",
		},
		"without sound after all": {
			[]said{{1, voiced}, {1, delta("a1", text, 0)}}, "assistant:  [cut of: " + text + "]",
			[]said{{4, done("a1")}}, "assistant: " + text,
		},
		"nobody says how much is heard": {
			[]said{{1, delta("a1", text, 2*time.Second)}, {1, done("a1")}}, "assistant:  [cut of: " + text + "]",
			[]said{{60, user("u9", "")}}, "assistant: " + text,
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
			play(t, core, log, x.before...)
			apply(t, log, core.Flush(at(3)), at(3))
			wantLog(t, log, x.then)
			if all := core.Playing(); len(all) != 1 || all["a1"] != text {
				t.Errorf("playing: %q", all)
			}
			crashed := NewCore(Times{})
			resume(t, crashed, log)
			if out := append(crashed.Flush(at(3.5)), crashed.Advance(at(4))...); len(out) > 0 || len(crashed.Playing()) > 0 {
				t.Errorf("after a crash: %+v, playing %q", out, crashed.Playing())
			}
			for _, o := range crashed.Advance(at(90)) {
				if o.Op.Kind != chatctx.OpRemove || x.then != "assistant:  [cut of: "+text+"]" {
					t.Errorf("long after a crash: %+v", o.Op)
				}
			}
			play(t, core, log, x.after...)
			apply(t, log, core.Flush(at(100)), at(100))
			wantLog(t, log, x.end)
			if all := core.Playing(); len(all) != 0 {
				t.Errorf("playing at the end: %q", all)
			}
		})
	}
}

// TestPlayingHoldsNothingBack: that an answer is being heard does not make what is later wait for longer.
func TestPlayingHoldsNothingBack(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{Wait: 2 * time.Second})
	events := []said{{1, delta("a1", "A long story.", 20*time.Second)}, {1.5, user("u1", "Hm.")}}
	for i := range 40 {
		events = append(events, said{2 + float64(i)/10, playing("a1", time.Duration(i)*100*time.Millisecond, "A long")})
	}
	play(t, core, log, events...)
	wantLog(t, log, "assistant: A long [cut of: A long story.]", "user: Hm.")
}

// TestLateBeforeAll: what began before the first thing that was written since the start has its place too: after what the log had.
func TestLateBeforeAll(t *testing.T) {
	for name, x := range map[string]struct {
		had    int // items of others in the log
		remove []int
		want   []string
	}{
		"a log":                 {3, nil, []string{"user: x0", "user: x1", "user: x2", "user: Where is it?", "assistant: Hello.", "call f({})"}},
		"its end is taken back": {3, []int{2}, []string{"user: x0", "user: x1", "user: Where is it?", "assistant: Hello.", "call f({})"}},
		"all is taken back":     {3, []int{0, 1, 2}, []string{"assistant: Hello.", "call f({})", "user: Where is it?"}}, // there is nothing to put it after
		"a long log":            {40, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
			add := func(op chatctx.Op) {
				if _, err := log.Append(t.Context(), chatctx.Origin{Author: "other", At: t0}, op); err != nil {
					t.Fatal(err)
				}
			}
			want := x.want
			for i := range x.had {
				id := fmt.Sprint("x", i)
				add(chatctx.Op{ID: id, Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(id)}})
				if x.want == nil {
					want = append(want, "user: "+id)
				}
			}
			if x.want == nil {
				want = append(want, "user: Where is it?", "assistant: Hello.", "call f({})")
			}
			for _, i := range x.remove {
				add(chatctx.Op{ID: fmt.Sprint("rm", i), Kind: chatctx.OpRemove, ItemID: fmt.Sprint("x", i)})
			}
			resume(t, core, log)
			play(t, core, log, said{2, delta("a1", "Hello.", 0)}, said{2, done("a1")}, said{3, calls("c1", "f")})
			apply(t, log, core.Advance(at(4)), at(4))
			late := user("u1", "Where is it?")
			late.At = at(1)
			play(t, core, log, said{5, late})
			wantLog(t, log, want...)
		})
	}
}

// TestOneInstant: what happens within one instant stands as it was reported, the caller first.
func TestOneInstant(t *testing.T) {
	log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
	play(t, core, log,
		said{1, delta("a1", "Let me look.", 0)}, said{1, done("a1")}, said{1, calls("c2", "f")}, said{1, calls("c1", "g")}, said{1, output("c2", "f", "42")}, said{1, output("c1", "g", "7")},
		said{1, delta("a0", "It is 42.", 0)}, said{1, done("a0")}, said{1, user("u1", "Where is it?")})
	apply(t, log, core.Advance(at(3)), at(3))
	wantLog(t, log, "user: Where is it?", "assistant: Let me look.", "call f({})", "call g({})", "output f: 42", "output g: 7", "assistant: It is 42.")
}

// TestRecorderTellsWhatPlays: those who go on with an answer find all of its text beside the log.
func TestRecorderTellsWhatPlays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, chatctx.NewMemStore())
		r, stop := running(t, Config{Log: log})
		defer stop()
		tell(t, r, delta("a1", "Let me look.", time.Second), playing("a1", 500*time.Millisecond, "Let"), Event{Kind: ToolCall, CallID: "c1", Name: "f"})
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantLog(t, log, "assistant: Let [cut of: Let me look.]", "call f({})")
		if all := r.Playing(); all["a1"] != "Let me look." {
			t.Errorf("playing: %q", all)
		}
		tell(t, r, done("a1"), Event{Kind: Played, Who: Assistant, Item: "a1"})
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantLog(t, log, "assistant: Let me look.", "call f({})")
		if all := r.Playing(); len(all) != 0 {
			t.Errorf("playing: %q", all)
		}
	})
}
