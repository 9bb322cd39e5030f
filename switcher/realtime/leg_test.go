package realtime_test

import (
	"slices"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

var history = chatctx.Items{
	user("u1", "Where is my order?"),
	&chatctx.FunctionCall{ID: "c1", CallID: "call_with_an_id_longer_than_32_characters", Name: "lookup_order", Arguments: `{"id":456}`},
	&chatctx.FunctionCallOutput{ID: "o1", CallID: "call_with_an_id_longer_than_32_characters", Name: "lookup_order", Output: `{"state":"shipped"}`},
	assistant("a1", "It has been shipped."),
}

func TestSetupSendsOneFullSessionAndThenTheSeed(t *testing.T) {
	s := setup{start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Instructions: "Be kind.", Items: history},
		Tools: []switcher.Tool{{Name: "look", Description: "d"}}}, cfg: realtime.Config{Voice: "marin", Language: "en", Silence: 400 * time.Millisecond}}
	with(t, s, func(r *rig) {
		r.ready()
		got := kinds(r.p.Got())
		want := []string{"session.update", "conversation.item.create", "conversation.item.create", "conversation.item.create", "conversation.item.create"}
		if !slices.Equal(got, want) {
			t.Fatalf("sent %v", got)
		}
		se := r.p.Session()
		turns, _ := se.Audio.Input.TurnDetection.Get()
		if *se.Instructions != "Be kind." || !slices.Equal(se.OutputModalities, []string{"audio"}) || len(se.Tools) != 1 || string(se.Audio.Output.Voice) != `"marin"` ||
			*turns.CreateResponse || *turns.InterruptResponse || *turns.SilenceDurationMs != 400 || se.Audio.Input.Transcription.Value.Language != "en" {
			t.Errorf("%+v %+v", se, turns)
		}
		items := r.p.Items()
		if items[0].ID != "u1" || items[1].CallID != items[2].CallID || items[3].Text() != "It has been shipped." {
			t.Errorf("%+v", items)
		}
		for i, e := range sent[*dialect.ItemCreate](r)[1:] {
			if e.PreviousItemID != items[i].ID {
				t.Errorf("item %d names %q before it, want %q", i+1, e.PreviousItemID, items[i].ID)
			}
		}
	})
}

func TestNothingIsAnsweredBeforeTheFloor(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.ready()
		r.put(switcher.ItemIn{Item: user("t1", "typed"), Respond: true})
		spoken := time.Now()
		r.speak(time.Second)
		r.idle(5 * time.Second)
		if n := len(sent[*dialect.ResponseCreate](r)); n != 0 || r.p.Heard() != 0 || len(r.outs) != 1 {
			t.Fatalf("%d answers asked for, %v of sound sent, outputs %v", n, r.p.Heard(), r.outs)
		}
		r.put(switcher.FloorIn{})
		r.done(2) // what was typed, and what was said, which the provider had not heard yet
		if at := all[switcher.CallerSpeechOut](r)[0].At; at.Sub(spoken).Abs() > 400*time.Millisecond {
			t.Errorf("what was said before the floor is told to have begun %v after it was", at.Sub(spoken))
		}
		if se := r.p.Session(); !*se.Audio.Input.TurnDetection.Value.CreateResponse {
			t.Error("create_response is still off")
		}
	})
}

// TestAnAnswerBeforeTheFloorIsCancelled: by a server that obeys nothing.
func TestAnAnswerBeforeTheFloorIsCancelled(t *testing.T) {
	with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Text: "Hello there", Pace: 50 * time.Millisecond})}}, func(r *rig) {
		r.ready()
		r.p.Send(`{"type":"response.created","event_id":"e","response":{"id":"early"}}`)
		r.p.Send(`{"type":"response.output_audio.delta","event_id":"e","response_id":"early","item_id":"i","delta":"AAAA"}`)
		r.p.Send(`{"type":"response.done","event_id":"e","response":{"id":"early","status":"completed","output":[{"type":"function_call","status":"completed","call_id":"c","name":"f","arguments":"{}"}]}}`)
		r.until("response.cancel", func() bool { return len(sent[*dialect.ResponseCancel](r)) == 1 })
		r.floor(true)
		r.done(1)
		if c := r.leg.Counters(); c.EarlyAnswers != 1 || len(all[switcher.ToolCallOut](r)) != 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestSpeechIsAnsweredInSoundWithItsText(t *testing.T) {
	with(t, setup{script: faketest.Script{Hears: func(int) string { return "what is this" }, Answer: texts(faketest.Answer{Text: "It is a cat.", Sound: time.Second})}}, func(r *rig) {
		r.floor(false)
		began := time.Now()
		r.speak(time.Second)
		r.done(1)
		item := all[switcher.TurnDoneOut](r)[0]
		if text, sound := r.said(item.Item); text != "It is a cat." || sound != time.Second || item.Status != switcher.TurnCompleted {
			t.Errorf("%q, %v, %v", text, sound, item)
		}
		speech := all[switcher.CallerSpeechOut](r)
		if len(speech) != 2 || !speech[0].Started || speech[1].Started || speech[0].At.Sub(began).Abs() > 310*time.Millisecond || speech[1].At.Sub(began) < 1400*time.Millisecond {
			t.Errorf("%+v", speech)
		}
		said := all[switcher.TranscriptOut](r)
		if last := said[len(said)-1]; !last.Final || last.Text != "what is this" || last.Item != speech[0].Item || !last.At.Equal(speech[0].At) || said[0].Final {
			t.Errorf("%+v", said)
		}
		if n := len(sent[*dialect.ResponseCreate](r)); n != 0 {
			t.Errorf("%d answers were asked for beside the server's own", n)
		}
	})
}

func TestOurTurnsAreCommittedWithPreRoll(t *testing.T) {
	with(t, setup{cfg: realtime.Config{OurTurns: true}}, func(r *rig) {
		r.floor(false)
		r.sound(make([]int16, 5*dialect.Rate))
		began := time.Now()
		r.sound(faketest.Tone(200 * time.Millisecond)) // the detector is late
		r.put(switcher.CallerSpeechIn{Started: true, At: began})
		r.sound(faketest.Tone(800 * time.Millisecond))
		r.put(switcher.CallerSpeechIn{Final: true, At: time.Now()})
		r.done(1)
		if !r.p.Session().Audio.Input.TurnDetection.Null {
			t.Error("the server looks for turns too")
		}
		if h := r.p.Heard(); h < 1280*time.Millisecond || h > 1340*time.Millisecond {
			t.Errorf("%v sent of 1 s of speech with 300 ms before it", h)
		}
		said := all[switcher.TranscriptOut](r)
		if last := said[len(said)-1]; !last.Final || !last.At.Equal(began) || len(all[switcher.CallerSpeechOut](r)) != 0 {
			t.Errorf("%+v", said)
		}
	})
}

func TestParallelToolsGetOneAnswer(t *testing.T) {
	script := faketest.Script{Answer: texts(
		faketest.Answer{Calls: []faketest.Call{{ID: "call_1", Name: "a", Arguments: "{}"}, {ID: "call_2", Name: "b", Arguments: "{}"}, {ID: "call_3", Name: "c", Arguments: `{"x":1}`, Untold: true}}},
		faketest.Answer{Text: "Both are done."})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("three calls", func() bool { return len(all[switcher.ToolCallOut](r)) == 3 })
		r.put(switcher.ToolResultIn{CallID: "call_2", Name: "b", Output: "2"})
		r.put(switcher.ToolResultIn{CallID: "call_1", Name: "a", Output: "not found", IsError: true})
		r.idle(time.Second)
		if n := len(sent[*dialect.ResponseCreate](r)); n != 1 {
			t.Fatalf("%d answers asked for while a tool runs", n)
		}
		r.put(switcher.ToolResultIn{CallID: "call_3", Name: "c", Output: ""})
		r.put(switcher.ToolResultIn{CallID: "call_3", Name: "c", Output: "again"})
		r.done(1)
		if n := len(sent[*dialect.ResponseCreate](r)); n != 2 {
			t.Errorf("%d answers asked for", n)
		}
		outputs := map[string]string{}
		for _, it := range r.p.Items() {
			if it.Type == dialect.ItemCallOutput {
				outputs[it.CallID] += it.Output
			}
		}
		if outputs["call_1"] != `{"error":"not found"}` || outputs["call_2"] != "2" || outputs["call_3"] != "" {
			t.Errorf("%v", outputs)
		}
	})
}

func TestAPartialCallIsNotRun(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "Let me see", Calls: []faketest.Call{{ID: "c", Name: "f", Arguments: `{"a`, Partial: true}}, Hang: true}, faketest.Answer{Text: "ok"})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 0 && len(all[switcher.TextOut](r)) > 0 })
		turn := all[switcher.SoundOut](r)[0].Item
		r.put(switcher.InterruptedIn{Item: turn, Played: 50 * time.Millisecond})
		r.done(1)
		r.idle(time.Second)
		if calls := all[switcher.ToolCallOut](r); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	})
}

func TestTypedItemsGoIn(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		r.put(switcher.ItemIn{Item: assistant("other", "Another agent said this.")})
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCall{ID: "fc", CallID: "x", Name: "f", Arguments: "{}"}})
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "fo", CallID: "x", Name: "f", Output: "7"}})
		r.put(switcher.ItemIn{Item: &chatctx.ConfigUpdate{ID: "cu", Instructions: "Speak French."}})
		r.put(switcher.ItemIn{Item: user("typed", "And now?"), Respond: true})
		r.done(1)
		var got []string
		for _, it := range r.p.Items() {
			got = append(got, it.Role+it.Type+":"+it.Text()+it.Output)
		}
		want := []string{"assistantmessage:Another agent said this.", "function_call:", "function_call_output:7", "systemmessage:Speak French.", "usermessage:And now?", "assistantmessage:Hello."}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestImagesOfTheTurnGoInBeforeTheAnswer(t *testing.T) {
	shot := time.Now()
	sights := []switcher.Sight{{Source: "camera", State: "live", JPEG: make([]byte, 1000)}, {Source: "screen", State: "stalled", JPEG: make([]byte, 1000)}, {Source: "dark"}}
	s := setup{start: lookStart(func() []switcher.Sight {
		shot = shot.Add(time.Second)
		fresh := slices.Clone(sights)
		fresh[0].CapturedAt, fresh[1].CapturedAt = shot, time.Unix(1, 0) // the screen stands still
		return fresh
	})}
	with(t, s, func(r *rig) {
		r.floor(false)
		for n := range 6 {
			r.put(switcher.ItemIn{Item: user("q"+string(rune('0'+n)), "What do you see?"), Respond: true})
			r.done(n + 1)
		}
		var images, answers, items int
		for _, e := range r.p.Got() {
			switch e := e.(type) {
			case *dialect.ItemCreate:
				if n := count(e.Item.Content, "input_image"); n > 0 {
					images += n
					items++
				}
			case *dialect.ResponseCreate:
				if answers++; items != answers {
					t.Errorf("answer %d is asked for with %d items of images", answers, items)
				}
			}
		}
		if images != 7 { // the camera's six, the screen's one
			t.Errorf("%d images", images)
		}
		left := 0
		for _, it := range r.p.Items() {
			left += min(count(it.Content, "input_image"), 1)
		}
		if left != 4 {
			t.Errorf("%d items of images stay in the conversation, want 4", left)
		}
	})
}

func count(parts []dialect.Part, kind string) (n int) {
	for _, p := range parts {
		if p.Type == kind {
			n++
		}
	}
	return n
}

func TestOlderServersAreUnderstood(t *testing.T) {
	for name, script := range map[string]faketest.Script{
		"beta names":           {Beta: true},
		"created and added":    {CreatedToo: true},
		"conversation.created": {Conversation: true},
		"both":                 {Conversation: true, CreatedToo: true, Beta: true},
	} {
		t.Run(name, func(t *testing.T) {
			script.Answer = texts(faketest.Answer{Text: "Let me look."}, faketest.Answer{Text: "See?", Calls: []faketest.Call{{ID: "c", Name: "f", Arguments: "{}"}}}, faketest.Answer{Text: "Done."})
			with(t, setup{script: script, start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Items: history}}}, func(r *rig) {
				r.floor(true)
				r.done(1)
				r.speak(time.Second)
				r.until("a call", func() bool { return len(all[switcher.ToolCallOut](r)) == 1 })
				r.put(switcher.ToolResultIn{CallID: "c", Name: "f", Output: "1"})
				r.done(3)
				if text, sound := r.said(all[switcher.TurnDoneOut](r)[2].Item); text != "Done." || sound != 100*time.Millisecond {
					t.Errorf("%q %v", text, sound)
				}
			})
		})
	}
}

// TestAServerWithIdsOfItsOwn is a profile that neither keeps our ids nor answers turns by itself.
func TestAServerWithIdsOfItsOwn(t *testing.T) {
	p := realtime.LocalAI()
	p.Acks, p.Answers = true, realtime.AnswersNever
	s := setup{script: faketest.Script{OwnIDs: true, CreatedToo: true, SlowRead: 20 * time.Millisecond}, cfg: realtime.Config{Profile: p}, start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Items: history}}}
	with(t, s, func(r *rig) {
		r.ready()
		if n := len(r.p.Items()); n != len(history) {
			t.Errorf("ready with %d of %d items", n, len(history))
		}
		r.floor(false)
		r.speak(time.Second)
		r.done(1)
		if n := len(sent[*dialect.ResponseCreate](r)); n != 1 {
			t.Errorf("%d answers asked for", n)
		}
	})
}
