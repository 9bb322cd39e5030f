package switcher

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReportSeedRefused: yagudaev/voiceclaw#248, the provider closes with 1007 right after the history. It is told by instructions
// then, once, and the one who asked for the switch sees only that it came about.
func TestReportSeedRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{refuse: true, connect: 100 * time.Millisecond}, nil)
		c.speak(10)
		time.Sleep(3 * time.Second)
		res := c.switchTo(SwitchRequest{OpID: "op", Target: "realtime"})
		seed, _ := c.sw.Seed(res.Epoch)
		if res.Epoch != 3 || seed.Mode != SeedInstructions || !strings.Contains(seed.Instructions, "u1:0-9") || res.SeededItems < 2 {
			t.Errorf("%+v, seeded with %+v", res, seed)
		}
		c.want("started >local 1", "committed >local 1", "user: u1:0-9", "assistant: "+words("local", "a2", 1, 5), "started local>rt 2", "committed local>rt 3")
		if k := c.sw.Counters(); k.Reseeds != 1 || k.Aborts != 0 || k.Failovers != 0 {
			t.Errorf("%+v", k)
		}
		c.speak(10)
		time.Sleep(3 * time.Second)
		if got := c.talk(); !slices.Contains(got, "user: u2:0-9") {
			t.Errorf("after it: %q", got)
		}
		c.end()
	})
}

// TestSeedRefusedTwice: instructions are refused too, or not taken at all, or there is no time left: the switch is aborted.
func TestSeedRefusedTwice(t *testing.T) {
	refusal := &LegError{Code: CodeSeed, Message: "1007", Retryable: true}
	for name, x := range map[string]struct {
		plans []plan
		seeds []SeedMode
		legs  int
		code  Code
	}{
		"twice":             {[]plan{{fail: refusal}}, []SeedMode{SeedHybrid, SeedInstructions}, 2, LegFailed},
		"instructions best": {[]plan{{fail: refusal}}, []SeedMode{SeedInstructions, SeedItems}, 1, LegFailed},
		"items only":        {[]plan{{fail: refusal}}, []SeedMode{SeedItems}, 1, LegFailed},
		"too long":          {[]plan{{fail: &LegError{Code: CodeSeed}}}, []SeedMode{SeedItems, SeedInstructions}, 1, LegFailed},
		"late":              {[]plan{{fail: refusal, connect: 700 * time.Millisecond}, {connect: 700 * time.Millisecond}}, []SeedMode{SeedItems, SeedInstructions}, 2, PrepareTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := two(t, plan{}, plan{}, nil)
				p := c.pipeline("fussy", Realtime, x.plans...)
				p.Can.Seeds = x.seeds
				if err := c.sw.Register(p); err != nil {
					t.Fatal(err)
				}
				_, err := c.sw.Switch(t.Context(), SwitchRequest{Target: "fussy", PrepareTimeout: time.Second})
				var e *Error
				if !errors.As(err, &e) || e.Code != x.code {
					t.Errorf("the switch: %v", err)
				}
				if n := len(c.made) - 1; n != x.legs {
					t.Errorf("%d legs were made, want %d", n, x.legs)
				}
				if leg, _ := c.sw.Active(); leg.Name != "local" {
					t.Errorf("%+v has the floor", leg)
				}
				c.end()
			})
		})
	}
}

// TestSeedRefusedAtFailover: the next leg refuses its seed while the floor is empty.
func TestSeedRefusedAtFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &LegError{Code: "connection", Message: "reset", Retryable: true}
		c := two(t, plan{}, plan{die: time.Second, dieErr: gone, refuse: true}, nil)
		c.switchTo(SwitchRequest{Target: "rt"})
		time.Sleep(2500 * time.Millisecond)
		if leg, _ := c.sw.Active(); leg.Name != "rt" || c.sw.Counters().Reseeds != 3 || c.sw.Counters().Failovers != 2 {
			t.Errorf("%+v has the floor, %+v", leg, c.sw.Counters())
		}
		c.end()
	})
}
