package switcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// two is a call with two pipelines, local (cascade) first and rt (realtime).
func two(t *testing.T, local, rt plan, edit func(*Config)) *testCall {
	t.Helper()
	c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
		cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, local), c.pipeline("rt", Realtime, rt)}
		cfg.First = "cascade"
		if edit != nil {
			edit(cfg)
		}
	})
	time.Sleep(500 * time.Millisecond)
	return c
}

func (c *testCall) switchTo(r SwitchRequest) Result {
	c.t.Helper()
	res, err := c.sw.Switch(c.t.Context(), r)
	if err != nil {
		c.t.Fatalf("the switch to %s: %v", r.Target, err)
	}
	return res
}

// talk is the conversation without switches.
func (c *testCall) talk() (out []string) {
	for _, it := range c.log.Snapshot().Items {
		if !isSwitch(it) {
			out = append(out, line(it))
		}
	}
	return out
}

func (c *testCall) wantTalk(lines ...string) {
	c.t.Helper()
	if got := c.talk(); !slices.Equal(got, lines) {
		c.t.Errorf("the conversation is\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// words are the first n words of an answer of a fake leg.
func words(leg, item string, epoch, n int) string {
	var w []string
	for i := range n {
		w = append(w, fmt.Sprintf("%s-%s-%d-w%x", leg, item, epoch, i))
	}
	return strings.Join(w, " ")
}

func TestG1OneOrderForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{tool: "lookup"}, plan{}, nil)
		c.speak(20)
		c.switchTo(SwitchRequest{Target: "realtime", At: AtNow})
		c.speak(20)
		time.Sleep(2 * time.Second)
		var seqs [2][]string
		for i := range seqs {
			cur, _ := c.log.Follow(0)
			for {
				e, ok, err := cur.TryNext(t.Context())
				if err != nil || !ok {
					break
				}
				seqs[i] = append(seqs[i], fmt.Sprint(e.Seq, e.OpID))
			}
		}
		if len(seqs[0]) < 6 || !slices.Equal(seqs[0], seqs[1]) {
			t.Errorf("two followers saw\n%v\n%v", seqs[0], seqs[1])
		}
		c.end()
	})
}

// TestG2CommittedSurvives: what Switch has answered is in the log of the next Switcher, which goes on from it.
func TestG2CommittedSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{}, nil)
		c.speak(20)
		time.Sleep(2 * time.Second)
		res := c.switchTo(SwitchRequest{OpID: "s1", Target: "realtime"})
		c.quit()
		<-c.ended
		c.helpers.Wait()
		c.begin()
		time.Sleep(time.Second)
		leg, ok := c.sw.Active()
		if !ok || leg.Name != "rt" || leg.Epoch <= res.Epoch {
			t.Errorf("after the restart %+v has the floor", leg)
		}
		if l := c.leg("rt"); l.start.Reason != "resume" || len(l.start.Seed.Items) != 2 {
			t.Errorf("the leg was started because of %q with %d items", l.start.Reason, len(l.start.Seed.Items))
		}
		c.end()
	})
}

// TestG3SameOpSameAnswer: a repeated op_id gives the first answer, in the same session and after a restart.
func TestG3SameOpSameAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{}, nil)
		first := c.switchTo(SwitchRequest{OpID: "s1", Target: "realtime"})
		c.switchTo(SwitchRequest{OpID: "s2", Target: "cascade"})
		if again := c.switchTo(SwitchRequest{OpID: "s1", Target: "realtime"}); again.Epoch != first.Epoch || again.Noop {
			t.Errorf("again: %+v, first %+v", again, first)
		}
		c.quit()
		<-c.ended
		c.helpers.Wait()
		c.begin()
		time.Sleep(time.Second)
		if again := c.switchTo(SwitchRequest{OpID: "s1", Target: "realtime"}); again.Epoch != first.Epoch || again.To != "rt" {
			t.Errorf("after a restart: %+v, first %+v", again, first)
		}
		if leg, _ := c.sw.Active(); leg.Name != "local" {
			t.Errorf("%s has the floor", leg.Name)
		}
		if _, err := c.log.Append(t.Context(), chatctx.Origin{Author: "a", At: time.Now()}, chatctx.Op{ID: "mine", Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("hi")}}); err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, err := c.sw.Switch(t.Context(), SwitchRequest{OpID: "mine", Target: "realtime"}); !errors.As(err, &e) || e.Code != Conflict {
			t.Errorf("somebody else's op_id: %v", err)
		}
		c.end()
	})
}

// TestG4ToolAcrossSwitch: livekit/agents#3344, and the tool that ran again after a switch.
func TestG4ToolAcrossSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{tool: "lookup"}, plan{}, nil)
		c.speak(20)
		time.Sleep(100 * time.Millisecond) // the tool runs for 300 ms
		res := c.switchTo(SwitchRequest{Target: "realtime", At: AtNow})
		time.Sleep(2 * time.Second)
		c.wantTalk("user: u1:0-19", "call call-1-2 lookup", "output call-1-2 result of call-1-2", "assistant: "+words("rt", "a1", 2, 5))
		rt := c.leg("rt")
		n, _ := c.ran("call-1-2")
		if res.Epoch != 2 || n != 1 || len(inputsOf[ToolResultIn](rt.inputs)) != 1 {
			t.Errorf("%+v; the tool ran %d times; the new leg was given %v", res, n, inputsOf[ToolResultIn](rt.inputs))
		}
		known := false
		for _, it := range rt.start.Seed.Items {
			_, out := it.(*chatctx.FunctionCallOutput)
			call, is := it.(*chatctx.FunctionCall)
			known = known || is && call.CallID == "call-1-2"
			if out {
				t.Error("an output in the seed")
			}
		}
		if !known {
			t.Error("the new leg got a result of a call that it does not know")
		}
		c.end()
	})
}

// TestG4RepeatedCall: mastra-ai/mastra#22969, one call reported twice.
func TestG4RepeatedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{tool: "lookup", repeat: 3}, plan{}, nil)
		c.speak(20)
		time.Sleep(2 * time.Second)
		c.wantTalk("user: u1:0-19", "call call-1-2 lookup", "output call-1-2 result of call-1-2", "assistant: "+words("local", "a3", 1, 5))
		runs, _ := c.ran("call-1-2")
		if n := len(inputsOf[ToolResultIn](c.leg("local").inputs)); n != 1 || runs != 1 || c.sw.Counters().ToolRepeats != 3 {
			t.Errorf("%d results, %d runs, %+v", n, runs, c.sw.Counters())
		}
		c.end()
	})
}

// TestG4RestartDuringTool: after a restart the call has exactly one output, and the tool is not run again.
func TestG4RestartDuringTool(t *testing.T) {
	for _, rejoin := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := &swarmStore{Store: chatctx.NewMemStore()}
			c := newCall(t, store, func(c *testCall, cfg *Config) {
				cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{tool: "lookup"}, plan{})}
				cfg.First, cfg.Times.Rejoin = "cascade", rejoin
			})
			time.Sleep(100 * time.Millisecond)
			c.speak(20)
			time.Sleep(100 * time.Millisecond)
			store.mu.Lock()
			store.dead = true // the process is killed
			store.mu.Unlock()
			c.quit()
			<-c.ended
			c.helpers.Wait()
			c.store = store.Store
			c.begin()
			time.Sleep(time.Second)
			want := interruptedOutput
			if rejoin > 0 { // the agent that runs the tool has come back
				want = "456 has shipped"
				if err := c.sw.ToolResult("call-1-2", want, false); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Second)
			if talk := c.talk(); !slices.Equal(talk[:3], []string{"user: u1:0-19", "call call-1-2 lookup", "output call-1-2 " + want}) {
				t.Errorf("the conversation is %q", talk)
			}
			var e *Error
			if err := c.sw.ToolResult("call-1-2", "again", false); !errors.As(err, &e) || e.Code != Conflict {
				t.Errorf("a second result: %v", err)
			}
			if err := c.sw.ToolResult("nobody's", "", false); !errors.As(err, &e) || e.Code != NotFound {
				t.Errorf("an unknown call: %v", err)
			}
			if n, _ := c.ran("call-1-2"); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
			c.end()
		})
	}
}

func TestG4SlowAndTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{transcript: func(l *fakeLeg, _ string) bool {
			for i := range 4 {
				_ = l.out(context.Background(), ToolCallOut{CallID: fmt.Sprint("c", i), Name: "lookup", Arguments: fmt.Sprint(i)})
			}
			return true
		}}, plan{}, func(cfg *Config) {
			cfg.MaxToolCalls = 3
			cfg.Times.Tool = time.Second
			cfg.RunTool = func(ctx context.Context, call ToolCallOut) (string, bool) {
				if call.CallID == "c0" {
					<-ctx.Done()
					time.Sleep(time.Second) // it does not end when it is told
				}
				return "ok", false
			}
		})
		c.speak(5)
		time.Sleep(5 * time.Second)
		var out []string
		for _, in := range inputsOf[ToolResultIn](c.leg("local").inputs) {
			out = append(out, fmt.Sprint(in.CallID, " ", in.IsError))
		}
		slices.Sort(out)
		if !slices.Equal(out, []string{"c0 true", "c1 false", "c2 false", "c3 true"}) {
			t.Errorf("the results are %q", out)
		}
		c.end()
	})
}

// TestG5LateOutput: pipecat-ai/pipecat#5337, the old model goes on after the switch.
func TestG5LateOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{words: 50, chatty: true}, plan{chatty: true}, nil)
		c.speak(20)
		time.Sleep(time.Second)
		c.switchTo(SwitchRequest{Target: "realtime", At: AtNow})
		time.Sleep(3 * time.Second)
		for _, l := range c.talk() {
			if strings.Contains(l, "ghost") || strings.Contains(l, "nobody") {
				t.Errorf("recorded: %s", l)
			}
		}
		after := false
		for _, h := range c.rec.all() {
			after = after || h.event != nil && h.event.Kind == PipelineCommitted && h.event.Epoch == 2
			if after && h.event == nil && h.turn.Epoch == 1 {
				t.Fatalf("a packet of the old leg after the commit, at %s", h.at)
			}
		}
		if n := c.sw.Counters().LateOutputs; n < 3 {
			t.Errorf("%d late outputs were counted", n)
		}
		c.end()
	})
}

// TestG6FailedSwitchLeavesAll: a leg that fails, one that never is ready, one that is called off: the old leg talks on.
func TestG6FailedSwitchLeavesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{
				c.pipeline("local", Cascade, plan{words: 100}), c.pipeline("broken", Realtime, plan{connect: 300 * time.Millisecond, fail: &LegError{Code: "auth", Message: "no"}}),
				c.pipeline("hangs", Realtime, plan{hang: true}), c.pipeline("good", Realtime, plan{}),
			}
			cfg.First = "cascade"
		})
		time.Sleep(100 * time.Millisecond)
		c.speak(10)
		time.Sleep(500 * time.Millisecond)
		for _, try := range []struct {
			r    SwitchRequest
			code Code
		}{
			{SwitchRequest{OpID: "a", Target: "broken", At: AtNow}, LegFailed},
			{SwitchRequest{OpID: "b", Target: "hangs", At: AtNow, PrepareTimeout: time.Second}, PrepareTimeout},
			{SwitchRequest{OpID: "c", Target: "good", MaxWait: time.Minute}, SwitchAborted},
			{SwitchRequest{OpID: "d", Target: "nobody"}, NotFound},
			{SwitchRequest{OpID: "e", Target: "good", At: "soon"}, InvalidArgument},
		} {
			if try.code == SwitchAborted {
				time.AfterFunc(time.Second, func() {
					if !c.sw.Abort("c") {
						t.Error("nothing to call off")
					}
				})
			}
			var e *Error
			if _, err := c.sw.Switch(t.Context(), try.r); !errors.As(err, &e) || e.Code != try.code {
				t.Errorf("%s: %v, want %s", try.r.Target, err, try.code)
			}
			if leg, _ := c.sw.Active(); leg.Name != "local" || leg.Epoch != 1 {
				t.Errorf("%+v has the floor", leg)
			}
		}
		time.Sleep(10 * time.Second)
		c.wantTalk("user: u1:0-9", "assistant: "+words("local", "a2", 1, 100)) // not one packet was missing
		if n := len(inputsOf[InterruptedIn](c.leg("local").inputs)); n > 0 {
			t.Errorf("the old leg was interrupted %d times", n)
		}
		c.end()
	})
}

// TestG7SameTargetJoins: livekit/agents#6280 and #5990, the second switch to the same target cancelled the first.
func TestG7SameTargetJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{connect: time.Second}, nil)
		w, err := c.sw.Begin(t.Context(), SwitchRequest{OpID: "a", Target: "realtime"})
		if err != nil {
			t.Fatal(err)
		}
		w2, err := c.sw.Begin(t.Context(), SwitchRequest{OpID: "b", Target: "rt"})
		if err != nil {
			t.Fatal(err)
		}
		var e *Error
		if _, err := c.sw.Begin(t.Context(), SwitchRequest{OpID: "c", Target: "rt", Instructions: "another"}); !errors.As(err, &e) || e.Code != SwitchInProgress {
			t.Errorf("another switch: %v", err)
		}
		if noop := c.switchTo(SwitchRequest{OpID: "d", Target: "local"}); !noop.Noop || noop.Epoch != 1 {
			t.Errorf("to what is active: %+v", noop)
		}
		r1, err1 := w.Wait(t.Context())
		r2, err2 := w2.Wait(t.Context())
		if err1 != nil || err2 != nil || r1.Epoch != r2.Epoch || !slices.Equal(r1.Joined, []string{"b"}) || w.Seq != w2.Seq {
			t.Errorf("%+v %v; %+v %v", r1, err1, r2, err2)
		}
		if again := c.switchTo(SwitchRequest{OpID: "e", Target: "realtime"}); !again.Noop {
			t.Errorf("again: %+v", again)
		}
		c.want("started >local 1", "committed >local 1", "started local>rt 2", "committed local>rt 2")
		c.end()
	})
}

// TestG7SwitchLoop: the realtime model, seeded with talk about switching, calls the switch tool again and again.
func TestG7SwitchLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		ask := func(target string) func(l *fakeLeg, _ string) bool {
			return func(l *fakeLeg, _ string) bool {
				_ = l.out(context.Background(), ToolCallOut{CallID: fmt.Sprint("sw", calls.Add(1)), Name: DefaultSwitchTool, Arguments: fmt.Sprintf(`{"target":%q}`, target)})
				return true
			}
		}
		c := two(t, plan{transcript: ask("realtime")}, plan{transcript: ask("realtime")}, func(cfg *Config) { cfg.SwitchTool = &SwitchTool{} })
		c.speak(10)
		time.Sleep(time.Second)
		if leg, _ := c.sw.Active(); leg.Name != "rt" {
			t.Fatalf("%s has the floor", leg.Name)
		}
		rt := c.leg("rt")
		for i := range 5 { // it was told nothing of a switch, and still asks for one; and back, though nobody has spoken
			rt.gives(t.Context(), ToolCallOut{CallID: fmt.Sprint("loop", i), Name: DefaultSwitchTool, Arguments: fmt.Sprintf(`{"target":%q}`, []string{"realtime", "cascade"}[i%2])})
			time.Sleep(100 * time.Millisecond)
		}
		for _, it := range rt.start.Seed.Items {
			if strings.Contains(line(it), "sw1") {
				t.Errorf("the seed has %s", line(it))
			}
		}
		results := inputsOf[ToolResultIn](rt.inputs)
		for i, r := range results {
			if r.IsError || !strings.Contains(r.Output, []string{"already_active", "just_switched"}[i%2]) {
				t.Errorf("answer %d is %s", i, r.Output)
			}
		}
		if k := c.sw.Counters(); len(results) != 5 || k.LoopGuards != 5 || k.Switches != 2 {
			t.Errorf("%d answers, %+v", len(results), k)
		}
		c.end()
	})
}

// TestG8AsHeard: 2FastLabs/agent-squad#561 and livekit/agents#6157: what was not heard is not kept as said.
func TestG8AsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{words: 30}, plan{}, nil)
		c.speak(10)
		time.Sleep(770 * time.Millisecond)
		c.speak(10) // 60 ms later the detector hears it
		time.Sleep(5 * time.Second)
		c.sw.Interrupt() // nothing plays
		c.speak(10)
		time.Sleep(time.Millisecond) // it has begun to answer, but not a packet was sent
		c.sw.Interrupt()
		time.Sleep(10 * time.Second)
		talk := c.talk()
		heard := 0
		for _, h := range c.rec.all() {
			if h.event == nil && h.turn == (TurnID{1, "a2"}) {
				heard++
			}
		}
		want := []string{"user: u1:0-9", "assistant: " + words("local", "a2", 1, heard/5) + " (interrupted)", "user: u2:0-9", "assistant: " + words("local", "a4", 1, 30), "user: u3:0-9"}
		if !slices.Equal(talk, want) {
			t.Errorf("the conversation is\n\t%s\nwant\n\t%s", strings.Join(talk, "\n\t"), strings.Join(want, "\n\t"))
		}
		for _, it := range c.log.Snapshot().Items {
			if m, ok := it.(*chatctx.Message); ok && m.Interrupted && len(strings.Fields(m.TextGenerated)) != 30 {
				t.Errorf("generated: %q", m.TextGenerated)
			}
		}
		c.end()
	})
}
