package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is t0 and so many seconds.
func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func openLog(t testing.TB, s chatctx.Store) *chatctx.Log {
	t.Helper()
	l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// apply carries out what a Core wants; every operation must be accepted, and none known.
func apply(t testing.TB, l *chatctx.Log, out []Out, now time.Time) {
	t.Helper()
	for _, o := range out {
		ack, err := l.Append(t.Context(), chatctx.Origin{Author: o.Author, Epoch: o.Epoch, At: now}, o.Op)
		if err != nil || ack.Duplicate {
			t.Fatalf("op %s: %+v, %v", o.Op.ID, ack, err)
		}
	}
}

// said is an Event with the time of its report.
type said struct {
	reported float64
	Event
}

// play feeds reports, in the order given, and the passing of time between them. A deadline at which nothing
// happens would be a loop that never sleeps.
func play(t testing.TB, core *Core, l *chatctx.Log, events ...said) {
	t.Helper()
	for _, e := range events {
		reported := at(e.reported)
		for {
			due, ok := core.Deadline()
			if !ok || due.After(reported) {
				break
			}
			now := due
			if now.Before(t0) {
				now = t0
			}
			before := len(core.queue) + len(core.waiting)
			apply(t, l, core.Advance(now), now)
			if again, ok := core.Deadline(); ok && !again.After(due) && len(core.queue)+len(core.waiting) == before {
				t.Fatalf("nothing happened at the deadline %v", due.Sub(t0))
			}
		}
		if e.At.IsZero() {
			e.At = reported
		}
		apply(t, l, core.Handle(e.Event, reported), reported)
	}
}

// show is the conversation in one line for each item.
func show(items chatctx.Items) string {
	var b strings.Builder
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.Message:
			fmt.Fprintf(&b, "%s: %s", it.Role, it.Content.Text())
			if it.Interrupted {
				fmt.Fprintf(&b, " [cut of: %s]", it.TextGenerated)
			}
		case *chatctx.FunctionCall:
			fmt.Fprintf(&b, "call %s(%s)", it.Name, it.Arguments)
		case *chatctx.FunctionCallOutput:
			fmt.Fprintf(&b, "output %s: %s", it.Name, it.Output)
			if it.IsError {
				b.WriteString(" [error]")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func wantLog(t testing.TB, l *chatctx.Log, want ...string) {
	t.Helper()
	if got := show(l.Snapshot().Items); got != strings.Join(want, "\n")+"\n" && (got != "" || strings.Join(want, "") != "") {
		t.Errorf("recorded\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

func user(id, text string) Event { return Event{Kind: Final, Who: Caller, Item: id, Text: text} }

func starts(who Speaker, id string, seconds float64) Event {
	return Event{Kind: SpeechStarted, Who: who, Item: id, At: at(seconds)}
}

func delta(id, text string, audio time.Duration) Event {
	return Event{Kind: Delta, Who: Assistant, Item: id, Text: text, Audio: audio}
}

func done(id string) Event { return Event{Kind: Done, Who: Assistant, Item: id} }
