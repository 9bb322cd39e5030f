package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/local"
)

// The second swarm: the real program, the real local engines and real sound, under random schedules of speech, barge-ins, typed
// messages, tool calls, switches and an agent that comes and goes. The first one, with fakes and a virtual clock, is
// switcher.TestSwarm. SIGHTLINE_LIVE_SWARM is the number of runs, SIGHTLINE_LIVE_SWARM_FROM the first seed.

// liveLong is how long one schedule is.
const liveLong = 40 * time.Second

// live is a call under a schedule.
type live struct {
	t      *testing.T
	s      *served
	caller *talker
	rng    *rand.Rand
	trace  []string
	began  time.Time
	work   sync.WaitGroup // switches on their way

	utterances [][]int16
	spoken     int
	typed      []string
	agent      func() // takes the remote leg away; nil: it is not there

	mu       sync.Mutex
	entries  []chatctx.Entry
	finals   []wire.Transcript // of the caller
	outcomes map[string]int    // of switches
}

func TestE2ESwarmOfRealCalls(t *testing.T) {
	first, n := uint64(1), 1
	if v := os.Getenv("SIGHTLINE_LIVE_SWARM"); v != "" {
		n, _ = strconv.Atoi(v)
	}
	if v := os.Getenv("SIGHTLINE_LIVE_SWARM_FROM"); v != "" {
		first, _ = strconv.ParseUint(v, 10, 64)
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { liveRun(t, seed) })
	}
}

func liveRun(t *testing.T, seed uint64) {
	s := serve(t, "--pipeline", "local")
	l := &live{t: t, s: s, caller: callAndTalk(t, s, "demo"), rng: rand.New(rand.NewPCG(seed, 3)), began: time.Now(), outcomes: map[string]int{}}
	for _, text := range []string{"My order number is four seven one one.", "What was my order number?", "Thank you.", "Please look up order four seven one one."} {
		var pcm []int16
		if err := l.caller.voice.Speak(t.Context(), text, func(piece []int16) error { pcm = append(pcm, piece...); return nil }); err != nil {
			t.Fatal(err)
		}
		l.utterances = append(l.utterances, pcm)
	}
	leave := l.watch()
	defer leave()
	defer func() {
		if l.agent != nil {
			l.agent()
		}
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(l.trace, "\n"))
		}
	}()
	l.come()
	l.speak(0)
	s.answered("demo", 0)
	for time.Since(l.began) < liveLong && !t.Failed() {
		l.step()
	}
	l.work.Wait()
	l.quiet()
	l.stillAlive()
	l.quiet()
	l.check()
	l.mu.Lock()
	t.Logf("%d utterances, %d typed messages, %d entries, switches %v", l.spoken, len(l.typed), len(l.entries), l.outcomes)
	if l.outcomes["committed"] < 3 || len(l.finals) < 3 {
		t.Errorf("it gets nowhere: switches %v, %d transcripts", l.outcomes, len(l.finals))
	}
	l.mu.Unlock()
}

// client runs an attached agent until stop.
func (l *live) client(cfg agentclient.Config) (c *agentclient.Client, stop func()) {
	cfg.URL, cfg.Session, cfg.WaitForSession = l.s.URL, "demo", true
	c, err := agentclient.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Errorf("the agent %s ended with %v", cfg.AgentID, err)
		}
	}
}

// watch keeps all entries and what the caller was understood to say.
func (l *live) watch() (stop func()) {
	_, stop = l.client(agentclient.Config{AgentID: "watcher", FromStart: true, Want: wire.Want{Context: true, Transcripts: true}, Handler: agentclient.Handler{
		Entry: func(e chatctx.Entry) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.entries = append(l.entries, e)
		},
		Transcript: func(m wire.Transcript) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if m.Final && m.Who == "caller" && strings.TrimSpace(m.Text) != "" {
				l.finals = append(l.finals, m)
			}
		},
	}})
	return stop
}

// come offers the remote leg: the engines of this machine in an agent's hands.
func (l *live) come() {
	made, err := local.New(local.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	engines := made.Cascade()
	_, stop := l.client(agentclient.Config{AgentID: "remote", Legs: []agentclient.Leg{{
		Name: "remote", Kind: switcher.Realtime, Seed: switcher.SeedItems, InRate: engines.Recognizers[0].Rate(), OutRate: engines.Voices[0].Rate(),
		New: func() switcher.Leg { return cascade.New(engines) },
	}}})
	l.agent = stop
	l.s.untilLeg("demo", "remote", true)
}

func (l *live) note(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf("%7d ms  ", time.Since(l.began).Milliseconds())+fmt.Sprintf(format, args...))
}

// step does one thing, and lets some time pass.
func (l *live) step() {
	pauses := []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 4 * time.Second}
	switch n := l.rng.IntN(20); {
	case n < 8:
		l.speak(l.rng.IntN(len(l.utterances)))
	case n < 11:
		text := []string{"thanks", "look up my order", "what was my order number?"}[l.rng.IntN(3)]
		id := fmt.Sprint("typed-", len(l.typed))
		l.typed = append(l.typed, id)
		l.note("types %q as %s", text, id)
		l.s.types("demo", id, text)
	case n < 18:
		l.ask([]string{"local", "local-realtime", "remote", "cascade", "realtime"}[l.rng.IntN(5)], []string{"now", "turn_end", "after_speech"}[l.rng.IntN(3)])
	case l.agent != nil:
		l.note("the agent goes")
		l.agent()
		l.agent = nil
	default:
		l.note("the agent comes")
		l.come()
	}
	time.Sleep(pauses[l.rng.IntN(len(pauses))]) // the schedule: not a wait for anything
}

// speak says something, and half of the time waits until it is said: what comes next otherwise comes into the middle of it.
func (l *live) speak(i int) {
	pcm := l.utterances[i]
	l.note("says utterance %d", i)
	l.caller.Say(l.caller.voice.Rate(), pcm)
	l.spoken++
	if long := time.Duration(len(pcm)) * time.Second / time.Duration(l.caller.voice.Rate()); l.rng.IntN(2) == 0 {
		time.Sleep(long + 800*time.Millisecond) // the schedule: until the turn is over
	}
}

// ask asks for a switch without waiting for it.
func (l *live) ask(target, at string) {
	body := fmt.Sprintf(`{"op_id":"live-%d","target":%q,"at":%q,"max_wait_ms":4000}`, len(l.trace), target, at)
	l.note("switch to %s at %s", target, at)
	l.work.Go(func() {
		status, _, answer := l.s.call("POST", "/v1/sessions/demo/pipeline", "application/json", body)
		var r struct {
			Noop bool
			Code string
		}
		if err := json.Unmarshal(answer, &r); err != nil {
			l.t.Errorf("switch to %s: %d %s", target, status, answer)
			return
		}
		out := r.Code
		switch {
		case status == 200 && r.Noop:
			out = "noop"
		case status == 200:
			out = "committed"
		case !slices.Contains([]string{"switch_in_progress", "not_found", "leg_failed", "prepare_timeout", "switch_aborted"}, r.Code):
			l.t.Errorf("switch to %s: %d %s", target, status, answer)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outcomes[out]++
	})
}

// quiet waits until nothing has come into the log for a while.
func (l *live) quiet() {
	seen, since := -1, time.Now()
	await(l.t, 90*time.Second, "nothing happens any more", func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.entries); n != seen {
			seen, since = n, time.Now()
		}
		return time.Since(since) > 8*time.Second, fmt.Sprintf("%d entries", seen)
	})
}

// stillAlive: whoever has the floor answers. What, depends on how the engines understood a caller who talks over everything.
func (l *live) stillAlive() {
	before := len(messages(l.s.conversation("demo")))
	l.typed = append(l.typed, "typed-last")
	l.s.types("demo", "typed-last", "what was my order number?")
	_, answer := l.s.answered("demo", before)
	l.t.Logf("after all that the answer is %q", answer)
}

// check looks at the log and at what the caller received.
func (l *live) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, answered, outcome := map[string]int{}, map[string]int{}, map[string]string{}
	epoch, floor := uint64(0), ""
	for i, e := range l.entries {
		if e.Seq != uint64(i)+1 {
			l.t.Errorf("G1: entry %d is the %dth", e.Seq, i+1)
		}
		switch it := e.Item.(type) {
		case *chatctx.FunctionCall:
			called[it.CallID]++
		case *chatctx.FunctionCallOutput:
			if answered[it.CallID]++; called[it.CallID] == 0 {
				l.t.Errorf("G4: the output of %s is before its call", it.CallID)
			}
		case *chatctx.PipelineSwitch:
			if was := outcome[it.OpID]; it.State == "started" && was != "" || it.State != "started" && was != "started" {
				l.t.Errorf("G6: %s is %s after %q", it.OpID, it.State, was)
			}
			outcome[it.OpID] = it.State
			if it.State != "committed" {
				continue
			}
			if it.Epoch <= epoch || it.From != floor {
				l.t.Errorf("G5: epoch %d (%s>%s) after epoch %d of %q", it.Epoch, it.From, it.To, epoch, floor)
			}
			epoch, floor = it.Epoch, it.To
			continue
		}
		if strings.HasPrefix(e.OpID, "rec:") && e.Epoch != epoch {
			l.t.Errorf("G5: entry %d (%s, %s) is of epoch %d in epoch %d", e.Seq, e.OpID, e.Op, e.Epoch, epoch)
		}
	}
	for id, n := range called {
		if n != 1 || answered[id] != 1 {
			l.t.Errorf("G4: %s is called %d times and answered %d times", id, n, answered[id])
		}
	}
	for op, state := range outcome {
		if state == "started" {
			l.t.Errorf("G6: the switch %s is open", op)
		}
	}
	l.checkWords()
	checkStream(l.t, l.caller)
}

// checkWords: what the caller said and typed is there once; of what was said to them, nothing is half written.
func (l *live) checkWords() {
	said, ids := map[string]int{}, map[string]int{}
	turns := 0
	items := l.s.conversation("demo")
	for _, item := range items {
		m, ok := item.(*chatctx.Message)
		if !ok {
			continue
		}
		ids[m.ID]++
		if m.Content.Text() == "" {
			l.t.Errorf("G8: %s is there without a word", m.ID)
		}
		if m.Role == chatctx.RoleUser && !slices.Contains(l.typed, m.ID) {
			said[m.Content.Text()]++
			turns++
		}
	}
	for _, id := range l.typed {
		if ids[id] != 1 {
			l.t.Errorf("the typed message %s is there %d times", id, ids[id])
		}
	}
	final := map[string]int{}
	for _, f := range l.finals {
		final[f.Text]++
	}
	for text, n := range final {
		if said[text] < n {
			l.t.Errorf("%q was understood %d times and is there %d times", text, n, said[text])
		}
	}
	if turns > l.spoken || turns == 0 {
		l.t.Errorf("the caller spoke %d times; there are %d turns:\n%s", l.spoken, turns, strings.Join(messages(items), "\n"))
	}
}
