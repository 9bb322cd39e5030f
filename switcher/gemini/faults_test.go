package gemini_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
	"sightline/switcher/gemini/live"
)

func TestClosesAreExplained(t *testing.T) {
	for _, c := range []struct {
		code  int
		text  string
		want  string
		retry bool
	}{
		{1000, "", "connect", true},
		{1001, "", "connect", true},
		{1006, "", "connect", true},
		{1007, "Request contains an invalid argument.", "protocol", true},
		{1008, "Operation is not implemented, or supported, or enabled.", "refused", false},
		{1008, "Requests to this API key are blocked", "auth", false},
		{1011, "Internal error encountered.", "overloaded", true},
		{1011, "You exceeded your current quota, please check your plan and billing details.", "quota", false},
		{1001, "The session duration limit is reached", "expired", true},
	} {
		t.Run(fmt.Sprint(c.code, c.text), func(t *testing.T) {
			with(t, setup{}, func(r *rig) {
				r.floor(false)
				r.p.Close(c.code, c.text)
				if e := r.death(); e.Code != c.want || e.Retryable != c.retry {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestAnAnswerIsInTheMakingWhenItCloses(t *testing.T) {
	with(t, setup{script: faketest.Script{Answer: answers(faketest.Answer{Text: "A story", Sound: time.Minute, Pace: 100 * time.Millisecond})}}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		r.p.Close(1011, "Internal error encountered.")
		if e := r.death(); e.Code != "overloaded" {
			t.Errorf("%+v", e)
		}
	})
}

func TestTheSetupIsRefused(t *testing.T) {
	with(t, setup{script: faketest.Script{RefuseSetup: "Invalid voice."}, start: seeded(switcher.SeedItems, history)}, func(r *rig) {
		if e := r.death(); e.Code != "invalid" || e.Retryable || r.p.Conns() != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestNoAnswerToTheSetup(t *testing.T) {
	with(t, setup{script: faketest.Script{NoSetup: true}}, func(r *rig) {
		if e := r.death(); e.Code != "connect" || !e.Retryable {
			t.Errorf("%+v", e)
		}
	})
}

func TestTheKeyIsNeverShown(t *testing.T) {
	const key = "AIza/secret+key"
	query := gemini.Gemini31()
	query.KeyHeader, query.KeyQuery = "", "key"
	for name, p := range map[string]gemini.Profile{"header": gemini.Gemini31(), "query": query} {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{Key: key}, cfg: gemini.Config{Profile: p, Key: key}}, func(r *rig) {
				r.floor(false)
				req := r.p.Requests()[0]
				if (req.Header.Get("x-goog-api-key") == key) != (name == "header") || (req.URL.Query().Get("key") == key) != (name == "query") {
					t.Errorf("%s %v", req.URL, req.Header)
				}
			})
			with(t, setup{script: faketest.Script{Key: "another"}, cfg: gemini.Config{Profile: p, Key: key}}, func(r *rig) {
				if e := r.death(); e.Code != "auth" || e.Retryable || strings.Contains(e.Error(), key) {
					t.Errorf("%v", e)
				}
			})
			refuse := func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("cannot dial for " + key + " or AIza%2Fsecret%2Bkey")
			}
			err := gemini.New(gemini.Config{Profile: p, Model: "m", Key: key, Dial: refuse}).Run(t.Context(), switcher.Start{}, switcher.NewInbox(live.InRate, 0), nil)
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRefusedConnections(t *testing.T) {
	for status, want := range map[int]string{401: "auth", 403: "auth", 404: "invalid", 429: "overloaded", 503: "connect"} {
		with(t, setup{script: faketest.Script{Status: status}}, func(r *rig) {
			if e := r.death(); e.Code != want || e.Retryable != (status == 429 || status == 503) {
				t.Errorf("%d: %+v", status, e)
			}
		})
	}
}

func TestBadConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   gemini.Config
		start switcher.Start
		want  string
	}{
		"no profile": {gemini.Config{}, switcher.Start{}, "invalid"},
		"no URL":     {gemini.Config{Profile: gemini.Vertex(gemini.Gemini31())}, switcher.Start{}, "invalid"},
		"scheme":     {gemini.Config{Profile: gemini.Gemini31(), URL: "ftp://x"}, switcher.Start{}, "invalid"},
		"rate":       {gemini.Config{Profile: gemini.Gemini31()}, switcher.Start{InRate: 24000}, "invalid"},
		"too long":   {gemini.Config{Profile: gemini.Gemini31()}, switcher.Start{Seed: switcher.Seed{Instructions: strings.Repeat("x", 50<<10)}}, switcher.CodeSeed},
	} {
		var e *switcher.LegError
		if err := gemini.New(c.cfg).Run(t.Context(), c.start, switcher.NewInbox(live.InRate, 0), nil); !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	start := switcher.Start{Tools: []switcher.Tool{{Name: "x", Parameters: []byte("{")}}}
	with(t, setup{start: start, broken: true}, func(r *rig) {
		if e := r.death(); e.Code != "invalid" {
			t.Errorf("%v", e)
		}
	})
}

func TestAnswersThatNeverComeEndTheLegAfterTheSecond(t *testing.T) {
	for name, a := range map[string]faketest.Answer{"not begun": {Silent: true}, "not ended": {Text: "One", Hang: true}} {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{Answer: answers(a)}}, func(r *rig) {
				r.floor(true)
				r.until("a notice", func() bool { return r.noticed(gemini.NoticeAnswerFailed) == 1 })
				if name == "not ended" {
					if got := r.turns(); len(got) != 1 || got[0] != "failed: One" {
						t.Errorf("%q", got)
					}
				}
				r.put(switcher.ItemIn{Item: user("q", "Hello?"), Respond: true})
				if e := r.death(); e.Code != "connect" || !e.Retryable || r.noticed(gemini.NoticeAnswerFailed) != 2 {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestASlowProviderLosesOldSoundOnly: beyond 30 s; the leg lives.
func TestASlowProviderLosesOldSoundOnly(t *testing.T) {
	with(t, setup{script: faketest.Script{SlowRead: 2 * time.Second}, cfg: gemini.Config{TheirTurns: true, SetupTimeout: time.Minute, WriteTimeout: time.Minute, PongTimeout: 10 * time.Minute}}, func(r *rig) {
		r.floor(false)
		for range 50 {
			for range 50 {
				r.put(switcher.SoundIn{PCM: make([]int16, live.InRate/50), At: time.Now()})
			}
			time.Sleep(time.Second)
		}
		r.until("drops", func() bool { return r.leg.Counters().UnsentSound > 0 })
		if r.over() {
			t.Errorf("%v", r.err)
		}
	})
}
