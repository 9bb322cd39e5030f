package realtime

import (
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/realtime/dialect"
)

// turn is one message of the model.
type turn struct {
	item    string // the provider's id
	out     string // ours
	answer  string // the response it belongs to
	part    int    // which content part has the sound
	samples int64  // received
	text    string // what the sound says, so far
	opened  bool   // the session has heard of it
	closed  bool   // … and of its end
	stopped bool   // by the session: what still comes is dropped
	heard   bool   // to its end
}

type turns struct {
	byItem, byOut map[string]*turn
	order         []string // ours, oldest first
}

const mostTurns = 256

// turn finds the turn of an item, or begins it.
func (r *run) turn(item string, a *response) *turn {
	ts := &r.turns
	if t := ts.byItem[item]; t != nil {
		return t
	}
	t := &turn{item: item, out: socket.ID(item), answer: a.id}
	ts.byItem[item], ts.byOut[t.out] = t, t
	a.items = append(a.items, item)
	if ts.order = append(ts.order, t.out); len(ts.order) > mostTurns {
		if old := ts.byOut[ts.order[0]]; old != nil {
			delete(ts.byItem, old.item)
		}
		delete(ts.byOut, ts.order[0])
		ts.order = ts.order[1:]
	}
	return t
}

func (r *run) sound(a *response, e *dialect.OutputAudioDelta) {
	pcm, err := dialect.DecodePCM(e.Delta)
	if err != nil {
		r.counts.malformed.Add(1)
		return
	}
	if a.suppressed || len(pcm) == 0 {
		return
	}
	a.sound = true
	t := r.turn(e.ItemID, a)
	if t.stopped || t.closed {
		r.counts.stoppedSound.Add(1)
		return
	}
	t.part, t.opened = e.ContentIndex, true
	t.samples += int64(len(pcm))
	for ; len(pcm) > r.outRate; pcm = pcm[r.outRate:] { // some servers send a whole answer in one piece
		r.say(switcher.SoundOut{Item: t.out, Rate: r.outRate, PCM: pcm[:r.outRate]})
	}
	r.say(switcher.SoundOut{Item: t.out, Rate: r.outRate, PCM: pcm})
}

// words are what the sound says.
func (r *run) words(a *response, item, delta string) {
	if a.suppressed || delta == "" {
		return
	}
	a.sound = true // a transcript is of sound, which may come behind it
	t := r.turn(item, a)
	if t.stopped || t.closed {
		return
	}
	t.opened = true
	t.text += delta
	r.say(switcher.TextOut{Item: t.out, Delta: delta})
}

// allWords goes on to the end of what the sound says, for servers that send no deltas.
func (r *run) allWords(a *response, item, all string) {
	if t := r.turns.byItem[item]; t == nil || t.text == "" {
		r.words(a, item, all)
	}
}

// text is an answer without sound; it waits for the end, see withoutSound.
func (r *run) text(a *response, item, delta string) {
	if a.suppressed || delta == "" {
		return
	}
	if _, ok := a.texts[item]; !ok {
		a.textOrder = append(a.textOrder, item)
	}
	a.texts[item] += delta
}

func (r *run) closeTurn(t *turn, status string) {
	if t.closed {
		return
	}
	t.closed = true
	if !t.opened {
		return
	}
	r.say(switcher.TurnDoneOut{Item: t.out, Status: status})
}

// closeAll closes the turns of an answer that are still open; said: there was something to hear in it.
func (r *run) closeAll(a *response, status string) (said bool) {
	for _, item := range a.items {
		if t := r.turns.byItem[item]; t != nil && t.opened {
			said = true
			r.closeTurn(t, status)
		}
	}
	return said
}

// interrupted makes the provider forget what the caller did not hear of a turn. A turn that is not known here is another
// connection's: its provider is gone.
func (r *run) interrupted(in switcher.InterruptedIn) {
	t := r.turns.byOut[in.Item]
	if t == nil || t.stopped || t.heard {
		return
	}
	t.stopped = true
	r.session.Unsay(t.out)
	if r.response.active != "" && r.response.active == t.answer {
		r.send(&dialect.ResponseCancel{EventID: r.id("cancel"), ResponseID: t.answer})
	}
	finished := t.closed
	r.closeTurn(t, switcher.TurnCancelled)
	received := time.Duration(t.samples) * time.Second / time.Duration(r.outRate)
	switch {
	case in.Played <= 0 && in.Text == "" && r.p.Delete:
		r.send(&dialect.ItemDelete{EventID: r.id("cut"), ItemID: t.item})
	case t.samples == 0: // it was text: only its words can be cut
		r.retell(t, in.Text)
	case finished && in.Played >= received: // heard to its end
	case r.p.Truncate:
		r.send(&dialect.ItemTruncate{EventID: r.id("cut"), ItemID: t.item, ContentIndex: t.part, AudioEndMs: dialect.Millis(min(max(in.Played, 0), received).Milliseconds())})
	case in.Text != "":
		r.tell("The caller interrupted; of the last answer they heard only: " + in.Text)
	default:
		r.tell("The caller interrupted the last answer and did not hear the end of it.")
	}
}

// retell puts a text as heard in the place of the whole.
func (r *run) retell(t *turn, heard string) {
	if !r.p.Delete {
		return
	}
	r.send(&dialect.ItemDelete{EventID: r.id("cut"), ItemID: t.item})
	if heard != "" {
		r.send(&dialect.ItemCreate{EventID: r.id("item"), Item: r.ownItem(dialect.Item{Type: dialect.ItemMessage, Role: "assistant", Content: []dialect.Part{{Type: "output_text", Text: heard}}})})
	}
}

// tell puts a line of ours into the conversation; nobody's words can look like one.
func (r *run) tell(line string) {
	r.send(&dialect.ItemCreate{EventID: r.id("item"), Item: r.ownItem(dialect.Item{Type: dialect.ItemMessage, Role: "system", Content: []dialect.Part{{Type: "input_text", Text: marked(line)}}})})
}

// ownItem gives an item an id of ours, where the provider keeps such.
func (r *run) ownItem(i dialect.Item) dialect.Item {
	if r.p.ClientIDs {
		i.ID = r.id("own")
	}
	return i
}
