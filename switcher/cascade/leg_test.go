package cascade

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/legtest"
)

// TestLegSuite puts the cascade through what is expected of every leg, in real time.
func TestLegSuite(t *testing.T) {
	legtest.Run(t, func(*testing.T) legtest.Subject {
		model := scripted(func(q Request) func(context.Context, func(Delta) error) (Finish, error) {
			last := q.Items[len(q.Items)-1]
			switch it := last.(type) {
			case *chatctx.FunctionCallOutput:
				return says(0, "The tool says: ", it.Output, ".")
			case *chatctx.Message:
				switch {
				case strings.Contains(it.Content.Text(), "tool"):
					return calls(Call{Name: "oracle", Arguments: "{}"})
				case strings.Contains(it.Content.Text(), "long"):
					return says(20*time.Millisecond, strings.Split(strings.Repeat("And so on and on. ", 100), " ")...)
				}
			}
			return says(time.Millisecond, "Here ", "I am.")
		})
		return legtest.Subject{
			Leg: New(Config{Recognizers: []Recognizer{&ear{texts: []string{"hello"}}}, Models: []Model{model}, Voices: []Voice{&mouth{}}}),
			Can: switcher.Capability{InRate: rate, OutRate: rate, Seeds: []switcher.SeedMode{switcher.SeedItems}},
			Ask: "hello", AskLong: "a long story", AskTool: "use the tool", Tool: "oracle", Speech: make([]int16, rate),
		}
	})
}

type scripted func(Request) func(context.Context, func(Delta) error) (Finish, error)

func (s scripted) Name() string { return "scripted" }
func (s scripted) Answer(ctx context.Context, q Request, yield func(Delta) error) (Finish, error) {
	return s(q)(ctx, yield)
}

func models(m ...Model) []Model { return m }

func TestFirstSoundComesBeforeTheModelIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(300*time.Millisecond, "One is said. ", "Two is", " too. ", "Three.")}}
		m := &mouth{wait: time.Millisecond}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"count"}, lag: 50 * time.Millisecond}}, Models: models(b), Voices: []Voice{m}})
		r.speaks()
		began := time.Now()
		time.Sleep(5 * time.Second)
		var firstSound, lastText time.Duration
		for _, s := range r.all() {
			switch s.o.(type) {
			case switcher.SoundOut:
				if firstSound == 0 {
					firstSound = s.at.Sub(began)
				}
			case switcher.TextOut:
				lastText = s.at.Sub(began)
			}
		}
		if want := 350*time.Millisecond + time.Millisecond; firstSound == 0 || firstSound > want {
			t.Errorf("first sound after %v, want within %v", firstSound, want)
		}
		if lastText != 1250*time.Millisecond {
			t.Errorf("the model was done after %v", lastText)
		}
		r.want("phrases", m.phrases(), "One is said.|Two is too.|Three.")
		r.want("text", r.text(), "One is said. Two is too. Three.")
		r.want("text of the sound", r.spoken(), "One is said. Two is too. Three.")
		r.want("end", r.statuses(), "completed")
		r.end()
	})
}

// TestNoFirstSyllableIsLost: the sound of an utterance begins where the detector says, though that is told later.
func TestNoFirstSyllableIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ear{texts: []string{"hello"}, partial: []string{"hel", "hel", "hello"}}
		r := newRig(t, Config{Recognizers: []Recognizer{e}, Models: models(&brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Hi.")}})})
		r.speaks() // 300 ms before the news, 500 after, and the lead
		time.Sleep(time.Second)
		if want := samples(800*time.Millisecond+lead, rate); len(e.heard) != 1 || e.heard[0] != want {
			t.Errorf("the recogniser got %v samples, want %d", e.heard, want)
		}
		var words []string
		for _, o := range outputs[switcher.TranscriptOut](r) {
			words = append(words, o.Text)
			if o.Final && o.Text != "hello" || o.Failed || o.Agent {
				t.Errorf("%+v", o)
			}
		}
		r.want("transcripts", strings.Join(words, "|"), "hel|hello|hello")
		r.end()
	})
}

// TestSoundOfACommitIsTakenOnce: speech that began before the floor, and sound that is given again.
func TestSoundOfACommitIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ear{texts: []string{"hello"}}
		r := newRig(t, Config{Recognizers: []Recognizer{e}, Models: models(&brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Hi.")}})})
		began := r.at
		r.hears(time.Second)
		r.put(switcher.CallerSpeechIn{Started: true, At: began})
		r.at = began
		r.hears(2 * time.Second) // the first second of it is known
		r.put(switcher.CallerSpeechIn{Started: true, At: began})
		r.put(switcher.CallerSpeechIn{At: r.at}) // a pause
		r.put(switcher.CallerSpeechIn{Final: true, At: r.at})
		time.Sleep(time.Second)
		if len(e.heard) != 1 || e.heard[0] != 2*rate {
			t.Errorf("the recogniser got %v samples, want one utterance of %d", e.heard, 2*rate)
		}
		r.end()
	})
}

func TestNothingUnderstoodIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "What?")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"  "}}}, Models: models(b), Voices: []Voice{&mouth{}}})
		r.speaks()
		time.Sleep(time.Minute)
		if len(b.requests()) != 0 || len(outputs[switcher.TextOut](r)) != 0 {
			t.Error("noise was answered")
		}
		if got := outputs[switcher.TranscriptOut](r); len(got) != 1 || !got[0].Final || got[0].Text != "" {
			t.Errorf("transcripts %+v: the slot of the utterance is to be settled", got)
		}
		r.end()
	})
}

// TestRequestsEndWithTheTurn: however the recorder's writing and the leg's asking fall together.
func TestRequestsEndWithTheTurn(t *testing.T) {
	user := func(id, text string) chatctx.Item {
		return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
	}
	for name, record := range map[string]func(r *rig, utterance string){
		"not yet there": func(*rig, string) {},
		"same id":       func(r *rig, u string) { r.record(user(u, "yes")) },
		"its id in it":  func(r *rig, u string) { r.record(user("e7-"+u, "yes")) },
		"another id":    func(r *rig, _ string) { r.record(user("recorded", "yes")) },
		"something after it": func(r *rig, u string) {
			r.record(user(u, "yes"), &chatctx.AgentHandoff{ID: "h", ToAgent: "b"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Good.")}}
				r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"yes"}, lag: 100 * time.Millisecond}}, Models: models(b)})
				r.record(user("before", "yes"), &chatctx.Message{ID: "a", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("Really?")})
				r.speaks()
				record(r, "c7-u1") // while the recogniser works: before the request is made
				time.Sleep(time.Second)
				q := b.requests()
				if len(q) != 1 {
					t.Fatalf("%d requests", len(q))
				}
				want := "user:yes | assistant:Really? | user:yes"
				if strings.HasPrefix(name, "something") {
					want = "user:yes | assistant:Really? | handoff | user:yes"
				}
				r.want("request", tail(q[0], 9), want)
				r.end()
			})
		})
	}
}

// TestAnswersTheLogDoesNotHoldYet: what was said before is in the next request, once, as it was heard.
func TestAnswersTheLogDoesNotHoldYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "First answer to be heard. More."), says(0, "Second.")}}
		r := newRig(t, Config{Models: models(b), Voices: []Voice{&mouth{}}})
		r.types("one")
		time.Sleep(time.Second)
		r.put(switcher.InterruptedIn{Item: outputs[switcher.TurnDoneOut](r)[0].Item, Text: "First answer", Played: time.Second})
		r.types("two")
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[1], 9), "user:one | assistant:First answer | user:two")
		r.record(&chatctx.Message{ID: "x-" + outputs[switcher.TurnDoneOut](r)[0].Item, Role: chatctx.RoleAssistant, Content: chatctx.TextContent("First…")})
		r.types("three")
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[2], 9), "user:one | user:two | assistant:First… | assistant:Second. | user:three")
		r.end()
	})
}

func TestInstructionsFollowTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Ok.")}}
		r := newRig(t, Config{Models: models(b)}, func(s *switcher.Start) { s.Seed.Instructions = "Be brief." })
		r.types("one")
		time.Sleep(time.Second)
		r.record(&chatctx.ConfigUpdate{ID: "cfg", Instructions: "Be long."})
		r.types("two")
		time.Sleep(time.Second)
		r.want("at first", b.requests()[0].Instructions, "Be brief.")
		r.want("then", b.requests()[1].Instructions, "Be long.")
		for _, item := range b.requests()[1].Items {
			if item.Kind() == chatctx.KindConfigUpdate {
				t.Error("the instructions stand among the items too")
			}
		}
		r.end()
	})
}

func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Ok.")}}
		r := newRig(t, Config{Models: models(b), MaxItems: 3})
		for _, id := range []string{"m1", "m2", "m3", "m4", "m5"} {
			r.record(&chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(id)})
		}
		r.types("now")
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[0], 9), "user:m4 | user:m5 | user:now")
		r.want("notices", r.notices(), "view_cut")
		r.end()
	})
}

// TestWhatIsSeenGoesWithTheTurn: what is seen when the caller ends, not what is seen when the text is there.
func TestWhatIsSeenGoesWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: []func(context.Context, func(Delta) error) (Finish, error){says(0, "Ok.")}}
		looked := 0
		slow := time.Duration(0)
		look := func(s *switcher.Start) {
			s.Look = func(ctx context.Context, age time.Duration) []switcher.Sight {
				looked++
				if age != time.Second || !sleep(ctx, slow) {
					return nil
				}
				return []switcher.Sight{{Source: "camera", State: "live", JPEG: []byte{byte(looked)}, Age: 40 * time.Millisecond}}
			}
		}
		e := &ear{texts: []string{"look", "look"}, lag: time.Second}
		r := newRig(t, Config{Recognizers: []Recognizer{e}, Models: models(b)}, look)
		r.speaks()
		if looked != 1 {
			t.Error("not looked at the end of speech")
		}
		time.Sleep(5 * time.Second)
		if q := b.requests()[0]; looked != 1 || len(q.Sights) != 1 || q.Sights[0].JPEG[0] != 1 || q.Sights[0].Age == 0 {
			t.Errorf("looked %d times, sights %+v", looked, q.Sights)
		}
		slow = time.Hour
		r.types("and now?")
		time.Sleep(5 * time.Second)
		if q := b.requests(); len(q) != 2 || len(q[1].Sights) != 0 {
			t.Error("an image that does not come holds up the answer")
		}
		r.end()
	})
}

func TestConfigCheck(t *testing.T) {
	for _, c := range []Config{{}, {Models: models(&brain{}), Images: "often"}, {Models: models(&brain{}), MaxCalls: -1}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
		err := New(c).Run(t.Context(), switcher.Start{}, switcher.NewInbox(rate, 0), nil)
		if e, ok := err.(*switcher.LegError); !ok || e.Retryable {
			t.Errorf("Run: %v", err)
		}
	}
}
