package gemini

import (
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
)

// How long a transcript may be on its way. The provider seldom says that one is finished, and gives it no order among its answers.
const (
	afterAnswer = 300 * time.Millisecond // without more words, when the answer has begun
	afterSpeech = 2 * time.Second        // without more words, when the turn is over
	afterWords  = 3 * time.Second        // without more words, where nobody knows whether it is
	afterNone   = 5 * time.Second        // without a word
	mostOpen    = 16
)

// utterance is what the caller says in one turn.
type utterance struct {
	id    string
	at    time.Time // it began
	ended time.Time // zero: not yet
	told  bool      // … and the session knows
	last  time.Time // words came
	text  string
}

type heard struct {
	open  []*utterance // not settled, oldest first
	begin time.Time    // of the next one, where the provider finds the turns
	last  time.Time    // the beginning of the newest
	final string       // what the newest one said that is settled
}

// utter begins an utterance, so that it keeps its place in the order of speech.
func (r *run) utter(at time.Time) *utterance {
	h := &r.heard
	for _, u := range h.open { // what is being said now is another turn
		if u.text != "" {
			r.settle(u)
		}
	}
	if len(h.open) >= mostOpen {
		r.settle(h.open[0])
	}
	if !at.After(h.last) {
		at = h.last.Add(time.Millisecond)
	}
	h.last = at
	u := &utterance{id: r.id("heard"), at: at}
	h.open = append(h.open, u)
	r.say(switcher.CallerSpeechOut{Item: u.id, Started: true, At: at})
	return u
}

// transcribed goes on with what the caller said: the oldest turn that has no final transcript yet.
func (r *run) transcribed(t *live.Transcription, now time.Time) {
	if t == nil || !r.floor || t.Text == "" && !t.Finished {
		return
	}
	var u *utterance
	switch {
	case len(r.heard.open) > 0:
		u = r.heard.open[0]
	case strings.TrimSpace(t.Text) == "":
		return
	case !r.ear.speaking && r.heard.begin.IsZero() && strings.TrimSpace(t.Text) == r.heard.final: // some models write the same turn down twice
		r.counts.lateWords.Add(1)
		return
	default: // the first of it, where the provider finds the turns; else more of what was taken for finished
		at := r.heard.begin
		if r.heard.begin = (time.Time{}); at.IsZero() {
			at = now
		}
		u = r.utter(at)
		if !r.ear.speaking {
			u.ended = now
		}
	}
	if t.Text != "" {
		u.text += t.Text
		u.last = now
		if text := strings.TrimSpace(u.text); text != "" && !t.Finished {
			r.say(switcher.TranscriptOut{Item: u.id, Text: text, At: u.at})
		}
	}
	if t.Finished {
		r.settle(u)
	}
}

// activity is what the provider's detector found, for those who are told.
func (r *run) activity(kind string, now time.Time) {
	switch {
	case !r.floor:
	case kind == "ACTIVITY_START" && len(r.heard.open) == 0:
		at := r.heard.begin
		if r.heard.begin = (time.Time{}); at.IsZero() {
			at = now
		}
		r.utter(at)
	case kind == "ACTIVITY_END":
		for _, u := range r.heard.open {
			r.spoken(u, now)
		}
	}
}

// spoken: the speech has ended, its transcript may come yet.
func (r *run) spoken(u *utterance, at time.Time) {
	if u.ended.IsZero() {
		u.ended = at
	}
	if r.cfg.TheirTurns && !u.told {
		u.told = true
		r.say(switcher.CallerSpeechOut{Item: u.id, At: u.ended})
	}
}

func (r *run) settle(u *utterance) {
	if r.cfg.TheirTurns {
		at := u.last
		if at.IsZero() {
			at = u.at
		}
		r.spoken(u, at)
	}
	text := strings.TrimSpace(u.text)
	r.heard.final = text
	r.say(switcher.TranscriptOut{Item: u.id, Text: text, Final: text != "", Failed: text == "", At: u.at})
	for i, o := range r.heard.open {
		if o == u {
			r.heard.open = append(r.heard.open[:i], r.heard.open[i+1:]...)
			break
		}
	}
}

// settleDue takes transcripts for finished that do not go on.
func (r *run) settleDue(now time.Time) {
	for i := 0; i < len(r.heard.open); {
		if u := r.heard.open[i]; r.finished(u, now) {
			r.settle(u)
		} else {
			i++
		}
	}
}

func (r *run) finished(u *utterance, now time.Time) bool {
	over := !u.ended.IsZero()
	quiet := now.Sub(u.last)
	switch {
	case u.text == "":
		return over && now.Sub(u.ended) > afterNone
	case !over && !r.cfg.TheirTurns:
		return false // they are speaking
	case r.turns.begun.After(u.at) && (over || r.turns.begun.After(u.last)) && quiet > afterAnswer:
		return true
	}
	return quiet > afterWords || over && quiet > afterSpeech
}
