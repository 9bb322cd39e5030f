package cascade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Why a turn ends before it is done.
var (
	errInterrupted = errors.New("the turn was interrupted")
	errWithdrawn   = errors.New("the caller went on before anything was heard")
)

// turn is one answer being made. Its goroutine owns it until turnOver.
type turn struct {
	ask    ask
	said   []said // answers before it that the log may not hold
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    switcher.Emit
	claim  atomic.Int32                      // silent, heardOf or taken
	heard  map[string]switcher.InterruptedIn // by part; of the goroutine of Run

	text    strings.Builder // all of it so far
	split   splitter
	apart   bool        // what comes next is a paragraph of its own
	part    *part       // the one that goes on
	phrases chan phrase // nil: nobody speaks
	mute    bool        // no voice works; the speaking goroutine's, read after its end

	mu    sync.Mutex
	parts []*part
}

// part is what is said between two rounds of tools, a turn of its own in the eyes of the session: so the conversation holds it where
// it was said, before the calls or after their results.
type part struct {
	id     string
	text   strings.Builder
	opened atomic.Bool // something of it was put out
	closed atomic.Bool // its TurnDoneOut was put out
}

// phrase is a piece of a part for the voice, or its end.
type phrase struct {
	part *part
	text string
	end  bool
}

// begin opens the next part.
func (t *turn) begin(id string) {
	p := &part{id: id}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts = append(t.parts, p)
	t.part, t.apart = p, false
}

func (t *turn) all() []*part {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.parts)
}

// owns: the id is of one of the turn's parts.
func (t *turn) owns(id string) bool {
	return slices.ContainsFunc(t.all(), func(p *part) bool { return p.id == id })
}

// done closes a part that was opened.
func (r *run) done(p *part, status string) {
	if p.opened.Load() && p.closed.CompareAndSwap(false, true) {
		_ = r.out(r.ctx, switcher.TurnDoneOut{Item: p.id, Status: status})
	}
}

// parted ends a part that says something, before the results of tools come: its sound goes on meanwhile.
func (r *run) parted(ctx context.Context, t *turn) {
	switch {
	case !t.part.opened.Load():
		return
	case t.phrases == nil:
		r.done(t.part, switcher.TurnCompleted)
	default:
		select {
		case t.phrases <- phrase{part: t.part, end: true}:
		case <-ctx.Done():
		}
	}
	t.begin(r.newID("a"))
}

// A turn is silent until the caller can notice it; then it is heardOf. Of a silent turn the caller's going on makes a taken one,
// which says nothing any more.
const (
	silent int32 = iota
	heardOf
	taken
)

func (t *turn) withdrawn() bool { return t.claim.Load() == taken }

// noticed: the caller notices the turn from now on; false: it was withdrawn.
func (t *turn) noticed() bool {
	return t.claim.CompareAndSwap(silent, heardOf) || t.claim.Load() == heardOf
}

// emit puts out something of the turn; it fails once the turn is stopped.
func (t *turn) emit(ctx context.Context, o switcher.Output) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.out(ctx, o)
}

// turnOver is the event that a turn's goroutine has ended.
type turnOver struct{ t *turn }

// maxPhrases bounds the phrases that wait for the voice; a model that is faster waits.
const maxPhrases = 64

// answer makes a turn: it thinks and speaks at the same time.
func (r *run) answer(t *turn) {
	defer t.cancel(nil)
	var speaking sync.WaitGroup
	if r.speaks {
		t.phrases = make(chan phrase, maxPhrases)
		speaking.Go(func() { r.speak(t) })
	}
	status := r.think(t.ctx, t)
	if t.phrases != nil {
		close(t.phrases)
	}
	speaking.Wait()
	if t.ctx.Err() != nil {
		status = switcher.TurnCancelled
	} else if t.mute && r.cfg.Phrases.NoVoice != "" {
		t.part.opened.Store(true)
		_ = t.emit(t.ctx, switcher.TextOut{Item: t.part.id, Delta: t.gap() + r.cfg.Phrases.NoVoice})
	}
	for _, p := range t.all() {
		r.done(p, status)
	}
	if t.withdrawn() {
		r.notice("turn_merged", "the caller went on before the answer")
	}
	r.post(turnOver{t})
}

// think asks the model, and again with the results of its tools, until it has answered.
func (r *run) think(ctx context.Context, t *turn) (status string) {
	if t.ask.apology != "" {
		r.apologise(ctx, t, t.ask.apology)
		return switcher.TurnCompleted
	}
	sights := r.sights(ctx, t)
	for round := 1; ; round++ {
		last := round == r.cfg.MaxRounds
		before := t.text.Len()
		calls, err := r.askModel(ctx, t, r.request(t, sights, !last))
		t.flush(ctx)
		switch {
		case ctx.Err() != nil:
			return switcher.TurnCancelled
		case errors.Is(err, errBroken):
			r.apologise(ctx, t, r.cfg.Phrases.Broken)
			return switcher.TurnFailed
		case err != nil:
			r.apologise(ctx, t, r.cfg.Phrases.NoAnswer)
			return switcher.TurnFailed
		}
		if text := t.text.String()[before:]; strings.TrimSpace(text) != "" && len(calls) > 0 {
			t.ask.items = append(t.ask.items, &chatctx.Message{ID: t.part.id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(strings.TrimSpace(text))})
		}
		if len(calls) > 0 && last {
			r.notice("rounds_limit", "the model asks for tools after %d rounds", r.cfg.MaxRounds)
			if strings.TrimSpace(t.text.String()) == "" {
				r.apologise(ctx, t, r.cfg.Phrases.NoAnswer)
			}
		}
		if len(calls) == 0 || last {
			return switcher.TurnCompleted
		}
		if err := r.callTools(ctx, t, calls); err != nil {
			return switcher.TurnCancelled
		}
	}
}

// maxAnswerCalls bounds the calls of one answer that are looked at; the turn has its own, lower bound.
const maxAnswerCalls = 64

// askModel gets one answer: its text is said as it comes, its calls are given back when it is whole.
func (r *run) askModel(ctx context.Context, t *turn, req Request) (calls []Call, err error) {
	err = r.try(ctx, r.llm, t.part.id, func(ctx context.Context, i int, m *timing) (used bool, err error) {
		calls = nil
		before := t.text.Len()
		w := newWatch(ctx, r.cfg.Timeouts.FirstText)
		fin, err := r.cfg.Models[i].Answer(w, req, func(d Delta) error {
			w.hold()
			m.begun()
			defer w.next(r.cfg.Timeouts.NextText)
			if d.Call != nil && len(calls) < maxAnswerCalls {
				calls = append(calls, *d.Call)
			}
			return t.say(ctx, d.Text)
		})
		err = w.end(err)
		m.tokensIn, m.tokensOut = fin.TokensIn, fin.TokensOut
		used = t.text.Len() > before
		switch {
		case err != nil:
			return used, err
		case fin.Reason == "length" || fin.Reason == "filter":
			r.notice("answer_cut", "the model ended with %q", fin.Reason)
		}
		if t.text.Len() == 0 && len(calls) == 0 {
			return false, &EngineError{Code: "empty", Message: "the model answered nothing", Retryable: true}
		}
		return used, nil
	})
	return calls, err
}

// gap parts what is said next from what was said before.
func (t *turn) gap() string {
	text := t.part.text.String()
	if text == "" || unicode.IsSpace(rune(text[len(text)-1])) {
		return ""
	}
	return " "
}

// say puts text out and gives what is complete of it to the voice.
func (t *turn) say(ctx context.Context, text string) error {
	text = strings.ToValidUTF8(text, "")
	if t.part.text.Len() == 0 || t.apart {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if text == "" {
		return nil
	}
	if t.apart {
		text, t.apart = t.gap()+text, false
	}
	if t.phrases == nil && !t.noticed() {
		return errWithdrawn
	}
	t.part.opened.Store(true)
	t.text.WriteString(text)
	t.part.text.WriteString(text)
	if err := t.emit(ctx, switcher.TextOut{Item: t.part.id, Delta: text}); err != nil {
		return err
	}
	return t.give(ctx, t.split.push(text)...)
}

// flush ends the phrase that was begun: the model pauses.
func (t *turn) flush(ctx context.Context) {
	t.apart = true
	if rest := t.split.flush(); rest != "" {
		_ = t.give(ctx, rest)
	}
}

// give waits while the voice is behind.
func (t *turn) give(ctx context.Context, phrases ...string) error {
	if t.phrases == nil {
		return nil
	}
	for _, p := range phrases {
		select {
		case t.phrases <- phrase{part: t.part, text: p}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// apologise says a phrase of ours.
func (r *run) apologise(ctx context.Context, t *turn, phrase string) {
	if phrase == "" {
		return
	}
	if t.say(ctx, phrase) == nil {
		t.flush(ctx)
	}
}
