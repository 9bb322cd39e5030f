package ultravox_test

import (
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/ultravox"
	"sightline/switcher/ultravox/faketest"
)

func TestThePipelineSaysWhatItTakes(t *testing.T) {
	p := ultravox.Config{Model: "m"}.Pipeline("name")
	if c := p.Can; p.Name != "name" || p.Kind != switcher.Realtime || c.InRate != 16000 || c.OutRate != 24000 || !c.OwnTurns || c.MaxLife != time.Hour || len(c.Seeds) != 1 || c.Seeds[0] != switcher.SeedInstructions || c.MaxInstructions == 0 {
		t.Errorf("%+v", p)
	}
}

// TestSoundFromBeforeTheFloorIsBounded to its newest 20 s.
func TestSoundFromBeforeTheFloorIsBounded(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.until("ReadyOut", func() bool { return len(all[switcher.ReadyOut](r)) == 1 })
		r.sound(make([]int16, 25*ultravox.InRate))
		r.put(switcher.FloorIn{})
		r.until("20 s", func() bool { return r.p.Heard() >= 20*time.Second-40*time.Millisecond })
		r.idle(time.Second)
		if h, n := r.p.Heard(), r.leg.Counters().EarlySound; h > 20*time.Second || n != 250 {
			t.Errorf("heard %v, %d pieces dropped", h, n)
		}
	})
}

func TestAProviderThatDoesNotReadLosesOldSoundOnly(t *testing.T) {
	with(t, setup{script: faketest.Script{SlowRead: 5 * time.Second}, cfg: ultravox.Config{WriteTimeout: time.Minute, PongTimeout: 10 * time.Minute}}, func(r *rig) {
		r.floor(false)
		for range 40 {
			for range 50 {
				r.put(switcher.SoundIn{PCM: make([]int16, ultravox.InRate/50), At: time.Now()})
			}
			time.Sleep(time.Second)
		}
		r.until("drops", func() bool { return r.leg.Counters().UnsentSound > 0 })
		if r.over() {
			t.Errorf("%v", r.err)
		}
	})
}

func TestHowLongWordsAreWaitedFor(t *testing.T) {
	with(t, setup{script: faketest.Script{Hears: func(int) string { return "" }, Answer: answers(faketest.Answer{Silent: true})}}, func(r *rig) {
		r.floor(false)
		r.speak(time.Second)
		over := time.Now().Add(-700 * time.Millisecond)
		r.until("a failed transcript", func() bool { return len(all[switcher.TranscriptOut](r)) == 1 })
		if d := time.Since(over); d < 8*time.Second || d > 8200*time.Millisecond {
			t.Errorf("given up after %v", d)
		}
		asked := time.Now()
		r.put(switcher.ItemIn{Item: user("q", "Hello?"), Respond: true})
		r.until("a notice", func() bool { return r.noticed(ultravox.NoticeAnswerFailed) == 1 })
		if d := time.Since(asked); d < 30*time.Second || d > 30200*time.Millisecond {
			t.Errorf("no answer after %v", d)
		}
	})
}

// TestWordsAreNotTakenBack: what stands in the log as said goes on, or stays.
func TestWordsAreNotTakenBack(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		r.idle(time.Second)
		for _, m := range []string{
			`{"type":"transcript","role":"agent","medium":"voice","text":"One two","final":false,"ordinal":7}`,
			`{"type":"transcript","role":"agent","medium":"voice","text":"Won too three","final":false,"ordinal":7}`,
			`{"type":"transcript","role":"agent","medium":"voice","text":"Won too three four","final":true,"ordinal":7}`,
		} {
			r.p.Send(m)
		}
		r.done(1)
		if got := r.turns()[0]; got != "completed: One two four" {
			t.Errorf("%q", got)
		}
	})
}

func TestImagesAreNamedAsNotShown(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		m := user("q", "What is this?")
		m.Content = append(m.Content, chatctx.ImageContent{URL: "https://host/a.jpg"})
		r.put(switcher.ItemIn{Item: m, Respond: true})
		r.put(switcher.ItemIn{Item: user("r", "And this?")})
		r.done(1)
		if n := r.noticed(ultravox.NoticeImageDropped); n != 1 {
			t.Errorf("%d notices: %+v", n, all[switcher.NoticeOut](r))
		}
	})
}
