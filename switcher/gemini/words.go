package gemini

import (
	"context"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/spell"
)

const mostWaiting = 256 // things to tell

// words are what the provider is told otherwise than by sound.
type words struct {
	history []project.GeminiContent // until the setup is taken
	waiting []word                  // goes with the caller's next turn, or with what is asked: alone it would be answered
	told    chatctx.Items           // until the provider has taken the history: they go into the record if it does not
}

// word is an item that somebody else put in, or a line of ours.
type word struct {
	item chatctx.Item
	line string
	asks bool // of a line: the caller's own question is in it
}

// gate is what the provider was asked, and whether it does it.
type gate struct {
	wants  bool      // an answer is wanted as soon as none is made
	asked  time.Time // zero: not, or it has said something since
	last   time.Time // the provider's last word
	silent int       // answers in a row that never came
	texts  int       // answers without sound in this turn of the caller
}

const (
	silentMost  = 2 // then the connection is dead
	textRetries = 1
)

func (r *run) waits(w word) {
	if r.words.waiting = append(r.words.waiting, w); len(r.words.waiting) > mostWaiting {
		r.words.waiting = r.words.waiting[1:]
		r.notice("words_dropped", "more waits to be told than can be kept")
	}
}

// item takes what somebody else put into the conversation.
func (r *run) item(in switcher.ItemIn) {
	switch it := in.Item.(type) {
	case *chatctx.FunctionCall: // a call alone would count as interrupted: it goes with its output
		r.tools.keep(it)
	case *chatctx.FunctionCallOutput:
		if c := r.otherCall(it.CallID); c != nil {
			r.waits(word{item: c})
			r.waits(word{item: it})
		}
	default:
		r.waits(word{item: in.Item})
	}
	if in.Respond {
		r.newTurn()
		r.gate.wants = true
	}
}

// take gives what waits as turns.
func (r *run) take(ctx context.Context) (turns []project.GeminiContent, asks bool) {
	waiting := r.words.waiting
	r.words.waiting = nil
	if r.history && !r.proven {
		for _, w := range waiting {
			if w.item != nil && len(r.words.told) < mostWaiting {
				r.words.told = append(r.words.told, w.item)
			}
		}
	}
	if n := len(waiting); n > 0 {
		m, ok := waiting[n-1].item.(*chatctx.Message)
		asks = waiting[n-1].asks || ok && m.Role == chatctx.RoleUser && m.Content.Text() != ""
	}
	return r.contents(ctx, waiting), asks
}

// tell gives the provider what waits, which is not to be answered for itself.
func (r *run) tell(ctx context.Context) {
	turns, _ := r.take(ctx)
	switch {
	case len(turns) == 0:
	case r.p.History == HistoryAnyTime:
		r.send(live.Client{ClientContent: &live.ClientContent{Turns: turns}})
	default:
		if text := spell.Turns(turns, r.showStored); text != "" {
			r.realtime(live.RealtimeInput{Text: text})
		}
	}
}

// ask asks for an answer to what waits, or to what stands last.
func (r *run) ask(ctx context.Context, now time.Time) {
	turns, asks := r.take(ctx)
	if r.p.History == HistoryAnyTime {
		if !asks {
			turns = append(turns, userText(spell.Marked(spell.AnswerNow)))
		}
		if last := &turns[len(turns)-1]; r.eyes.frame != "" {
			last.Parts = append([]project.GeminiPart{{InlineData: &project.GeminiBlob{MIMEType: "image/jpeg", Data: r.takeFrame(now)}}}, last.Parts...)
		}
		r.send(live.Client{ClientContent: &live.ClientContent{Turns: turns, TurnComplete: true}})
		r.gate.wants, r.gate.asked = false, now
		return
	}
	text := spell.Turns(turns, r.showStored)
	if !asks {
		text = strings.TrimSpace(text + "\n" + spell.Marked(spell.AnswerNow))
	}
	if r.eyes.frame != "" && !r.frameDue(now) {
		r.words.waiting = append(r.words.waiting, word{line: text, asks: true}) // with its image, in less than a second
		return
	}
	if !r.cfg.TheirTurns { // a text is heard like sound: in a turn
		r.realtime(live.RealtimeInput{ActivityStart: &live.Empty{}})
	}
	if r.eyes.frame != "" {
		r.sendFrame(now)
	}
	r.realtime(live.RealtimeInput{Text: text})
	if !r.cfg.TheirTurns {
		r.realtime(live.RealtimeInput{ActivityEnd: &live.Empty{}})
	}
	r.gate.wants, r.gate.asked = false, now
}

func userText(text string) project.GeminiContent {
	return project.GeminiContent{Role: "user", Parts: []project.GeminiPart{{Text: text}}}
}

// contents are what waits as turns.
func (r *run) contents(ctx context.Context, waiting []word) (turns []project.GeminiContent) {
	var items chatctx.Items
	add := func() {
		if len(items) == 0 {
			return
		}
		made, losses := spell.Others(items, r.options(ctx, nil))
		r.lost(losses)
		turns = append(turns, made...)
		items = nil
	}
	for _, w := range waiting {
		if w.item != nil {
			items = append(items, w.item)
			continue
		}
		add()
		turns = append(turns, userText(w.line))
	}
	add()
	return turns
}

// busy: an answer is being made that nobody has interrupted.
func (r *run) busy() bool {
	return r.turns.generating && (r.turns.current == nil || !r.turns.current.stopped)
}

// watch gives up answers that do not come.
func (r *run) watch(now time.Time) {
	g := &r.gate
	switch {
	case !g.asked.IsZero() && now.Sub(g.asked) > r.cfg.ResponseTimeout:
		g.asked = time.Time{}
		r.notice(NoticeAnswerFailed, "timeout: no answer was begun")
	case r.turns.generating && now.Sub(g.last) > r.cfg.ResponseTimeout:
		r.turns.generating = false
		if t := r.turns.current; t != nil {
			r.finish(t, switcher.TurnFailed)
			t.stopped = true // what still comes of it is dropped
		}
		r.notice(NoticeAnswerFailed, "timeout: the answer was not finished")
	default:
		return
	}
	if g.silent++; g.silent >= silentMost {
		r.fail(&switcher.LegError{Code: "connect", Message: r.p.Provider + " does not answer", Retryable: true})
	}
}

// NoticeAnswerFailed is the code of the notice that the caller waits for an answer that will not come, or not to its end.
const NoticeAnswerFailed = "answer_failed"

// newTurn begins a turn of the caller: what they show at its beginning belongs to it.
func (r *run) newTurn() {
	r.gate.texts = 0
	clear(r.tools.same)
	r.lookAround(time.Now())
}
