package gemini_test

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
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
	"sightline/switcher/gemini/live"
	"sightline/switcher/ultravox"
	ultravoxtest "sightline/switcher/ultravox/faketest"
)

// testCall is a real session with two pipelines: a is Gemini, b is Ultravox, each with a fake behind it; nobody listens.
type testCall struct {
	t   *testing.T
	s   *switcher.Switcher
	log *chatctx.Log
	a   *faketest.Provider
	b   *ultravoxtest.Provider

	mu      sync.Mutex
	tools   int
	release chan struct{} // what a tool waits for
}

func session(t *testing.T, a faketest.Script, b ultravoxtest.Script, first string, body func(c *testCall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &testCall{t: t, a: faketest.New(a), b: ultravoxtest.New(b), release: make(chan struct{})}
		var err error
		if c.log, err = chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"}); err != nil {
			t.Fatal(err)
		}
		dialA, stopA := c.a.Listen()
		dialB, stopB := c.b.Listen()
		profile := gemini.Gemini31()
		if a.History == faketest.AnyTime {
			profile = gemini.Gemini25()
		}
		pa := gemini.Config{Profile: profile, URL: "http://fake", Model: "fake", Dial: dialA}.Pipeline("a")
		pb := ultravox.Config{URL: "http://fake", Model: "fake", Dial: dialB}.Pipeline("b")
		c.s, err = switcher.New(switcher.Config{Session: "s", Log: c.log, Pipelines: []switcher.Pipeline{pa, pb}, First: first, Instructions: "Be kind.",
			Tools: func() []switcher.Tool { return []switcher.Tool{{Name: "lookup", Description: "looks up"}} },
			RunTool: func(ctx context.Context, call switcher.ToolCallOut) (string, bool) {
				c.mu.Lock()
				c.tools++
				c.mu.Unlock()
				select {
				case <-c.release:
					return "result of " + call.Arguments, false
				case <-ctx.Done():
					return "cut off", true
				}
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
		c.until("a leg", func() bool { leg, ok := c.s.Active(); return ok && leg.Name == first })
		body(c)
		if v := append(c.a.Violations(), c.b.Violations()...); len(v) > 0 {
			t.Errorf("%d rules broken, the first: %s", len(v), v[0])
		}
	})
}

func (c *testCall) until(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
	}
	c.t.Fatalf("never: %s\n%s", what, strings.Join(c.lines(), "\n"))
}

// speak says something for a second; the session's detector hears it too.
func (c *testCall) speak() {
	hear := func(pcm []int16) {
		for ; len(pcm) > 0; pcm = pcm[min(len(pcm), live.InRate/50):] {
			at := time.Now()
			time.Sleep(20 * time.Millisecond)
			c.s.Hear(live.InRate, pcm[:min(len(pcm), live.InRate/50)], at)
		}
	}
	begun := time.Now()
	hear(faketest.Tone(100 * time.Millisecond))
	c.s.CallerSpeech(true, false, begun)
	hear(faketest.Tone(900 * time.Millisecond))
	ended := time.Now()
	hear(make([]int16, live.InRate*7/10))
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

func hears(text string) func(int) string { return func(int) string { return text } }

// TestReport11ASessionRecordsInTheOrderOfSpeech with either provider, whenever the transcripts come.
func TestReport11ASessionRecordsInTheOrderOfSpeech(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		for _, late := range []bool{false, true} {
			for _, history := range []faketest.History{faketest.Initial, faketest.AnyTime} {
				t.Run(fmt.Sprint(first, ",late=", late), func(t *testing.T) {
					a := faketest.Script{History: history, LateTranscript: late, Hears: hears("yes"), Answer: answers(faketest.Answer{Text: "One."}, faketest.Answer{Text: "Two."})}
					b := ultravoxtest.Script{LateTranscript: late, Hears: hears("yes"), Answer: func(n int, _ []ultravoxtest.Line) ultravoxtest.Answer {
						return ultravoxtest.Answer{Text: []string{"One.", "Two."}[min(n, 1)]}
					}}
					session(t, a, b, first, func(c *testCall) {
						c.speak()
						c.until("the first answer", func() bool { return slices.Contains(c.lines(), "assistant: One.") })
						c.speak()
						c.recorded("user: yes", "assistant: One.", "user: yes", "assistant: Two.")
					})
				})
			}
		}
	}
}

// TestReport8ASwitchWhileAToolRuns, each way: the new provider is told of the call with its result, answers, and the tool runs once.
func TestReport8ASwitchWhileAToolRuns(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		t.Run(first, func(t *testing.T) {
			a := faketest.Script{Hears: hears("look it up"), Answer: answers(faketest.Answer{Calls: []faketest.Call{lookup}})}
			b := ultravoxtest.Script{Answer: func(int, []ultravoxtest.Line) ultravoxtest.Answer { return ultravoxtest.Answer{Text: "Shipped."} }}
			second := "b"
			if first == "b" {
				second = "a"
				a = faketest.Script{Answer: answers(faketest.Answer{Text: "Shipped."})}
				b = ultravoxtest.Script{Hears: hears("look it up"), Answer: func(int, []ultravoxtest.Line) ultravoxtest.Answer {
					return ultravoxtest.Answer{Calls: []ultravoxtest.Invocation{{ID: "i1", Name: "lookup", Parameters: `{"id":456}`}}}
				}}
			}
			session(t, a, b, first, func(c *testCall) {
				c.speak()
				c.until("a call", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.tools == 1 })
				time.Sleep(time.Second) // the transcript is final then: else the next leg would hear the turn again
				if r, err := c.s.Switch(c.t.Context(), switcher.SwitchRequest{OpID: "sw", Target: second, At: switcher.AtNow}); err != nil || r.To != second {
					t.Fatalf("%+v, %v", r, err)
				}
				close(c.release)
				c.recorded("user: look it up", `call: lookup{"id":456}`, `output: result of {"id":456}`, "assistant: Shipped.")
				if c.tools != 1 {
					t.Errorf("%d runs", c.tools)
				}
			})
		})
	}
}

// TestReport6ASessionRollsOverBeforeTheEnd: the provider goes a minute after it said so, and nobody notices.
func TestReport6ASessionRollsOverBeforeTheEnd(t *testing.T) {
	session(t, faketest.Script{GoAwayAfter: 10 * time.Second, Hears: hears("hello")}, ultravoxtest.Script{}, "a", func(c *testCall) {
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

// TestReport14ASessionDoesNotNoticeARefusedSeed.
func TestReport14ASessionDoesNotNoticeARefusedSeed(t *testing.T) {
	session(t, faketest.Script{RefuseHistory: true}, ultravoxtest.Script{Hears: hears("hello")}, "b", func(c *testCall) {
		c.speak()
		c.recorded("user: hello", "assistant: Hello.")
		if r, err := c.s.Switch(c.t.Context(), switcher.SwitchRequest{OpID: "sw", Target: "a", At: switcher.AtNow}); err != nil || r.To != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		c.speak()
		c.recorded("user: hello", "assistant: Hello.", "user: words", "assistant: Hello.")
		if s := c.a.Setup().SystemInstruction.Parts[0].Text; !strings.Contains(s, "hello") {
			t.Errorf("told: %s", s)
		}
	})
}
