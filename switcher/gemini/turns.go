package gemini

import (
	"slices"
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/spell"
)

// Grace for words that come behind the sound that they are of.
const (
	afterGeneration = 500 * time.Millisecond
	afterTurn       = 200 * time.Millisecond
	mostTurns       = 256
)

// turn is one answer of the model, or the part of one between calls. The provider gives it no id.
type turn struct {
	id      string
	rate    int
	samples int       // received
	text    string    // instead of sound
	early   bool      // begun before the floor: nothing of it counts
	opened  bool      // the session has heard of it
	closed  bool      // … and of its end
	stopped bool      // by the session: what still comes is dropped
	ending  time.Time // no more sound of it comes; words do until then. Zero: it goes on
}

type turns struct {
	current    *turn
	generating bool      // the provider makes an answer
	begun      time.Time // the newest one, or calls instead
	loose      string    // words that came before their sound
	known      map[string]*turn
	order      []string // oldest first
}

func (ts *turns) forget(id string) {
	if ts.known[id] == nil {
		return
	}
	delete(ts.known, id)
	ts.order = slices.DeleteFunc(ts.order, func(o string) bool { return o == id })
}

// content takes a piece of the model's turn.
func (r *run) content(c *live.ServerContent, now time.Time) {
	r.transcribed(c.InputTranscription, now)
	if c.ModelTurn != nil || c.OutputTranscription != nil || c.TurnComplete || c.GenerationComplete || c.Interrupted || c.WaitingForInput {
		r.gate.asked = time.Time{}
	}
	if c.ModelTurn != nil {
		for _, p := range c.ModelTurn.Parts {
			r.part(p, now)
		}
	}
	if t := c.OutputTranscription; t != nil {
		r.spoke(t, now)
	}
	switch {
	case c.Interrupted:
		r.turns.generating, r.turns.loose = false, ""
		if t := r.turns.current; t != nil {
			r.finish(t, switcher.TurnCancelled)
		}
	case c.TurnComplete:
		r.made(now, afterTurn)
		switch c.TurnCompleteReason {
		case "", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT", "STOP":
		default:
			r.notice("answer_incomplete", c.TurnCompleteReason)
		}
	case c.GenerationComplete:
		r.made(now, afterGeneration)
	}
}

func (r *run) part(p live.Part, now time.Time) {
	switch {
	case p.FunctionCall != nil:
		r.call(*p.FunctionCall, &batch{}, now)
	case p.InlineData != nil:
		r.sound(p.InlineData, now)
	case p.Text != "" && !p.Thought:
		t := r.turnNow(now)
		t.text += p.Text
	}
}

// turnNow is the turn that sound belongs to: another one when no more of the current one was to come.
func (r *run) turnNow(now time.Time) *turn {
	ts := &r.turns
	if t := ts.current; t != nil && !t.ending.IsZero() {
		r.finish(t, switcher.TurnCompleted)
	}
	if ts.current == nil {
		t := &turn{id: r.id("turn"), early: !r.floor}
		if t.early {
			r.counts.earlyAnswers.Add(1)
		}
		ts.current, ts.begun, ts.known[t.id] = t, now, t
		if ts.order = append(ts.order, t.id); len(ts.order) > mostTurns {
			ts.forget(ts.order[0])
		}
	}
	ts.generating = true
	return ts.current
}

func (r *run) sound(b *live.Blob, now time.Time) {
	pcm, rate, err := b.PCM()
	if err != nil {
		r.counts.malformed.Add(1)
		return
	}
	t := r.turnNow(now)
	switch {
	case t.stopped:
		r.counts.stoppedSound.Add(1)
		return
	case t.early || len(pcm) == 0:
		return
	}
	if r.turns.loose != "" {
		r.say(switcher.TextOut{Item: t.id, Delta: r.turns.loose})
		r.turns.loose = ""
	}
	t.rate, t.opened = rate, true
	t.samples += len(pcm)
	for ; len(pcm) > rate; pcm = pcm[rate:] {
		r.say(switcher.SoundOut{Item: t.id, Rate: rate, PCM: pcm[:rate]})
	}
	r.say(switcher.SoundOut{Item: t.id, Rate: rate, PCM: pcm})
}

// spoke goes on with what the sound says. Words without a turn are of the one that comes, or of one that is over: its sound tells.
func (r *run) spoke(o *live.Transcription, now time.Time) {
	t := r.turns.current
	switch {
	case t == nil:
		const most = 4 << 10
		if r.turns.loose += o.Text; len(r.turns.loose) > most {
			r.lateWords()
		}
	case t.early || t.stopped || t.closed:
		if o.Text != "" {
			r.counts.lateWords.Add(1)
		}
	case o.Text != "":
		t.opened = true
		r.say(switcher.TextOut{Item: t.id, Delta: o.Text})
	}
	if t != nil && o.Finished && !t.ending.IsZero() {
		t.ending = now
		r.endDue(now)
	}
}

func (r *run) lateWords() {
	if r.turns.loose != "" {
		r.turns.loose = ""
		r.counts.lateWords.Add(1)
	}
}

// made: the provider has made all of an answer; words of it may come for a while.
func (r *run) made(now time.Time, grace time.Duration) {
	r.turns.generating = false
	t := r.turns.current
	if t == nil {
		r.lateWords()
		return
	}
	r.ending(now.Add(grace))
	if t.samples == 0 && !t.opened {
		r.finish(t, switcher.TurnCompleted)
	}
}

// ending: no more sound of the current turn comes.
func (r *run) ending(end time.Time) {
	if t := r.turns.current; t != nil && (t.ending.IsZero() || end.Before(t.ending)) {
		t.ending = end
	}
}

func (r *run) endDue(now time.Time) {
	if t := r.turns.current; t != nil && !t.ending.IsZero() && !now.Before(t.ending) {
		r.finish(t, switcher.TurnCompleted)
	}
}

// finish closes a turn; it is no longer the current one.
func (r *run) finish(t *turn, status string) {
	if r.turns.current == t {
		r.turns.current = nil
	}
	if t.closed || t.early || t.stopped && !t.opened {
		return
	}
	if !t.opened && strings.TrimSpace(t.text) != "" && status == switcher.TurnCompleted && !r.fallsToText(t) {
		return
	}
	t.closed = true
	if status == switcher.TurnCompleted {
		r.gate.silent = 0
	}
	if t.opened {
		r.say(switcher.TurnDoneOut{Item: t.id, Status: status})
	}
}

// fallsToText handles an answer that is text though sound was wanted: asked for again once, then given as text, and the session
// finds a voice.
func (r *run) fallsToText(t *turn) bool {
	if r.gate.texts < textRetries && r.tools.open == 0 {
		r.gate.texts++
		r.notice("text_only", "the provider answered with text in a session of sound; asked again")
		r.turns.forget(t.id)
		t.closed = true
		r.waits(word{line: spell.Marked(spell.AnswerAloud)})
		r.gate.wants = true
		return false
	}
	r.notice("text_fallback", "the provider answered with text in a session of sound")
	t.opened = true
	r.say(switcher.TextOut{Item: t.id, Delta: t.text})
	return true
}

// interrupted: the provider cannot be told to cut its answer to what was heard, only, with the caller's next turn, what that was. A
// turn that is not known here is another connection's.
func (r *run) interrupted(in switcher.InterruptedIn) {
	t := r.turns.known[in.Item]
	if t == nil || t.stopped || !t.opened {
		return
	}
	finished := t.closed
	t.stopped = true
	r.session.Unsay(t.id)
	if !t.closed {
		t.closed = true
		r.say(switcher.TurnDoneOut{Item: t.id, Status: switcher.TurnCancelled})
	}
	if received := time.Duration(t.samples) * time.Second / time.Duration(max(t.rate, 1)); !finished || in.Played < received {
		r.waits(word{line: spell.Heard(in.Text, in.Played > 0)})
	}
}
