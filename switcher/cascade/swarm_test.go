package cascade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
)

// chaos are engines that lag, fail, break off and die, by dice of their own.
type chaos struct {
	mu   sync.Mutex
	dice *rand.Rand
	n    int
}

func (c *chaos) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dice.IntN(n)
}

func (c *chaos) wait(ctx context.Context) bool {
	c.mu.Lock()
	d := time.Duration(c.dice.ExpFloat64() * float64(200*time.Millisecond))
	c.mu.Unlock()
	return sleep(ctx, d)
}

func (c *chaos) words() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return fmt.Sprintf("words %d", c.n)
}

func (c *chaos) fault() error {
	switch c.roll(12) {
	case 0:
		return down
	case 1:
		return refused
	case 2:
		return errors.New("what?")
	}
	return nil
}

type chaosEar struct{ *chaos }

func (chaosEar) Name() string { return "ear" }
func (chaosEar) Rate() int    { return rate }
func (e chaosEar) Listen(ctx context.Context, partial func(string)) (Utterance, error) {
	if err := e.fault(); err != nil || !e.wait(ctx) {
		return nil, errors.Join(err, ctx.Err())
	}
	return chaosWords{e, partial}, nil
}

type chaosWords struct {
	chaosEar
	partial func(string)
}

func (u chaosWords) Write([]int16) error { u.partial("some words"); return u.fault() }
func (u chaosWords) Close()              { u.partial("too late") }
func (u chaosWords) Finish(ctx context.Context) (string, error) {
	if !u.wait(ctx) {
		return "", ctx.Err()
	}
	if u.roll(5) == 0 {
		return "", u.fault()
	}
	return u.words(), u.fault()
}

type chaosBrain struct{ *chaos }

func (chaosBrain) Name() string { return "brain" }
func (b chaosBrain) Answer(ctx context.Context, q Request, yield func(Delta) error) (Finish, error) {
	messages, losses := project.OpenAIChat(q.Items, project.Options{Running: q.Running})
	if last := messages[len(messages)-1]; last.Role != "user" && last.Role != "tool" {
		panic(fmt.Sprintf("a request ends with the %s's words: %s", last.Role, tail(q, 20)))
	}
	for _, l := range losses {
		if l.Kind == project.LostDuplicateCall || l.Kind == project.LostEarlierOutput {
			panic(fmt.Sprintf("%+v: %s", l, tail(q, 20)))
		}
	}
	for range b.roll(6) {
		if !b.wait(ctx) {
			return Finish{}, ctx.Err()
		}
		if err := b.fault(); err != nil {
			return Finish{}, err
		}
		d := Delta{Text: "Some words of it. "}
		if len(q.Tools) > 0 && b.roll(3) == 0 {
			d = Delta{Call: &Call{ID: fmt.Sprint("call_", b.roll(3)), Name: "get", Arguments: fmt.Sprintf(`{"n":%d}`, b.roll(3))}}
		}
		if err := yield(d); err != nil {
			return Finish{}, err
		}
	}
	return Finish{Reason: "stop"}, nil
}

type chaosMouth struct{ *chaos }

func (chaosMouth) Name() string { return "mouth" }
func (chaosMouth) Rate() int    { return rate }
func (m chaosMouth) Speak(ctx context.Context, _ string, yield func([]int16) error) error {
	for range m.roll(5) {
		if !m.wait(ctx) {
			return ctx.Err()
		}
		if err := m.fault(); err != nil {
			return err
		}
		if err := yield(make([]int16, rate/10)); err != nil {
			return err
		}
	}
	return nil
}

// TestG13Swarm lets a caller, a session and failing engines do what they like, and holds every output against the contract. What
// the caller said is answered in the end, or apologised for, however the rest went.
func TestG13Swarm(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { swarm(t, seed) })
		})
	}
}

func swarm(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	own := func(n uint64) *chaos { return &chaos{dice: rand.New(rand.NewPCG(seed, n))} }
	cfg := Config{Models: []Model{chaosBrain{own(2)}, chaosBrain{own(3)}}, Timeouts: Timeouts{Tool: 2 * time.Second}, MaxItems: dice.IntN(3) * 5}
	if dice.IntN(5) > 0 {
		cfg.Recognizers = []Recognizer{chaosEar{own(4)}, chaosEar{own(5)}}
	}
	if dice.IntN(5) > 0 {
		cfg.Voices = []Voice{chaosMouth{own(6)}, chaosMouth{own(7)}}
	}
	r := newRig(t, cfg, withTools)
	r.record(&chatctx.FunctionCall{ID: "foreign1", CallID: "foreign1", Name: "get", Arguments: `{}`}) // the other two nobody knows
	answered := map[string]bool{}                                                                     // calls
	for range 60 {
		time.Sleep(time.Duration(dice.ExpFloat64() * float64(150*time.Millisecond)))
		switch dice.IntN(10) {
		case 0, 1:
			r.hears(100 * time.Millisecond)
			r.put(switcher.CallerSpeechIn{Started: true, At: r.at.Add(-50 * time.Millisecond)})
		case 2, 3, 4:
			r.put(switcher.CallerSpeechIn{Final: dice.IntN(4) > 0, At: r.at})
		case 5:
			r.types(fmt.Sprint("typed ", dice.IntN(1000)))
		case 6:
			if done := r.openTurn(); done != "" {
				r.put(switcher.InterruptedIn{Item: done, Text: "Some"})
			}
		case 7, 8:
			for _, c := range outputs[switcher.ToolCallOut](r) {
				if !answered[c.CallID] && dice.IntN(2) == 0 {
					answered[c.CallID] = true
					r.put(switcher.ToolResultIn{CallID: c.CallID, Name: c.Name, Output: "x", IsError: dice.IntN(2) == 0})
				}
			}
		case 9:
			r.put(switcher.ToolResultIn{CallID: fmt.Sprint("foreign", dice.IntN(3)), Name: "get", Output: "y"})
		}
	}
	r.put(switcher.CallerSpeechIn{Final: true, At: r.at})
	time.Sleep(5 * time.Minute)
	for _, c := range outputs[switcher.ToolCallOut](r) {
		r.put(switcher.ToolResultIn{CallID: c.CallID, Output: "late"})
	}
	time.Sleep(5 * time.Minute)
	before := len(outputs[switcher.TurnDoneOut](r))
	r.types("the last word")
	time.Sleep(5 * time.Minute)
	if len(outputs[switcher.TurnDoneOut](r)) == before {
		t.Error("the last word is not answered: the leg is stuck")
	}
	r.end()
	r.checkContract()
}

// openTurn is the turn that is being made, "" for none.
func (r *rig) openTurn() (open string) {
	for _, s := range r.all() {
		switch o := s.o.(type) {
		case switcher.TextOut:
			open = o.Item
		case switcher.SoundOut:
			open = o.Item
		case switcher.TurnDoneOut:
			open = ""
		}
	}
	return open
}

// checkContract goes through all outputs.
func (r *rig) checkContract() {
	r.t.Helper()
	open, over, finals, calls := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	sounding := ""
	goOn := func(id string) {
		if over[id] || !chatctx.ValidID(id) {
			r.t.Errorf("output of turn %q after its end", id)
		}
		open[id] = true
	}
	for _, s := range r.all() {
		switch o := s.o.(type) {
		case switcher.TextOut:
			goOn(o.Item)
		case switcher.SoundOut:
			goOn(o.Item)
			if len(o.PCM) == 0 {
				r.t.Error("an empty piece of sound")
			}
			if sounding != o.Item && open[sounding] {
				r.t.Errorf("%q sounds before %q has ended", o.Item, sounding)
			}
			sounding = o.Item
		case switcher.ToolCallOut:
			if o.Item != "" {
				goOn(o.Item)
			}
			if calls[o.CallID] {
				r.t.Errorf("call %q twice", o.CallID)
			}
			calls[o.CallID] = true
		case switcher.TurnDoneOut:
			if !open[o.Item] {
				r.t.Errorf("turn %q ends twice, or never began", o.Item)
			}
			delete(open, o.Item)
			over[o.Item] = true
		case switcher.TranscriptOut:
			if finals[o.Item] || strings.Contains(o.Text, "late") {
				r.t.Errorf("transcript %+v after its end", o)
			}
			finals[o.Item] = o.Final
		}
	}
	if len(open) > 0 {
		r.t.Errorf("turns %v have no end", open)
	}
}
