package ultravox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/sockettest"
	"sightline/switcher/ultravox/faketest"
)

// TestG4RandomProvidersAndSessions: whatever comes in whatever order, what goes out is in order.
func TestG4RandomProvidersAndSessions(t *testing.T) {
	messages := []string{
		`{"type":"state","state":"listening"}`, `{"type":"state","state":"thinking"}`, `{"type":"state","state":"speaking"}`, `{"type":"call_started"}`, `{"type":"playback_clear_buffer"}`,
		`{"type":"transcript","role":"agent","medium":"voice","delta":"word ","final":false,"ordinal":%d}`, `{"type":"transcript","role":"agent","medium":"voice","text":"word word","final":true,"ordinal":%d}`,
		`{"type":"transcript","role":"agent","medium":"voice","text":"other","final":false,"ordinal":%d}`, `{"type":"transcript","role":"agent","final":true,"ordinal":%d}`,
		`{"type":"transcript","role":"user","medium":"voice","text":"word","final":false,"ordinal":%d}`, `{"type":"transcript","role":"user","medium":"voice","text":"word word","final":true,"ordinal":%d}`,
		`{"type":"transcript","role":"user","medium":"voice","delta":" ","final":true,"ordinal":%d}`, `{"type":"transcript","role":"user","medium":"text","text":"typed","final":true,"ordinal":%d}`,
		`{"type":"client_tool_invocation","toolName":"f","invocationId":"%d","parameters":{"n":%d}}`, `{"type":"client_tool_invocation","toolName":"g","invocationId":"a b"}`, `{"type":"client_tool_invocation"}`,
		`{"type":"pong","timestamp":1}`, `{"type":"debug","message":"x"}`, `{}`, `[]`, `{"type":7}`,
	}
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			with(t, setup{script: faketest.Script{Lenient: true}}, func(r *rig) {
				r.floor(seed%3 == 0)
				for range 300 {
					switch n := rnd.IntN(40); {
					case n < len(messages):
						var args []any
						for i := range messages[n][1:] {
							if messages[n][i:i+2] == "%d" {
								args = append(args, rnd.IntN(12))
							}
						}
						r.p.Send(fmt.Sprintf(messages[n], args...))
					case n < len(messages)+8:
						r.p.Play(make([]byte, 2*rnd.IntN(3000)+rnd.IntN(50)/49))
					default:
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
		r.put(switcher.ToolResultIn{CallID: fmt.Sprint(rnd.IntN(12)), Name: "f", Output: "x"})
	case 6:
		r.put(switcher.ItemIn{Item: user(item, "typed"), Respond: rnd.IntN(2) == 0})
	}
}
