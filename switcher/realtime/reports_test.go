package realtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

// The numbers are those of the public reports in docs/realtime.md.

func lookStart(look func() []switcher.Sight) switcher.Start {
	return switcher.Start{Look: func(context.Context, time.Duration) []switcher.Sight { return look() }}
}

func TestReport1TextInASessionOfSoundIsAskedForAgainOnce(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "Typed words", TextOnly: true}, faketest.Answer{Text: "Spoken words", Sound: time.Second})}
	with(t, setup{script: script, start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Items: history}}}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		r.done(1)
		if text, sound := r.said(all[switcher.TurnDoneOut](r)[0].Item); text != "Spoken words" || sound != time.Second || r.noticed("text_only") != 1 {
			t.Errorf("%q, %v", text, sound)
		}
		for _, it := range r.p.Items() {
			if it.Text() == "Typed words" {
				t.Error("the text stays in the conversation and draws the next one")
			}
		}
	})
}

func TestReport2TextOnlyForEverIsGivenAsTextAndTheCallLives(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "Typed words", TextOnly: true})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(false)
		for n := range 3 {
			r.speak(time.Second)
			r.done(n + 1)
		}
		for _, d := range all[switcher.TurnDoneOut](r) {
			if text, sound := r.said(d.Item); text != "Typed words" || sound != 0 || d.Status != switcher.TurnCompleted {
				t.Errorf("%q, %v, %v", text, sound, d)
			}
		}
		if r.noticed("text_only") != 3 || r.noticed("text_fallback") != 3 || r.over() {
			t.Errorf("%d retries, %d fall-backs", r.noticed("text_only"), r.noticed("text_fallback"))
		}
	})
}

func TestReport3InterruptedBeforeAnythingWasHeard(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "A long story", Sound: 10 * time.Second, Pace: 100 * time.Millisecond})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		turn := all[switcher.SoundOut](r)[0].Item
		r.put(switcher.InterruptedIn{Item: "nobody_knows", Played: time.Second})
		r.put(switcher.InterruptedIn{Item: turn})
		r.put(switcher.InterruptedIn{Item: turn})
		r.until("delete", func() bool { return len(sent[*dialect.ItemDelete](r)) == 1 })
		r.idle(time.Second)
		if len(sent[*dialect.ItemTruncate](r)) != 0 || len(sent[*dialect.ResponseCancel](r)) != 1 || len(sent[*dialect.ItemDelete](r)) != 1 {
			t.Errorf("sent %v", kinds(r.p.Got()))
		}
		if d := all[switcher.TurnDoneOut](r); len(d) != 1 || d[0].Status != switcher.TurnCancelled {
			t.Errorf("%v", d)
		}
	})
}

func TestReport4NothingIsCutThatWasHeardToItsEnd(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "One two three", Sound: time.Second})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.done(1)
		turn := all[switcher.TurnDoneOut](r)[0].Item
		r.put(switcher.InterruptedIn{Item: turn, Played: 1200 * time.Millisecond})
		r.put(switcher.ItemIn{Item: user("q", "more"), Respond: true})
		r.done(2)
		turn = all[switcher.TurnDoneOut](r)[1].Item
		r.put(switcher.PlayedIn{Item: turn, Played: time.Second})
		r.put(switcher.InterruptedIn{Item: turn, Played: time.Second})
		r.idle(time.Second)
		if len(sent[*dialect.ItemTruncate](r))+len(sent[*dialect.ItemDelete](r))+len(sent[*dialect.ResponseCancel](r)) != 0 {
			t.Errorf("sent %v", kinds(r.p.Got()))
		}
	})
}

func TestReport4CutAtWhatWasReceivedAtMost(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "One two three", Sound: 10 * time.Second, Pace: 100 * time.Millisecond})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		turn := all[switcher.SoundOut](r)[0].Item
		_, received := r.said(turn)
		r.put(switcher.InterruptedIn{Item: turn, Played: time.Hour})
		r.until("truncate", func() bool { return len(sent[*dialect.ItemTruncate](r)) == 1 })
		if cut := sent[*dialect.ItemTruncate](r)[0]; time.Duration(cut.AudioEndMs)*time.Millisecond != received {
			t.Errorf("cut at %d ms, received were %v", cut.AudioEndMs, received)
		}
	})
}

func TestReport5TheProviderKeepsWhatWasHeard(t *testing.T) {
	for name, c := range map[string]struct {
		profile realtime.Profile
		cut     bool
	}{"cuts": {realtime.OpenAI(), true}, "is told": {realtime.XAI(), false}} {
		t.Run(name, func(t *testing.T) {
			script := faketest.Script{Answer: texts(faketest.Answer{Text: "One two three", Sound: 3 * time.Second})}
			with(t, setup{script: script, cfg: realtime.Config{Profile: c.profile}}, func(r *rig) {
				r.floor(true)
				r.done(1)
				turn := all[switcher.TurnDoneOut](r)[0].Item
				r.put(switcher.InterruptedIn{Item: turn, Played: 1234 * time.Millisecond, Text: "One ⟦two"})
				if c.cut {
					r.until("truncate", func() bool { return len(sent[*dialect.ItemTruncate](r)) == 1 })
					if ms := sent[*dialect.ItemTruncate](r)[0].AudioEndMs; ms != 1234 {
						t.Errorf("cut at %d ms", ms)
					}
					return
				}
				r.until("a note", func() bool { return len(sent[*dialect.ItemCreate](r)) == 1 })
				note := sent[*dialect.ItemCreate](r)[0].Item
				if note.Role != "system" || note.Text() != "⟦The caller interrupted; of the last answer they heard only: One [two⟧" {
					t.Errorf("%+v", note)
				}
			})
		})
	}
}

func TestReport6ExpiryIsToldBeforeItComesAndIsNoMystery(t *testing.T) {
	with(t, setup{script: faketest.Script{ExpiresIn: 20 * time.Second}}, func(r *rig) {
		r.floor(false)
		r.until("the warning", func() bool { return r.noticed(realtime.NoticeExpires) == 1 })
		at, err := time.Parse(time.RFC3339, all[switcher.NoticeOut](r)[0].Message)
		if left := time.Until(at); err != nil || left < 3*time.Second || left > 6*time.Second {
			t.Errorf("told %v before the end, %v", left, err)
		}
		if e := r.death(); e.Code != "expired" || !e.Retryable {
			t.Errorf("%+v", e)
		}
	})
}

func TestReport6CloseCodes(t *testing.T) {
	for _, c := range []struct {
		code      int
		text      string
		want      string
		retryable bool
	}{
		{1001, "Your session hit the maximum duration of 60 minutes.", "expired", true}, {1001, "going away", "connect", true}, {1000, "", "connect", true},
		{1007, "invalid", "protocol", true}, {1008, "policy", "refused", false}, {1008, "invalid authentication key-123", "auth", false}, {1011, "keepalive", "overloaded", true}, {1013, "", "overloaded", true},
	} {
		t.Run(fmt.Sprint(c.code, c.text), func(t *testing.T) {
			with(t, setup{cfg: realtime.Config{Key: "key-123"}}, func(r *rig) {
				r.floor(true)
				r.p.Close(c.code, c.text)
				if e := r.death(); e.Code != c.want || e.Retryable != c.retryable || strings.Contains(e.Error(), "key-123") {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestReport8AResultOfBeforeGoesInWithItsCall(t *testing.T) {
	open := append(chatctx.Items{}, history...)
	open = append(open, &chatctx.FunctionCall{ID: "c2", CallID: "slow", Name: "book", Arguments: `{"seat":4}`})
	for _, mode := range []switcher.SeedMode{switcher.SeedItems, switcher.SeedInstructions} {
		t.Run(string(mode), func(t *testing.T) {
			start := switcher.Start{Seed: switcher.Seed{Mode: mode, Instructions: "x"}, Items: func() chatctx.Items { return open }}
			if mode == switcher.SeedItems {
				start.Seed.Items = open
			}
			with(t, setup{start: start}, func(r *rig) {
				r.floor(false)
				r.put(switcher.ToolResultIn{CallID: "slow", Name: "book", Output: "booked"})
				r.done(1)
				items := r.p.Items()
				call, output := items[len(items)-3], items[len(items)-2]
				if call.Name != "book" || call.Arguments != `{"seat":4}` || output.Output != "booked" || call.CallID != output.CallID {
					t.Errorf("%+v\n%+v", call, output)
				}
			})
		})
	}
}

func TestReport9TenTimesTheSameCall(t *testing.T) {
	for _, ids := range []string{"same", "own"} {
		t.Run(ids, func(t *testing.T) {
			var storm []faketest.Call
			for i := range 10 {
				id := "call"
				if ids == "own" {
					id += fmt.Sprint(i)
				}
				storm = append(storm, faketest.Call{ID: id, Name: "f", Arguments: `{"a":1}`})
			}
			with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Calls: storm}, faketest.Answer{Text: "Done."})}}, func(r *rig) {
				r.floor(true)
				r.until("a call", func() bool { return len(all[switcher.ToolCallOut](r)) == 1 })
				r.put(switcher.ToolResultIn{CallID: all[switcher.ToolCallOut](r)[0].CallID, Name: "f", Output: "1"})
				r.done(1)
				if n := len(all[switcher.ToolCallOut](r)); n != 1 {
					t.Errorf("%d calls", n)
				}
				if n := len(sent[*dialect.ResponseCreate](r)); n != 2 {
					t.Errorf("%d answers asked for", n)
				}
				if c := r.leg.Counters(); c.RepeatedCalls < 9 {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

func TestReport10OneAnswerAtATime(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "A long story", Sound: 2 * time.Second, Pace: 100 * time.Millisecond})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		r.put(switcher.ItemIn{Item: user("q1", "one"), Respond: true})
		r.put(switcher.ItemIn{Item: user("q2", "two"), Respond: true})
		r.done(2)
		r.idle(5 * time.Second)
		if n := len(all[switcher.TurnDoneOut](r)); n != 2 || r.p.Refusals() != 0 {
			t.Errorf("%d answers, %d refused", n, r.p.Refusals())
		}
	})
}

// TestReport10TheServersOwnAnswerWasFirst: its refusal is harmless, and nothing is said twice or left out.
func TestReport10TheServersOwnAnswerWasFirst(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "A long story", Sound: 4 * time.Second, Pace: 100 * time.Millisecond})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		r.speak(time.Second) // over the answer; nobody interrupts it, so the server's own answer to this is refused
		r.until("a refusal", func() bool { return r.p.Refusals() == 1 })
		r.done(2)
		r.idle(10 * time.Second)
		if n := len(all[switcher.TurnDoneOut](r)); n != 2 || r.over() || r.leg.Counters().Benign != 1 {
			t.Errorf("%d answers, %v, %+v", n, r.err, r.leg.Counters())
		}
	})
}

func TestReport11TranscriptsAfterTheAnswer(t *testing.T) {
	script := faketest.Script{LateTranscript: true, Hears: func(n int) string { return []string{"first", "\x00", " "}[n] }}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(false)
		for n := range 3 {
			r.speak(time.Second)
			r.done(n + 1)
		}
		r.until("three settled", func() bool {
			n := 0
			for _, o := range all[switcher.TranscriptOut](r) {
				if o.Final || o.Failed {
					n++
				}
			}
			return n == 3
		})
		settled := len(all[switcher.TranscriptOut](r))
		for _, o := range all[switcher.TranscriptOut](r) { // some servers say it again
			r.p.Send(fmt.Sprintf(`{"type":"conversation.item.input_audio_transcription.completed","item_id":%q,"transcript":"again"}`, o.Item))
			r.p.Send(fmt.Sprintf(`{"type":"conversation.item.input_audio_transcription.delta","item_id":%q,"delta":"again"}`, o.Item))
		}
		r.idle(time.Second)
		if n := len(all[switcher.TranscriptOut](r)); n != settled {
			t.Errorf("%d transcripts after the last", n-settled)
		}
		began := map[string]time.Time{}
		for _, o := range all[switcher.CallerSpeechOut](r) {
			if o.Started {
				began[o.Item] = o.At
			}
		}
		var last time.Time
		for _, o := range all[switcher.TranscriptOut](r) {
			if !o.At.Equal(began[o.Item]) || o.At.Before(last) || o.At.IsZero() {
				t.Errorf("%+v, the speech began at %v", o, began[o.Item])
			}
			if last = o.At; o.Final && o.Text != "first" {
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestReport12AnImageThatIsTooLargeIsToldOf(t *testing.T) {
	s := setup{start: lookStart(func() []switcher.Sight {
		return []switcher.Sight{{Source: "camera", State: "live", CapturedAt: time.Now(), JPEG: make([]byte, 2<<20)}, {Source: "screen", State: "live", CapturedAt: time.Now(), JPEG: make([]byte, 9)}}
	})}
	with(t, s, func(r *rig) {
		r.floor(true)
		r.done(1)
		if r.noticed(realtime.NoticeImageDropped) != 1 || count(sent[*dialect.ItemCreate](r)[0].Item.Content, "input_image") != 1 {
			t.Errorf("%v", all[switcher.NoticeOut](r))
		}
	})
}

func TestReport13NothingMoreOfAnInterruptedTurn(t *testing.T) {
	script := faketest.Script{Answer: texts(faketest.Answer{Text: "A long story", Sound: 10 * time.Second}, faketest.Answer{Text: "Yes?"})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		gate := make(chan struct{})
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 0 })
		r.mu.Lock()
		r.gate = gate
		turn := r.outs[1].(switcher.TextOut).Item
		r.mu.Unlock()
		r.idle(time.Second)
		before := len(all[switcher.SoundOut](r))
		r.put(switcher.InterruptedIn{Item: turn, Played: 100 * time.Millisecond})
		r.until("truncate", func() bool { return len(sent[*dialect.ItemTruncate](r)) == 1 })
		close(gate)
		r.put(switcher.ItemIn{Item: user("q", "stop"), Respond: true})
		r.done(2)
		after := 0
		for _, o := range all[switcher.SoundOut](r) {
			if o.Item == turn {
				after++
			}
		}
		if after > before+1 { // one was being given
			t.Errorf("%d pieces of sound after the interruption", after-before)
		}
	})
}

func TestReport14ASeedThatClosesTheSocket(t *testing.T) {
	with(t, setup{script: faketest.Script{CloseOnItem: 1007}, start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Items: history}}}, func(r *rig) {
		if e := r.death(); e.Code != realtime.CodeSeed || !e.Retryable || len(all[switcher.ReadyOut](r)) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestReport14ASeedThatIsRefused(t *testing.T) {
	with(t, setup{script: faketest.Script{RefuseItem: 2}, start: switcher.Start{Seed: switcher.Seed{Mode: switcher.SeedItems, Items: history}}, broken: true}, func(r *rig) {
		if e := r.death(); e.Code != realtime.CodeSeed || !e.Retryable || len(all[switcher.ReadyOut](r)) != 0 {
			t.Errorf("%+v", e)
		}
	})
}
