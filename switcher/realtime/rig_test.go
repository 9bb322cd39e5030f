package realtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/faketest"
)

// rig is a leg between a session that the test plays and a fake provider, in a bubble of its own time.
type rig struct {
	t     *testing.T
	p     *faketest.Provider
	leg   *realtime.Leg
	inbox *switcher.Inbox
	ended chan struct{}
	err   error
	stop  func()

	mu    sync.Mutex
	outs  []switcher.Output
	gate  chan struct{} // not nil: Emit waits for it
	start time.Time
}

type setup struct {
	script faketest.Script
	cfg    realtime.Config
	start  switcher.Start
	broken bool // rules may be broken: that is the test
}

// with runs body with a leg that is running. No rule of the dialect may have been broken in the end, and no goroutine be left.
func with(t *testing.T, s setup, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := faketest.New(s.script)
		dial, unlisten := p.Listen()
		if s.cfg.Profile.Rate == 0 {
			s.cfg.Profile = realtime.OpenAI()
		}
		if s.cfg.URL == "" {
			s.cfg.URL = "ws://fake/v1"
		}
		s.cfg.Model, s.cfg.Dial = "fake-model", dial
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{t: t, p: p, leg: realtime.New(s.cfg), inbox: switcher.NewInbox(dialect.Rate, 0), ended: make(chan struct{}), start: time.Now(), stop: cancel}
		s.start.Session, s.start.InRate = "s", dialect.Rate
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
		if v := p.Violations(); len(v) > 0 && !s.broken {
			t.Errorf("%d rules broken, the first: %s", len(v), v[0])
		}
	})
}

func (r *rig) emit(ctx context.Context, o switcher.Output) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outs = append(r.outs, o)
	return nil
}

// until waits for a condition, a minute of the bubble's time at most.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	var last []string
	for _, o := range r.outs[max(0, len(r.outs)-12):] {
		last = append(last, fmt.Sprintf("%T%.120v", o, o))
	}
	r.t.Fatalf("never: %s\nthe last outputs: %v\nviolations: %v", what, last, r.p.Violations())
}

func (r *rig) put(in switcher.Input) {
	r.t.Helper()
	if err := r.inbox.Put(in); err != nil {
		r.t.Fatal(err)
	}
}

// ready waits for ReadyOut; floor gives the floor then.
func (r *rig) ready() {
	r.t.Helper()
	r.until("ReadyOut", func() bool { return len(all[switcher.ReadyOut](r)) == 1 || r.over() })
	if r.over() {
		r.t.Fatalf("the leg died: %v", r.err)
	}
}

func (r *rig) floor(respond bool) {
	r.t.Helper()
	r.ready()
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

// speak lets the caller say something for a time, and then be silent for 700 ms.
func (r *rig) speak(d time.Duration) {
	r.sound(faketest.Tone(d))
	r.sound(make([]int16, dialect.Rate*7/10))
}

// sound is given as it is spoken, 20 ms at a time.
func (r *rig) sound(pcm []int16) {
	r.t.Helper()
	for len(pcm) > 0 {
		n := min(len(pcm), dialect.Rate/50)
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

// sent are the client's events of a kind so far.
func sent[T dialect.ClientEvent](r *rig) (found []T) {
	for _, e := range r.p.Got() {
		if e, ok := e.(T); ok {
			found = append(found, e)
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

// idle lets time pass in which nothing should happen.
func (r *rig) idle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func user(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func assistant(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)}
}

func texts(answers ...faketest.Answer) func(int, []dialect.Item) faketest.Answer {
	return func(n int, _ []dialect.Item) faketest.Answer { return answers[min(n, len(answers)-1)] }
}

func kinds(events []dialect.ClientEvent) (types []string) {
	for _, e := range events {
		types = append(types, e.EventType())
	}
	return types
}
