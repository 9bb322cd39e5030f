package switcher

import (
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

func TestOneLegAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{connect: 50 * time.Millisecond, tool: "lookup"})}
			cfg.First = "cascade"
		})
		time.Sleep(100 * time.Millisecond)
		c.speak(20)
		time.Sleep(3 * time.Second)
		c.want("started >local 1", "committed >local 1", "user: u1:0-19", "call call-1-2 lookup", "output call-1-2 result of call-1-2",
			"assistant: local-a3-1-w0 local-a3-1-w1 local-a3-1-w2 local-a3-1-w3 local-a3-1-w4")
		c.end()
	})
}

func TestSwitchAtTurnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{}), c.pipeline("rt", Realtime, plan{connect: 100 * time.Millisecond})}
			cfg.First = "cascade"
		})
		time.Sleep(100 * time.Millisecond)
		c.speak(20)
		time.Sleep(time.Millisecond)
		res, err := c.sw.Switch(t.Context(), SwitchRequest{OpID: "s1", Target: "realtime"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", res)
		c.speak(10)
		time.Sleep(3 * time.Second)
		c.want("started >local 1", "committed >local 1", "user: u1:0-19", "started local>rt 2", "assistant: local-a2-1-w0 local-a2-1-w1 local-a2-1-w2 local-a2-1-w3 local-a2-1-w4",
			"committed local>rt 2", "user: u2:0-9", "assistant: rt-a2-2-w0 rt-a2-2-w1 rt-a2-2-w2 rt-a2-2-w3 rt-a2-2-w4")
		c.end()
	})
}
