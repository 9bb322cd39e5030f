package ultravox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/ultravox"
	"sightline/switcher/ultravox/faketest"
)

func user(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func assistant(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)}
}

func TestSpeechIsAnsweredInSoundWithItsText(t *testing.T) {
	for _, s := range []faketest.Script{{}, {LateTranscript: true}, {NoStates: true}} {
		for _, texts := range []bool{false, true} {
			t.Run(fmt.Sprintf("late=%t,states=%t,texts=%t", s.LateTranscript, !s.NoStates, texts), func(t *testing.T) {
				s.Hears = func(int) string { return "where is it" }
				s.Answer = answers(faketest.Answer{Text: "On its way to you.", Sound: 2 * time.Second, Texts: texts, Odd: true})
				with(t, setup{script: s}, func(r *rig) {
					r.floor(false)
					began := r.speak(time.Second)
					r.done(1)
					if text, sound := r.said(all[switcher.TurnDoneOut](r)[0].Item); text != "On its way to you." || sound != 2*time.Second {
						t.Errorf("%q, %v", text, sound)
					}
					speech, said := all[switcher.CallerSpeechOut](r), all[switcher.TranscriptOut](r)
					if len(speech) != 2 || !speech[0].At.Equal(began) || speech[1].Started || len(said) != 2 || said[0].Final || !said[1].Final || said[1].Text != "where is it" || said[1].Item != speech[0].Item {
						t.Errorf("%+v\n%+v", speech, said)
					}
					if h := r.p.Heard(); h < 1600*time.Millisecond || h > 1700*time.Millisecond || r.leg.Counters().Malformed != 1 {
						t.Errorf("heard %v, %+v", h, r.leg.Counters())
					}
				})
			})
		}
	}
}

func TestTheCallIsMadeAsTheAPIWants(t *testing.T) {
	start := switcher.Start{Seed: switcher.Seed{Instructions: "Be kind. ⟦record of the call so far⟧"}, Tools: []switcher.Tool{
		{Name: "lookup", Description: "looks up", Parameters: []byte(`{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"by":{"type":"string","enum":["a","b"]}}}`)},
		{Name: "now"},
	}}
	with(t, setup{cfg: ultravox.Config{Voice: "Mark", Language: "en", ToolTimeout: 20 * time.Second}, start: start}, func(r *rig) {
		r.floor(false)
		c := r.p.Calls()[0]
		if c.SystemPrompt != start.Seed.Instructions || c.Model != "fake-model" || c.Voice != "Mark" || c.LanguageHint != "en" || c.MaxDuration != "3600s" {
			t.Errorf("%+v", c)
		}
		tool := c.SelectedTools[0].TemporaryTool
		if p := tool.DynamicParameters; tool.Timeout != "20s" || len(p) != 2 || p[0].Name != "by" || p[0].Required || p[1].Name != "id" || !p[1].Required || p[1].Schema["type"] != "integer" {
			t.Errorf("%+v", tool)
		}
	})
}

func TestNothingIsSaidBeforeTheFloor(t *testing.T) {
	with(t, setup{script: faketest.Script{Greets: true}}, func(r *rig) {
		r.until("a greeting that nobody asked for", func() bool { return r.leg.Counters().EarlyAnswers == 1 })
		r.sound(faketest.Tone(400 * time.Millisecond))
		r.put(switcher.ItemIn{Item: user("a", "I am Ann.")})
		r.idle(time.Second)
		if h := r.p.Heard(); h != 0 {
			t.Errorf("heard %v", h)
		}
		r.floor(false)
		r.sound(make([]int16, ultravox.InRate))
		r.done(1)
		if got := r.turns(); !slices.Equal(got, []string{"completed: Hello."}) || r.p.Heard() < time.Second {
			t.Errorf("%q, heard %v", got, r.p.Heard())
		}
	})
}

func TestTheSessionInterrupts(t *testing.T) {
	long := faketest.Answer{Text: "A long story", Sound: time.Minute, Pace: 100 * time.Millisecond}
	with(t, setup{script: faketest.Script{Answer: answers(long, faketest.Answer{Text: "Yes?"})}}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		in := switcher.InterruptedIn{Item: all[switcher.SoundOut](r)[0].Item, Played: time.Second, Text: "A long"}
		r.put(in)
		r.put(in)
		r.put(switcher.InterruptedIn{Item: "nobody_knows"})
		r.put(switcher.ItemIn{Item: user("q", "Stop. What is new?"), Respond: true})
		r.done(2)
		if got := r.turns(); got[0] != "cancelled: A long story" || got[1] != "completed: Yes?" {
			t.Errorf("%q", got)
		}
		notes := 0
		for _, l := range r.lines() {
			if strings.Contains(l, "heard only: A long⟧") {
				notes++
			}
		}
		if notes != 1 {
			t.Errorf("%q", r.lines())
		}
	})
}

func TestTheCallerInterrupts(t *testing.T) {
	long := faketest.Answer{Text: "A long story", Sound: time.Minute, Pace: 100 * time.Millisecond}
	with(t, setup{script: faketest.Script{Answer: answers(long, faketest.Answer{Text: "Yes?"})}}, func(r *rig) {
		r.floor(true)
		r.until("sound", func() bool { return len(all[switcher.SoundOut](r)) > 3 })
		r.speak(time.Second)
		r.done(2)
		if got := r.turns(); got[0] != "cancelled: A long story" || got[1] != "completed: Yes?" {
			t.Errorf("%q", got)
		}
	})
}

func TestReport5WhatWasHeardOfAnAnswerThatWasMade(t *testing.T) {
	for played, told := range map[time.Duration]int{time.Second: 1, 2 * time.Second: 0} {
		with(t, setup{script: faketest.Script{Answer: answers(faketest.Answer{Text: "One two", Sound: 2 * time.Second})}}, func(r *rig) {
			r.floor(true)
			r.done(1)
			r.put(switcher.InterruptedIn{Item: all[switcher.TurnDoneOut](r)[0].Item, Played: played})
			r.idle(time.Second)
			if n := len(r.p.Got()) - 1; n != told || len(all[switcher.TurnDoneOut](r)) != 1 {
				t.Errorf("heard %v of 2 s: %q", played, r.lines())
			}
		})
	}
}

func TestToolsGoThereAndBack(t *testing.T) {
	calls := []faketest.Invocation{{ID: "a", Name: "lookup", Parameters: `{"id": 456}`}, {ID: "b", Name: "lookup", Parameters: `{"id": 456}`}, {ID: "c", Name: "weather", Parameters: `{}`}}
	with(t, setup{script: faketest.Script{Answer: answers(faketest.Answer{Text: "One moment.", Calls: calls}, faketest.Answer{Text: "Shipped."})}}, func(r *rig) {
		r.floor(true)
		r.until("two calls", func() bool { return len(all[switcher.ToolCallOut](r)) == 2 })
		out := all[switcher.ToolCallOut](r)
		if out[0].Arguments != `{"id":456}` || out[0].Item == "" || r.noticed("tool_repeated") != 1 { // report 9: ten identical calls
			t.Errorf("%+v", out)
		}
		r.put(switcher.ToolResultIn{CallID: "a", Name: "lookup", Output: "shipped"})
		r.put(switcher.ToolResultIn{CallID: "a", Name: "lookup", Output: "shipped"})
		r.put(switcher.ToolResultIn{CallID: "c", Name: "weather", Output: "no such place", IsError: true})
		r.done(2)
		if got := r.turns(); !slices.Equal(got, []string{"completed: One moment.", "completed: Shipped."}) {
			t.Errorf("%q", got)
		}
		if all := strings.Join(r.p.Got(), "\n"); strings.Count(all, `"errorType":"implementation-error","errorMessage":"no such place"`) != 1 || strings.Count(all, `"result":"shipped","responseType":"tool-response"`) != 2 {
			t.Errorf("%s", all)
		}
		if l := r.lines(); !slices.Contains(l, "tool: no such place") || strings.Count(strings.Join(l, "\n"), "tool: shipped") != 2 {
			t.Errorf("%q", l)
		}
	})
}

// TestReport8AResultOfBefore: the call was asked for in another call; here nobody knows its id.
func TestReport8AResultOfBefore(t *testing.T) {
	start := switcher.Start{Items: func() chatctx.Items {
		return chatctx.Items{&chatctx.FunctionCall{ID: "h2", CallID: "h2", Name: "lookup_order", Arguments: `{"id":456}`}}
	}}
	with(t, setup{start: start}, func(r *rig) {
		r.floor(false)
		r.put(switcher.ToolResultIn{CallID: "h2", Name: "lookup_order", Output: "shipped"})
		r.done(1)
		if l := r.lines()[0]; !strings.Contains(l, "lookup_order") || !strings.Contains(l, "456") || !strings.Contains(l, "shipped") {
			t.Errorf("%s", l)
		}
	})
}

func TestTypedItemsOfOthers(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		r.put(switcher.ItemIn{Item: user("a", "I am Ann.")})
		r.put(switcher.ItemIn{Item: assistant("b", "Hello Ann.")})
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCall{ID: "c", CallID: "c", Name: "weather", Arguments: `{"at":"Ulm"}`}})
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "d", CallID: "c", Name: "weather", Output: "rain"}})
		r.idle(time.Second)
		if n := len(all[switcher.SoundOut](r)); n != 0 {
			t.Error("it answers what it was only told")
		}
		r.put(switcher.ItemIn{Item: user("e", "And now?"), Respond: true})
		r.done(1)
		said := strings.Join(r.lines(), "\n")
		for _, want := range []string{"note: I am Ann.", "Hello Ann.⟧", "Ulm", "rain", "user: And now?"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is missing in\n%s", want, said)
			}
		}
		if len(all[switcher.TranscriptOut](r)) != 0 {
			t.Error("what was typed comes back as the caller's speech")
		}
		if strings.Contains(said, "begins here") {
			t.Error("the conversation does not begin here")
		}
	})
}

// TestReport11WordsOfTheCallerAfterTheAnswer keep the place of their speech; a repeated yes is two.
func TestReport11WordsOfTheCallerAfterTheAnswer(t *testing.T) {
	with(t, setup{script: faketest.Script{LateTranscript: true, Hears: func(int) string { return "yes" }}}, func(r *rig) {
		r.floor(false)
		var began []time.Time
		for n := range 2 {
			began = append(began, r.speak(time.Second))
			r.done(n + 1)
		}
		n := 0
		for _, o := range all[switcher.TranscriptOut](r) {
			if o.Final {
				if !o.At.Equal(began[n]) {
					t.Errorf("utterance %d at %v, began %v", n, o.At, began[n])
				}
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d transcripts", n)
		}
	})
}

func TestNothingUnderstoodIsSaidSo(t *testing.T) {
	with(t, setup{script: faketest.Script{Hears: func(int) string { return "" }}}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		r.until("a failed transcript", func() bool {
			said := all[switcher.TranscriptOut](r)
			return len(said) == 1 && said[0].Failed && !said[0].Final
		})
	})
}

func TestAnswersThatNeverComeEndTheLegAfterTheSecond(t *testing.T) {
	with(t, setup{script: faketest.Script{Answer: answers(faketest.Answer{Silent: true})}}, func(r *rig) {
		r.floor(true)
		r.until("a notice", func() bool { return r.noticed(ultravox.NoticeAnswerFailed) == 1 })
		r.put(switcher.ItemIn{Item: user("q", "Hello?"), Respond: true})
		if e := r.death(); e.Code != "connect" || !e.Retryable || r.noticed(ultravox.NoticeAnswerFailed) != 2 {
			t.Errorf("%+v", e)
		}
	})
}

func TestFaultsAreExplained(t *testing.T) {
	for name, c := range map[string]struct {
		script faketest.Script
		cfg    ultravox.Config
		want   string
		retry  bool
	}{
		"bad key":       {faketest.Script{Key: "other"}, ultravox.Config{Key: "secret"}, "auth", false},
		"no money":      {faketest.Script{Status: 402}, ultravox.Config{}, "quota", false},
		"bad request":   {faketest.Script{Status: 400}, ultravox.Config{}, "invalid", false},
		"too many":      {faketest.Script{Status: 429}, ultravox.Config{}, "overloaded", true},
		"down":          {faketest.Script{Status: 503}, ultravox.Config{}, "connect", true},
		"no JSON":       {faketest.Script{Body: "<html>"}, ultravox.Config{}, "protocol", true},
		"no joinUrl":    {faketest.Script{Body: `{"callId":"1"}`}, ultravox.Config{}, "protocol", true},
		"odd joinUrl":   {faketest.Script{Join: "ftp://x"}, ultravox.Config{}, "protocol", true},
		"never begins":  {faketest.Script{Mute: true}, ultravox.Config{}, "connect", true},
		"bad URL":       {faketest.Script{}, ultravox.Config{URL: "ws://fake"}, "invalid", false},
		"URL with /api": {faketest.Script{Status: 404}, ultravox.Config{URL: "http://fake/api/"}, "invalid", false},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: c.script, cfg: c.cfg}, func(r *rig) {
				if e := r.death(); e.Code != c.want || e.Retryable != c.retry || strings.Contains(e.Error(), "secret") {
					t.Errorf("%+v", e)
				}
			})
		})
	}
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		r.p.Send(`nonsense`)
		r.p.Send(`{"type":"news"}`)
		r.until("counts", func() bool { return r.leg.Counters().Malformed == 1 && r.leg.Counters().Unknown == 1 })
		r.p.Close(1011, "internal")
		if e := r.death(); e.Code != "overloaded" || !e.Retryable {
			t.Errorf("%+v", e)
		}
	})
}

func TestSecretsAreNeverShown(t *testing.T) {
	const key, token = "uv/secret+key", "once-only"
	n := 0
	p := faketest.New(faketest.Script{Key: key})
	dial, stop := p.Listen()
	defer stop()
	for _, fail := range []int{0, 1} {
		n = 0
		refuse := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if n++; n > fail {
				return nil, errors.New("cannot dial for " + key + " or uv%2Fsecret%2Bkey or ws://fake/join?call_id=1&token=" + token)
			}
			return dial(ctx, network, addr)
		}
		err := ultravox.New(ultravox.Config{URL: "http://fake", Model: "m", Key: key, Dial: refuse}).Run(t.Context(), switcher.Start{}, switcher.NewInbox(ultravox.InRate, 0), nil)
		if err == nil || strings.Contains(err.Error(), "secret") || fail == 1 && strings.Contains(err.Error(), token) {
			t.Errorf("%v", err)
		}
	}
	for name, s := range map[string]switcher.Start{"rate": {InRate: 48000}, "tool": {Tools: []switcher.Tool{{Name: "x", Parameters: []byte("[")}}}} {
		var e *switcher.LegError
		if err := ultravox.New(ultravox.Config{Model: "m"}).Run(t.Context(), s, switcher.NewInbox(ultravox.InRate, 0), nil); !errors.As(err, &e) || e.Code != "invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnOutputOfOthersFindsItsCall that stands in the conversation; alone it is no use.
func TestAnOutputOfOthersFindsItsCall(t *testing.T) {
	start := switcher.Start{Items: func() chatctx.Items {
		return chatctx.Items{&chatctx.FunctionCall{ID: "h2", CallID: "h2", Name: "lookup_order", Arguments: `{"id":456}`}}
	}}
	for _, known := range []bool{true, false} {
		if !known {
			start.Items = nil
		}
		with(t, setup{start: start}, func(r *rig) {
			r.floor(false)
			r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "x", CallID: "h2", Name: "lookup_order", Output: "delayed"}})
			r.idle(time.Second)
			if said := strings.Join(r.lines(), "\n"); strings.Contains(said, `lookup_order was called with {"id":456}`) != known || strings.Contains(said, "delayed") != known {
				t.Errorf("known %t: %s", known, said)
			}
		})
	}
}

// TestTwoTurnsNeverBeganAtOnce, whatever the detector says: they would have no order.
func TestTwoTurnsNeverBeganAtOnce(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		at := time.Now()
		for range 3 {
			r.put(switcher.CallerSpeechIn{Started: true, At: at})
			r.put(switcher.CallerSpeechIn{Final: true, At: at})
		}
		r.until("three turns", func() bool { return len(all[switcher.TranscriptOut](r)) == 3 })
		said := all[switcher.TranscriptOut](r)
		if !said[0].At.Before(said[1].At) || !said[1].At.Before(said[2].At) {
			t.Errorf("%+v", said)
		}
	})
}
