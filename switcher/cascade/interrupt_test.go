package cascade

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

type script = []func(context.Context, func(Delta) error) (Finish, error)

// TestG5NothingComesAfterAnInterruption: of the model, the voice and the tools, also when an engine goes on for a while.
func TestG5NothingComesAfterAnInterruption(t *testing.T) {
	stubborn := func(ctx context.Context, yield func(Delta) error) (Finish, error) {
		_ = yield(Delta{Text: "One. Two is "})
		<-ctx.Done()
		time.Sleep(time.Second) // it is slow to hear of the end
		_ = yield(Delta{Text: "late."})
		return Finish{}, nil
	}
	for name, c := range map[string]struct {
		model func(context.Context, func(Delta) error) (Finish, error)
		voice *mouth
	}{
		"while the model answers":     {says(100*time.Millisecond, strings.Split(strings.Repeat("Word. ", 100), "")...), &mouth{}},
		"while the voice speaks":      {says(0, "A long sentence that takes the voice a while to say. And one more."), &mouth{wait: 100 * time.Millisecond}},
		"while an engine is stubborn": {stubborn, &mouth{}},
		"while tools run":             {both("Wait. ", calls(Call{Name: "slow", Arguments: "{}"})), &mouth{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &brain{script: script{c.model, says(0, "Next.")}}
				r := newRig(t, Config{Models: models(b), Voices: []Voice{c.voice}})
				r.types("go")
				time.Sleep(time.Second)
				id := "c7-a1"
				r.put(switcher.InterruptedIn{Item: id, Played: 100 * time.Millisecond, Text: "One."})
				n := len(r.all())
				time.Sleep(time.Minute)
				for _, s := range r.all()[n:] {
					switch o := s.o.(type) {
					case switcher.TextOut, switcher.SoundOut, switcher.ToolCallOut, switcher.TranscriptOut:
						t.Errorf("%#v after the interruption", o)
					}
				}
				end := "cancelled"
				if name == "while tools run" { // what was said before is a turn that is made, and still being played
					end = "completed"
				}
				r.want("end", r.statuses(), end)
				if name == "while tools run" {
					if got := outputs[switcher.ToolCancelOut](r); len(got) != 1 {
						t.Errorf("taken back: %v", got)
					}
					r.put(switcher.ToolResultIn{CallID: outputs[switcher.ToolCallOut](r)[0].CallID, Output: "late"})
					time.Sleep(time.Minute)
					if len(b.requests()) != 1 {
						t.Error("a result of an interrupted turn was answered")
					}
				}
				r.types("again")
				time.Sleep(time.Minute)
				r.want("end", r.statuses(), end+" completed")
				r.end()
			})
		})
	}
}

// TestGoingOnWithdrawsTheAnswer: the caller pauses, and goes on before anything was heard: both parts get one answer.
func TestGoingOnWithdrawsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(2*time.Second, "Too early."), says(0, "Both heard.")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"tell me", "a story"}}}, Models: models(b), Voices: []Voice{&mouth{}}})
		r.speaks()
		time.Sleep(time.Second) // the model thinks
		r.speaks()
		time.Sleep(10 * time.Second)
		r.want("request", tail(b.requests()[1], 9), "user:tell me | user:a story")
		r.want("text", r.text(), "Both heard.")
		r.want("notices", r.notices(), "turn_merged")
		r.want("end", r.statuses(), "completed")
		r.end()
	})
}

// TestANoiseWhileThinkingLosesNothing: the question is asked again.
func TestANoiseWhileThinkingLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(2*time.Second, "Never."), says(0, "Here.")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"where?", ""}}}, Models: models(b), Voices: []Voice{&mouth{}}})
		r.speaks()
		time.Sleep(time.Second)
		r.speaks()
		time.Sleep(10 * time.Second)
		r.want("request", tail(b.requests()[1], 9), "user:where?")
		r.want("text", r.text(), "Here.")
		r.end()
	})
}

// TestG4CallsSurviveAWithdrawnAnswer: they are not made again, and their result is told.
func TestG4CallsSurviveAWithdrawnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{calls(Call{ID: "k1", Name: "order", Arguments: `{"n":1}`}), calls(Call{ID: "k2", Name: "order", Arguments: `{ "n": 1 }`}), says(0, "Ordered.")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"order it", "please"}}}, Models: models(b), Voices: []Voice{&mouth{}}})
		r.speaks()
		time.Sleep(time.Second)
		r.speaks()
		time.Sleep(time.Second)
		if got := outputs[switcher.ToolCallOut](r); len(got) != 1 || got[0].CallID != "k1" {
			t.Errorf("calls %+v", got)
		}
		if !b.requests()[1].Running["k1"] {
			t.Error("the second request does not say that the call runs")
		}
		r.put(switcher.ToolResultIn{CallID: "k1", Name: "order", Output: "done"})
		time.Sleep(time.Second)
		if n := len(b.requests()); n != 3 {
			t.Fatalf("%d requests", n)
		}
		r.want("request", tail(b.requests()[2], 9), `user:order it | call:order{"n":1} | user:please | call:order{ "n": 1 } | out:done | out:done`)
		r.want("text", r.text(), "Ordered.")
		if len(outputs[switcher.ToolCancelOut](r)) != 0 {
			t.Error("the call was taken back")
		}
		r.end()
	})
}

// TestWhatWasWithdrawnWasNotSaid: the words of an answer that nobody heard are not in the request of the one that takes its place.
func TestWhatWasWithdrawnWasNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{both("One moment. ", calls(Call{ID: "k1", Name: "order", Arguments: `{}`})), says(0, "Ordered.")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{"order it", "please"}}}, Models: models(b), Voices: []Voice{&mouth{wait: 3 * time.Second}}})
		r.speaks()
		time.Sleep(time.Second) // the voice has not begun
		r.speaks()
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[1], 9), `user:order it | call:order{} | user:please`)
		r.want("end", r.statuses(), "cancelled")
		time.Sleep(2 * time.Minute)
		r.want("end", r.statuses(), "cancelled completed")
		r.end()
	})
}

// TestAQuestionDuringAnAnswerIsAnsweredAfterIt, when the session does not interrupt.
func TestAQuestionDuringAnAnswerIsAnsweredAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(200*time.Millisecond, "One. ", "Two. ", "Three. ", "Four."), says(0, "Second.")}}
		r := newRig(t, Config{Models: models(b)})
		r.types("count")
		time.Sleep(300 * time.Millisecond)
		r.types("and then?")
		time.Sleep(10 * time.Second)
		r.want("text", r.text(), "One. Two. Three. Four.Second.")
		r.want("end", r.statuses(), "completed completed")
		r.want("request", tail(b.requests()[1], 9), "user:count | assistant:One. Two. Three. Four. | user:and then?")
		r.end()
	})
}

// TestAnswersWaitForTheEndOfSpeech: what is typed is answered at once, what the floor asks for when the caller is silent.
func TestAnswersWaitForTheEndOfSpeech(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(0, "Yes.")}}
		r := newRig(t, Config{Recognizers: []Recognizer{&ear{texts: []string{""}}}, Models: models(b)})
		r.hears(time.Second)
		r.put(switcher.CallerSpeechIn{Started: true, At: r.at})
		r.put(switcher.FloorIn{Respond: true})
		time.Sleep(time.Second)
		if len(b.requests()) != 0 {
			t.Error("answered while the caller speaks")
		}
		r.types("typed")
		time.Sleep(time.Second)
		r.put(switcher.CallerSpeechIn{Final: true, At: r.at})
		time.Sleep(time.Second)
		if n := len(b.requests()); n != 1 {
			t.Errorf("%d requests, want one for both", n)
		}
		r.end()
	})
}

// TestSoundWaitsForTheSession: a full egress queue holds the voice, not the words, and an interruption frees it.
func TestSoundWaitsForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(10*time.Millisecond, strings.SplitAfter(strings.Repeat("A sentence. ", 20), " ")...)}}
		r := newRig(t, Config{Models: models(b), Voices: []Voice{&mouth{}}})
		r.mu.Lock()
		r.hold = make(chan struct{})
		r.mu.Unlock()
		r.types("go")
		time.Sleep(time.Minute)
		if got := r.text(); got != strings.Repeat("A sentence. ", 20) {
			t.Errorf("text %q", got)
		}
		if r.statuses() != "" || len(outputs[switcher.SoundOut](r)) != 0 {
			t.Error("the turn is over though nobody takes its sound")
		}
		r.put(switcher.InterruptedIn{Item: "c7-a1"})
		r.want("end", r.statuses(), "cancelled")
		r.end()
	})
}

func TestAFloorIsAnsweredFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{script: script{says(0, "Yes.")}}
		r := newRig(t, Config{Models: models(b)})
		r.record(&chatctx.Message{ID: "m", Role: chatctx.RoleUser, Content: chatctx.TextContent("Are you there?")})
		r.put(switcher.FloorIn{Respond: true})
		time.Sleep(time.Second)
		r.want("request", tail(b.requests()[0], 9), "user:Are you there?")
		r.end()
	})
}
