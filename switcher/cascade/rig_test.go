package cascade

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// rig is a session for one leg, in a bubble of synctest: it keeps the log, and every output with its time.
type rig struct {
	t      *testing.T
	in     *switcher.Inbox
	cancel context.CancelFunc
	ended  chan error
	at     time.Time // of the next sound

	mu    sync.Mutex
	items chatctx.Items
	outs  []stamped
	hold  chan struct{} // while it is there, SoundOut waits for it
}

type stamped struct {
	at time.Time
	o  switcher.Output
}

const rate = 16000

func newRig(t *testing.T, cfg Config, edit ...func(*switcher.Start)) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t, in: switcher.NewInbox(rate, 0), cancel: cancel, ended: make(chan error, 1), at: time.Now()}
	start := switcher.Start{Session: "s", Epoch: 7, Seed: switcher.Seed{Mode: switcher.SeedItems}, InRate: rate, OutRate: rate, Items: r.log}
	for _, e := range edit {
		e(&start)
	}
	go func() { r.ended <- New(cfg).Run(ctx, start, r.in, r.emit) }()
	synctest.Wait()
	r.put(switcher.FloorIn{})
	return r
}

func (r *rig) log() chatctx.Items {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(chatctx.Items(nil), r.items...)
}

func (r *rig) record(items ...chatctx.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, items...)
}

func (r *rig) emit(ctx context.Context, o switcher.Output) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if _, ok := o.(switcher.SoundOut); ok && hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outs = append(r.outs, stamped{time.Now(), o})
	return nil
}

// end stops the leg; the bubble fails the test when a goroutine is left.
func (r *rig) end() {
	r.t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *rig) put(in switcher.Input) {
	r.t.Helper()
	if err := r.in.Put(in); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) types(text string) {
	r.t.Helper()
	m := &chatctx.Message{ID: fmt.Sprintf("typed-%d", len(r.log())), Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
	r.record(m)
	r.put(switcher.ItemIn{Item: m, Respond: true})
}

// hears gives d of sound, in pieces of 20 ms whose samples count up.
func (r *rig) hears(d time.Duration) {
	r.t.Helper()
	for range d / (20 * time.Millisecond) {
		pcm := make([]int16, rate/50)
		for i := range pcm {
			pcm[i] = 1000
		}
		r.put(switcher.SoundIn{PCM: pcm, At: r.at})
		r.at = r.at.Add(20 * time.Millisecond)
	}
}

// speaks is one utterance of the caller, from pre-roll to the end.
func (r *rig) speaks() {
	r.t.Helper()
	r.hears(500 * time.Millisecond)
	r.put(switcher.CallerSpeechIn{Started: true, At: r.at.Add(-300 * time.Millisecond)})
	r.hears(500 * time.Millisecond)
	r.put(switcher.CallerSpeechIn{Final: true, At: r.at})
}

func (r *rig) all() []stamped {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]stamped(nil), r.outs...)
}

func outputs[T switcher.Output](r *rig) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []T
	for _, s := range r.outs {
		if o, ok := s.o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func (r *rig) text() string {
	var b strings.Builder
	for _, o := range outputs[switcher.TextOut](r) {
		b.WriteString(o.Delta)
	}
	return b.String()
}

// spoken is the text of the sound.
func (r *rig) spoken() string {
	var b strings.Builder
	for _, o := range outputs[switcher.SoundOut](r) {
		b.WriteString(o.Text)
	}
	return b.String()
}

func (r *rig) notices() string {
	var codes []string
	for _, n := range outputs[switcher.NoticeOut](r) {
		codes = append(codes, n.Code)
	}
	return strings.Join(codes, " ")
}

func (r *rig) statuses() string {
	var all []string
	for _, d := range outputs[switcher.TurnDoneOut](r) {
		all = append(all, d.Status)
	}
	return strings.Join(all, " ")
}

func (r *rig) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// ear is a recogniser that understands what it is told to.
type ear struct {
	name    string
	rate    int // 0 = rate
	texts   []string
	lag     time.Duration // of Finish
	listen  error
	finish  error
	partial []string

	mu    sync.Mutex
	heard []int // samples of each utterance
	tries int
}

func (e *ear) Name() string { return "ear" + e.name }
func (e *ear) Rate() int    { return first2(e.rate, rate) }

func first2(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

func (e *ear) Listen(_ context.Context, partial func(string)) (Utterance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tries++
	if e.listen != nil {
		return nil, e.listen
	}
	e.heard = append(e.heard, 0)
	return &earful{e: e, n: len(e.heard) - 1, partial: partial}, nil
}

type earful struct {
	e       *ear
	n       int
	partial func(string)
}

func (u *earful) Write(pcm []int16) error {
	u.e.mu.Lock()
	defer u.e.mu.Unlock()
	u.e.heard[u.n] += len(pcm)
	if len(u.e.partial) > 0 && len(pcm) > 0 {
		u.partial(u.e.partial[0])
		u.e.partial = u.e.partial[1:]
	}
	return nil
}

func (u *earful) Finish(ctx context.Context) (string, error) {
	if !sleep(ctx, u.e.lag) {
		return "", ctx.Err()
	}
	u.e.mu.Lock()
	defer u.e.mu.Unlock()
	if u.e.finish != nil {
		return "", u.e.finish
	}
	text := u.e.texts[0]
	u.e.texts = u.e.texts[1:]
	return text, nil
}

func (u *earful) Close() {}

// brain is a model that plays a script: one function for each request, the last for all that follow.
type brain struct {
	name   string
	script []func(ctx context.Context, yield func(Delta) error) (Finish, error)

	mu    sync.Mutex
	asked []Request
}

func (b *brain) Name() string { return "brain" + b.name }

func (b *brain) Answer(ctx context.Context, q Request, yield func(Delta) error) (Finish, error) {
	b.mu.Lock()
	n := min(len(b.asked), len(b.script)-1)
	b.asked = append(b.asked, q)
	b.mu.Unlock()
	return b.script[n](ctx, yield)
}

func (b *brain) requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Request(nil), b.asked...)
}

// says yields pieces, each after a wait.
func says(wait time.Duration, pieces ...string) func(context.Context, func(Delta) error) (Finish, error) {
	return func(ctx context.Context, yield func(Delta) error) (Finish, error) {
		for _, p := range pieces {
			if !sleep(ctx, wait) {
				return Finish{}, ctx.Err()
			}
			if err := yield(Delta{Text: p}); err != nil {
				return Finish{}, err
			}
		}
		return Finish{Reason: "stop"}, nil
	}
}

func calls(calls ...Call) func(context.Context, func(Delta) error) (Finish, error) {
	return func(_ context.Context, yield func(Delta) error) (Finish, error) {
		for _, c := range calls {
			if err := yield(Delta{Call: &c}); err != nil {
				return Finish{}, err
			}
		}
		return Finish{Reason: "tool_calls"}, nil
	}
}

func fails(err error) func(context.Context, func(Delta) error) (Finish, error) {
	return func(context.Context, func(Delta) error) (Finish, error) { return Finish{}, err }
}

// mouth is a voice: 50 ms of sound for a letter, in pieces.
type mouth struct {
	name   string
	rate   int
	wait   time.Duration // before each piece
	fail   error         // instead of sound
	breaks int           // after so many pieces it fails, once

	mu   sync.Mutex
	said []string
}

func (m *mouth) Name() string { return "mouth" + m.name }
func (m *mouth) Rate() int    { return first2(m.rate, rate) }

func (m *mouth) Speak(ctx context.Context, text string, yield func([]int16) error) error {
	m.mu.Lock()
	m.said = append(m.said, text)
	m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for i := range len([]rune(text)) {
		if m.breaks > 0 && i == m.breaks {
			m.breaks = 0
			return &EngineError{Code: "unreachable", Retryable: true}
		}
		if !sleep(ctx, m.wait) {
			return ctx.Err()
		}
		if err := yield(make([]int16, m.Rate()/20)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mouth) phrases() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.said, "|")
}

// tail is the end of a request's items, as role or kind and text.
func tail(q Request, n int) string {
	var all []string
	for _, item := range q.Items[max(0, len(q.Items)-n):] {
		switch it := item.(type) {
		case *chatctx.Message:
			all = append(all, string(it.Role)+":"+it.Content.Text())
		case *chatctx.FunctionCall:
			all = append(all, "call:"+it.Name+it.Arguments)
		case *chatctx.FunctionCallOutput:
			all = append(all, "out:"+it.Output)
		default:
			all = append(all, string(item.Kind()))
		}
	}
	return strings.Join(all, " | ")
}
