package switcher

import (
	"strings"
	"time"

	"sightline/context/recorder"
)

// readAloud gives the words of a turn that came without any sound, though its pipeline has a voice, to the session's own. A leg
// cannot be asked for sound afterwards; that it gave none is its provider's fault.
func (c *core) readAloud(t *turn) bool {
	if t.run == nil || t.aloud || t.sound > 0 || !c.voice || !c.voiced(t) || strings.TrimSpace(t.text) == "" {
		return false
	}
	t.aloud = true
	c.count.ReadAloud++
	c.do(aSpeak{turn: t.id, text: t.text})
	return true
}

// aloudTurn is the turn that the session's voice speaks.
func (c *core) aloudTurn(id TurnID) *turn {
	for _, t := range c.says {
		if t.id == id {
			return t
		}
	}
	if r := c.runs[id.Epoch]; r != nil {
		if t := r.turns[id.Item]; t != nil && t.aloud {
			return t
		}
	}
	return nil
}

func (c *core) saySound(e evSaySound) {
	if t := c.aloudTurn(e.turn); t != nil && !t.made && validRate(e.rate) && len(e.pcm) > 0 {
		c.turnSound(t, e.rate, e.pcm, "")
	} else {
		c.count.StoppedSound++
	}
}

func (c *core) sayDone(e evSayDone) {
	t := c.aloudTurn(e.turn)
	if t == nil {
		return
	}
	if e.err != nil {
		c.notice(t.id.Epoch, "voice_failed", "a text could not be spoken: "+e.err.Error())
		if t.run != nil && t.sound == 0 { // then it can only be read, as if there were no voice
			c.turnMade(t, TurnCompleted)
			return
		}
		c.turnMade(t, TurnFailed)
		return
	}
	c.turnMade(t, TurnCompleted)
}

// audible: something is played, or about to be.
func (c *core) audible() bool { return len(c.order) > 0 || len(c.unheardAloud()) > 0 }

// unheardAloud are the turns of legs whose first sound the session's voice is making.
func (c *core) unheardAloud() (out []*turn) {
	for _, r := range c.sorted() {
		for _, t := range r.sortedTurns() {
			if t.aloud && !t.made && t.sound == 0 {
				out = append(out, t)
			}
		}
	}
	return out
}

// interrupt stops what is being played, and what is about to be; by the caller's speech, only what that may stop.
func (c *core) interrupt(forced bool) {
	if !c.audible() || c.holding() || !forced && len(c.order) > 0 && c.order[0].firm {
		return
	}
	c.count.Interruptions++
	for _, t := range c.unheardAloud() {
		c.closeCut(t, 0)
	}
	if len(c.order) > 0 {
		c.do(aCut{})
	}
}

// speechRate is how fast a voice is taken to be, in bytes a second, while not all of its sound is there: rather slow, so that no
// more words are taken for heard than were.
const speechRate = 12

// heardText is what was said in so much of the sound, "" when the leg did not say which words are where. A word that was begun is
// left out.
func (t *turn) heardText(played time.Duration) string {
	if t.aloud && played > 0 {
		return t.heardAloud(played)
	}
	var b strings.Builder
	from := time.Duration(0)
	for _, p := range t.pieces {
		if p.end <= played {
			b.WriteString(p.text)
		} else if from < played {
			b.WriteString(beginning(p.text, float64(played-from)/float64(p.end-from)))
		}
		from = p.end
	}
	return strings.TrimRight(b.String(), " \n")
}

// heardAloud works out the words from the share of the sound; how long all of it will be is not known before it is made.
func (t *turn) heardAloud(played time.Duration) string {
	all := t.sound
	if !t.made || t.status != TurnCompleted {
		all = max(all, time.Duration(len(t.text))*time.Second/speechRate)
	}
	if played >= all {
		return strings.TrimRight(t.text, " \n")
	}
	return strings.TrimRight(beginning(t.text, float64(played)/float64(all)), " \n")
}

// cutEvent tells the recorder how much of a turn was heard.
func (t *turn) cutEvent(played time.Duration) recorder.Event {
	e := recorder.Event{Kind: recorder.Interrupted, Heard: played, HeardText: t.heardText(played)}
	if t.aloud && e.HeardText == "" { // not a word: the recorder must not work it out from the sound that there is so far
		e.Heard = 0
	}
	return e
}
