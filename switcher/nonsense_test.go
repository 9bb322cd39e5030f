package switcher

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	chatctx "sightline/context"
)

// TestCoreTakesNonsense gives a core any events in any order, answers of things that were never asked among them: it must not panic
// (a transition that the table does not have is a panic), and what must hold of its state holds.
func TestCoreTakesNonsense(t *testing.T) {
	var all Counters
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := newCore(policy{
			times:   Times{Prepare: time.Second, MaxWait: time.Second, Tool: time.Second, Replay: 5 * time.Second, PreRoll: 300 * time.Millisecond, Stall: time.Second, Settle: time.Second},
			bargeIn: BargeIn{MinWords: r.IntN(3)}, failover: Failover{Reopen: r.IntN(3), SameKind: seed%2 == 0, Phrase: "wait", MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second, PhraseAfter: time.Second},
			switchTool: DefaultSwitchTool, maxTools: 3, speaker: seed%5 > 0, voice: true,
		}, slog.New(slog.DiscardHandler))
		now := t0
		b := evBegin{first: "cascade", epoch: 3, last: 4, calls: []callRecord{{callID: "old", name: "lookup"}}, rejoin: time.Second}
		for _, p := range []string{"a", "b"} {
			b.pipes = append(b.pipes, Pipeline{Name: p, Kind: Cascade, Can: Capability{InRate: 8000, OutRate: 8000}})
		}
		b.pipes = append(b.pipes, Pipeline{Name: "rt", Kind: Realtime, Can: Capability{InRate: 8000, OutRate: 8000, OwnTurns: true, MaxLife: 10 * time.Second}})
		carry(c, c.handle(b, now), now)
		for range 500 {
			now = now.Add(time.Duration(r.IntN(400)) * time.Millisecond)
			carry(c, c.advance(now), now)
			e := nonsense(c, r, now)
			if r.IntN(3) == 0 {
				e = helpful(c, r)
			}
			carry(c, c.handle(e, now), now)
			if err := sound(c); err != nil {
				t.Fatalf("seed %d after %T: %v", seed, e, err)
			}
		}
		all.Switches += c.count.Switches
		all.Aborts += c.count.Aborts
		all.Failovers += c.count.Failovers
		all.Interruptions += c.count.Interruptions
		all.ToolCalls += c.count.ToolCalls
		carry(c, c.handle(evEnd{}, now), now)
		carry(c, c.ended(), now)
		for _, run := range c.runs {
			if run.state == runActive || run.state.weight() > 0 || len(run.turns) > 0 {
				t.Errorf("seed %d: at the end %s is %s with %d turns", seed, run.Name, run.state, len(run.turns))
			}
		}
		for id, k := range c.calls {
			if !k.answered && !c.unsure {
				t.Errorf("seed %d: the call %s is not answered", seed, id)
			}
		}
	}
	for _, n := range []uint64{all.Switches, all.Aborts, all.Failovers, all.Interruptions, all.ToolCalls} {
		if n < 400 {
			t.Errorf("it gets nowhere: %+v", all)
			break
		}
	}
	t.Logf("%+v", all)
}

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// carry answers what is answered at once, as the runner does.
func carry(c *core, actions []action, now time.Time) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch a.(type) {
		case aCut:
			actions = append(c.handle(evStopped{}, now), actions...)
		case aFloor:
			actions = append(c.handle(evFloored{missed: 1, seen: 1}, now), actions...)
		}
	}
}

// helpful is the event that the core waits for.
func helpful(c *core, r *rand.Rand) event {
	if ch := c.change; ch != nil && ch.run != nil {
		switch {
		case !ch.written:
			return evStarted{opID: ch.opID, seq: 1}
		case ch.run.state == runPreparing:
			return evOutput{ch.run.epoch, ReadyOut{}}
		case ch.run.state == runSettling:
			return evFlushed{ch.run.epoch}
		case ch.run.state == runCommitting:
			return evCommitted{ch.run.epoch, nil}
		}
		ch.at = AtNow
	}
	for id, k := range c.calls {
		if k.running && r.IntN(2) == 0 {
			return evToolLogged{id}
		}
	}
	return evFlushed{}
}

// nonsense is an event; the epochs and ids in it are often those of something that is there.
func nonsense(c *core, r *rand.Rand, now time.Time) event {
	epoch := c.last - min(c.last, uint64(r.IntN(3)))
	if c.active != nil && r.IntN(2) == 0 {
		epoch = c.active.epoch
	}
	item := fmt.Sprint("i", r.IntN(6))
	said := []TurnID{{epoch, item}, {epoch, "say." + item}}[r.IntN(2)]
	target := []string{"a", "b", "rt", "x", "cascade", "realtime"}[r.IntN(6)]
	var err error
	if r.IntN(4) == 0 {
		err = errors.New("no")
	}
	out := []Output{
		ReadyOut{}, ReadyOut{}, CallerSpeechOut{Item: item, Started: r.IntN(2) == 0, At: now}, TranscriptOut{Item: item, Text: "one two", Final: r.IntN(2) == 0, Failed: r.IntN(5) == 0, Agent: r.IntN(3) == 0},
		TextOut{Item: item, Delta: "word "}, SoundOut{Item: item, Rate: 8000, PCM: make([]int16, 800), Text: "word "}, SoundOut{Item: item, Rate: 1}, TurnDoneOut{Item: item, Status: TurnCompleted},
		TurnDoneOut{Item: item, Status: TurnFailed}, ToolCallOut{CallID: item, Name: "lookup", Arguments: fmt.Sprint(r.IntN(2))}, ToolCallOut{Name: "lookup"},
		ToolCallOut{CallID: "s" + item, Name: DefaultSwitchTool, Arguments: fmt.Sprintf(`{"target":%q}`, target)}, ToolCancelOut{CallIDs: []string{item}}, NoticeOut{Code: "expires"}, TextOut{Item: "no id!"},
	}
	events := []event{
		evSwitch{SwitchRequest: SwitchRequest{OpID: fmt.Sprint("op", r.IntN(30)), Target: target, At: []At{AtNow, AtTurnEnd, AtAfterSpeech}[r.IntN(3)], MaxWait: time.Second, PrepareTimeout: time.Second}, ticket: 1},
		evAbort{fmt.Sprint("op", r.IntN(30)), make(chan bool, 1)}, evRegister{Pipeline{Name: "x", Kind: Realtime, Can: Capability{InRate: 16000}}}, evUnregister{target},
		evSeeded{epoch, 1, 1}, evFlushed{epoch}, evFlushed{epoch}, evCommitted{epoch, err}, evCommitted{epoch, nil}, evDied{epoch, err},
		evSpeech{true, false, now}, evSpeech{false, r.IntN(2) == 0, now}, evSpeech{false, true, now}, evHeard{HeardTurn{TurnID: TurnID{epoch, item}, Played: 50 * time.Millisecond, Started: now, Done: r.IntN(3) == 0, Stopped: r.IntN(9) == 0}},
		evInterrupt{}, evSay{SayRequest{OpID: item, Text: "hello", Interruptible: r.IntN(2) == 0}}, evSaySound{said, 8000, make([]int16, 400)}, evSayDone{said, err}, evToolLogged{item}, evToolDone{item, "out", false},
		evLateTool{evToolDone{"old", "out", false}, make(chan error, 1)}, evEntry{chatctx.Entry{Seq: 9, Op: chatctx.OpAppend, Item: &chatctx.Message{ID: item, Role: chatctx.RoleUser}}},
		evEntry{chatctx.Entry{Seq: 9, Op: chatctx.OpAppend, Item: &chatctx.FunctionCallOutput{CallID: item}}}, evBarrier{func() {}},
	}
	if c.change != nil && r.IntN(2) == 0 {
		return evStarted{opID: c.change.opID, seq: 1, dup: r.IntN(20) == 0, err: err}
	}
	if n := r.IntN(3); n > 0 {
		return evOutput{epoch, out[r.IntN(len(out))]}
	}
	return events[r.IntN(len(events))]
}

// sound says what of a core's state must not be.
func sound(c *core) error {
	active := 0
	for _, r := range c.runs {
		switch {
		case r.state == runActive:
			active++
		case r.state.weight() > 0 && (c.change == nil || c.change.run != r):
			return fmt.Errorf("%s %d is %s, and no switch is under way to it", r.Name, r.epoch, r.state)
		}
	}
	switch {
	case active > 1:
		return fmt.Errorf("%d legs are active", active)
	case c.active != nil && c.active.state != runActive:
		return fmt.Errorf("the floor has one that is %s", c.active.state)
	case c.active != nil && c.lost != nil:
		return errors.New("the floor is taken and empty")
	case len(c.held) > 0 && !c.holding():
		return fmt.Errorf("%d events are held, and nothing holds them", len(c.held))
	case c.floored != nil:
		return errors.New("a leg was not told all")
	case c.change != nil && c.change.run == nil && c.lost == nil:
		return errors.New("a switch to nothing")
	case len(c.starts) > maxStarts || len(c.done) > maxFinished || len(c.timers) > 200:
		return fmt.Errorf("%d turns, %d outcomes, %d timers are kept", len(c.starts), len(c.done), len(c.timers))
	}
	for _, t := range c.order {
		if t.stopped || t.run != nil && t.run.turns[t.item] != t {
			return fmt.Errorf("the turn %v is played and over", t.id)
		}
	}
	return nil
}
