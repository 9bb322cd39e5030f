package switcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// TestG12QueuesAreBounded: more than anybody takes, from every side. What does not fit is dropped and counted; the rest of the call
// does not notice.
func TestG12QueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		c := two(t, plan{}, plan{}, func(cfg *Config) {
			cfg.Times.Replay = 2 * time.Second
			observe := cfg.Observe
			cfg.Observe = func(e Event) { // the session's goroutine stands still for a while
				if observe(e); e.Code == "stand still" {
					<-stuck
				}
			}
		})
		leg := c.leg("local")
		leg.gives(t.Context(), NoticeOut{Code: "stand still"})
		synctest.Wait()
		const more = 1000
		for range maxPosts + more {
			c.sw.CallerSpeech(true, false, time.Now())
		}
		if n, drops := c.sw.box.len(), c.sw.Counters().Posts; n > maxPosts || drops < more {
			t.Errorf("%d events wait, %d were dropped", n, drops)
		}
		var emitted atomic.Int64
		flood, stop := context.WithCancel(t.Context())
		leg.crew.Go(func() {
			for leg.out(flood, TextOut{Item: "flood", Delta: "x"}) == nil {
				emitted.Add(1)
			}
		})
		synctest.Wait()
		if n := emitted.Load(); n > legCredits {
			t.Errorf("%d outputs of a leg were taken", n)
		}
		stop()
		close(stuck)
		for i := range 50 * 60 { // a minute, and the caller never stops
			c.sw.Hear(testRate, frame(1, i%99), time.Now())
			time.Sleep(packet)
		}
		if kept := c.sw.ear.streams[testRate].sound; kept > 2*time.Second+c.sw.ear.preRoll || c.sw.Counters().ReplayDropped == 0 {
			t.Errorf("%s of sound are kept, %d pieces were dropped", kept, c.sw.Counters().ReplayDropped)
		}
		for _, bad := range []Output{
			SoundOut{Item: "a", Rate: testRate, PCM: make([]int16, maxPCM+1)}, SoundOut{Item: "a", Rate: 96000, PCM: make([]int16, 10)}, TextOut{Item: strings.Repeat("x", 65)},
			ToolCallOut{CallID: strings.Repeat("x", 129), Name: "lookup"}, ToolCallOut{CallID: "c", Name: " "},
		} {
			leg.gives(t.Context(), bad)
		}
		for i := range maxFinished + 50 {
			if _, err := c.sw.Switch(t.Context(), SwitchRequest{OpID: fmt.Sprint("noop-", i), Target: "local"}); err != nil {
				t.Fatal(err)
			}
		}
		c.sw.CallerSpeech(false, true, time.Now())
		time.Sleep(5 * time.Second)
		if k := c.sw.Counters(); k.BadOutputs != 5 || k.Noops != maxFinished+50 {
			t.Errorf("%+v", k)
		}
		c.end() // now the core is nobody's
		if n := len(c.sw.core.done); n > maxFinished {
			t.Errorf("%d outcomes are kept", n)
		}
	})
}

// TestG13RunLeavesNothing: legs, tools and voices that take their time to end are waited for; everybody who waited is answered.
func TestG13RunLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		linger := func(ctx context.Context, d time.Duration) {
			<-ctx.Done()
			time.Sleep(d)
			ended.Add(1)
		}
		c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
			slow := c.pipeline("slow", Cascade)
			slow.New = func() Leg {
				return legFunc(func(ctx context.Context, _ Start, in *Inbox, out Emit) error {
					_ = out(ctx, ReadyOut{})
					_ = out(ctx, ToolCallOut{CallID: "early", Name: "lookup"})
					for i, err := in.Next(ctx); err == nil && i != (FloorIn{}); i, err = in.Next(ctx) {
					}
					_ = out(ctx, ToolCallOut{CallID: "c", Name: "lookup"})
					linger(ctx, 3*time.Second)
					return nil
				})
			}
			never := c.pipeline("never", Realtime)
			never.New = func() Leg {
				return legFunc(func(ctx context.Context, _ Start, _ *Inbox, _ Emit) error { linger(ctx, 2*time.Second); return nil })
			}
			cfg.Pipelines, cfg.First = []Pipeline{slow, never}, "slow"
			cfg.RunTool = func(ctx context.Context, _ ToolCallOut) (string, bool) {
				linger(ctx, time.Second)
				return "late", false
			}
			cfg.Voice = func(ctx context.Context, _ string, _ func(int, []int16) error) error {
				linger(ctx, time.Second)
				return ctx.Err()
			}
		})
		time.Sleep(100 * time.Millisecond)
		if err := c.sw.Say(t.Context(), SayRequest{OpID: "s", Text: "Hello."}); err != nil {
			t.Fatal(err)
		}
		asked := make(chan error, 1)
		go func() {
			_, err := c.sw.Switch(context.Background(), SwitchRequest{Target: "never"})
			asked <- err
		}()
		time.Sleep(100 * time.Millisecond)
		c.end()
		if n := ended.Load(); n != 4 { // two legs, a tool, a voice; the call "early" came before the floor and was dropped
			t.Errorf("%d of 4 have ended when Run returns", n)
		}
		select {
		case err := <-asked:
			var e *Error
			if !errors.As(err, &e) || e.Code != Draining {
				t.Errorf("who waited was told %v", err)
			}
		default:
			t.Error("who waited was not answered when Run returned")
		}
		if c.wantTalk(`call c lookup`, `output c {"status":"interrupted"}`); c.sw.Counters().LateOutputs != 1 {
			t.Errorf("%+v", c.sw.Counters())
		}
		// That no goroutine is left is what synctest checks when this function returns.
	})
}
