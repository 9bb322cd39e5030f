package ultravox

import (
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
)

// Bounds of what the caller says.
const (
	batchLeast = 40 * time.Millisecond // sent at once
	batchMost  = 60 * time.Millisecond
	heldMost   = 20 * time.Second // from before the floor
	afterNone  = 8 * time.Second  // a turn without a transcript has none
	mostOpen   = 16
)

// ear is the caller's sound on its way to the provider.
type ear struct {
	early    []switcher.Input // sound and speech from before the floor
	earlyPCM int              // samples in it
	pending  []int16          // not sent yet
	speaking bool             // by the session's detector
}

func span(d time.Duration) int { return int(d.Seconds() * InRate) }

// hold keeps what the caller says before the leg has the floor.
func (r *run) hold(i switcher.Input) {
	e := &r.ear
	if s, ok := i.(switcher.SoundIn); ok {
		e.earlyPCM += len(s.PCM)
	}
	e.early = append(e.early, i)
	for n := 0; e.earlyPCM > span(heldMost) && n < len(e.early); n++ {
		if s, ok := e.early[n].(switcher.SoundIn); ok {
			e.earlyPCM -= len(s.PCM)
			e.early = append(e.early[:n], e.early[n+1:]...)
			r.counts.earlySound.Add(1)
			n--
		}
	}
	if len(e.early) > 4*socket.MostWords { // beginnings and ends without sound between
		e.early = e.early[1:]
	}
}

// caller gives the provider all sound: it finds the turns. The session's detector says, sooner and exactly, when they began.
func (r *run) caller(i switcher.Input) {
	e := &r.ear
	switch i := i.(type) {
	case switcher.SoundIn:
		e.pending = append(e.pending, i.PCM...)
		for len(e.pending) >= span(batchLeast) {
			n := min(len(e.pending), span(batchMost))
			data := make([]byte, 0, 2*n)
			for _, s := range e.pending[:n] {
				data = append(data, byte(s), byte(uint16(s)>>8))
			}
			r.put(socket.Message{Data: data, Binary: true, Samples: n})
			e.pending = append(e.pending[:0], e.pending[n:]...)
		}
	case switcher.CallerSpeechIn:
		switch {
		case i.Started && !e.speaking:
			e.speaking = true
			r.newTurn()
			r.utter(i.At)
		case i.Final && e.speaking:
			e.speaking = false
			for _, u := range r.heard.open {
				r.spoken(u, i.At)
			}
		}
	}
}

// newTurn begins a turn of the caller.
func (r *run) newTurn() { clear(r.tools.same) }

// utterance is what the caller says in one turn.
type utterance struct {
	id    string
	at    time.Time // it began
	ended time.Time // zero: not yet
	bound bool      // the provider has transcribed some of it
	over  bool      // its transcript is final
	text  string
}

type heard struct {
	open      []*utterance // not over, oldest first
	byOrdinal map[int]*utterance
	ordinals  []int     // of byOrdinal, oldest first
	last      time.Time // the beginning of the newest
}

const mostOrdinals = 256

// utter begins an utterance, so that it keeps its place in the order of speech.
func (r *run) utter(at time.Time) *utterance {
	h := &r.heard
	if len(h.open) >= mostOpen {
		r.settle(h.open[0], "")
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

func (r *run) spoken(u *utterance, at time.Time) {
	if u.ended.IsZero() {
		u.ended = at
		r.say(switcher.CallerSpeechOut{Item: u.id, At: at})
	}
}

// transcribed takes what the provider understood: of the oldest turn that it has transcribed nothing of, when the ordinal is new.
func (r *run) transcribed(m server, now time.Time) {
	h := &r.heard
	u := h.byOrdinal[m.Ordinal]
	if !r.floor || u != nil && u.over {
		r.counts.lateWords.Add(1)
		return
	}
	if u == nil {
		for _, o := range h.open {
			if !o.bound {
				u = o
				break
			}
		}
		if u == nil {
			u = r.utter(now)
			if !r.ear.speaking {
				r.spoken(u, now)
			}
		}
		u.bound = true
		h.byOrdinal[m.Ordinal] = u
		if h.ordinals = append(h.ordinals, m.Ordinal); len(h.ordinals) > mostOrdinals {
			delete(h.byOrdinal, h.ordinals[0])
			h.ordinals = h.ordinals[1:]
		}
	}
	u.text = grown(u.text, m)
	text := strings.TrimSpace(u.text)
	if !m.Final {
		if text != "" {
			r.say(switcher.TranscriptOut{Item: u.id, Text: text, At: u.at})
		}
		return
	}
	r.settle(u, text)
}

// grown is a text with what a transcript adds to it.
func grown(text string, m server) string {
	switch {
	case m.Text != nil && (*m.Text != "" || m.Delta == nil):
		return *m.Text
	case m.Delta != nil:
		return text + *m.Delta
	}
	return text
}

func (r *run) settle(u *utterance, text string) {
	at := time.Now()
	if at.Before(u.at) {
		at = u.at
	}
	u.over = true
	r.spoken(u, at)
	r.say(switcher.TranscriptOut{Item: u.id, Text: text, Final: text != "", Failed: text == "", At: u.at})
	for i, o := range r.heard.open {
		if o == u {
			r.heard.open = append(r.heard.open[:i], r.heard.open[i+1:]...)
			break
		}
	}
}

// settleDue gives up transcripts that do not come.
func (r *run) settleDue(now time.Time) {
	for i := 0; i < len(r.heard.open); {
		u := r.heard.open[i]
		if !u.ended.IsZero() && now.Sub(u.ended) > afterNone {
			r.settle(u, strings.TrimSpace(u.text))
		} else {
			i++
		}
	}
}
