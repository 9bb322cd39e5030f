package ultravox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sightline/switcher"
	"sightline/switcher/ultravox"
	"sightline/switcher/ultravox/faketest"
)

// rig is a leg between a session that the test plays and a fake provider, in a bubble of its own time.
type rig struct {
	t     *testing.T
	p     *faketest.Provider
	leg   *ultravox.Leg
	inbox *switcher.Inbox
	ended chan struct{}
	err   error

	mu   sync.Mutex
	outs []switcher.Output
}

type setup struct {
	script faketest.Script
	cfg    ultravox.Config
	start  switcher.Start
}

// with runs body with a leg that is running. No rule may have been broken in the end, and no goroutine be left.
func with(t *testing.T, s setup, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := faketest.New(s.script)
		dial, unlisten := p.Listen()
		if s.cfg.URL == "" {
			s.cfg.URL = "http://fake"
		}
		s.cfg.Model, s.cfg.Dial = "fake-model", dial
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{t: t, p: p, leg: ultravox.New(s.cfg), inbox: switcher.NewInbox(ultravox.InRate, 0), ended: make(chan struct{})}
		s.start.Session, s.start.InRate = "s", ultravox.InRate
		go func() {
			r.err = r.leg.Run(ctx, s.start, r.inbox, r.emit)
			close(r.ended)
		}()
		defer func() { // also when body gave up
			cancel()
			<-r.ended
			unlisten()
		}()
		body(r)
		cancel()
		<-r.ended
		if v := p.Violations(); len(v) > 0 {
			t.Errorf("%d rules broken, the first: %s", len(v), v[0])
		}
	})
}

func (r *rig) emit(_ context.Context, o switcher.Output) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outs = append(r.outs, o)
	return nil
}

// until waits for a condition, two minutes of the bubble's time at most.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
	}
	if r.over() {
		r.t.Logf("the leg has ended: %v", r.err)
	}
	r.t.Fatalf("never: %s\nturns: %q\nviolations: %v\nsaid: %v", what, r.turns(), r.p.Violations(), r.p.Said())
}

func (r *rig) put(in switcher.Input) {
	r.t.Helper()
	if err := r.inbox.Put(in); err != nil {
		r.t.Fatal(err)
	}
}

// floor waits for ReadyOut and gives the floor then.
func (r *rig) floor(respond bool) {
	r.t.Helper()
	r.until("ReadyOut", func() bool { return len(all[switcher.ReadyOut](r)) == 1 || r.over() })
	if r.over() {
		r.t.Fatalf("the leg died: %v", r.err)
	}
	r.put(switcher.FloorIn{Respond: respond})
}

func (r *rig) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// death waits for the leg's end and gives its reason.
func (r *rig) death() *switcher.LegError {
	r.t.Helper()
	r.until("the leg's end", r.over)
	var e *switcher.LegError
	if !errors.As(r.err, &e) {
		r.t.Fatalf("the leg ended with %v", r.err)
	}
	return e
}

// speak lets the caller say something for a time, and then be silent for 700 ms; the session's detector hears it 100 ms late.
func (r *rig) speak(d time.Duration) (began time.Time) {
	began = time.Now()
	r.sound(faketest.Tone(100 * time.Millisecond))
	r.put(switcher.CallerSpeechIn{Started: true, At: began})
	r.sound(faketest.Tone(d - 100*time.Millisecond))
	ended := time.Now()
	r.sound(make([]int16, ultravox.InRate*7/10))
	r.put(switcher.CallerSpeechIn{Final: true, At: ended})
	return began
}

// sound is given as it is spoken, 20 ms at a time.
func (r *rig) sound(pcm []int16) {
	r.t.Helper()
	for len(pcm) > 0 {
		n := min(len(pcm), ultravox.InRate/50)
		at := time.Now()
		time.Sleep(20 * time.Millisecond)
		r.put(switcher.SoundIn{PCM: pcm[:n], At: at})
		pcm = pcm[n:]
	}
}

// all are the outputs of a kind so far.
func all[T switcher.Output](r *rig) (found []T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.outs {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

func (r *rig) done(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d turns done", n), func() bool { return len(all[switcher.TurnDoneOut](r)) >= n })
}

// noticed counts the notices of a code.
func (r *rig) noticed(code string) (n int) {
	for _, o := range all[switcher.NoticeOut](r) {
		if o.Code == code {
			n++
		}
	}
	return n
}

// said is the text of a turn, and how much sound it has.
func (r *rig) said(item string) (text string, sound time.Duration) {
	for _, o := range all[switcher.TextOut](r) {
		if o.Item == item {
			text += o.Delta
		}
	}
	for _, o := range all[switcher.SoundOut](r) {
		if o.Item == item {
			sound += time.Duration(len(o.PCM)) * time.Second / time.Duration(o.Rate)
		}
	}
	return text, sound
}

// turns are what the leg has said, one a turn that is over.
func (r *rig) turns() (texts []string) {
	for _, d := range all[switcher.TurnDoneOut](r) {
		text, _ := r.said(d.Item)
		texts = append(texts, d.Status+": "+text)
	}
	return texts
}

// idle lets time pass in which nothing should happen.
func (r *rig) idle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func answers(list ...faketest.Answer) func(int, []faketest.Line) faketest.Answer {
	return func(n int, _ []faketest.Line) faketest.Answer { return list[min(n, len(list)-1)] }
}

// lines are what was said, one a line: "role: text".
func (r *rig) lines() (all []string) {
	for _, l := range r.p.Said() {
		all = append(all, l.Role+": "+l.Text)
	}
	return all
}
