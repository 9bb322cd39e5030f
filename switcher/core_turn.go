package switcher

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// turn is something a leg, or the session itself, says.
type turn struct {
	run    *run // nil: the session's own
	id     TurnID
	item   string // of id, as its author knows it
	agent  string // agent_id, of the session's own
	firm   bool   // the caller's speech does not stop it
	opened time.Time

	text   string // so far
	words  bool   // text came of its own; else it is what came with the sound
	final  bool
	pieces []piece
	sound  time.Duration // given to the speaker
	last   time.Time     // when it was
	aloud  bool          // the session's voice speaks its text
	made   bool          // all of it
	status string

	begun   bool // its first packet was sent
	played  time.Duration
	stopped bool
}

// piece says which words end at which point of a turn's sound.
type piece struct {
	end  time.Duration
	text string
}

const maxTurnText = recorder.MaxText

func (t *turn) leg() string {
	if t.run == nil {
		return ""
	}
	return t.run.Name
}

func (r *run) sortedTurns() []*turn {
	return slices.SortedFunc(maps.Values(r.turns), func(a, b *turn) int { return cmp.Or(a.opened.Compare(b.opened), strings.Compare(a.item, b.item)) })
}

// turnOf finds the turn of an output of the active leg, opening it; nil when it is over.
func (c *core) turnOf(r *run, item string) *turn {
	if t := r.turns[item]; t != nil {
		return t
	}
	if r.over[item] {
		return nil
	}
	if len(r.over) > maxOver {
		clear(r.over) // an id that comes back after so many is a new one
	}
	t := &turn{run: r, id: TurnID{r.epoch, item}, item: item, opened: c.now, last: c.now}
	r.turns[item] = t
	c.recordTurn(t, recorder.Event{Kind: recorder.SpeechStarted, Voiced: c.voiced(t)})
	return t
}

const maxOver = 10_000

func (c *core) recordTurn(t *turn, e recorder.Event) {
	e.Who, e.Epoch, e.Leg, e.Item, e.AgentID = recorder.Assistant, t.id.Epoch, t.leg(), t.item, t.agent
	c.record(e)
}

// turnText goes on with a turn's text.
func (c *core) turnText(t *turn, delta string) {
	if t.final || delta == "" {
		return
	}
	if !t.words && t.text != "" { // what came with the sound was the same words
		t.text = ""
		c.recordTurn(t, recorder.Event{Kind: recorder.Partial})
	}
	t.words = true
	c.addText(t, delta)
	c.recordTurn(t, recorder.Event{Kind: recorder.Delta, Text: delta})
}

func (c *core) addText(t *turn, delta string) {
	if len(t.text)+len(delta) <= maxTurnText {
		t.text += delta
	}
	c.observe(Event{Kind: TranscriptSaid, Epoch: t.id.Epoch, Who: "agent", Item: t.item, Text: t.text})
}

// turnTranscript is all of a turn's text so far.
func (c *core) turnTranscript(t *turn, text string, final bool) {
	if t.final || text == "" && final && t.text != "" {
		return
	}
	t.words, t.text = true, text[:min(len(text), maxTurnText)]
	kind := recorder.Partial
	if final {
		kind, t.final = recorder.Final, true
	}
	c.recordTurn(t, recorder.Event{Kind: kind, Text: text})
	c.observe(Event{Kind: TranscriptSaid, Epoch: t.id.Epoch, Who: "agent", Item: t.item, Text: t.text, Final: final})
}

// turnSound goes on with a turn's sound.
func (c *core) turnSound(t *turn, rate int, pcm []int16, text string) {
	if !c.speaker {
		c.count.MuteSound++
		if text != "" && !t.words {
			c.addText(t, text)
			c.recordTurn(t, recorder.Event{Kind: recorder.Delta, Text: text})
		}
		return
	}
	d := time.Duration(len(pcm)) * time.Second / time.Duration(rate)
	if t.sound == 0 {
		c.order = append(c.order, t)
	}
	t.sound += d
	t.last = c.now
	c.soundUntil = later(c.soundUntil, c.now).Add(d)
	e := recorder.Event{Kind: recorder.Delta, Audio: d}
	if text != "" {
		t.pieces = append(t.pieces, piece{t.sound, text})
		if !t.words {
			e.Text = text
			c.addText(t, text)
		}
	}
	c.recordTurn(t, e)
	c.do(aPlay{turn: t.id, rate: rate, pcm: pcm})
	if c.order[0] != t && !c.order[0].made {
		if _, set := c.timers[timer{dueStall, ""}]; !set {
			c.in(dueStall, "", c.times.Stall)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// turnMade: no more of a turn comes.
func (c *core) turnMade(t *turn, status string) {
	if t.made || status == TurnCompleted && c.readAloud(t) {
		return
	}
	t.made, t.status = true, status
	if !t.final && t.text != "" {
		c.observe(Event{Kind: TranscriptSaid, Epoch: t.id.Epoch, Who: "agent", Item: t.item, Text: t.text, Final: true})
	}
	if t.sound > 0 {
		c.do(aEndTurn{t.id})
		if status == TurnCompleted {
			c.recordTurn(t, recorder.Event{Kind: recorder.Done})
		}
		return
	}
	if status != TurnCompleted && c.voiced(t) { // nothing of it was heard
		c.closeCut(t, 0)
		return
	}
	c.recordTurn(t, recorder.Event{Kind: recorder.Done, Cancelled: status != TurnCompleted})
	c.over(t)
}

// voiced: the turn is to be heard, not read.
func (c *core) voiced(t *turn) bool {
	return c.speaker && (t.run == nil || t.run.Can.OutRate > 0)
}

// stalled closes a turn that others wait for and of which nothing comes.
func (c *core) stalled() {
	if len(c.order) < 2 {
		return
	}
	t := c.order[0]
	if t.made {
		return
	}
	if wait := t.last.Add(c.times.Stall).Sub(c.now); wait > 0 {
		c.in(dueStall, "", wait)
		return
	}
	c.notice(t.id.Epoch, "turn_stalled", "a turn that held up others was closed: "+t.item)
	c.turnMade(t, TurnFailed)
}

// over forgets a turn.
func (c *core) over(t *turn) {
	t.stopped = true
	if i := slices.Index(c.order, t); i >= 0 {
		c.order = slices.Delete(c.order, i, i+1)
	}
	if i := slices.Index(c.says, t); i >= 0 {
		c.says = slices.Delete(c.says, i, i+1)
	}
	if t.run != nil {
		delete(t.run.turns, t.item)
		t.run.over[t.item] = true
		c.forget(t.run)
	}
}

// heardTurn is what the speaker's clock says.
func (c *core) heardTurn(h HeardTurn) {
	i := slices.IndexFunc(c.order, func(t *turn) bool { return t.id == h.TurnID })
	if i < 0 {
		return // over
	}
	t := c.order[i]
	t.played = max(t.played, h.Played)
	if !t.begun && !h.Started.IsZero() {
		t.begun = true
		c.observe(Event{Kind: SpeechStarted, Epoch: t.id.Epoch, Who: "agent", Item: t.item})
	}
	switch {
	case h.Stopped:
		c.closeCut(t, t.played)
	case h.Done:
		c.closeWhole(t)
	default:
		c.recordTurn(t, recorder.Event{Kind: recorder.Playing, Heard: t.played, HeardText: t.heardText(t.played)})
		c.observe(Event{Kind: TurnPlayed, Epoch: t.id.Epoch, Item: t.item, Played: t.played})
	}
}

// closeWhole: a turn has been heard to the end of its sound.
func (c *core) closeWhole(t *turn) {
	if !t.made || t.status == TurnCompleted {
		c.recordTurn(t, recorder.Event{Kind: recorder.Done})
		c.recordTurn(t, recorder.Event{Kind: recorder.Played})
	} else { // it was to be longer
		c.recordTurn(t, t.cutEvent(t.sound))
		c.recordTurn(t, recorder.Event{Kind: recorder.Done, Cancelled: true})
	}
	if t.run != nil && t.run == c.active {
		c.give(t.run, PlayedIn{Item: t.item, Played: t.played})
	}
	c.observe(Event{Kind: TurnPlayed, Epoch: t.id.Epoch, Item: t.item, Played: t.played, Text: t.text, Final: true})
	c.observe(Event{Kind: SpeechStopped, Epoch: t.id.Epoch, Who: "agent", Item: t.item})
	c.over(t)
}

// closeCut: a turn was stopped after so much of its sound.
func (c *core) closeCut(t *turn, played time.Duration) {
	if !c.voiced(t) && t.sound == 0 { // what was made of a text has been read
		c.recordTurn(t, recorder.Event{Kind: recorder.Done, Cancelled: true})
	} else {
		c.recordTurn(t, t.cutEvent(played))
		c.recordTurn(t, recorder.Event{Kind: recorder.Done, Cancelled: true})
	}
	in := InterruptedIn{Item: t.item, Played: played, Text: t.heardText(played)}
	switch ch := c.change; {
	case t.run == nil || t.run != c.active:
	case c.holding():
		ch.cut = append(ch.cut, in) // it is to know only if the commit does not come about
	default:
		c.give(t.run, in)
	}
	c.observe(Event{Kind: TurnPlayed, Epoch: t.id.Epoch, Item: t.item, Played: played, Text: in.Text, Interrupted: true, Final: true})
	if t.begun {
		c.observe(Event{Kind: SpeechStopped, Epoch: t.id.Epoch, Who: "agent", Item: t.item})
	}
	c.over(t)
}

// beginning is a share of a text, cut after a word.
func beginning(s string, share float64) string {
	n := int(float64(len(s)) * share)
	if n >= len(s) {
		return s
	}
	i := strings.LastIndexAny(s[:n+1], " \n")
	if i < 0 {
		return ""
	}
	return s[:i]
}

// stopped: playback was stopped.
func (c *core) stopped(e evStopped) {
	c.soundUntil = c.now
	for _, t := range slices.Clone(c.order) {
		i := slices.IndexFunc(e.heard, func(h HeardTurn) bool { return h.TurnID == t.id })
		switch {
		case i >= 0 && !e.heard[i].Done:
			t.begun = t.begun || !e.heard[i].Started.IsZero()
			c.closeCut(t, e.heard[i].Played)
		case i >= 0:
			t.played = e.heard[i].Played
			c.closeWhole(t)
		case slices.Contains(e.queued, t.id) || !t.made:
			c.closeCut(t, t.played)
		default: // it had ended just before, and the speaker is about to say so
			t.played = t.sound
			c.closeWhole(t)
		}
	}
	if ch := c.change; ch != nil && ch.run != nil && ch.run.state == runSettling && !ch.settled {
		c.settle()
	}
}

// say queues something that no leg said.
func (c *core) say(e evSay) {
	if slices.ContainsFunc(c.says, func(t *turn) bool { return t.item == e.OpID }) {
		return
	}
	t := &turn{id: TurnID{c.epoch, "say." + e.OpID}, item: e.OpID, agent: e.Agent, firm: !e.Interruptible, opened: c.now, last: c.now}
	c.says = append(c.says, t)
	c.recordTurn(t, recorder.Event{Kind: recorder.SpeechStarted, Voiced: c.voiced(t)})
	if e.Text != "" {
		c.turnText(t, e.Text)
	}
	switch {
	case len(e.PCM) > 0:
		c.turnSound(t, e.Rate, e.PCM, "")
		c.turnMade(t, TurnCompleted)
	case c.speaker && c.voice:
		t.aloud = true
		c.do(aSpeak{turn: t.id, text: e.Text})
	default: // it can only be read
		c.recordTurn(t, recorder.Event{Kind: recorder.Done})
		c.observe(Event{Kind: TranscriptSaid, Epoch: t.id.Epoch, Who: "agent", Item: t.item, Text: t.text, Final: true})
		c.over(t)
	}
}

// openID: what a leg names must be an id.
func openID(s string) bool { return chatctx.ValidID(s) }
