package legtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// echo is the smallest leg that obeys the contract, and breaks it in one way when it is told to.
type echo struct {
	broken string
	turns  int
	floor  bool
	open   string // a long answer under way
	call   string
}

func (e *echo) Run(ctx context.Context, _ switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if e.broken == "a leak" {
		go func() { time.Sleep(time.Minute) }()
	}
	if e.broken == "speaks first" {
		_ = out(ctx, switcher.TextOut{Item: "a0", Delta: "Welcome."})
	}
	if e.broken != "never ready" {
		_ = out(ctx, switcher.ReadyOut{})
	}
	for {
		i, err := in.Next(ctx)
		if err != nil {
			switch e.broken {
			case "an error at the end":
				return err
			case "deaf to its end":
				time.Sleep(time.Minute)
			}
			return nil
		}
		e.take(ctx, i, out)
	}
}

func (e *echo) take(ctx context.Context, i switcher.Input, out switcher.Emit) {
	switch in := i.(type) {
	case switcher.FloorIn:
		e.floor = true
		if in.Respond && e.broken != "ignores the floor" {
			e.answer(ctx, "hello", out)
		}
	case switcher.ItemIn:
		m, ok := in.Item.(*chatctx.Message)
		if ok && (e.floor && in.Respond || e.broken == "answers before the floor") {
			e.answer(ctx, m.Content.Text(), out)
		}
	case switcher.CallerSpeechIn:
		if e.floor && in.Final {
			e.turns++
			t := switcher.TranscriptOut{Item: fmt.Sprint("u", e.turns), Text: "hello", Final: true}
			_ = out(ctx, t)
			if e.broken == "two transcripts" {
				_ = out(ctx, t)
			}
			e.answer(ctx, "hello", out)
		}
	case switcher.ToolResultIn:
		if in.CallID == e.call {
			text := "The tool says " + in.Output
			if e.broken == "forgets the result" {
				text = "Something."
			}
			e.say(ctx, text, out)
		}
	case switcher.InterruptedIn:
		if in.Item == e.open {
			if e.broken == "goes on after an interruption" {
				return
			}
			_ = out(ctx, switcher.TurnDoneOut{Item: e.open, Status: switcher.TurnCancelled})
			if e.broken == "late words" {
				_ = out(ctx, switcher.TextOut{Item: e.open, Delta: "late"})
			}
			e.open = ""
		}
	}
}

func (e *echo) answer(ctx context.Context, text string, out switcher.Emit) {
	switch {
	case strings.Contains(text, "tool"):
		e.turns++
		e.call = fmt.Sprint("k", e.turns)
		_ = out(ctx, switcher.ToolCallOut{CallID: e.call, Name: "oracle", Arguments: "{}"})
		if e.broken == "calls twice" {
			_ = out(ctx, switcher.ToolCallOut{CallID: e.call, Name: "oracle", Arguments: "{}"})
		}
	case strings.Contains(text, "long"):
		e.turns++
		e.open = fmt.Sprint("a", e.turns)
		_ = out(ctx, switcher.TextOut{Item: e.open, Delta: "It begins."})
	default:
		e.say(ctx, "Here I am.", out)
		if e.broken == "answers twice" {
			e.say(ctx, "Here I am.", out)
		}
	}
}

func (e *echo) say(ctx context.Context, text string, out switcher.Emit) {
	if e.turns++; e.broken == "one id for all" {
		e.turns = 1
	}
	id := fmt.Sprint("a", e.turns)
	if e.broken == "a bad id" {
		id = "turn no. 1"
	}
	_ = out(ctx, switcher.TextOut{Item: id, Delta: text})
	if e.broken != "mute" {
		_ = out(ctx, switcher.SoundOut{Item: id, Rate: 16000, PCM: make([]int16, 320), Text: text})
	}
	if e.broken != "no end" {
		_ = out(ctx, switcher.TurnDoneOut{Item: id, Status: switcher.TurnCompleted})
	}
}

func subject(broken string) Subject {
	return Subject{Leg: &echo{broken: broken}, Can: switcher.Capability{InRate: 16000, OutRate: 16000},
		Ask: "hello", AskLong: "a long story", AskTool: "use the tool", Tool: "oracle", Speech: make([]int16, 16000)}
}

const brokenLeg = "LEGTEST_BROKEN_LEG"

// TestASoundLegPasses; with the variable set it is the test that has to fail.
func TestASoundLegPasses(t *testing.T) {
	Run(t, func(*testing.T) Subject { return subject(os.Getenv(brokenLeg)) })
}

// TestBrokenLegsFail: each way of breaking the contract is found, by what the suite says about it.
func TestBrokenLegsFail(t *testing.T) {
	for broken, says := range map[string]string{
		"a leak": "unexpected goroutines", "speaks first": "before ReadyOut", "an error at the end": "when its context ended",
		"answers before the floor": "before the floor", "two transcripts": "after its final transcript", "late words": "after its end",
		"calls twice": `two calls are called`, "answers twice": "got 2 turns", "one id for all": "after its end", "a bad id": "its id is not 1 to 64", "mute": "gave none",
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestASoundLegPasses$")
			cmd.Env = append(os.Environ(), brokenLeg+"="+broken, patienceVariable+"=700ms")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("%v, and nothing that says %q:\n%.3000s", err, says, out)
			}
		})
	}
}

// TestLegsThatHangFail is the same for those that are found by waiting.
func TestLegsThatHangFail(t *testing.T) {
	for broken, says := range map[string]string{
		"never ready": "no ready within", "deaf to its end": "does not return", "ignores the floor": "no end of turn 1",
		"forgets the result": "no an answer with the tool's result", "goes on after an interruption": "no end of turn 1", "no end": "no end of turn 1",
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestASoundLegPasses$")
			cmd.Env = append(os.Environ(), brokenLeg+"="+broken, patienceVariable+"=700ms")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("%v, and nothing that says %q:\n%.3000s", err, says, out)
			}
		})
	}
}

const patienceVariable = "LEGTEST_PATIENCE"

func TestMain(m *testing.M) {
	if d, err := time.ParseDuration(os.Getenv(patienceVariable)); err == nil {
		patience = d
	}
	os.Exit(m.Run())
}
