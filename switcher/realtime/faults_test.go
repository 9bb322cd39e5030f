package realtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

func TestAConnectionThatIsRefused(t *testing.T) {
	for status, want := range map[int]switcher.LegError{
		401: {Code: "auth"}, 403: {Code: "auth"}, 404: {Code: "invalid"}, 429: {Code: "overloaded", Retryable: true}, 503: {Code: "connect", Retryable: true},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			with(t, setup{script: faketest.Script{Status: status}}, func(r *rig) {
				if e := r.death(); e.Code != want.Code || e.Retryable != want.Retryable {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestTheKeyIsNeverTold: not in errors, not in notices, not in the log, whoever repeats it.
func TestTheKeyIsNeverTold(t *testing.T) {
	const key = "sk-very-secret"
	var logged bytes.Buffer
	start := switcher.Start{Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	with(t, setup{script: faketest.Script{Key: "another"}, cfg: realtime.Config{Key: key}, start: start}, func(r *rig) {
		if e := r.death(); e.Code != "auth" || strings.Contains(fmt.Sprintf("%v %+v", e, e), key) {
			t.Errorf("%+v", e)
		}
	})
	with(t, setup{script: faketest.Script{Key: key}, cfg: realtime.Config{Key: key}, start: start}, func(r *rig) {
		r.floor(false)
		r.p.Send(`{"type":"error","event_id":"e","error":{"type":"server_error","code":"odd","message":"your key sk-very-secret is odd"}}`)
		r.until("a notice", func() bool { return r.noticed("provider_error") == 1 })
		r.p.Send(`{"type":"error","event_id":"e","error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key sk-very-secret"}}`)
		if e := r.death(); e.Code != "auth" || e.Retryable || strings.Contains(e.Error(), key) || strings.Contains(fmt.Sprint(all[switcher.NoticeOut](r)), key) {
			t.Errorf("%+v", e)
		}
	})
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("proxy wants " + key) }
	err := realtime.New(realtime.Config{Profile: realtime.OpenAI(), Model: "m", Key: key, Dial: dial}).Run(t.Context(), switcher.Start{}, switcher.NewInbox(24000, 0), nil)
	if err == nil || strings.Contains(err.Error(), key) || strings.Contains(logged.String(), key) {
		t.Errorf("%v\n%s", err, logged.String())
	}
}

func TestWhatIsWrongWithAConfigIsSaid(t *testing.T) {
	for _, c := range []realtime.Config{{}, {Profile: realtime.Azure(), Model: "m"}, {Profile: realtime.OpenAI(), URL: "ftp://x", Model: "m"}, {Profile: realtime.OpenAI(), URL: "://", Model: "m"}} {
		var e *switcher.LegError
		if err := realtime.New(c).Run(t.Context(), switcher.Start{}, switcher.NewInbox(24000, 0), nil); !errors.As(err, &e) || e.Code != "invalid" || e.Retryable {
			t.Errorf("%v", err)
		}
	}
	with(t, setup{start: switcher.Start{Tools: []switcher.Tool{{Name: "f", Parameters: []byte("{")}}}}, func(r *rig) {
		if e := r.death(); e.Code != "invalid" {
			t.Errorf("%+v", e)
		}
	})
	with(t, setup{cfg: realtime.Config{Profile: realtime.XAI()}, start: switcher.Start{Seed: switcher.Seed{Instructions: strings.Repeat("x", 20000)}}}, func(r *rig) {
		if e := r.death(); e.Code != realtime.CodeSeed {
			t.Errorf("%+v", e)
		}
	})
}

func TestAProviderThatDoesNotSetUp(t *testing.T) {
	with(t, setup{script: faketest.Script{NoUpdated: true}}, func(r *rig) {
		e := r.death()
		if took := time.Since(r.start); e.Code != "connect" || !e.Retryable || took < 15*time.Second || took > 17*time.Second || !strings.Contains(e.Message, "session.updated") {
			t.Errorf("%+v after %v", e, took)
		}
	})
}

func TestAnAnswerThatFailsIsTriedOnceMore(t *testing.T) {
	fail := &dialect.StatusError{Type: "server_error", Code: "server_error", Message: "sorry"}
	with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Fail: fail}, faketest.Answer{Text: "Fine."})}}, func(r *rig) {
		r.floor(true)
		r.done(1)
		if text, _ := r.said(all[switcher.TurnDoneOut](r)[0].Item); text != "Fine." || r.noticed("answer_retried") != 1 {
			t.Errorf("%q", text)
		}
	})
	with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Fail: fail})}}, func(r *rig) {
		r.floor(true)
		r.until("a failure", func() bool { return r.noticed(realtime.NoticeAnswerFailed) == 1 })
		r.idle(5 * time.Second)
		if n := len(sent[*dialect.ResponseCreate](r)); n != 2 || r.noticed(realtime.NoticeAnswerFailed) != 1 || r.over() {
			t.Errorf("%d answers asked for", n)
		}
	})
	quota := &dialect.StatusError{Type: "invalid_request_error", Code: "insufficient_quota", Message: "pay"}
	with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Fail: quota})}}, func(r *rig) {
		r.floor(true)
		if e := r.death(); e.Code != "quota" || e.Retryable {
			t.Errorf("%+v", e)
		}
	})
}

func TestAnswersThatNeverCome(t *testing.T) {
	for name, a := range map[string]faketest.Answer{"not begun": {Silent: true}, "not ended": {Hang: true}, "stuck in speech": {Text: "Well", Hang: true}} {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{Answer: texts(a), IgnoresCancel: true}}, func(r *rig) {
				r.floor(true)
				r.until("a failure", func() bool { return r.noticed("answer_failed") == 1 })
				if took := time.Since(r.start); took < 30*time.Second || took > 32*time.Second {
					t.Errorf("after %v", took)
				}
				before := len(all[switcher.SoundOut](r))
				for _, c := range sent[*dialect.ResponseCancel](r) {
					r.p.Send(fmt.Sprintf(`{"type":"response.output_audio.delta","response_id":%q,"item_id":"late","delta":"AAAA"}`, c.ResponseID))
				}
				r.idle(time.Second)
				if n := len(all[switcher.SoundOut](r)); n != before {
					t.Error("an answer that was given up is heard")
				}
				r.put(switcher.ItemIn{Item: user("q", "hello?"), Respond: true})
				if name != "not begun" {
					r.until("another failure", func() bool { return r.noticed(realtime.NoticeAnswerFailed) == 2 })
				}
				if e := r.death(); e.Code != "connect" || !e.Retryable {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestATurnThatTheProviderForgets is answered all the same: also one that was spoken over another answer.
func TestATurnThatTheProviderForgets(t *testing.T) {
	script := faketest.Script{IgnoresTurns: true, Answer: texts(faketest.Answer{Text: "A long story", Sound: 3 * time.Second, Pace: 100 * time.Millisecond})}
	with(t, setup{script: script}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		if waited := time.Since(r.start); waited > 9*time.Second {
			t.Errorf("answered after %v", waited)
		}
		r.speak(time.Second)
		r.done(2)
		r.idle(20 * time.Second)
		if n := len(all[switcher.TurnDoneOut](r)); n != 2 || r.noticed("answer_owed") != 2 {
			t.Errorf("%d answers, %d were owed", n, r.noticed("answer_owed"))
		}
	})
}

func TestG12AProviderThatReadsSlowlyCostsSoundNotTheCall(t *testing.T) {
	with(t, setup{script: faketest.Script{SlowRead: 100 * time.Millisecond, Deaf: true}}, func(r *rig) {
		r.floor(false)
		r.sound(make([]int16, 60*dialect.Rate))
		r.put(switcher.ItemIn{Item: user("q", "hello?"), Respond: true})
		r.done(1)
		if c := r.leg.Counters(); c.UnsentSound == 0 || r.over() {
			t.Errorf("%+v, %v", c, r.err)
		}
	})
}

// TestG12ASessionThatIsBehindHoldsTheProvider: what waits is bounded, the caller is heard all the same, and nothing is lost.
func TestG12ASessionThatIsBehindHoldsTheProvider(t *testing.T) {
	with(t, setup{script: faketest.Script{Answer: texts(faketest.Answer{Text: "A very long story", Sound: 7 * time.Minute})}}, func(r *rig) {
		r.ready()
		gate := make(chan struct{})
		r.mu.Lock()
		r.gate = gate
		r.mu.Unlock()
		r.put(switcher.FloorIn{Respond: true})
		r.idle(90 * time.Second) // longer than the provider may be silent, which it is not: we do not listen
		heard := r.p.Heard()
		r.sound(make([]int16, dialect.Rate))
		r.until("the caller's sound", func() bool { return r.p.Heard() >= heard+900*time.Millisecond })
		if made := r.p.Said(); made > 5*time.Minute { // four with us, the rest in the provider's own queue
			t.Errorf("%v of sound was taken while nobody takes it from us", made)
		}
		close(gate)
		r.done(1)
		if _, sound := r.said(all[switcher.TurnDoneOut](r)[0].Item); sound != 7*time.Minute {
			t.Errorf("%v of sound", sound)
		}
	})
}

func TestG12WhatWaitsForTheFloorIsBounded(t *testing.T) {
	with(t, setup{script: faketest.Script{Deaf: true}}, func(r *rig) {
		r.ready()
		r.sound(make([]int16, 60*dialect.Rate))
		r.put(switcher.FloorIn{})
		r.until("20 s", func() bool { return r.p.Heard() > 19900*time.Millisecond })
		if c := r.leg.Counters(); r.p.Heard() > 20*time.Second || c.EarlySound != 2000 {
			t.Errorf("%v, %+v", r.p.Heard(), c)
		}
	})
}

func TestG12NonsenseFromTheProviderIsCounted(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		for _, raw := range []string{`{`, `[]`, `{"type":"sightline.frame","n":1}`, `{"type":"response.output_audio.delta","item_id":"i","response_id":"r","delta":"!!!"}`,
			`{"type":"conversation.item.added","item":null}`, `{"type":"response.done"}`, `{"type":"error"}`, `{"type":"response.output_item.done","item":{"type":"function_call","status":"completed"}}`} {
			r.p.Send(raw)
		}
		r.speak(time.Second)
		r.done(1)
		if c := r.leg.Counters(); c.Unknown != 1 || c.Malformed != 3 || len(all[switcher.ToolCallOut](r)) != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestG13StoppedAtAnyTime: nothing is left when a leg is stopped, whatever it was doing; the bubble fails on a goroutine that is.
func TestG13StoppedAtAnyTime(t *testing.T) {
	for after := time.Duration(0); after < 4*time.Second; after += 333 * time.Millisecond {
		s := setup{script: faketest.Script{Answer: texts(faketest.Answer{Text: "A long story", Sound: 5 * time.Second, Pace: 100 * time.Millisecond})}, start: lookStart(func() []switcher.Sight {
			time.Sleep(500 * time.Millisecond)
			return nil
		})}
		s.start.Seed = switcher.Seed{Mode: switcher.SeedItems, Items: history}
		with(t, s, func(r *rig) {
			r.put(switcher.FloorIn{Respond: true})
			for n := time.Duration(0); n < after; n += 20 * time.Millisecond {
				r.put(switcher.SoundIn{PCM: faketest.Tone(20 * time.Millisecond), At: time.Now()})
				time.Sleep(20 * time.Millisecond)
			}
			r.stop()
			r.until("the end", r.over)
			if r.err != nil {
				t.Errorf("stopped after %v: %v", after, r.err)
			}
		})
	}
}

// TestG13StoppedAgainstAServerThatHangs: one that does not even answer a close.
func TestG13StoppedAgainstAServerThatHangs(t *testing.T) {
	with(t, setup{script: faketest.Script{SlowRead: time.Hour}}, func(r *rig) {
		r.idle(5 * time.Second)
		r.stop()
		begun := time.Now()
		r.until("the end", r.over)
		if took := time.Since(begun); took > 2*time.Second || r.err != nil {
			t.Errorf("%v after %v", r.err, took)
		}
	})
}

func TestG13StoppedWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		leg := realtime.New(realtime.Config{Profile: realtime.OpenAI(), Model: "m", Dial: dial})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leg.Run(ctx, switcher.Start{}, switcher.NewInbox(24000, 0), nil); err != nil {
			t.Errorf("stopped: %v", err)
		}
		var e *switcher.LegError
		begun := time.Now()
		if err := realtime.New(realtime.Config{Profile: realtime.OpenAI(), Model: "m", Dial: dial}).Run(t.Context(), switcher.Start{}, switcher.NewInbox(24000, 0), nil); !errors.As(err, &e) || e.Code != "connect" || !e.Retryable || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
