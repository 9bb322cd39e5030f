package cascade

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Leg is the cascade as a switcher.Leg. It runs once.
type Leg struct{ cfg Config }

// New makes a leg; what is wrong with the Config, Run says.
func New(c Config) *Leg { return &Leg{cfg: c} }

// run is one run of a leg. Its fields belong to the goroutine of Run but where something else is said.
type run struct {
	cfg    Config
	start  switcher.Start
	out    switcher.Emit   // any goroutine
	ctx    context.Context // any goroutine; of the whole run
	work   *sync.WaitGroup // all goroutines
	events chan any        // heard and turnOver
	begun  string          // instructions of the log at the start; read only
	speaks bool            // there is a voice, and somebody to hear it; read only

	stt, llm, tts *ladder
	tools         *toolbox
	used          map[string]bool // call ids; of the turn's goroutine
	pace          float64         // runes a second of the voice; of the speaking goroutine

	ids struct {
		sync.Mutex
		n int
	}

	floor    bool
	speaking time.Time // since when the caller speaks, before the floor
	ring     *ring
	open     *utterance // being spoken
	hearing  int        // utterances that are over and have no text yet
	lastText <-chan struct{}
	turn     *turn
	next     ask
	said     []said
}

// Run implements switcher.Leg.
func (l *Leg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if err := l.cfg.Check(); err != nil {
		return &switcher.LegError{Code: "protocol", Message: "the pipeline is configured wrongly", Err: err}
	}
	var work sync.WaitGroup
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newRun(ctx, l.cfg.withDefaults(), start, out, &work)
	inputs := make(chan switcher.Input)
	work.Go(func() { pump(ctx, in, inputs) })
	if err := out(ctx, switcher.ReadyOut{}); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &switcher.LegError{Code: "overloaded", Message: "the session takes no output", Retryable: true, Err: err}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case i := <-inputs:
			r.take(i)
		case e := <-r.events:
			r.on(e)
		}
		r.answerNext()
	}
}

func newRun(ctx context.Context, cfg Config, start switcher.Start, out switcher.Emit, work *sync.WaitGroup) *run {
	if start.Log != nil {
		cfg.Log = start.Log
	}
	if start.Items == nil {
		start.Items = func() chatctx.Items { return start.Seed.Items }
	}
	start.InRate = max(start.InRate, 0)
	settled := make(chan struct{})
	close(settled)
	r := &run{
		cfg: cfg, start: start, out: out, ctx: ctx, work: work, events: make(chan any),
		speaks: len(cfg.Voices) > 0 && start.OutRate > 0,
		stt:    newLadder("stt", cfg.Recognizers), llm: newLadder("llm", cfg.Models), tts: newLadder("tts", cfg.Voices),
		tools: newToolbox(), used: map[string]bool{}, pace: firstPace, lastText: settled,
		ring: &ring{rate: max(start.InRate, 1), most: samples(cfg.PreRoll, start.InRate)},
	}
	r.begun = instructionsOf(start.Items())
	return r
}

func samples(d time.Duration, rate int) int { return int(d * time.Duration(rate) / time.Second) }

func pump(ctx context.Context, in *switcher.Inbox, inputs chan<- switcher.Input) {
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return
		}
		select {
		case inputs <- i:
		case <-ctx.Done():
			return
		}
	}
}

// post hands an event to the goroutine of Run.
func (r *run) post(e any) {
	select {
	case r.events <- e:
	case <-r.ctx.Done():
	}
}

// newID is unique in the session, as far as epochs are.
func (r *run) newID(kind string) string {
	r.ids.Lock()
	defer r.ids.Unlock()
	r.ids.n++
	return fmt.Sprintf("c%d-%s%d", r.start.Epoch, kind, r.ids.n)
}

func (r *run) take(i switcher.Input) {
	switch in := i.(type) {
	case switcher.SoundIn:
		r.sound(in)
	case switcher.CallerSpeechIn:
		r.speech(in)
	case switcher.FloorIn:
		r.floor = true
		if !r.speaking.IsZero() {
			r.listenSince(r.speaking)
		}
		r.next.respond = r.next.respond || in.Respond
	case switcher.ItemIn:
		if r.floor && in.Respond && in.Item != nil {
			r.withdraw()
			r.next = r.next.with(ask{items: []chatctx.Item{in.Item}, respond: true, now: true})
		}
	case switcher.InterruptedIn:
		r.interrupted(in)
	case switcher.ToolResultIn:
		if r.floor && (r.tools.get(in.CallID) != nil || logged(r.start.Items(), in.CallID)) {
			r.tools.settle(in)
		}
	}
}

func (r *run) sound(in switcher.SoundIn) {
	if len(r.cfg.Recognizers) == 0 || r.start.InRate == 0 || !r.ring.push(in) {
		return
	}
	if r.open != nil {
		r.open.write(in.PCM)
	}
}

func (r *run) speech(in switcher.CallerSpeechIn) {
	switch {
	case len(r.cfg.Recognizers) == 0 || r.start.InRate == 0:
	case !r.floor && in.Started:
		r.speaking = in.At
	case !r.floor:
		if in.Final {
			r.speaking = time.Time{}
		}
	case in.Started:
		r.listenSince(in.At)
	case in.Final && r.open != nil:
		r.open.look = r.look()
		r.open.finish()
		r.open = nil
		r.hearing++
	}
}

// lead is sound before the beginning of speech that a recogniser is given: it likes to hear silence first.
const lead = 100 * time.Millisecond

// listenSince opens an utterance whose sound began at a time that may lie back.
func (r *run) listenSince(at time.Time) {
	r.speaking = time.Time{}
	if r.open != nil {
		return
	}
	u := &utterance{
		id: r.newID("u"), at: at, seen: ids(r.start.Items()), before: r.lastText, settled: make(chan struct{}),
		most: samples(r.cfg.MaxUtterance, r.start.InRate), wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	r.lastText = u.settled
	u.write(r.ring.since(at.Add(-lead)))
	r.open = u
	r.work.Go(func() { r.listen(u) })
	r.withdraw()
}

// withdraw takes the answer back that is being made, if nobody has noticed it yet; its question is asked again later.
func (r *run) withdraw() {
	if r.turn != nil && r.turn.claim.CompareAndSwap(silent, taken) {
		r.turn.cancel(errWithdrawn)
	}
}

func (r *run) interrupted(in switcher.InterruptedIn) {
	if r.turn != nil && r.turn.owns(in.Item) {
		r.turn.heard[in.Item] = in
		r.turn.cancel(errInterrupted)
		return
	}
	for i := range r.said {
		if r.said[i].id == in.Item {
			r.said[i].text = in.Text
		}
	}
}

func (r *run) on(e any) {
	switch e := e.(type) {
	case heard:
		r.hearing--
		r.understood(e)
	case turnOver:
		r.turnOver(e.t)
	}
}

// understood puts what the caller said to what is to be answered. Nothing understood: nothing to answer.
func (r *run) understood(e heard) {
	switch {
	case e.err != nil && r.cfg.Phrases.NotHeard != "":
		r.next = r.next.with(ask{respond: true, apology: r.cfg.Phrases.NotHeard})
	case e.text != "":
		m := &chatctx.Message{ID: e.u.id, Role: chatctx.RoleUser, Content: chatctx.TextContent(e.text)}
		r.next = r.next.with(ask{items: []chatctx.Item{m}, respond: true, look: e.u.look,
			spoken: map[string]map[string]bool{m.ID: e.u.seen}})
	}
}

// maxSaid bounds the answers that the log may not hold yet.
const maxSaid = 8

func (r *run) turnOver(t *turn) {
	r.turn = nil
	if t.withdrawn() && len(t.heard) == 0 {
		t.ask.items = slices.DeleteFunc(t.ask.items, func(item chatctx.Item) bool { // nobody noticed it
			m, ok := item.(*chatctx.Message)
			return ok && m.Role == chatctx.RoleAssistant
		})
		r.next = t.ask.with(r.next)
		return
	}
	for _, p := range t.all() {
		s := said{p.id, p.text.String()}
		if in, cut := t.heard[p.id]; cut {
			s.text = in.Text
		}
		r.said = append(r.said, s)
	}
	r.said = r.said[max(0, len(r.said)-maxSaid):]
}

// answerNext begins the next turn when there is something to answer and nobody speaks.
func (r *run) answerNext() {
	wanted := r.next.respond || r.tools.owed()
	quiet := r.open == nil && r.hearing == 0
	if !r.floor || r.turn != nil || !wanted || !quiet && !r.next.now {
		return
	}
	t := &turn{ask: r.next, out: r.out, heard: map[string]switcher.InterruptedIn{}}
	t.begin(r.newID("a"))
	r.next = ask{}
	if len(t.ask.items) > 0 {
		t.ask.apology = "" // there is something better to say
	}
	r.said = missing(r.start.Items(), r.said)
	for _, s := range r.said {
		if s.text != "" {
			t.said = append(t.said, s)
		}
	}
	t.ctx, t.cancel = context.WithCancelCause(r.ctx)
	r.turn = t
	r.work.Go(func() { r.answer(t) })
}

// look asks for what can be seen, beside whatever goes on.
func (r *run) look() <-chan []switcher.Sight {
	if r.cfg.Images == ImagesNever || r.start.Look == nil {
		return nil
	}
	seen := make(chan []switcher.Sight, 1)
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeouts.Look)
		defer cancel()
		seen <- r.start.Look(ctx, r.cfg.ImageAge)
	})
	return seen
}

// sights are what the model is shown in a turn: what was seen when the caller ended, else what is seen now.
func (r *run) sights(ctx context.Context, t *turn) []switcher.Sight {
	if t.ask.look == nil {
		t.ask.look = r.look()
	}
	if t.ask.look == nil {
		return nil
	}
	late := time.NewTimer(r.cfg.Timeouts.Look)
	defer late.Stop()
	select {
	case s := <-t.ask.look:
		kept := make(chan []switcher.Sight, 1) // for the turn that takes this one's place, if one does
		kept <- s
		t.ask.look = kept
		return s
	case <-late.C:
		r.notice("look_timeout", "no image within %s", r.cfg.Timeouts.Look)
	case <-ctx.Done():
	}
	return nil
}
