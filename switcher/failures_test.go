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

// awayStore is a store that does not answer for a while.
type awayStore struct {
	chatctx.Store
	until atomic.Pointer[time.Time]
}

func (s *awayStore) goes(d time.Duration) {
	t := time.Now().Add(d)
	s.until.Store(&t)
}

func (s *awayStore) Append(ctx context.Context, session string, e chatctx.Entry) error {
	if t := s.until.Load(); t != nil && time.Now().Before(*t) {
		return errors.New("the disk is away")
	}
	return s.Store.Append(ctx, session, e)
}

// TestG6StoreAwayAtCommit: while the outcome of a commit is open neither leg is heard; when the store is back it is committed.
func TestG6StoreAwayAtCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{Store: chatctx.NewMemStore()}
		c := newCall(t, store, func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{think: time.Second}), c.pipeline("rt", Realtime, plan{connect: 500 * time.Millisecond})}
			cfg.First = "cascade"
		})
		time.Sleep(time.Second)
		c.speak(10)                        // until 1.4 s; the answer begins at 2.4 s
		time.Sleep(300 * time.Millisecond) // it is recorded
		w, err := c.sw.Begin(t.Context(), SwitchRequest{Target: "realtime", At: AtNow})
		if err != nil {
			t.Fatal(err)
		}
		store.goes(4 * time.Second) // the leg is ready in half a second
		time.Sleep(2 * time.Second)
		for _, h := range c.rec.all() {
			if h.event == nil {
				t.Fatalf("a packet of %v while the commit is open", h.turn)
			}
		}
		if leg, _ := c.sw.Active(); leg.Name != "local" {
			t.Errorf("%+v has the floor", leg)
		}
		if res, err := w.Wait(t.Context()); err != nil || res.To != "rt" {
			t.Errorf("%+v, %v", res, err)
		}
		time.Sleep(3 * time.Second)
		c.wantTalk("user: u1:0-9", "assistant: "+words("rt", "a1", 2, 5))
		c.end()
	})
}

// TestG6StoreAwayBeforeCommit: what was said cannot be recorded in time, so the old leg goes on with what was held of it.
func TestG6StoreAwayBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{Store: chatctx.NewMemStore()}
		c := newCall(t, store, func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{words: 60}), c.pipeline("rt", Realtime, plan{connect: 500 * time.Millisecond})}
			cfg.First = "cascade"
		})
		time.Sleep(time.Second)
		c.speak(10)
		w, err := c.sw.Begin(t.Context(), SwitchRequest{Target: "realtime", At: AtNow})
		if err != nil {
			t.Fatal(err)
		}
		store.goes(10 * time.Second)
		var e *Error
		if _, err := w.Wait(t.Context()); !errors.As(err, &e) || e.Code != EngineUnavailable {
			t.Errorf("%v", err)
		}
		local := c.leg("local")
		c.speak(10)
		time.Sleep(20 * time.Second)
		if n := len(inputsOf[InterruptedIn](local.inputs)); n != 1 {
			t.Errorf("the old leg was told %d times that its turn was cut off", n)
		}
		talk := c.talk()
		if len(talk) != 4 || talk[2] != "user: u2:0-9" || talk[3] != "assistant: "+words("local", "a4", 1, 60) {
			t.Errorf("the conversation is %q", talk)
		}
		if all := c.lines(); !slices.Contains(all, "aborted local>rt 2") {
			t.Errorf("the log has %q", all)
		}
		c.end()
	})
}

// TestG6WordsTakenBack: for a commit that does not come about the caller's words were taken back, since the next leg would have heard
// them. Their transcript comes, and is recorded.
func TestG6WordsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{Store: chatctx.NewMemStore()}
		c := newCall(t, store, func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{late: time.Second, think: 10 * time.Second}), c.pipeline("rt", Realtime, plan{connect: 3 * time.Second})}
			cfg.First = "cascade"
		})
		time.Sleep(time.Second)
		w, err := c.sw.Begin(t.Context(), SwitchRequest{Target: "realtime", At: AtNow})
		if err != nil {
			t.Fatal(err)
		}
		store.goes(10 * time.Second)
		c.speak(10) // until 0.4 s, transcript at 1.4 s: it cannot be written
		time.Sleep(2100 * time.Millisecond)
		c.speak(10) // until 2.9 s, transcript at 3.9 s; the new leg is ready at 3.0 s
		var e *Error
		if _, err := w.Wait(t.Context()); !errors.As(err, &e) || e.Code != EngineUnavailable {
			t.Errorf("%v", err)
		}
		time.Sleep(30 * time.Second)
		if talk := c.talk(); len(talk) < 2 || talk[0] != "user: u1:0-9" || talk[1] != "user: u2:0-9" {
			t.Errorf("the conversation is %q", talk)
		}
		c.end()
	})
}

// TestDeathDuringCommit: the new leg dies while its commit is on its way. The switch has happened, and fail-over goes on from it.
func TestDeathDuringCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{Store: chatctx.NewMemStore()}
		c := newCall(t, store, func(c *testCall, cfg *Config) {
			cfg.Pipelines = []Pipeline{c.pipeline("local", Cascade, plan{}), c.pipeline("rt", Realtime, plan{connect: 100 * time.Millisecond})}
			cfg.First, cfg.Failover.Reopen = "cascade", -1
		})
		time.Sleep(time.Second)
		w, err := c.sw.Begin(t.Context(), SwitchRequest{Target: "realtime", At: AtNow})
		if err != nil {
			t.Fatal(err)
		}
		store.goes(time.Second)
		time.Sleep(500 * time.Millisecond)
		c.leg("rt").die(&LegError{Code: "connection", Message: "reset", Retryable: true})
		if res, err := w.Wait(t.Context()); err != nil || res.To != "rt" {
			t.Errorf("%+v, %v", res, err)
		}
		time.Sleep(2 * time.Second)
		c.want("started >local 1", "committed >local 1", "started local>rt 2", "committed local>rt 2", "started rt>local 3", "committed rt>local 3")
		c.end()
	})
}

// TestG12LegThatDoesNotRead is given up, and another takes over.
func TestG12LegThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCall(t, chatctx.NewMemStore(), func(c *testCall, cfg *Config) {
			deaf := c.pipeline("deaf", Cascade, plan{})
			deaf.New = func() Leg {
				return legFunc(func(ctx context.Context, _ Start, _ *Inbox, out Emit) error {
					_ = out(ctx, ReadyOut{})
					<-ctx.Done()
					return nil
				})
			}
			cfg.Pipelines = []Pipeline{deaf, c.pipeline("local", Cascade, plan{})}
			cfg.First, cfg.Failover.Reopen = "deaf", -1
		})
		time.Sleep(time.Second)
		for i := range DefaultInboxWords + 10 {
			if _, err := c.log.Append(t.Context(), chatctx.Origin{Author: "agent", At: time.Now()}, chatctx.Op{ID: fmt.Sprint(i), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleDeveloper, Content: chatctx.TextContent("x")}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if leg, _ := c.sw.Active(); leg.Name != "local" {
			t.Errorf("%+v has the floor", leg)
		}
		c.end()
	})
}

// TestG12EmitWaits: a leg that makes sound without end waits for the speaker; a turn without end does not hold up the next for ever.
func TestG12EmitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{transcript: func(l *fakeLeg, _ string) bool {
			for i := range 1000 { // 100 s of it
				_ = l.out(context.Background(), SoundOut{Item: "endless", Rate: testRate, PCM: make([]int16, testRate/10)})
				l.mu.Lock()
				l.items = i
				l.mu.Unlock()
			}
			_ = l.out(context.Background(), SoundOut{Item: "next", Rate: testRate, PCM: make([]int16, testRate/10), Text: "Next."})
			_ = l.out(context.Background(), TurnDoneOut{Item: "next", Status: TurnCompleted})
			return true
		}}, plan{}, func(cfg *Config) { cfg.Times.Egress = 5 * time.Second })
		c.speak(5)
		time.Sleep(time.Second)
		l := c.leg("local")
		l.mu.Lock()
		made := l.items
		l.mu.Unlock()
		if made > 50+10+10+legCredits { // what waits, what the speaker has, what was played
			t.Errorf("%d pieces were taken", made)
		}
		time.Sleep(130 * time.Second)
		if talk := c.talk(); !slices.Contains(talk, "assistant: Next.") {
			t.Errorf("the conversation is %q", talk)
		}
		c.end()
	})
}

// TestSayThatMustBeHeard is not stopped by the caller; what is said after it is.
func TestSayThatMustBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := two(t, plan{}, plan{}, nil)
		if err := c.sw.Say(t.Context(), SayRequest{OpID: "law", Text: "This call is recorded.", Rate: testRate, PCM: make([]int16, 2*testRate)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		c.speak(10)
		time.Sleep(5 * time.Second)
		if talk := c.talk(); len(talk) != 3 || talk[0] != "assistant: This call is recorded." {
			t.Errorf("the conversation is %q", talk)
		}
		for _, bad := range []SayRequest{{}, {OpID: "no id!", Text: "x"}, {Text: "", PCM: make([]int16, 10)}, {PCM: make([]int16, maxPCM+1), Rate: testRate}} {
			if err := c.sw.Say(t.Context(), bad); err == nil {
				t.Errorf("taken: %q %d %d", bad.Text, bad.Rate, len(bad.PCM))
			}
		}
		c.end()
	})
}

// TestReplayAtAnotherRate: the next leg wants a rate that nobody wanted when the caller began to speak.
func TestReplayAtAnotherRate(t *testing.T) {
	e := newEar(300*time.Millisecond, 10*time.Second)
	e.setRates([]int{16000})
	at := t0
	for i := range 50 {
		pcm := make([]int16, 320)
		for k := range pcm {
			pcm[k] = int16(i*320 + k)
		}
		e.hear(16000, pcm, at)
		at = at.Add(packet)
	}
	e.mark(t0.Add(500 * time.Millisecond))
	b := NewInbox(24000, 20*time.Second)
	e.turnTo(b, 24000, false, true)
	n, last := 0, int16(-1)
	for {
		in, ok := b.take()
		if !ok {
			break
		}
		s := in.(SoundIn)
		n += len(s.PCM)
		for _, v := range s.PCM {
			if v < last {
				t.Fatalf("sample %d after %d", v, last)
			}
			last = v
		}
	}
	if want := 800 * 24; n != want { // ms from 200 to 1000
		t.Errorf("%d samples, want %d", n, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	log, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	leg := func() Leg { return echoLeg(false) }
	good := Pipeline{Name: "a.b-c_1", Kind: Cascade, New: leg}
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"session", Config{Session: "no session", Log: log}}, {"log", Config{Session: "s"}},
		{"name", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: "no name", Kind: Cascade, New: leg}}}},
		{"name", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: "cascade", Kind: Cascade, New: leg}}}},
		{"name", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: strings.Repeat("a", 65), Kind: Cascade, New: leg}}}},
		{"kind", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: "a", Kind: "chain", New: leg}}}},
		{"new", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: "a", Kind: Cascade}}}},
		{"in_rate", Config{Session: "s", Log: log, Pipelines: []Pipeline{{Name: "a", Kind: Cascade, New: leg, Can: Capability{InRate: 1}}}}},
		{"pipelines", Config{Session: "s", Log: log, Pipelines: []Pipeline{good, good}}},
	} {
		var e *Error
		if _, err := New(tc.cfg); !errors.As(err, &e) || e.Field != tc.field || e.Code != InvalidArgument {
			t.Errorf("%s: %v", tc.field, err)
		}
	}
	if _, err := New(Config{Session: "s", Log: log, Pipelines: []Pipeline{good}}); err != nil {
		t.Error(err)
	}
}
