package switcher

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// TestG8CrashWhilePlaying: a call brings everything into the log while the answer before it is being heard. If the process dies
// then, the log has what was heard and no more; the leg itself reads all of what it has said.
func TestG8CrashWhilePlaying(t *testing.T) {
	for name, crash := range map[string]bool{"crash": true, "no crash": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := chatctx.NewMemStore()
				store := &swarmStore{Store: disk}
				c := newCall(t, store, func(c *testCall, cfg *Config) {
					cfg.Pipelines, cfg.First = []Pipeline{c.pipeline("local", Cascade, plan{words: 10})}, "local"
				})
				time.Sleep(100 * time.Millisecond)
				c.speak(10)
				time.Sleep(310 * time.Millisecond)
				leg := c.leg("local")
				leg.gives(t.Context(), ToolCallOut{CallID: "c1", Name: "lookup", Arguments: "{}"})
				synctest.Wait()
				c.wantTalk("user: u1:0-9", "assistant: "+words("local", "a2", 1, 2)+" (interrupted)", "call c1 lookup")
				var read []string
				for _, it := range leg.start.Items() {
					read = append(read, line(it))
				}
				if got := strings.Join(read, "\n"); got != "user: u1:0-9\nassistant: "+words("local", "a2", 1, 10)+"\ncall c1 lookup" {
					t.Errorf("the leg reads\n%s", got)
				}
				if crash {
					store.mu.Lock()
					store.dead = true
					store.mu.Unlock()
					c.end()
					c.store = disk
					c.begin()
					time.Sleep(time.Minute)
					c.wantTalk("user: u1:0-9", "assistant: "+words("local", "a2", 1, 2)+" (interrupted)", "call c1 lookup", `output c1 {"status":"interrupted"}`, "assistant: "+words("local", "a1", 2, 10))
				} else {
					time.Sleep(2 * time.Second)
					c.wantTalk("user: u1:0-9", "assistant: "+words("local", "a2", 1, 10), "call c1 lookup", "output c1 result of c1", "assistant: "+words("local", "a3", 1, 10))
				}
				c.end()
			})
		})
	}
}

// TestSayIsToldWhole: what the session says is told to the leg with all its words, though it is in the log before it is heard.
func TestSayIsToldWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{}, nil)
		if err := c.sw.Say(t.Context(), SayRequest{OpID: "s", Text: "You have reached support."}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		c.leg("local").gives(context.Background(), ToolCallOut{CallID: "c1", Name: "lookup", Arguments: "{}"})
		time.Sleep(3 * time.Second)
		c.wantTalk("assistant: You have reached support.", "call c1 lookup", "output c1 result of c1", "assistant: "+words("local", "a1", 1, 5))
		items := inputsOf[ItemIn](c.leg("local").inputs)
		if len(items) != 1 || line(items[0].Item) != "assistant: You have reached support." {
			t.Errorf("the leg was told %+v", items)
		}
		c.end()
	})
}
