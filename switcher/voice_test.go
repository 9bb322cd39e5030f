package switcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heardFor is how long a turn was heard.
func (c *testCall) heardFor(id TurnID) (d time.Duration) {
	for _, h := range c.rec.all() {
		if h.event == nil && h.turn == id {
			d += packet
		}
	}
	return d
}

// TestReportTextWithoutSound: openai/openai-realtime-api-beta#72, after a history of text the answers are text too. The session's
// voice speaks them, and what is heard of it is what is recorded (G8).
func TestReportTextWithoutSound(t *testing.T) {
	answer := words("local", "a2", 1, 5)
	slow := func(ctx context.Context, text string, yield func(int, []int16) error) error { // a word a second, made as fast as it is played
		for range strings.Fields(text) {
			if err := yield(testRate, make([]int16, testRate)); err != nil {
				return err
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
		return nil
	}
	late := func(ctx context.Context, text string, yield func(int, []int16) error) error {
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		return slow(ctx, text, yield)
	}
	broken := func(context.Context, string, func(int, []int16) error) error { return errors.New("out of breath") }
	breaks := func(ctx context.Context, text string, yield func(int, []int16) error) error {
		return errors.Join(yield(testRate, make([]int16, 2*testRate)), errors.New("out of breath"))
	}
	for name, x := range map[string]struct {
		voice func(context.Context, string, func(int, []int16) error) error
		cut   time.Duration // after the end of the caller's turn; 0: not
		line  string        // of the conversation, "" none
		heard time.Duration
	}{
		"spoken":              {nil, 0, "assistant: " + answer, 5 * wordLong},
		"cut off":             {nil, 290 * time.Millisecond, "assistant: " + words("local", "a2", 1, 2) + " (interrupted)", 280 * time.Millisecond},
		"cut off, half made":  {slow, 2500 * time.Millisecond, "assistant: " + words("local", "a2", 1, 2) + " (interrupted)", 2490 * time.Millisecond}, // how long it will be is not known yet
		"cut off, not begun":  {late, 500 * time.Millisecond, "", 0},
		"slow":                {slow, 0, "assistant: " + answer, 5 * time.Second},
		"no voice":            {nil, -1, "assistant: " + answer, 0},
		"the voice is broken": {broken, 0, "assistant: " + answer, 0},
		"the voice breaks":    {breaks, 0, "assistant: local-a2-1-w0 (interrupted)", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := two(t, plan{textOnly: true}, plan{}, func(cfg *Config) {
					if x.voice != nil {
						cfg.Voice = x.voice
					}
					if x.cut < 0 {
						cfg.Voice = nil
					}
				})
				c.speak(10)
				if x.cut > 0 {
					time.Sleep(x.cut)
					c.sw.Interrupt()
				}
				time.Sleep(7 * time.Second)
				want := []string{"user: u1:0-9"}
				if x.line != "" {
					want = append(want, x.line)
				}
				c.wantTalk(want...)
				if d := c.heardFor(TurnID{1, "a2"}); (d - x.heard).Abs() > packet {
					t.Errorf("heard for %s, want %s", d, x.heard)
				}
				if cut := inputsOf[InterruptedIn](c.leg("local").inputs); x.cut > 0 && (len(cut) != 1 || "assistant: "+cut[0].Text+" (interrupted)" != x.line && x.line != "") {
					t.Errorf("the leg was told %+v", cut)
				}
				if spoken := c.sw.Counters().ReadAloud == 1; spoken != (x.cut >= 0) {
					t.Errorf("%+v", c.sw.Counters())
				}
				c.end()
			})
		})
	}
}

// TestTextSpokenAfterDeath: the leg dies while its words are spoken; they are spoken to their end, and only then the next one
// has the floor.
func TestTextSpokenAfterDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{textOnly: true, die: time.Second, dieErr: &LegError{Code: "connection", Retryable: true}}, plan{}, nil)
		c.speak(10)
		time.Sleep(3 * time.Second)
		c.wantTalk("user: u1:0-9", "assistant: "+words("local", "a2", 1, 5))
		if d := c.heardFor(TurnID{1, "a2"}); d != 5*wordLong {
			t.Errorf("heard for %s", d)
		}
		c.end()
	})
}

// TestAnswerFailedIsSaid: no silence instead of an answer: an apology, once in a turn of the caller.
func TestAnswerFailedIsSaid(t *testing.T) {
	for name, voiceless := range map[string]bool{"spoken": false, "written": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := two(t, plan{transcript: func(l *fakeLeg, _ string) bool {
					for range 3 {
						_ = l.out(context.Background(), NoticeOut{Code: NoticeAnswerFailed, Message: "server_error"})
					}
					return true
				}}, plan{}, func(cfg *Config) {
					cfg.Failover.Phrase, cfg.Failover.Apology = "One moment, please.", "Sorry, say it again."
					if voiceless {
						cfg.Voice = nil
					}
				})
				for range 2 {
					c.speak(10)
					time.Sleep(2 * time.Second)
				}
				c.wantTalk("user: u1:0-9", "assistant: Sorry, say it again.", "user: u2:0-9", "assistant: Sorry, say it again.")
				if n := c.sw.Counters().Apologies; n != 2 {
					t.Errorf("%d apologies", n)
				}
				heard := slices.ContainsFunc(c.rec.all(), func(h happening) bool { return h.event == nil })
				if heard == voiceless {
					t.Errorf("heard: %v", heard)
				}
				c.end()
			})
		})
	}
}
