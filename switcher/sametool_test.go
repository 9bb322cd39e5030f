package switcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// asks makes a leg that calls tools as soon as the caller has said something, and says nothing.
func asks(calls ...ToolCallOut) plan {
	return plan{transcript: func(l *fakeLeg, text string) bool {
		for i, call := range calls {
			call.CallID = fmt.Sprintf("%s-%d", strings.Split(text, ":")[0], i)
			_ = l.out(context.Background(), call)
		}
		return true
	}}
}

// TestReportTenIdenticalCalls: openai/openai-realtime-api-beta#31, one request, ten identical calls. The tool runs once, each call
// has its output, and the next turn of the caller asks anew (G4).
func TestReportTenIdenticalCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := ToolCallOut{Name: "lookup", Arguments: `{"n":"456"}`}
		spaced, other := same, same
		spaced.Arguments, other.Arguments = "{ \"n\":\t\"456\" }", `{"n":"457"}`
		c := two(t, asks(same, spaced, same, other, same, same, same, same, same, same, same, same), plan{}, func(cfg *Config) { cfg.MaxToolCalls = 10 })
		for turn := 1; turn <= 2; turn++ {
			c.speak(10)
			time.Sleep(2 * time.Second)
			if _, n := c.ran(""); n != 2*turn {
				t.Errorf("after turn %d the tool ran %d times", turn, n)
			}
		}
		if k := c.sw.Counters(); k.ToolSame != 16 || k.ToolCalls != 4 {
			t.Errorf("%+v", k)
		}
		outputs := map[string]string{}
		for _, it := range c.log.Snapshot().Items {
			if o, ok := it.(*chatctx.FunctionCallOutput); ok {
				if outputs[o.CallID] != "" {
					t.Errorf("%s has two outputs", o.CallID)
				}
				outputs[o.CallID] = o.Output
			}
		}
		for i := range 12 {
			want := "result of u1-0"
			if i == 3 {
				want = "result of u1-3"
			} else if i >= 10 {
				want = "refused: more than 10 tool calls in one turn of the caller"
			}
			if got := outputs[fmt.Sprint("u1-", i)]; got != want {
				t.Errorf("u1-%d: %q, want %q", i, got, want)
			}
		}
		if n := len(inputsOf[ToolResultIn](c.leg("local").inputs)); n != 24 {
			t.Errorf("the leg was given %d results", n)
		}
		c.end()
	})
}

// TestReportToolAgainAfterSwitch: the new model asks at once for what the old one has asked for. It is given the result, and the
// same when the first call is still running; what failed is tried again.
func TestReportToolAgainAfterSwitch(t *testing.T) {
	for name, x := range map[string]struct {
		wait    time.Duration // between the caller's words and the switch
		isError bool
		runs    int
	}{"answered": {time.Second, false, 1}, "running": {10 * time.Millisecond, false, 1}, "failed": {time.Second, true, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				c := two(t, asks(ToolCallOut{Name: "lookup", Arguments: `{}`}), plan{}, func(cfg *Config) {
					cfg.RunTool = func(ctx context.Context, call ToolCallOut) (string, bool) {
						runs.Add(1)
						_ = pause(ctx, 500*time.Millisecond)
						return "shipped", x.isError
					}
				})
				c.speak(10)
				time.Sleep(x.wait)
				c.switchTo(SwitchRequest{Target: "rt", At: AtNow})
				c.leg("rt").gives(t.Context(), ToolCallOut{CallID: "mine", Name: "lookup", Arguments: `{}`})
				time.Sleep(2 * time.Second)
				if n := int(runs.Load()); n != x.runs {
					t.Errorf("the tool ran %d times, want %d", n, x.runs)
				}
				if got := c.talk(); !slices.Contains(got, "output u1-0 shipped") || !slices.Contains(got, "output mine shipped") {
					t.Errorf("the conversation is %q", got)
				}
				told := 0
				for _, in := range inputsOf[ToolResultIn](c.leg("rt").inputs) {
					if in.CallID == "mine" {
						told++
					}
				}
				if told != 1 {
					t.Errorf("the new leg was told %d times", told)
				}
				c.end()
			})
		})
	}
}

// TestTypedTurnsAreTurns: what is bounded per turn begins anew with a typed message too.
func TestTypedTurnsAreTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{tool: "lookup"}, plan{}, func(cfg *Config) { cfg.MaxToolCalls = 1 })
		for i := range 4 {
			op := chatctx.Op{ID: fmt.Sprint("t", i), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("and now?")}}
			if _, err := c.log.Append(t.Context(), chatctx.Origin{Author: "caller", At: time.Now()}, op); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		if _, n := c.ran(""); n != 4 {
			t.Errorf("the tool ran %d times: %q", n, c.talk())
		}
		c.end()
	})
}
