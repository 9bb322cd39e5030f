package ultravox_test

import (
	"strings"
	"testing"
	"time"

	"sightline/switcher/legtest"
	"sightline/switcher/ultravox"
	"sightline/switcher/ultravox/faketest"
)

// script answers what the suite of all legs asks.
func script(_ int, said []faketest.Line) faketest.Answer {
	for i := len(said) - 1; i >= 0; i-- {
		switch l := said[i]; {
		case l.Role == "tool":
			return faketest.Answer{Text: "It says: " + l.Text + "."}
		case l.Role == "note":
		case strings.Contains(l.Text, "story"):
			return faketest.Answer{Text: "Once upon a time there was", Sound: time.Minute, Pace: 50 * time.Millisecond}
		case strings.Contains(l.Text, "tool."):
			return faketest.Answer{Text: "One moment.", Calls: []faketest.Invocation{{ID: "invocation/1", Name: "ask", Parameters: "{}"}}}
		case l.Role == "user":
			return faketest.Answer{Text: "Two words."}
		}
	}
	return faketest.Answer{Text: "Hello."}
}

// TestTheLegDoesWhatASessionExpects of every leg, in real time.
func TestTheLegDoesWhatASessionExpects(t *testing.T) {
	legtest.Run(t, func(t *testing.T) legtest.Subject {
		provider := faketest.New(faketest.Script{Answer: script})
		dial, stop := provider.Listen()
		pipeline := ultravox.Config{URL: "http://fake", Model: "fake", Dial: dial}.Pipeline("fake")
		return legtest.Subject{Leg: pipeline.New(), Can: pipeline.Can, Ask: "Say something short.", AskLong: "Tell me a story.", AskTool: "Use the tool.", Tool: "ask",
			Speech: faketest.Tone(time.Second),
			Close: func() {
				stop()
				if v := provider.Violations(); len(v) > 0 {
					t.Errorf("%d rules broken, the first: %s", len(v), v[0])
				}
			}}
	})
}
