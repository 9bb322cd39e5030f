package realtime_test

import (
	"strings"
	"testing"
	"time"

	"sightline/switcher/legtest"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

// TestTheLegDoesWhatASessionExpects of every leg, with each profile, in real time.
func TestTheLegDoesWhatASessionExpects(t *testing.T) {
	answer := func(_ int, conversation []dialect.Item) faketest.Answer {
		for i := len(conversation) - 1; i >= 0; i-- {
			switch it := conversation[i]; {
			case it.Type == dialect.ItemCallOutput:
				return faketest.Answer{Text: "It says: " + it.Output + "."}
			case strings.Contains(it.Text(), "story"):
				return faketest.Answer{Text: "Once upon a time there was", Sound: time.Minute, Pace: 50 * time.Millisecond}
			case strings.Contains(it.Text(), "tool"):
				return faketest.Answer{Text: "One moment.", Calls: []faketest.Call{{ID: "call_of_the_model", Name: "ask", Arguments: "{}"}}}
			case it.Role == "user":
				return faketest.Answer{Text: "Two words."}
			}
		}
		return faketest.Answer{Text: "Hello."}
	}
	for _, p := range profiles() {
		t.Run(p.Provider, func(t *testing.T) {
			legtest.Run(t, func(t *testing.T) legtest.Subject {
				provider := faketest.New(faketest.Script{Answer: answer, OwnIDs: !p.ClientIDs, IgnoresCreate: p.Answers == realtime.AnswersAlways})
				dial, stop := provider.Listen()
				pipeline := realtime.Config{Profile: p, URL: "http://fake/v1", Model: "fake", Dial: dial}.Pipeline("fake")
				s := legtest.Subject{Leg: pipeline.New(), Can: pipeline.Can, Ask: "Say something short.", AskLong: "Tell me a story.", AskTool: "Use the tool.", Tool: "ask",
					Close: func() {
						stop()
						if v := provider.Violations(); len(v) > 0 {
							t.Errorf("%d rules broken, the first: %s", len(v), v[0])
						}
					}}
				if p.Transcribes { // the suite waits for a transcript
					s.Speech = faketest.Tone(time.Second)
				}
				return s
			})
		})
	}
}

func profiles() []realtime.Profile {
	return []realtime.Profile{realtime.OpenAI(), realtime.Azure(), realtime.XAI(), realtime.Local(), realtime.LocalAI(), realtime.VLLM()}
}
