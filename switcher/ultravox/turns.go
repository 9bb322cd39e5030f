package ultravox

import (
	"slices"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/spell"
)

const (
	afterFinal = 3 * time.Second // without sound, the turn is over even if no state says so
	mostTurns  = 256
)

// turn is one answer of the model. Its sound has no name: it is the newest turn's.
type turn struct {
	id      string
	samples int       // received
	text    string    // of what it says
	last    time.Time // of its sound
	final   bool      // its text is complete
	early   bool      // begun before the floor: nothing of it counts
	opened  bool      // the session has heard of it
	closed  bool      // … and of its end
	stopped bool      // by the session, or by the provider: what still comes is dropped
	bound   bool      // has an ordinal
}

type turns struct {
	current   *turn
	known     map[string]*turn
	byOrdinal map[int]*turn
	order     []string // oldest first
	highest   int      // ordinal seen
}

func (ts *turns) forget(id string) {
	t := ts.known[id]
	if t == nil {
		return
	}
	delete(ts.known, id)
	ts.order = slices.DeleteFunc(ts.order, func(o string) bool { return o == id })
	for n, o := range ts.byOrdinal {
		if o == t && t.closed {
			delete(ts.byOrdinal, n)
		}
	}
}

// turnNow is the turn that is being made, a new one where there is none.
func (r *run) turnNow() *turn {
	ts := &r.turns
	if ts.current == nil {
		t := &turn{id: r.id("turn"), early: !r.floor}
		if t.early {
			r.counts.earlyAnswers.Add(1)
		}
		ts.current, ts.known[t.id] = t, t
		if ts.order = append(ts.order, t.id); len(ts.order) > mostTurns {
			ts.forget(ts.order[0])
		}
	}
	r.asked = time.Time{}
	return ts.current
}

func (r *run) sound(data []byte, now time.Time) {
	if len(data) == 0 || len(data)%2 != 0 {
		r.counts.malformed.Add(1)
		return
	}
	t := r.turnNow()
	switch {
	case t.stopped:
		r.counts.stoppedSound.Add(1)
		return
	case t.early:
		return
	}
	pcm := make([]int16, len(data)/2)
	for i := range pcm {
		pcm[i] = int16(uint16(data[2*i]) | uint16(data[2*i+1])<<8)
	}
	t.opened, t.last = true, now
	t.samples += len(pcm)
	for ; len(pcm) > OutRate; pcm = pcm[OutRate:] {
		r.say(switcher.SoundOut{Item: t.id, Rate: OutRate, PCM: pcm[:OutRate]})
	}
	r.say(switcher.SoundOut{Item: t.id, Rate: OutRate, PCM: pcm})
}

// words goes on with what the model says. A new ordinal is a new turn, unless the current one has none yet.
func (r *run) words(m server, now time.Time) {
	ts := &r.turns
	t := ts.byOrdinal[m.Ordinal]
	if t == nil {
		if m.Ordinal <= ts.highest && ts.highest > 0 {
			r.counts.lateWords.Add(1)
			return
		}
		if c := ts.current; c != nil && c.bound {
			r.finish(c, switcher.TurnCompleted)
		}
		t = r.turnNow()
		t.bound, ts.byOrdinal[m.Ordinal], ts.highest = true, t, m.Ordinal
	}
	before := t.text
	t.text = grown(before, m)
	t.last = now
	if m.Final {
		t.final = true
		delete(ts.byOrdinal, m.Ordinal)
	}
	switch {
	case t.early:
	case t.stopped || t.closed:
		if t.text != before {
			r.counts.lateWords.Add(1)
		}
	case len(t.text) > len(before) && t.text[:len(before)] == before: // what was said is never taken back
		t.opened = true
		r.say(switcher.TextOut{Item: t.id, Delta: t.text[len(before):]})
	}
}

// state: a turn is over when the provider listens again, by its clock of what it sent.
func (r *run) state(s string, now time.Time) {
	t := r.turns.current
	switch s {
	case "thinking", "speaking":
		r.asked, r.silent = time.Time{}, 0
	case "listening", "idle":
		if t != nil && (t.samples > 0 || t.final || t.early) {
			r.finish(t, switcher.TurnCompleted)
		}
	}
}

// cleared: the provider has heard the caller interrupt, and takes back what was not played yet.
func (r *run) cleared() {
	if t := r.turns.current; t != nil {
		t.stopped = true
		r.session.Unsay(t.id)
		r.finish(t, switcher.TurnCancelled)
	}
}

func (r *run) endDue(now time.Time) {
	if t := r.turns.current; t != nil && t.final && now.Sub(t.last) > afterFinal {
		r.finish(t, switcher.TurnCompleted)
	}
}

// finish closes a turn; it is no longer the current one.
func (r *run) finish(t *turn, status string) {
	if r.turns.current == t {
		r.turns.current = nil
	}
	if t.closed || t.early {
		return
	}
	t.closed = true
	if t.opened {
		r.say(switcher.TurnDoneOut{Item: t.id, Status: status})
	}
}

// interrupted stops what the model says, and tells it what was heard of that.
func (r *run) interrupted(in switcher.InterruptedIn) {
	t := r.turns.known[in.Item]
	if t == nil || t.stopped || !t.opened {
		return
	}
	finished := t.closed
	t.stopped, t.closed = true, true
	r.session.Unsay(t.id)
	if !finished {
		r.say(switcher.TurnDoneOut{Item: t.id, Status: switcher.TurnCancelled})
	}
	received := time.Duration(t.samples) * time.Second / OutRate
	switch {
	case !finished:
		r.tell(spell.Heard(in.Text, in.Played > 0), "immediate")
	case in.Played < received:
		r.tell(spell.Heard(in.Text, in.Played > 0), "later")
	}
}
