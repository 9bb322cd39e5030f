package trace

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"sightline/switcher"
)

// turn is what is noted of what a caller said and of its answer.
type turn struct {
	began, last time.Time // when it began, when something was heard of it last
	trigger     string    // speech, or other: what was typed, said by an agent, or asked for by a program
	epoch       uint64
	speech      []interval // of the caller; the last may have no end yet
	stages      []stage
	tools       []tool
	pieces      []piece // of the answer
	owed        bool    // a tool has answered, and nobody has said anything of it
	parent      trace.SpanContext
}

type interval struct{ from, to time.Time }

type stage struct {
	switcher.StageOut
	epoch uint64
}

type tool struct {
	interval
	id, name, code string
	epoch          uint64
}

// piece is one of the leg's turns.
type piece struct {
	item        string
	epoch       uint64
	heard       interval
	played      time.Duration
	interrupted bool
	over        bool
}

func (t *turn) answered() bool { return len(t.pieces) > 0 || len(t.tools) > 0 }

func (t *turn) speaking() bool {
	return len(t.speech) > 0 && t.speech[len(t.speech)-1].to.IsZero()
}

// hush ends the speech of a caller whom somebody answers: a pipeline with OwnTurns may have found the end on its own.
func (t *turn) hush(at time.Time) {
	if t.speaking() {
		t.speech[len(t.speech)-1].to = at
	}
}

// isOver: there was an answer, and nothing more is expected.
func (t *turn) isOver() bool {
	return len(t.pieces) > 0 && !t.owed && !t.speaking() &&
		!slices.ContainsFunc(t.pieces, func(p piece) bool { return !p.over }) &&
		!slices.ContainsFunc(t.tools, func(c tool) bool { return c.to.IsZero() })
}

// current is the newest open turn, nil when there is none.
func (r *Recorder) current() *turn {
	if len(r.open) == 0 {
		return nil
	}
	return r.open[len(r.open)-1]
}

func (r *Recorder) begin(at time.Time, trigger string, epoch uint64) *turn {
	for len(r.open) >= maxOpen {
		r.finish(r.open[0], at)
	}
	t := &turn{began: at, last: at, trigger: trigger, epoch: epoch}
	r.open = append(r.open, t)
	return t
}

// callerSpeech: what a caller adds before there is an answer belongs to the same turn.
func (r *Recorder) callerSpeech(e switcher.Event) {
	t := r.current()
	if e.Kind == switcher.SpeechStopped {
		if e.Final && t != nil {
			t.hush(e.At)
			t.last = e.At
		}
		return
	}
	if t == nil || t.trigger != "speech" || t.answered() || e.At.Sub(t.last) > idle {
		t = r.begin(e.At, "speech", e.Epoch)
	}
	if !t.speaking() && len(t.speech) < maxParts {
		t.speech = append(t.speech, interval{from: e.At})
	}
	t.last = e.At
}

// turnOf is the turn of a piece of an answer, and the piece; both nil when there is no place for it.
func (r *Recorder) turnOf(e switcher.Event) (*turn, *piece) {
	for _, t := range slices.Backward(r.open) {
		for i := range t.pieces {
			if p := &t.pieces[i]; p.item == e.Item && p.epoch == e.Epoch {
				return t, p
			}
		}
	}
	for _, t := range r.over { // its last word
		for i := range t.pieces {
			if p := &t.pieces[i]; p.item == e.Item && p.epoch == e.Epoch {
				return nil, nil
			}
		}
	}
	t := r.current()
	if t == nil || e.At.Sub(t.last) > idle {
		t = r.begin(e.At, "other", e.Epoch)
	}
	if len(t.pieces) >= maxParts {
		return nil, nil
	}
	t.hush(e.At)
	t.owed, t.epoch, t.last = false, e.Epoch, e.At
	t.pieces = append(t.pieces, piece{item: e.Item, epoch: e.Epoch})
	return t, &t.pieces[len(t.pieces)-1]
}

func (r *Recorder) agentSpeech(e switcher.Event) {
	t, p := r.turnOf(e)
	if p == nil {
		return
	}
	t.last = e.At
	switch { // once each
	case e.Kind == switcher.SpeechStarted && p.heard.from.IsZero():
		p.heard.from = e.At
	case e.Kind == switcher.SpeechStopped && !p.heard.from.IsZero() && p.heard.to.IsZero():
		p.heard.to = e.At
	}
}

func (r *Recorder) played(e switcher.Event) {
	t, p := r.turnOf(e)
	if p == nil {
		return
	}
	t.last, p.over, p.played, p.interrupted = e.At, true, e.Played, e.Interrupted
	if !p.heard.from.IsZero() && p.heard.to.IsZero() {
		p.heard.to = e.At
	}
}

// stage finds the turn of a measurement: that of its item, else the one in whose time it began.
func (r *Recorder) stage(e switcher.Event) {
	s := *e.Stage
	all := slices.Concat(r.over, r.open) // a phrase of an answer that was interrupted may begin when the next turn has begun
	mine := func(t *turn) bool {
		return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.item == s.Item && p.epoch == e.Epoch })
	}
	for _, t := range slices.Backward(all) {
		if mine(t) {
			r.add(t, stage{s, e.Epoch})
			return
		}
	}
	for _, t := range slices.Backward(all) {
		if !s.Began.Before(t.began) && (!t.parent.IsValid() || !s.Began.After(t.last)) {
			r.add(t, stage{s, e.Epoch})
			return
		}
	}
	t := r.current()
	if t == nil || t.trigger == "speech" {
		t = r.begin(s.Began, "other", e.Epoch)
	}
	r.add(t, stage{s, e.Epoch})
}

// add keeps a stage, or makes its span at once where the turn is over already.
func (r *Recorder) add(t *turn, s stage) {
	if t.parent.IsValid() {
		r.stageSpan(t, s)
		return
	}
	if s.Began.Before(t.began) {
		t.began = s.Began
	}
	if t.last.Before(s.Ended) {
		t.last = s.Ended
	}
	if len(t.stages) < maxParts {
		t.stages = append(t.stages, s)
	}
}

func (r *Recorder) tool(e switcher.Event) {
	if e.Call == nil {
		return
	}
	if e.Kind == switcher.ToolCalled {
		t := r.current()
		if t == nil {
			t = r.begin(e.At, "other", e.Epoch)
		}
		t.hush(e.At)
		t.last = e.At
		if len(t.tools) < maxParts {
			t.tools = append(t.tools, tool{interval: interval{from: e.At}, id: e.Call.CallID, name: e.Call.Name, epoch: e.Epoch})
		}
		return
	}
	for _, t := range r.open {
		for i := range t.tools {
			c := &t.tools[i]
			if c.id != e.Call.CallID || !c.to.IsZero() {
				continue
			}
			c.to, t.last = e.At, e.At
			switch {
			case e.Kind == switcher.ToolCancelled:
				c.code = "cancelled"
			case e.IsError:
				c.code, t.owed = "tool_error", true
			default:
				t.owed = true
			}
		}
	}
}

// closeWhatIsOver makes the spans of turns that are over, or of which nothing was heard for long.
func (r *Recorder) closeWhatIsOver(now time.Time) {
	for _, t := range slices.Clone(r.open) {
		if t.isOver() || now.Sub(t.last) > 4*idle && !t.speaking() {
			r.finish(t, t.last)
		}
	}
}

// finish makes the spans of a turn.
func (r *Recorder) finish(t *turn, now time.Time) {
	r.open = slices.DeleteFunc(r.open, func(o *turn) bool { return o == t })
	if r.over = append(r.over, t); len(r.over) > maxOver {
		r.over = r.over[1:]
	}
	t.hush(now)
	end := t.last
	for i := range t.tools {
		if t.tools[i].to.IsZero() {
			t.tools[i].to, t.tools[i].code = now, "unanswered"
		}
		end = later(end, t.tools[i].to)
	}
	for i := range t.pieces {
		if p := &t.pieces[i]; !p.heard.from.IsZero() && p.heard.to.IsZero() {
			p.heard.to, p.interrupted = now, true
		}
		end = later(end, t.pieces[i].heard.to)
	}
	for _, s := range t.speech {
		end = later(end, s.to)
	}
	attrs := append(r.leg(t.epoch), keySession.String(r.session), keyTrigger.String(t.trigger), keyOutcome.String(t.outcome()))
	sent := t.firstSent()
	if n := len(t.speech); n > 0 && !sent.IsZero() {
		attrs = append(attrs, keyResponse.Int64(sent.Sub(t.speech[n-1].to).Milliseconds()))
	}
	ctx, root := r.tracer.Start(r.root(), "turn", trace.WithTimestamp(t.began), trace.WithAttributes(attrs...))
	t.parent = root.SpanContext()
	if !sent.IsZero() {
		root.AddEvent("first_audio_sent", trace.WithTimestamp(sent))
	}
	for _, s := range t.speech {
		r.span(ctx, part{name: "speech", from: s.from, to: s.to})
	}
	for _, s := range t.stages {
		r.stageSpan(t, s)
	}
	for _, c := range t.tools {
		r.span(ctx, part{name: "tool", from: c.from, to: c.to, code: c.code, attrs: append(r.leg(c.epoch), keyTool.String(c.name), keyCall.String(c.id))})
	}
	for _, p := range t.pieces {
		if p.heard.from.IsZero() {
			continue
		}
		outcome := "heard"
		if p.interrupted {
			outcome = "interrupted"
		}
		attrs := append(r.leg(p.epoch), keyItem.String(p.item), keyPlayed.Int64(p.played.Milliseconds()), keyOutcome.String(outcome))
		r.span(ctx, part{name: "playback", from: p.heard.from, to: p.heard.to, attrs: attrs})
	}
	root.End(trace.WithTimestamp(end))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *Recorder) stageSpan(t *turn, s stage) {
	ctx := trace.ContextWithSpanContext(r.root(), t.parent)
	event := map[string]string{switcher.StageSTT: "end_of_sound", switcher.StageLLM: "first_token", switcher.StageTTS: "first_sound"}[s.Stage]
	attrs := append(r.leg(s.epoch), keyEngine.String(s.Engine), keyItem.String(s.Item))
	for key, n := range map[attribute.Key]int{keyTokensIn: s.TokensIn, keyTokensOut: s.TokensOut} {
		if n > 0 {
			attrs = append(attrs, key.Int(n))
		}
	}
	r.span(ctx, part{name: s.Stage, from: s.Began, to: s.Ended, code: s.Code, event: event, at: s.First, attrs: attrs})
}

// firstSent is when the first sound of the answer was sent; zero: none was.
func (t *turn) firstSent() (first time.Time) {
	for _, p := range t.pieces {
		if at := p.heard.from; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func (t *turn) outcome() string {
	switch {
	case len(t.pieces) == 0:
		return "unanswered"
	case slices.ContainsFunc(t.pieces, func(p piece) bool { return p.interrupted }):
		return "interrupted"
	}
	return "answered"
}
