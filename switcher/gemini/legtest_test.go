package gemini_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sightline/context/project"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
	"sightline/switcher/legtest"
)

// script answers what the suite of all legs asks.
func script(_ int, conversation []project.GeminiContent) faketest.Answer {
	for i := len(conversation) - 1; i >= 0; i-- {
		text := faketest.Say(conversation[i : i+1])
		switch {
		case conversation[i].Parts[0].FunctionResponse != nil:
			return faketest.Answer{Text: "It says: " + conversation[i].Parts[0].FunctionResponse.Response.Output + "."}
		case strings.Contains(text, "story"):
			return faketest.Answer{Text: "Once upon a time there was", Sound: time.Minute, Pace: 50 * time.Millisecond}
		case strings.Contains(text, "tool."):
			return faketest.Answer{Text: "One moment.", Calls: []faketest.Call{{ID: "call-of-the-model", Name: "ask", Arguments: "{}", Twice: true}}}
		case conversation[i].Role == "user":
			return faketest.Answer{Text: "Two words."}
		}
	}
	return faketest.Answer{Text: "Hello."}
}

type flavour struct {
	profile gemini.Profile
	history faketest.History
	theirs  bool
}

// flavours are the generations, with either detector of turns.
func flavours() map[string]flavour {
	never := gemini.Gemini31()
	never.History, never.Seeds = gemini.HistoryNone, never.Seeds[1:2]
	m := map[string]flavour{}
	for _, theirs := range []bool{false, true} {
		m[fmt.Sprintf("3.1,theirs=%t", theirs)] = flavour{gemini.Gemini31(), faketest.Initial, theirs}
		m[fmt.Sprintf("2.5,theirs=%t", theirs)] = flavour{gemini.Gemini25(), faketest.AnyTime, theirs}
		m[fmt.Sprintf("none,theirs=%t", theirs)] = flavour{never, faketest.Never, theirs}
	}
	return m
}

// TestTheLegDoesWhatASessionExpects of every leg, with each generation and either detector, in real time.
func TestTheLegDoesWhatASessionExpects(t *testing.T) {
	for name, f := range flavours() {
		t.Run(name, func(t *testing.T) {
			legtest.Run(t, func(t *testing.T) legtest.Subject {
				provider := faketest.New(faketest.Script{Answer: script, History: f.history})
				dial, stop := provider.Listen()
				pipeline := gemini.Config{Profile: f.profile, URL: "http://fake", Model: "fake", Dial: dial, TheirTurns: f.theirs, SeedGrace: 20 * time.Millisecond}.Pipeline("fake")
				return legtest.Subject{Leg: pipeline.New(), Can: pipeline.Can, Ask: "Say something short.", AskLong: "Tell me a story.", AskTool: "Use the tool.", Tool: "ask",
					Speech: faketest.Tone(time.Second),
					Close: func() {
						stop()
						if v := provider.Violations(); len(v) > 0 {
							t.Errorf("%d rules broken, the first: %s", len(v), v[0])
						}
					}}
			})
		})
	}
}
