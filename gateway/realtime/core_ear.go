package realtime

import (
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// ear is the sound of the caller: the input buffer, and the turns that were found in it.
type ear struct {
	written time.Duration // of sound, in this session
	buffer  []int16       // waits for the commit, where the client finds the turns
	voice   decoder
	turn    *heard   // that goes on
	waiting []*heard // turns that are over and have no transcript yet, oldest first
	unnamed []*heard // … or go on, to which the leg has not given an id, oldest first
}

// heard is a turn of the caller.
type heard struct {
	item    string        // its id, which the leg gives; "" yet
	start   time.Duration // of the sound written
	end     time.Duration
	over    bool // the turn
	manual  bool // the client committed it
	respond bool // the leg's own answer to it is wanted
	mute    bool // … is not wanted at all
	cleared bool // the client does not want it to have been said
	told    int  // of the events that its id makes possible
	text    string
}

// appendAudio takes sound of the client.
func (c *core) appendAudio(e *dialect.InputAudioAppend) {
	c.ear.voice.format = *c.session.Audio.Input.Format
	pcm, err := c.ear.voice.decode(e.Audio)
	if err != nil {
		c.refuse(e.EventID, faultf("invalid_value", "audio", "%s", err))
		return
	}
	if len(pcm) == 0 {
		return
	}
	c.ear.written += length(len(pcm))
	if _, on := c.turnDetection(); on {
		c.do(eHear{pcm: pcm})
		return
	}
	if length(len(c.ear.buffer)+len(pcm)) > maxBuffer {
		c.refuse(e.EventID, faultf("input_audio_buffer_full", "audio", "the input buffer holds %s of sound, its bound: commit or clear it", maxBuffer))
		return
	}
	c.ear.buffer = append(c.ear.buffer, pcm...)
}

func length(samples int) time.Duration {
	return time.Duration(samples) * time.Second / dialect.Rate
}

// leastCommit is the least sound that can be committed, as the official server has it.
const leastCommit = 100 * time.Millisecond

// commit makes the input buffer a turn.
func (c *core) commit(e *dialect.InputAudioCommit) {
	if _, on := c.turnDetection(); on {
		if c.ear.turn == nil {
			c.refuse(e.EventID, faultf("input_audio_buffer_commit_empty", "", "nobody has begun to speak since the last turn"))
			return
		}
		c.do(eEnd{})
		return
	}
	pcm := c.ear.buffer
	if length(len(pcm)) < leastCommit {
		c.refuse(e.EventID, faultf("input_audio_buffer_commit_empty", "", "the input buffer holds %d ms of sound: at least %d are needed", length(len(pcm)).Milliseconds(), leastCommit.Milliseconds()))
		return
	}
	c.ear.buffer = nil
	t := &heard{start: c.ear.written - length(len(pcm)), end: c.ear.written, over: true, manual: true}
	c.ear.unnamed = append(c.ear.unnamed, t)
	c.ear.waiting = append(c.ear.waiting, t)
	if c.answers.active == nil {
		c.discard()
		c.answers.auto = false
	}
	c.do(eHear{pcm: pcm, whole: true})
}

func (c *core) clearAudio() {
	c.ear.buffer = nil
	if t := c.ear.turn; t != nil {
		t.cleared, t.mute = true, true
		c.do(eEnd{})
	}
	c.send(&dialect.InputAudioCleared{EventID: c.eventID()})
}

// begins: our detector found that the caller begins to speak, at a time of the sound written.
func (c *core) begins(at time.Duration) {
	if c.ear.turn != nil {
		return // goes on after a pause
	}
	t := &heard{start: at}
	c.ear.turn = t
	c.ear.unnamed = append(c.ear.unnamed, t)
	if turns, on := c.turnDetection(); on && *turns.InterruptResponse && !c.cfg.watch {
		c.discard()
		c.cancel(dialect.StatusCancelled, "turn_detected", "")
	}
	c.answers.drop = false // the leg answers to both parts now
}

// ends: the turn that goes on is over.
func (c *core) ends(at time.Duration) {
	t := c.ear.turn
	if t == nil {
		return
	}
	c.ear.turn = nil
	t.end, t.over = max(at, t.start), true
	if turns, on := c.turnDetection(); on && !c.cfg.watch { // there the answer is told of when it is begun
		t.respond = *turns.CreateResponse && !t.cleared
	}
	c.ear.waiting = append(c.ear.waiting, t)
	if c.answers.active == nil {
		c.answers.auto = t.respond
	}
	c.tellTurn(t)
}

// legHears: the leg has an id for what is being said.
func (c *core) legHears(o switcher.CallerSpeechOut) {
	if o.Started && len(c.ear.unnamed) > 0 {
		t := c.ear.unnamed[0]
		c.ear.unnamed = c.ear.unnamed[1:]
		t.item = o.Item
		c.tellTurn(t)
	}
	c.forward(o)
}

// tellTurn sends what is due of a turn that has an id.
func (c *core) tellTurn(t *heard) {
	if t.item == "" || t.cleared {
		return
	}
	if t.told == 0 {
		t.told = 1
		if !t.manual {
			c.send(&dialect.SpeechStarted{EventID: c.eventID(), ItemID: t.item, AudioStartMs: dialect.Millis(t.start.Milliseconds())})
		}
	}
	if !t.over || t.told > 1 {
		return
	}
	t.told = 2
	if !t.manual {
		c.send(&dialect.SpeechStopped{EventID: c.eventID(), ItemID: t.item, AudioEndMs: dialect.Millis(t.end.Milliseconds())})
	}
	var prev *string
	if last := c.chat.last(); last != "" {
		prev = &last
	}
	c.send(&dialect.InputAudioCommitted{EventID: c.eventID(), ItemID: t.item, PreviousItemID: prev})
	var none string // clients want the field
	c.add(&item{Item: dialect.Item{ID: t.item, Type: dialect.ItemMessage, Status: dialect.StatusCompleted, Role: "user",
		Content: []dialect.Part{{Type: "input_audio", Transcript: &none}}}}, "")
}

// transcript is what the leg understood.
func (c *core) transcript(o switcher.TranscriptOut) {
	if o.Agent {
		c.forward(o)
		return
	}
	t := c.turnOf(o.Item)
	if t == nil { // of a turn that began before us
		c.forward(o)
		return
	}
	if t.cleared {
		o.Text, o.Failed = "", true
	}
	c.forward(o)
	if !o.Final && !o.Failed {
		c.partial(t, o.Text)
		return
	}
	c.understood(t, strings.TrimSpace(o.Text), o.Failed)
}

func (c *core) turnOf(item string) *heard {
	if t := c.ear.turn; t != nil && t.item == item {
		return t
	}
	for _, t := range c.ear.waiting {
		if t.item == item {
			return t
		}
	}
	return nil
}

// transcribes: the client wants to know what the caller said.
func (c *core) transcribes() bool {
	_, on := c.session.Audio.Input.Transcription.Get()
	return on
}

// partial: a recogniser takes words back, a delta cannot: the rest comes with the whole.
func (c *core) partial(t *heard, text string) {
	delta, goesOn := strings.CutPrefix(text, t.text)
	if !goesOn || delta == "" || t.told == 0 || !c.transcribes() {
		return
	}
	t.text = text
	c.send(&dialect.TranscriptionDelta{EventID: c.eventID(), ItemID: t.item, Delta: delta})
}

// understood: the words of a turn are there, or never will be.
func (c *core) understood(t *heard, text string, failed bool) {
	if !t.over { // the leg's detector found the end before ours
		c.ends(c.ear.written)
	}
	for i, w := range c.ear.waiting {
		if w == t {
			c.ear.waiting = append(c.ear.waiting[:i:i], c.ear.waiting[i+1:]...)
			break
		}
	}
	switch {
	case t.cleared:
	case failed:
		c.unheard(t)
	default:
		c.heardAs(t, text)
	}
	a := &c.answers
	switch {
	case (text != "" || failed) && t.mute:
		a.drop = true
	case text != "" || failed:
		a.owed = true
		if a.active == nil && t.respond {
			c.open(nil)
		}
	case a.active != nil && len(a.active.outputs) == 0 && !a.owed && len(c.ear.waiting) == 0: // nothing to answer to
		c.finish(dialect.StatusCompleted, "", "")
	}
	c.settle()
}

// heardAs notes the words of a turn.
func (c *core) heardAs(t *heard, text string) {
	if it := c.chat.byID[t.item]; it != nil {
		it.Content = []dialect.Part{{Type: "input_audio", Transcript: &text}}
	}
	if c.transcribes() {
		seconds := (t.end - t.start).Seconds()
		c.send(&dialect.TranscriptionCompleted{EventID: c.eventID(), ItemID: t.item, Transcript: text, Usage: dialect.Usage{Type: "duration", Seconds: &seconds}})
	}
}

// unheard: a turn has no words.
func (c *core) unheard(t *heard) {
	if t.item != "" && c.transcribes() {
		c.send(&dialect.TranscriptionFailed{EventID: c.eventID(), ItemID: t.item, Error: dialect.ErrorDetail{Type: "server_error", Code: "transcription_failed", Message: "the recogniser did not work"}})
	}
}
