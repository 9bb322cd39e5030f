package gemini_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
	"sightline/switcher/internal/sockettest"
)

// TestG4RandomProvidersAndSessions: whatever comes in whatever order, what goes out is in order.
func TestG4RandomProvidersAndSessions(t *testing.T) {
	const sound = `{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"AAAQEAAAEBA="}}]}`
	messages := []string{
		`{"serverContent":` + sound + `}}`, `{"serverContent":` + sound + `,"turnComplete":true}}`, `{"serverContent":` + sound + `,"outputTranscription":{"text":"word "}}}`,
		`{"serverContent":{"generationComplete":true}}`, `{"serverContent":{"turnComplete":true}}`, `{"serverContent":{"interrupted":true}}`, `{"serverContent":{"interrupted":true,"turnComplete":true}}`,
		`{"serverContent":{"outputTranscription":{"text":"word "}}}`, `{"serverContent":{"outputTranscription":{"text":"word","finished":true}}}`, `{"serverContent":{"outputTranscription":{}}}`,
		`{"serverContent":{"inputTranscription":{"text":"word "}}}`, `{"serverContent":{"inputTranscription":{"text":"word","finished":true}}}`, `{"serverContent":{"inputTranscription":{"finished":true}}}`,
		`{"serverContent":{"modelTurn":{"parts":[{"text":"typed"}]}}}`, `{"serverContent":{"modelTurn":{"parts":[{"text":"thought","thought":true}]}}}`, `{"serverContent":{"waitingForInput":true}}`,
		`{"toolCall":{"functionCalls":[{"id":"%d","name":"f","args":{"n":%d}},{"id":"%d","name":"g"}]}}`, `{"serverContent":{"modelTurn":{"parts":[{"functionCall":{"id":"%d","name":"f","args":{"n":%d}}}]}}}`,
		`{"serverContent":{"modelTurn":{"parts":[{"functionCall":{"name":"f","args":{"n":%d}}}]}}}`, `{"toolCall":{"functionCalls":[{"id":"a b","name":"f"},{}]}}`, `{"toolCallCancellation":{"ids":["%d","%d","nobody"]}}`,
		`{"voiceActivity":{"voiceActivityType":"ACTIVITY_START"}}`, `{"voiceActivity":{"voiceActivityType":"ACTIVITY_END"}}`, `{"setupComplete":{}}`, `{"goAway":{"timeLeft":"9.5s"}}`, `{"goAway":{}}`,
		`{"sessionResumptionUpdate":{"resumable":true}}`, `{"serverContent":7}`, `{}`, `[]`,
	}
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			history := []faketest.History{faketest.Initial, faketest.AnyTime}[seed%2]
			with(t, setup{script: faketest.Script{History: history}, cfg: gemini.Config{TheirTurns: seed%4 < 2}, broken: true}, func(r *rig) {
				r.floor(seed%3 == 0)
				for range 300 {
					if n := rnd.IntN(40); n < len(messages) {
						text := messages[n]
						args := []any{}
						for i := range text[1:] {
							if text[i:i+2] == "%d" {
								args = append(args, rnd.IntN(6))
							}
						}
						r.p.Send(fmt.Sprintf(text, args...))
					} else {
						r.someInput(rnd)
					}
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				}
				r.idle(10 * time.Second)
				r.mu.Lock()
				defer r.mu.Unlock()
				if err := sockettest.Ordered(r.outs); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func (r *rig) someInput(rnd *rand.Rand) {
	now := time.Now()
	item := fmt.Sprintf("turn_%d", rnd.IntN(60))
	switch rnd.IntN(7) {
	case 0:
		r.put(switcher.CallerSpeechIn{Started: true, At: now})
	case 1:
		r.put(switcher.CallerSpeechIn{Final: true, At: now})
	case 2:
		r.put(switcher.SoundIn{PCM: make([]int16, 320), At: now})
	case 3:
		r.put(switcher.InterruptedIn{Item: item, Played: time.Duration(rnd.IntN(2000)) * time.Millisecond})
	case 4:
		r.put(switcher.PlayedIn{Item: item})
	case 5:
		r.put(switcher.ToolResultIn{CallID: fmt.Sprint(rnd.IntN(6)), Name: "f", Output: "x"})
	case 6:
		r.put(switcher.ItemIn{Item: user(item, "typed"), Respond: rnd.IntN(2) == 0})
	}
}
