package cascade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

func withTools(s *switcher.Start) {
	s.Tools = []switcher.Tool{{Name: "get", Parameters: []byte(`{"type":"object"}`)}}
}

// TestParallelCalls: both run at once, the model reads both, and what was said before them is spoken meanwhile.
func TestParallelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &mouth{}
		b := &brain{script: script{
			both("Let me look", calls(Call{ID: "k1", Name: "get", Arguments: `{"a":1}`}, Call{Name: "get", Arguments: `{"a":2}`})),
			says(0, "Both are here."),
		}}
		r := newRig(t, Config{Models: models(b), Voices: []Voice{v}}, withTools)
		r.types("go")
		got := outputs[switcher.ToolCallOut](r)
		if len(got) != 2 || got[0].CallID != "k1" || got[1].CallID == "" || got[1].CallID == "k1" || got[0].Item != "c7-a1" {
			t.Fatalf("calls %+v", got)
		}
		r.want("said while they run", v.phrases(), "Let me look")
		r.put(switcher.ToolResultIn{CallID: got[1].CallID, Name: "get", Output: "two"})
		time.Sleep(time.Second)
		if len(b.requests()) != 1 {
			t.Error("the model is asked before all results are there")
		}
		r.put(switcher.ToolResultIn{CallID: "k1", Name: "get", Output: "one", IsError: true})
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[1], 9), `user:go | assistant:Let me look | call:get{"a":1} | call:get{"a":2} | out:two | out:one`)
		if out, ok := b.requests()[1].Items[5].(*chatctx.FunctionCallOutput); !ok || !out.IsError {
			t.Error("the model does not read that the tool failed")
		}
		r.want("text", r.text(), "Let me lookBoth are here.")
		r.want("sound", r.spoken(), "Let me lookBoth are here.")
		r.want("end", r.statuses(), "completed completed") // a turn before the calls, one after their results
		r.end()
	})
}

// TestCallsAndResultsStandOnce: the log may hold them, all or some, when the model is asked again.
func TestCallsAndResultsStandOnce(t *testing.T) {
	for _, logged := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(logged), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &brain{script: script{calls(Call{ID: "k1", Name: "get", Arguments: `{}`}), says(0, "Here.")}}
				r := newRig(t, Config{Models: models(b)}, withTools)
				r.types("go")
				r.record([]chatctx.Item{
					&chatctx.FunctionCall{ID: "logged-call", CallID: "k1", Name: "get", Arguments: `{}`},
					&chatctx.FunctionCallOutput{ID: "logged-out", CallID: "k1", Name: "get", Output: "one"},
				}[:logged]...)
				r.put(switcher.ToolResultIn{CallID: "k1", Name: "get", Output: "one"})
				time.Sleep(time.Second)
				r.want("request", tail(b.requests()[1], 9), `user:go | call:get{} | out:one`)
				r.end()
			})
		})
	}
}

// TestG4IdenticalCallsAreMadeOnce in a turn: the second is answered by the first, and that is noted.
func TestG4IdenticalCallsAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{
			calls(Call{Name: "get", Arguments: `{"a":1,"b":2}`}, Call{Name: "get", Arguments: `{"b":2, "a":1}`}),
			calls(Call{Name: "get", Arguments: `{"a":1,"b":2}`}), says(0, "Ok."), calls(Call{Name: "get", Arguments: `{"a":1,"b":2}`}),
		}}
		r := newRig(t, Config{Models: models(b)}, withTools)
		r.types("go")
		r.put(switcher.ToolResultIn{CallID: outputs[switcher.ToolCallOut](r)[0].CallID, Output: "x"})
		time.Sleep(time.Second)
		if n := len(outputs[switcher.ToolCallOut](r)); n != 1 {
			t.Errorf("%d calls", n)
		}
		r.want("notices", r.notices(), "tool_repeated tool_repeated")
		if got := tail(b.requests()[2], 9); strings.Count(got, "out:x") != 3 {
			t.Errorf("request %q", got)
		}
		r.types("again") // another turn may ask again
		if n := len(outputs[switcher.ToolCallOut](r)); n != 2 {
			t.Errorf("%d calls after the second turn", n)
		}
		r.end()
	})
}

func TestG12CallsOfATurnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []Call
		for i := range 14 {
			many = append(many, Call{ID: "same", Name: "get", Arguments: fmt.Sprintf(`{"n":%d}`, i)})
		}
		b := &brain{script: script{calls(many...), says(0, "Enough.")}}
		r := newRig(t, Config{Models: models(b)}, withTools)
		r.types("go")
		got := outputs[switcher.ToolCallOut](r)
		if len(got) != 10 {
			t.Fatalf("%d calls, want 10", len(got))
		}
		ids := map[string]bool{}
		for _, c := range got {
			ids[c.CallID] = true
			r.put(switcher.ToolResultIn{CallID: c.CallID, Output: "x"})
		}
		if len(ids) != 10 {
			t.Errorf("%d ids for 10 calls", len(ids))
		}
		time.Sleep(time.Second)
		r.want("notices", r.notices(), strings.TrimSpace(strings.Repeat("tool_limit ", 4)))
		if got := tail(b.requests()[1], 40); strings.Count(got, "at most 10 tool calls") != 4 {
			t.Errorf("request %q", got)
		}
		r.end()
	})
}

// TestAToolThatDoesNotAnswer: the model is told, the session too, and a late result starts nothing.
func TestAToolThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{calls(Call{ID: "k1", Name: "get"}, Call{ID: "k2", Name: "get2"}), says(0, "It takes long.")}}
		r := newRig(t, Config{Models: models(b), Timeouts: Timeouts{Tool: 3 * time.Second}}, withTools)
		r.types("go")
		r.put(switcher.ToolResultIn{CallID: "k2", Output: "fine"})
		time.Sleep(3100 * time.Millisecond)
		r.want("text", r.text(), "It takes long.")
		if got := outputs[switcher.ToolCancelOut](r); len(got) != 1 || strings.Join(got[0].CallIDs, " ") != "k1" {
			t.Errorf("taken back: %+v", got)
		}
		if got := tail(b.requests()[1], 9); !strings.Contains(got, "no answer within 3s") || !strings.Contains(got, "out:fine") {
			t.Errorf("request %q", got)
		}
		r.put(switcher.ToolResultIn{CallID: "k1", Output: "late"})
		time.Sleep(time.Minute)
		if n := len(b.requests()); n != 2 {
			t.Errorf("%d requests", n)
		}
		r.want("notices", r.notices(), "tool_timeout")
		r.end()
	})
}

// TestG12RoundsAreBounded: the last request has no tools, and silence is not the end of it.
func TestG12RoundsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		seen := []int{}
		var b scripted = func(q Request) func(ctx context.Context, yield func(Delta) error) (Finish, error) {
			n++
			seen = append(seen, len(q.Tools))
			return calls(Call{Name: "get", Arguments: fmt.Sprintf(`{"n":%d}`, n)})
		}
		r := newRig(t, Config{Models: models(b), MaxRounds: 3}, withTools)
		r.types("go")
		for i := range 2 {
			r.put(switcher.ToolResultIn{CallID: outputs[switcher.ToolCallOut](r)[i].CallID, Output: "x"})
		}
		time.Sleep(time.Second)
		r.want("tools of the requests", fmt.Sprint(seen), "[1 1 0]")
		r.want("text", r.text(), sorry)
		r.want("notices", r.notices(), "rounds_limit")
		r.end()
	})
}

// TestAResultOfALegBeforeIsTold: the call was running when this leg took over.
func TestAResultOfALegBeforeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(0, "It has been shipped.")}}
		r := newRig(t, Config{Models: models(b)}, withTools)
		r.record(&chatctx.Message{ID: "m", Role: chatctx.RoleUser, Content: chatctx.TextContent("Where is it?")},
			&chatctx.FunctionCall{ID: "old", CallID: "old", Name: "get", Arguments: `{}`})
		r.types("Well?")
		time.Sleep(time.Second)
		if !b.requests()[0].Running["old"] {
			t.Error("the model does not read that the call runs")
		}
		r.put(switcher.ToolResultIn{CallID: "old", Name: "get", Output: "shipped"})
		time.Sleep(time.Second)
		if len(b.requests()) != 2 {
			t.Fatalf("%d requests", len(b.requests()))
		}
		r.want("request", tail(b.requests()[1], 9), `user:Where is it? | user:Well? | assistant:It has been shipped. | call:get{} | out:shipped`)
		if len(b.requests()[1].Running) != 0 {
			t.Error("the call still runs")
		}
		r.put(switcher.ToolResultIn{CallID: "old", Name: "get", Output: "shipped"})
		time.Sleep(time.Second)
		if len(b.requests()) != 2 {
			t.Error("a repeated result is told twice")
		}
		r.end()
	})
}

// TestG4CallIDsAreUniqueInTheSession: some servers count from 0 in each answer.
func TestG4CallIDsAreUniqueInTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{calls(Call{ID: "call_0", Name: "get", Arguments: `{}`})}}
		r := newRig(t, Config{Models: models(b)}, withTools)
		r.record(&chatctx.FunctionCall{ID: "x", CallID: "call_0", Name: "get", Arguments: `{}`})
		r.types("go")
		if got := outputs[switcher.ToolCallOut](r); len(got) != 1 || got[0].CallID == "call_0" || !chatctx.ValidID(got[0].CallID) {
			t.Errorf("calls %+v", got)
		}
		r.end()
	})
}

// both says something and then goes on with another script.
func both(text string, then func(context.Context, func(Delta) error) (Finish, error)) func(context.Context, func(Delta) error) (Finish, error) {
	return func(ctx context.Context, yield func(Delta) error) (Finish, error) {
		if err := yield(Delta{Text: text}); err != nil {
			return Finish{}, err
		}
		return then(ctx, yield)
	}
}

// TestG12SoundKeptIsBounded: an utterance without end, and silence, take no more memory than they may.
func TestG12SoundKeptIsBounded(t *testing.T) {
	g := &ring{rate: rate, most: rate}
	u := &utterance{most: rate, wake: make(chan struct{}, 1)}
	at := time.Now()
	for i := range 1000 {
		pcm := make([]int16, rate/50)
		g.push(switcher.SoundIn{PCM: pcm, At: at.Add(time.Duration(i) * 20 * time.Millisecond)})
		u.write(pcm)
	}
	if g.have > rate || len(g.pieces) > 50 {
		t.Errorf("the ring keeps %d samples in %d pieces", g.have, len(g.pieces))
	}
	if len(u.pcm) > rate*5/4 || u.base+len(u.pcm) != 20*rate {
		t.Errorf("the utterance keeps %d samples from %d on", len(u.pcm), u.base)
	}
	if got := g.since(at.Add(19*time.Second + 900*time.Millisecond)); len(got) != rate/10 {
		t.Errorf("%d samples of the last 100 ms", len(got))
	}
}
