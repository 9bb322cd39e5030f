package realtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

// call is a real session with two pipelines, a and b, each a leg and a fake provider of its own; nobody listens.
type testCall struct {
	t   *testing.T
	s   *switcher.Switcher
	log *chatctx.Log
	a,
	b *faketest.Provider

	mu      sync.Mutex
	events  []switcher.Event
	tools   int
	release chan struct{} // what a tool waits for
}

func session(t *testing.T, a, b faketest.Script, body func(c *testCall)) {
	synctest.Test(t, func(t *testing.T) {
		c := &testCall{t: t, a: faketest.New(a), b: faketest.New(b), release: make(chan struct{})}
		var err error
		if c.log, err = chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"}); err != nil {
			t.Fatal(err)
		}
		config := func(p *faketest.Provider) (realtime.Config, func()) {
			dial, stop := p.Listen()
			return realtime.Config{Profile: realtime.OpenAI(), URL: "ws://fake/v1", Model: "fake", Dial: dial}, stop
		}
		ca, stopA := config(c.a)
		cb, stopB := config(c.b)
		c.s, err = switcher.New(switcher.Config{Session: "s", Log: c.log, Pipelines: []switcher.Pipeline{ca.Pipeline("a"), cb.Pipeline("b")}, First: "a", Instructions: "Be kind.",
			Tools: func() []switcher.Tool { return []switcher.Tool{{Name: "lookup", Description: "looks up"}} },
			RunTool: func(ctx context.Context, call switcher.ToolCallOut) (string, bool) {
				c.mu.Lock()
				c.tools++
				c.mu.Unlock()
				select {
				case <-c.release:
					time.Sleep(200 * time.Millisecond)
					return "result of " + call.Arguments, false
				case <-ctx.Done():
					return "cut off", true
				}
			},
			Observe: func(e switcher.Event) {
				c.mu.Lock()
				c.events = append(c.events, e)
				c.mu.Unlock()
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			_ = c.s.Run(ctx)
			close(ended)
		}()
		defer func() {
			cancel()
			<-ended
			stopA()
			stopB()
		}()
		c.until("a leg", func() bool { leg, ok := c.s.Active(); return ok && leg.Name == "a" })
		body(c)
		for _, p := range []*faketest.Provider{c.a, c.b} {
			if v := p.Violations(); len(v) > 0 {
				t.Errorf("%d rules broken, the first: %s", len(v), v[0])
			}
		}
	})
}

func (c *testCall) until(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
	}
	c.t.Fatalf("never: %s\n%s", what, strings.Join(c.lines(), "\n"))
}

func (c *testCall) hear(pcm []int16) {
	for len(pcm) > 0 {
		n := min(len(pcm), dialect.Rate/50)
		at := time.Now()
		time.Sleep(20 * time.Millisecond)
		for _, rate := range c.s.Rates() {
			c.s.Hear(rate, pcm[:n:n], at)
		}
		pcm = pcm[n:]
	}
}

// speak says something for a second; the session's detector hears it too.
func (c *testCall) speak() {
	begun := time.Now()
	c.hear(faketest.Tone(100 * time.Millisecond))
	c.s.CallerSpeech(true, false, begun)
	c.hear(faketest.Tone(900 * time.Millisecond))
	ended := time.Now()
	c.hear(make([]int16, dialect.Rate*7/10))
	c.s.CallerSpeech(false, true, ended)
}

// lines are the conversation, without ids.
func (c *testCall) lines() (all []string) {
	for _, item := range c.log.Snapshot().Items {
		switch it := item.(type) {
		case *chatctx.Message:
			all = append(all, string(it.Role)+": "+it.Content.Text())
		case *chatctx.FunctionCall:
			all = append(all, "call: "+it.Name+it.Arguments)
		case *chatctx.FunctionCallOutput:
			all = append(all, "output: "+it.Output)
		}
	}
	return all
}

func (c *testCall) recorded(want ...string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%q", want), func() bool { return slices.Equal(c.lines(), want) })
	time.Sleep(3 * time.Second)
	synctest.Wait()
	if got := c.lines(); !slices.Equal(got, want) {
		c.t.Errorf("then %q", got)
	}
}

func TestReport11ASessionRecordsInTheOrderOfSpeech(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late=", late), func(t *testing.T) {
			script := faketest.Script{LateTranscript: late, Hears: func(n int) string { return []string{"yes", "yes"}[n] }, Answer: texts(faketest.Answer{Text: "One."}, faketest.Answer{Text: "Two."})}
			session(t, script, faketest.Script{}, func(c *testCall) {
				c.speak()
				c.until("the first answer", func() bool { return slices.Contains(c.lines(), "assistant: One.") })
				c.speak()
				c.recorded("user: yes", "assistant: One.", "user: yes", "assistant: Two.")
			})
		})
	}
}

func TestG4ASessionRunsAStormOfCallsOnce(t *testing.T) {
	call := faketest.Call{ID: "call_1", Name: "lookup", Arguments: `{"id":456}`}
	script := faketest.Script{Hears: func(int) string { return "look it up" }, Answer: texts(faketest.Answer{Text: "One moment.", Calls: []faketest.Call{call, call, call}}, faketest.Answer{Text: "Shipped."})}
	session(t, script, faketest.Script{}, func(c *testCall) {
		close(c.release)
		c.speak()
		c.recorded("user: look it up", "assistant: One moment.", `call: lookup{"id":456}`, `output: result of {"id":456}`, "assistant: Shipped.")
		if c.tools != 1 {
			t.Errorf("%d runs", c.tools)
		}
	})
}

// TestReport8ASwitchWhileAToolRuns: the new provider gets the call with its result, answers, and the tool runs once.
func TestReport8ASwitchWhileAToolRuns(t *testing.T) {
	script := faketest.Script{Hears: func(int) string { return "look it up" }, Answer: texts(faketest.Answer{Calls: []faketest.Call{{ID: "call_1", Name: "lookup", Arguments: `{"id":456}`}}})}
	session(t, script, faketest.Script{Answer: texts(faketest.Answer{Text: "Shipped."})}, func(c *testCall) {
		c.speak()
		c.until("a call", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.tools == 1 })
		if r, err := c.s.Switch(c.t.Context(), switcher.SwitchRequest{OpID: "sw", Target: "b", At: switcher.AtNow}); err != nil || r.To != "b" {
			t.Fatalf("%+v, %v", r, err)
		}
		close(c.release)
		c.until("an answer", func() bool { return slices.Contains(c.lines(), "assistant: Shipped.") })
		c.recorded("user: look it up", `call: lookup{"id":456}`, `output: result of {"id":456}`, "assistant: Shipped.")
		if c.tools != 1 {
			t.Errorf("%d runs", c.tools)
		}
		if s := c.b.Session(); !strings.Contains(*s.Instructions, "look it up") {
			t.Errorf("the new provider is told: %s", *s.Instructions)
		}
	})
}

func TestReport6ASessionRollsOverBeforeTheEnd(t *testing.T) {
	script := faketest.Script{ExpiresIn: 20 * time.Second, Hears: func(int) string { return "hello" }}
	session(t, script, faketest.Script{}, func(c *testCall) {
		c.speak()
		c.recorded("user: hello", "assistant: Hello.")
		first := c.s.Epoch()
		c.until("another epoch", func() bool { return c.s.Epoch() > first })
		if n := c.s.Counters(); n.Failovers != 0 || n.Rollovers == 0 {
			t.Errorf("%+v", n)
		}
		c.speak()
		c.recorded("user: hello", "assistant: Hello.", "user: hello", "assistant: Hello.")
	})
}

// TestASwitchInMidSpeechLosesNoWord: the new provider hears the turn from its beginning, faster than it was spoken, and answers it.
func TestASwitchInMidSpeechLosesNoWord(t *testing.T) {
	session(t, faketest.Script{Hears: func(int) string { return "half of it" }}, faketest.Script{Hears: func(int) string { return "all of it" }, Answer: texts(faketest.Answer{Text: "Yes."})}, func(c *testCall) {
		begun := time.Now()
		c.hear(faketest.Tone(100 * time.Millisecond))
		c.s.CallerSpeech(true, false, begun)
		c.hear(faketest.Tone(4 * time.Second))
		w, err := c.s.Begin(c.t.Context(), switcher.SwitchRequest{OpID: "sw", Target: "b", At: switcher.AtNow})
		if err != nil {
			t.Fatal(err)
		}
		c.hear(faketest.Tone(time.Second))
		if _, err := w.Wait(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := time.Now()
		c.hear(make([]int16, dialect.Rate))
		c.s.CallerSpeech(false, true, ended)
		c.recorded("user: all of it", "assistant: Yes.")
		if heard := c.b.Heard(); heard < 6*time.Second {
			t.Errorf("the new provider heard %v of 5.1 s of speech and 1 s of silence", heard)
		}
	})
}
