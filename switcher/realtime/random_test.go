package realtime_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

// TestWhateverAProviderSaysTheLegKeepsItsWord: random events in random order, with few ids so that they meet, between random inputs.
func TestWhateverAProviderSaysTheLegKeepsItsWord(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			profile := profiles()[rnd.IntN(len(profiles()))]
			with(t, setup{script: faketest.Script{Hears: func(int) string { return "words" }}, cfg: realtime.Config{Profile: profile}, broken: true}, func(r *rig) {
				r.floor(rnd.IntN(2) == 0)
				for range 150 {
					if rnd.IntN(4) == 0 {
						r.put(randomInput(rnd, r))
					} else {
						r.p.Send(randomEvent(rnd))
					}
					if rnd.IntN(3) == 0 {
						r.idle(time.Duration(rnd.IntN(300)) * time.Millisecond)
					}
				}
				r.idle(time.Second)
				if r.over() {
					t.Fatalf("the leg died: %v", r.err)
				}
				keptWord(t, r)
			})
		})
	}
}

// keptWord holds all outputs against the contract.
func keptWord(t *testing.T, r *rig) {
	open, done := map[string]bool{}, map[string]bool{}
	calls, settled := map[string]bool{}, map[string]bool{}
	for i, o := range r.outs {
		switch o := o.(type) {
		case switcher.TextOut:
			if open[o.Item] = true; done[o.Item] || o.Delta == "" {
				t.Errorf("output %d: %+v after the end of its turn, or empty", i, o)
			}
		case switcher.SoundOut:
			if open[o.Item] = true; done[o.Item] || len(o.PCM) == 0 {
				t.Errorf("output %d: sound after the end of its turn, or none", i)
			}
		case switcher.TurnDoneOut:
			if done[o.Item] || !open[o.Item] {
				t.Errorf("output %d: %+v, ended before: %v, begun: %v", i, o, done[o.Item], open[o.Item])
			}
			done[o.Item] = true
		case switcher.ToolCallOut:
			if calls[o.CallID] || o.CallID == "" || o.Name == "" {
				t.Errorf("output %d: %+v", i, o)
			}
			calls[o.CallID] = true
		case switcher.TranscriptOut:
			if settled[o.Item] {
				t.Errorf("output %d: %+v after the last word", i, o)
			}
			settled[o.Item] = o.Final || o.Failed
		}
	}
}

func randomInput(rnd *rand.Rand, r *rig) switcher.Input {
	item, call := fmt.Sprint("i", rnd.IntN(4)), fmt.Sprint("c", rnd.IntN(3))
	switch rnd.IntN(7) {
	case 0: // of what the session knows
		if heard := all[switcher.SoundOut](r); len(heard) > 0 {
			item = heard[rnd.IntN(len(heard))].Item
		} else {
			item = "nobody"
		}
		return switcher.InterruptedIn{Item: item, Played: time.Duration(rnd.IntN(3)) * 50 * time.Millisecond}
	case 1:
		return switcher.PlayedIn{Item: item}
	case 2:
		return switcher.ToolResultIn{CallID: call, Name: "f", Output: "x", IsError: rnd.IntN(2) == 0}
	case 3:
		return switcher.ItemIn{Item: user(fmt.Sprint("typed", rnd.Uint32()), "hello"), Respond: rnd.IntN(2) == 0}
	case 4:
		return switcher.FloorIn{Respond: true}
	case 5:
		return switcher.CallerSpeechIn{Started: rnd.IntN(2) == 0, Final: rnd.IntN(2) == 0, At: time.Now()}
	}
	return switcher.SoundIn{PCM: faketest.Tone(20 * time.Millisecond), At: time.Now()}
}

func randomEvent(rnd *rand.Rand) string {
	resp, item, call := fmt.Sprint("r", rnd.IntN(3)), fmt.Sprint("i", rnd.IntN(4)), fmt.Sprint("c", rnd.IntN(3))
	status := []string{"completed", "incomplete", "in_progress", "", "cancelled", "failed"}[rnd.IntN(6)]
	at := fmt.Sprintf(`"response_id":%q,"item_id":%q,"content_index":0,"output_index":0`, resp, item)
	message := fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","status":%q,"content":[]}`, item, status)
	function := fmt.Sprintf(`{"id":"f%s","type":"function_call","status":%q,"call_id":%q,"name":"f","arguments":"{\"a\":%d}"}`, call, status, call, rnd.IntN(2))
	switch rnd.IntN(20) {
	case 0, 1:
		return fmt.Sprintf(`{"type":"response.created","response":{"id":%q}}`, resp)
	case 2, 3:
		return fmt.Sprintf(`{"type":"response.done","response":{"id":%q,"status":%q,"output":[%s,%s]}}`, resp, status, message, function)
	case 4:
		return fmt.Sprintf(`{"type":"response.output_item.added","response_id":%q,"item":%s}`, resp, message)
	case 5:
		return fmt.Sprintf(`{"type":"response.output_item.done","response_id":%q,"item":%s}`, resp, message)
	case 6:
		return fmt.Sprintf(`{"type":"response.output_item.done","response_id":%q,"item":%s}`, resp, function)
	case 7, 8, 9:
		return fmt.Sprintf(`{"type":"response.output_audio.delta",%s,"delta":%q}`, at, dialect.EncodePCM(faketest.Tone(100*time.Millisecond)))
	case 10, 11:
		return fmt.Sprintf(`{"type":"response.output_audio_transcript.delta",%s,"delta":"word "}`, at)
	case 12:
		return fmt.Sprintf(`{"type":"response.audio_transcript.done",%s,"transcript":"all words"}`, at)
	case 13:
		return fmt.Sprintf(`{"type":"response.output_text.delta",%s,"delta":"text "}`, at)
	case 14:
		return fmt.Sprintf(`{"type":"response.function_call_arguments.done",%s,"call_id":%q,"name":"f","arguments":"{}"}`, at, call)
	case 15:
		return fmt.Sprintf(`{"type":"input_audio_buffer.speech_started","item_id":"u%s","audio_start_ms":%d}`, item, rnd.IntN(5000))
	case 16:
		return fmt.Sprintf(`{"type":"input_audio_buffer.committed","item_id":"u%s","previous_item_id":"u%s"}`, item, item)
	case 17:
		return fmt.Sprintf(`{"type":"conversation.item.input_audio_transcription.completed","item_id":"u%s","transcript":"words"}`, item)
	case 18:
		return fmt.Sprintf(`{"type":"conversation.item.input_audio_transcription.delta","item_id":"u%s","delta":"words"}`, item)
	}
	return `{"type":"error","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"busy"}}`
}
