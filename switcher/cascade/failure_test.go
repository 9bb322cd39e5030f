package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sightline/switcher"
)

var (
	down    = &EngineError{Code: "unreachable", Message: "no route", Retryable: true}
	refused = &EngineError{Code: "invalid", Message: "bad request"}
	busy    = &EngineError{Code: "rate_limited", Retryable: true, After: time.Second}
	closed  = &EngineError{Code: "rate_limited", Retryable: true, After: time.Hour}
)

// breaks says something and then fails.
func breaks(text string, err error) func(context.Context, func(Delta) error) (Finish, error) {
	return func(_ context.Context, yield func(Delta) error) (Finish, error) {
		if text != "" {
			if err := yield(Delta{Text: text}); err != nil {
				return Finish{}, err
			}
		}
		return Finish{}, err
	}
}

func hangs(ctx context.Context, _ func(Delta) error) (Finish, error) {
	<-ctx.Done()
	return Finish{}, ctx.Err()
}

func stalls(ctx context.Context, yield func(Delta) error) (Finish, error) {
	if err := yield(Delta{Text: "I was about to. "}); err != nil {
		return Finish{}, err
	}
	<-ctx.Done()
	return Finish{}, ctx.Err()
}

const sorry = "Sorry, I cannot answer at the moment. Please try again."

// TestModelFailures: what is said, when, and what is told about it.
func TestModelFailures(t *testing.T) {
	for name, c := range map[string]struct {
		first, second script
		text, notices string
		within        time.Duration
		asked         string // of the first and the second engine
	}{
		"500 once":                 {script{fails(down), says(0, "Fine.")}, nil, "Fine.", "llm_retry", 300 * time.Millisecond, "2 0"},
		"429 with a short wish":    {script{fails(busy), says(0, "Fine.")}, nil, "Fine.", "llm_retry", 1100 * time.Millisecond, "2 0"},
		"429 with a long wish":     {script{fails(closed)}, script{says(0, "I do.")}, "I do.", "llm_failover", 10 * time.Millisecond, "1 1"},
		"400 is not asked again":   {script{fails(refused)}, script{says(0, "I do.")}, "I do.", "llm_failover", 10 * time.Millisecond, "1 1"},
		"dead, the second answers": {script{fails(down)}, script{says(0, "I do.")}, "I do.", "llm_retry llm_failover", 300 * time.Millisecond, "2 1"},
		"all dead":                 {script{fails(down)}, script{fails(down)}, sorry, "llm_retry llm_failover llm_retry llm_failed", time.Second, "2 2"},
		"silent":                   {script{hangs, says(0, "Now.")}, nil, "Now.", "llm_retry", 16 * time.Second, "2 0"},
		"an empty answer":          {script{says(0, " \n"), says(0, "Now.")}, nil, "Now.", "llm_retry", time.Second, "2 0"},
		"breaks off": {script{breaks("Half of it. And", down)}, script{says(0, "No.")},
			"Half of it. And Sorry, I lost the rest of my answer.", "", 10 * time.Millisecond, "1 0"},
		"stalls":           {script{stalls}, script{says(0, "No.")}, "I was about to. Sorry, I lost the rest of my answer.", "", 11 * time.Second, "1 0"},
		"an unknown error": {script{fails(errors.New("what?")), says(0, "Fine.")}, nil, "Fine.", "llm_retry", time.Second, "2 0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := &brain{name: "1", script: c.first}, &brain{name: "2", script: c.second}
				ms := models(one)
				if c.second != nil {
					ms = append(ms, two)
				}
				v := &mouth{}
				r := newRig(t, Config{Models: ms, Voices: []Voice{v}})
				r.types("go")
				time.Sleep(time.Until(r.at.Add(c.within)))
				synctest.Wait()
				r.want("text in time", r.text(), c.text)
				time.Sleep(time.Minute)
				r.want("text", r.text(), c.text)
				r.want("sound", r.spoken(), c.text)
				r.want("notices", r.notices(), c.notices)
				r.want("asked", fmt.Sprint(len(one.requests()), len(two.requests())), c.asked)
				status := switcher.TurnCompleted
				if strings.Contains(c.text, "Sorry") {
					status = switcher.TurnFailed
				}
				r.want("end", r.statuses(), status)
				r.end()
			})
		})
	}
}

// TestAFailedEngineIsTriedLastForAWhile: the next turn does not wait for it again.
func TestAFailedEngineIsTriedLastForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &brain{name: "1", script: script{fails(refused), says(0, "One.")}}, &brain{name: "2", script: script{says(0, "Two.")}}
		r := newRig(t, Config{Models: models(one, two)})
		for range 2 {
			r.types("go")
			time.Sleep(10 * time.Second)
		}
		r.want("asked", fmt.Sprint(len(one.requests()), len(two.requests())), "1 2")
		time.Sleep(time.Minute)
		r.types("go")
		time.Sleep(time.Second)
		r.want("asked when it is cool", fmt.Sprint(len(one.requests()), len(two.requests())), "2 2")
		r.end()
	})
}

// TestRecogniserFailures: the second engine hears all of it, from the first syllable on.
func TestRecogniserFailures(t *testing.T) {
	whole := samples(800*time.Millisecond+lead, rate)
	for name, c := range map[string]struct {
		first         *ear
		second        *ear
		text, notices string
		failed        bool
	}{
		"cannot listen":   {&ear{listen: down}, &ear{texts: []string{"hi"}}, "hi", "stt_retry stt_failover", false},
		"cannot finish":   {&ear{finish: refused}, &ear{texts: []string{"hi"}}, "hi", "stt_failover", false},
		"takes too long":  {&ear{lag: time.Hour}, &ear{texts: []string{"hi"}}, "hi", "stt_retry stt_failover", false},
		"other rate":      {&ear{finish: refused}, &ear{rate: 8000, texts: []string{"hi"}}, "hi", "stt_failover", false},
		"all of them die": {&ear{listen: down}, &ear{finish: down}, "", "stt_retry stt_failover stt_retry stt_failed", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &brain{script: script{says(0, "Hello.")}}
				r := newRig(t, Config{Recognizers: []Recognizer{c.first, c.second}, Models: models(b), Voices: []Voice{&mouth{}}})
				r.speaks()
				time.Sleep(time.Minute)
				got := outputs[switcher.TranscriptOut](r)
				if len(got) != 1 || got[0].Text != c.text || got[0].Failed != c.failed {
					t.Errorf("transcripts %+v", got)
				}
				r.want("notices", r.notices(), c.notices)
				if c.failed {
					r.want("text", r.text(), "Sorry, I could not hear that. Please say it again.")
					if len(b.requests()) != 0 {
						t.Error("the model was asked about nothing")
					}
				} else {
					r.want("text", r.text(), "Hello.")
					if want := whole * c.second.Rate() / rate; len(c.second.heard) != 1 || c.second.heard[0] != want {
						t.Errorf("the second engine heard %v samples, want %d", c.second.heard, want)
					}
				}
				r.end()
			})
		})
	}
}

// TestTranscriptsKeepTheOrderOfSpeech, however long the engine takes for each.
func TestTranscriptsKeepTheOrderOfSpeech(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ear{finish: refused}
		slow := &ear{texts: []string{"one", "two"}, lag: 3 * time.Second}
		r := newRig(t, Config{Recognizers: []Recognizer{slow, e}, Models: models(&brain{script: script{says(0, "Ok.")}})})
		r.speaks()
		time.Sleep(time.Second)
		slow.lag = 0
		r.speaks()
		time.Sleep(time.Minute)
		var ids []string
		for _, o := range outputs[switcher.TranscriptOut](r) {
			ids = append(ids, o.Item)
		}
		r.want("order", strings.Join(ids, " "), "c7-u1 c7-u2")
		r.end()
	})
}

// TestVoiceFailures: no silence without a written word.
func TestVoiceFailures(t *testing.T) {
	const text = "One is said here. Two is longer. Three."
	for name, c := range map[string]struct {
		first, second          *mouth
		written, said, notices string
	}{
		"the first is dead": {&mouth{fail: refused}, &mouth{}, text, text, "tts_failover"},
		"one hiccup":        {&mouth{breaks: 0, fail: nil}, &mouth{}, text, text, ""},
		"breaks off":        {&mouth{breaks: 3}, &mouth{}, text, "Two is longer. Three.", ""},
		"gives nothing":     {&mouth{name: "0"}, &mouth{}, text, text, "tts_retry tts_failover"},
		"all are dead":      {&mouth{fail: down}, &mouth{fail: refused}, text + " (My voice does not work at the moment, so I write.)", "", "tts_retry tts_failover tts_failed"},
		"another rate":      {&mouth{fail: refused}, &mouth{rate: 24000}, text, text, "tts_failover"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				voices := []Voice{c.first, c.second}
				if name == "gives nothing" {
					voices[0] = dumb{}
				}
				b := &brain{script: script{says(0, text)}}
				r := newRig(t, Config{Models: models(b), Voices: voices})
				r.types("go")
				time.Sleep(time.Minute)
				r.want("written", r.text(), c.written)
				if got := r.spoken(); !strings.HasSuffix(got, c.said) {
					t.Errorf("said %q, want %q", got, c.said)
				}
				r.want("notices", r.notices(), c.notices)
				for _, o := range outputs[switcher.SoundOut](r) {
					if name == "another rate" && o.Rate != 24000 {
						t.Errorf("sound of %d Hz", o.Rate)
					}
				}
				r.want("end", r.statuses(), "completed")
				r.end()
			})
		})
	}
}

type dumb struct{}

func (dumb) Name() string                                             { return "dumb" }
func (dumb) Rate() int                                                { return rate }
func (dumb) Speak(context.Context, string, func([]int16) error) error { return nil }

// TestAnswersWithoutAVoiceAreWritten, as where the session takes no sound.
func TestAnswersWithoutAVoiceAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		edit func(*switcher.Start)
	}{
		"no voice":     {Config{}, func(*switcher.Start) {}},
		"no sound out": {Config{Voices: []Voice{&mouth{}}}, func(s *switcher.Start) { s.OutRate = 0 }},
		"no sound in":  {Config{Recognizers: []Recognizer{&ear{}}}, func(s *switcher.Start) { s.InRate = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.cfg.Models = models(&brain{script: script{says(0, "Written. ", "Only.")}})
				r := newRig(t, c.cfg, c.edit)
				r.speaks() // nobody listens
				r.types("go")
				time.Sleep(time.Second)
				r.want("text", r.text(), "Written. Only.")
				if len(outputs[switcher.SoundOut](r)) != 0 || (name != "no voice" && name != "no sound out" && len(outputs[switcher.TranscriptOut](r)) != 0) {
					t.Error("there is sound")
				}
				r.want("end", r.statuses(), "completed")
				r.end()
			})
		})
	}
}

// TestWhatNobodyCanSayIsWritten: no voice is asked for it, and the turn has its end.
func TestWhatNobodyCanSayIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &mouth{}
		r := newRig(t, Config{Models: models(&brain{script: script{says(0, "🙂 ", "…"), says(0, "Well 🙂. ", "**So** it is — 🙂!")}}), Voices: []Voice{v}})
		r.types("smile")
		time.Sleep(time.Minute)
		r.want("text", r.text(), "🙂 …")
		r.want("phrases", v.phrases(), "")
		r.want("end", r.statuses(), "completed")
		r.types("speak")
		time.Sleep(time.Minute)
		r.want("phrases", v.phrases(), "Well .|So it is — !")
		r.want("sound", r.spoken(), "Well 🙂. **So** it is — 🙂!")
		r.end()
	})
}
