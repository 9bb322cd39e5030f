package gemini_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
)

func user(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func assistant(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)}
}

// history is a call that somebody else began.
var history = chatctx.Items{
	user("h1", "My order is 456."),
	&chatctx.FunctionCall{ID: "h2", CallID: "h2", Name: "lookup_order", Arguments: `{"id":456}`},
	&chatctx.FunctionCallOutput{ID: "h3", CallID: "h2", Name: "lookup_order", Output: "shipped"},
	assistant("h4", "It has been shipped."),
}

func seeded(mode switcher.SeedMode, items chatctx.Items) switcher.Start {
	return switcher.Start{Seed: switcher.Seed{Mode: mode, Instructions: "Be kind.", Items: items}}
}

func TestSpeechIsAnsweredInSoundWithItsText(t *testing.T) {
	for name, f := range flavours() {
		t.Run(name, func(t *testing.T) {
			script := faketest.Script{History: f.history, Hears: func(int) string { return "where is it" }, Answer: answers(faketest.Answer{Text: "On its way to you.", Sound: 2 * time.Second, Thought: "hm"})}
			with(t, setup{script: script, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}}, func(r *rig) {
				r.floor(false)
				began := r.speak(time.Second)
				r.done(1)
				r.until("a transcript", func() bool { return len(r.finals()) == 1 })
				item := all[switcher.TurnDoneOut](r)[0].Item
				if text, sound := r.said(item); text != "On its way to you." || sound != 2*time.Second || r.finals()[0] != "where is it" {
					t.Errorf("%q, %v, %q", text, sound, r.finals())
				}
				speech := all[switcher.CallerSpeechOut](r)
				if !speech[0].Started || speech[0].At.Sub(began) != 0 || f.theirs != (len(speech) == 2) {
					t.Errorf("%+v, began %v", speech, began)
				}
				partials := all[switcher.TranscriptOut](r)
				if len(partials) < 3 || partials[0].Final || partials[0].Item != speech[0].Item || !partials[0].At.Equal(began) {
					t.Errorf("%+v", partials)
				}
				heard := r.p.Heard()
				if least, most := 1600*time.Millisecond, 1800*time.Millisecond; heard < least || heard > most {
					t.Errorf("the provider heard %v of 1 s and 700 ms of silence", heard)
				}
			})
		})
	}
}

// TestAPauseInTheSoundIsTold: a muted microphone sends nothing, and a detector at the provider would wait for silence for ever.
func TestAPauseInTheSoundIsTold(t *testing.T) {
	with(t, setup{cfg: gemini.Config{TheirTurns: true}}, func(r *rig) {
		r.floor(false)
		r.sound(faketest.Tone(time.Second))
		r.done(1)
		if kinds := r.kinds(); !slices.Equal(kinds, []string{"setup", "streamEnd"}) {
			t.Errorf("%v", kinds)
		}
	})
}

func TestTheSetupIsWhatTheAPIWants(t *testing.T) {
	start := seeded(switcher.SeedInstructions, nil)
	start.Tools = []switcher.Tool{{Name: "lookup", Description: "looks up", Parameters: []byte(`{"type":"object","properties":{"id":{"type":"integer"}}}`)}}
	cfg := gemini.Config{Voice: "Puck", Language: "en-US", TheirTurns: true, Silence: 400 * time.Millisecond}
	with(t, setup{cfg: cfg, start: start}, func(r *rig) {
		r.floor(false)
		s := r.p.Setup()
		if s.Model != "models/fake-model" || s.SystemInstruction.Parts[0].Text != "Be kind." || s.GenerationConfig.SpeechConfig.VoiceConfig.PrebuiltVoiceConfig.VoiceName != "Puck" || s.GenerationConfig.SpeechConfig.LanguageCode != "en-US" {
			t.Errorf("%+v", s)
		}
		if d := s.RealtimeInputConfig.AutomaticActivityDetection; d.Disabled || d.SilenceDurationMs != 400 || s.RealtimeInputConfig.ActivityHandling != "START_OF_ACTIVITY_INTERRUPTS" {
			t.Errorf("%+v", d)
		}
		if f := s.Tools[0].FunctionDeclarations[0]; f.Name != "lookup" || !strings.Contains(string(f.ParametersJSONSchema), "integer") {
			t.Errorf("%+v", f)
		}
		if s.HistoryConfig != nil || s.ContextWindowCompression != nil || s.InputAudioTranscription == nil || s.OutputAudioTranscription == nil {
			t.Errorf("%+v", s)
		}
	})
}

// TestTheSeedByModeAndGeneration: as turns where the model takes them, and then before anything else; else in the instructions.
func TestTheSeedByModeAndGeneration(t *testing.T) {
	const told = "user: My order is 456.\nmodel: call lookup_order{\"id\":456}\nuser: answer lookup_order shipped\nmodel: It has been shipped."
	for name, f := range flavours() {
		for _, mode := range []switcher.SeedMode{switcher.SeedInstructions, switcher.SeedItems, switcher.SeedHybrid} {
			t.Run(name+","+string(mode), func(t *testing.T) {
				items := history
				if mode == switcher.SeedInstructions {
					items = nil
				}
				with(t, setup{script: faketest.Script{History: f.history}, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}, start: seeded(mode, items)}, func(r *rig) {
					r.sound(faketest.Tone(400 * time.Millisecond)) // nothing of it before the seed
					r.floor(true)
					r.done(1)
					said, instructions := faketest.Say(r.p.Conversation()), r.p.Setup().SystemInstruction.Parts[0].Text
					asTurns := strings.HasPrefix(said, told)
					switch {
					case mode == switcher.SeedInstructions && (asTurns || instructions != "Be kind."),
						mode != switcher.SeedInstructions && f.history == faketest.Never && (asTurns || !strings.Contains(instructions, "shipped")),
						mode != switcher.SeedInstructions && f.history != faketest.Never && (!asTurns || instructions != "Be kind."):
						t.Errorf("%s\n%s", instructions, said)
					}
					want := asTurns && f.history == faketest.Initial
					if h := r.p.Setup().HistoryConfig; (h != nil) != want {
						t.Errorf("history is announced: %v", h)
					}
				})
			})
		}
	}
}

func TestNothingIsSaidBeforeTheFloor(t *testing.T) {
	with(t, setup{script: faketest.Script{AnswersSeed: true}, start: seeded(switcher.SeedItems, history)}, func(r *rig) {
		r.until("an answer that nobody asked for", func() bool { return r.leg.Counters().EarlyAnswers == 1 })
		r.floor(false)
		r.idle(2 * time.Second)
		if len(all[switcher.SoundOut](r))+len(all[switcher.TextOut](r))+len(all[switcher.TurnDoneOut](r)) != 0 {
			t.Error("it is heard")
		}
		r.speak(time.Second)
		r.done(1)
	})
}

// TestSpeechWaitsForTheSessionToInterrupt: the model's answer is cut off by what the session says, not by every sound.
func TestSpeechWaitsForTheSessionToInterrupt(t *testing.T) {
	long := faketest.Answer{Text: "A long story", Sound: time.Minute, Pace: 100 * time.Millisecond}
	script := faketest.Script{Answer: answers(long, faketest.Answer{Text: "Yes?"})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		turn := all[switcher.SoundOut](r)[0].Item
		r.speak(time.Second) // barge-in is off, or it were too few words
		r.idle(time.Second)
		if n := strings.Join(r.kinds(), " "); n != "setup start text end" {
			t.Errorf("told: %s", n)
		}
		r.put(switcher.InterruptedIn{Item: turn, Played: time.Second, Text: "A long"})
		r.done(2)
		if got := r.turns(); got[0] != "cancelled: A long story" || got[1] != "completed: Yes?" {
			t.Errorf("%q", got)
		}
		if said := faketest.Say(r.p.Conversation()); !strings.Contains(said, "heard only: A long⟧ words") {
			t.Errorf("%s", said)
		}
		if heard := r.p.Heard(); heard < 1600*time.Millisecond {
			t.Errorf("of the speech that waited %v were given", heard)
		}
	})
}

func TestTheProvidersDetectorInterrupts(t *testing.T) {
	long := faketest.Answer{Text: "A long story", Sound: time.Minute, Pace: 100 * time.Millisecond}
	with(t, setup{script: faketest.Script{Answer: answers(long, faketest.Answer{Text: "Yes?"})}, cfg: gemini.Config{TheirTurns: true}}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		r.speak(time.Second)
		r.done(2)
		if got := r.turns(); got[0] != "cancelled: A long story" || got[1] != "completed: Yes?" {
			t.Errorf("%q", got)
		}
	})
}

func TestWordsComeWhenTheyLike(t *testing.T) {
	for words, want := range map[string]string{"": "completed: One two", "first": "completed: One two", "late": "completed: One two", "last": "completed: One two"} {
		t.Run(words, func(t *testing.T) {
			with(t, setup{script: faketest.Script{LateTranscript: true, Answer: answers(faketest.Answer{Text: "One two", Words: words})}}, func(r *rig) {
				r.floor(false)
				for n := range 2 {
					r.speak(time.Second)
					r.done(n + 1)
					r.until("a transcript", func() bool { return len(r.finals()) == n+1 })
				}
				if got := r.turns(); got[0] != want || got[1] != want {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

func TestOtherRatesAndFramesAreTaken(t *testing.T) {
	with(t, setup{script: faketest.Script{TextFrames: true, Finishes: true, Answer: answers(faketest.Answer{Text: "One.", Sound: time.Second, Rate: 16000})}}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		r.done(1)
		if s := all[switcher.SoundOut](r)[0]; s.Rate != 16000 {
			t.Errorf("%d Hz", s.Rate)
		}
		r.p.Send(`{"nobodyKnows":{}}`)
		r.p.Send(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"!"}}]}}}`)
		r.p.Send(`nonsense`)
		r.p.Send(`{"serverContent":{"turnComplete":"yes","interrupted":false}}`)
		r.until("counts", func() bool { c := r.leg.Counters(); return c.Unknown == 1 && c.Malformed == 2 })
	})
}

func TestASwitchInMidSpeechLosesNoWord(t *testing.T) {
	with(t, setup{start: seeded(switcher.SeedItems, history), cfg: gemini.Config{SeedGrace: 2 * time.Second}}, func(r *rig) {
		began := time.Now()
		r.put(switcher.FloorIn{})
		r.put(switcher.CallerSpeechIn{Started: true, At: began})
		r.sound(faketest.Tone(time.Second))
		r.put(switcher.CallerSpeechIn{Final: true, At: time.Now()})
		r.done(1)
		if h := r.p.Heard(); h != time.Second {
			t.Errorf("heard %v", h)
		}
	})
}

func TestTypedItemsOfOthers(t *testing.T) {
	for name, f := range flavours() {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{History: f.history}, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}}, func(r *rig) {
				r.floor(false)
				r.put(switcher.ItemIn{Item: user("a", "I am Ann.")})
				r.put(switcher.ItemIn{Item: assistant("b", "Hello Ann.")})
				r.put(switcher.ItemIn{Item: &chatctx.FunctionCall{ID: "c", CallID: "c", Name: "weather", Arguments: `{"at":"Ulm"}`}})
				r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "d", CallID: "c", Name: "weather", Output: "rain"}})
				r.idle(time.Second)
				if n := len(r.p.Got()); n != 1 {
					t.Errorf("told alone: %v", r.kinds())
				}
				r.put(switcher.ItemIn{Item: user("e", "And now?"), Respond: true})
				r.done(1)
				said := faketest.Say(r.p.Conversation())
				for _, want := range []string{"I am Ann.", "Hello Ann.", "weather", "Ulm", "rain", "And now?"} {
					if !strings.Contains(said, want) {
						t.Errorf("%q is missing in\n%s", want, said)
					}
				}
				if len(all[switcher.TurnDoneOut](r)) != 1 {
					t.Errorf("%q", r.turns())
				}
				if strings.Contains(said, "begins here") {
					t.Error("the conversation does not begin here")
				}
			})
		})
	}
}

// TestTheProvidersDetectorSaysWhenSpeechIs: few are told; it gives an utterance its place before its first word.
func TestTheProvidersDetectorSaysWhenSpeechIs(t *testing.T) {
	with(t, setup{cfg: gemini.Config{TheirTurns: true}}, func(r *rig) {
		r.floor(false)
		r.idle(time.Second)
		r.p.Send(`{"voiceActivity":{"voiceActivityType":"ACTIVITY_START"}}`)
		r.until("a beginning", func() bool { return len(all[switcher.CallerSpeechOut](r)) == 1 })
		r.idle(time.Second)
		r.p.Send(`{"voiceActivity":{"voiceActivityType":"ACTIVITY_END"}}`)
		r.until("an end", func() bool { return len(all[switcher.CallerSpeechOut](r)) == 2 })
		r.p.Send(`{"serverContent":{"inputTranscription":{"text":"hello"}}}`)
		r.until("a transcript", func() bool { return len(r.finals()) == 1 })
		s := all[switcher.CallerSpeechOut](r)
		if said := all[switcher.TranscriptOut](r); s[1].Started || s[1].At.Sub(s[0].At) < time.Second || said[0].Item != s[0].Item || !said[0].At.Equal(s[0].At) {
			t.Errorf("%+v %+v", s, said)
		}
	})
}

// TestATranscriptIsFinalInTime: how long it may go on, by what is known of the turn.
func TestATranscriptIsFinalInTime(t *testing.T) {
	for name, c := range map[string]struct {
		silent bool // the provider answers nothing
		least  time.Duration
		most   time.Duration
	}{"the answer has begun": {false, 300 * time.Millisecond, 500 * time.Millisecond}, "the turn is over": {true, 1900 * time.Millisecond, 2200 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{Answer: answers(faketest.Answer{Text: "One.", Silent: c.silent})}}, func(r *rig) {
				r.floor(false)
				r.speak(time.Second)
				over := time.Now()
				r.until("a transcript", func() bool { return len(r.finals()) == 1 })
				if d := time.Since(over); d < c.least || d > c.most {
					t.Errorf("final after %v", d)
				}
			})
		})
	}
	with(t, setup{script: faketest.Script{Hears: func(int) string { return "" }}}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		over := time.Now()
		r.until("a failed transcript", func() bool { return len(all[switcher.TranscriptOut](r)) == 1 })
		if d := time.Since(over); d < 4900*time.Millisecond || d > 5200*time.Millisecond {
			t.Errorf("failed after %v", d)
		}
	})
}
