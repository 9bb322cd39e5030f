package realtime

import (
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// answers are what the leg says and the client is told of it. One at a time.
type answers struct {
	active *response
	turns  map[string]*spoken // by the id of the item, of late
	order  []string
	dead   map[string]bool // ids of turns that nobody wants: what comes of them is dropped

	auto bool // an answer that the leg begins of its own accord is wanted
	owed bool // the leg has something to answer, and has not begun
	drop bool // what it begins next was taken back

	held      []switcher.Output // what it has begun that nobody has asked for yet
	heldSound time.Duration
}

// maxTurns bounds the turns, and the dead ones, that are remembered.
const maxTurns = 256

// response is one answer.
type response struct {
	dialect.Response
	text    bool // without sound
	apart   bool // not of the conversation
	outputs []*item
	spoken  []*spoken
	calls   int
	last    time.Time // something came of it
	quiet   time.Time // when it is over unless more comes, zero: not yet
	failed  bool      // a turn of it has
	cut     bool      // the session has stopped one
}

// spoken is a message of an answer being made.
type spoken struct {
	*item
	r     *response
	index int    // among the answer's outputs
	begun bool   // it has a part
	said  string // so far
	words bool   // … as text, not with the sound
	done  bool
	voice encoder
}

// legSays takes an output of the leg.
func (c *core) legSays(o switcher.Output) {
	switch o := o.(type) {
	case switcher.CallerSpeechOut:
		c.legHears(o)
	case switcher.TranscriptOut:
		c.transcript(o)
	case switcher.TextOut:
		c.answer(o, o.Item)
	case switcher.SoundOut:
		c.answer(o, o.Item)
	case switcher.TurnDoneOut:
		c.answer(o, o.Item)
	case switcher.ToolCallOut:
		c.answer(o, "")
	case switcher.ToolCancelOut:
		for _, id := range o.CallIDs {
			c.toolEnded(id)
		}
		c.forward(o)
	default:
		c.do(eSession{o})
	}
}

// forward gives an output to the session, unless it is apart from the conversation.
func (c *core) forward(o switcher.Output) {
	if !c.leg.apart {
		c.do(eSession{o})
	}
}

// answer takes a piece of an answer: it goes to the client, waits, or is dropped. turn is "" of a tool call.
func (c *core) answer(o switcher.Output, turn string) {
	a := &c.answers
	_, known := a.turns[turn]
	switch {
	case turn != "" && a.dead[turn]:
	case known:
		c.pass(o)
	case len(a.held) > 0:
		c.hold(o)
	case isDone(o): // of nothing
	case a.drop && turn != "":
		a.drop, a.owed = false, a.active != nil // it was asked again
		c.kill(turn, 0, "")
	case a.drop:
		if call, ok := o.(switcher.ToolCallOut); ok {
			c.do(eLeg{switcher.ToolResultIn{CallID: call.CallID, Name: call.Name, Output: `{"error":"cancelled"}`, IsError: true}})
		}
	case a.active == nil && !a.auto && !c.cfg.watch:
		c.hold(o)
	default:
		if a.active == nil {
			c.open(nil)
		}
		c.pass(o)
	}
}

func isDone(o switcher.Output) bool {
	_, ok := o.(switcher.TurnDoneOut)
	return ok
}

// kill ends a turn of the leg of which nothing more is wanted.
func (c *core) kill(turn string, played time.Duration, text string) {
	if len(c.answers.dead) > maxTurns {
		clear(c.answers.dead)
	}
	c.answers.dead[turn] = true
	c.do(eLeg{switcher.InterruptedIn{Item: turn, Played: played, Text: text}})
}

// hold keeps what the leg says until somebody asks for it.
func (c *core) hold(o switcher.Output) {
	a := &c.answers
	a.owed = false // it has begun
	if s, ok := o.(switcher.SoundOut); ok && s.Rate > 0 {
		a.heldSound += time.Duration(len(s.PCM)) * time.Second / time.Duration(s.Rate)
	}
	if a.held = append(a.held, o); len(a.held) > maxWaits || a.heldSound > maxHeld {
		c.discard()
	}
}

// discard forgets what nobody has asked for; the leg stops making it.
func (c *core) discard() {
	held := c.answers.held
	c.answers.held, c.answers.heldSound = nil, 0
	for _, o := range held {
		switch o := o.(type) {
		case switcher.TextOut:
			c.discardTurn(o.Item)
		case switcher.SoundOut:
			c.discardTurn(o.Item)
		case switcher.ToolCallOut:
			c.do(eLeg{switcher.ToolResultIn{CallID: o.CallID, Name: o.Name, Output: `{"error":"cancelled"}`, IsError: true}})
			c.answers.drop = true // the leg goes on with it
		}
	}
}

func (c *core) discardTurn(turn string) {
	if !c.answers.dead[turn] {
		c.kill(turn, 0, "")
	}
}

// pass gives a piece of the active answer to client and session.
func (c *core) pass(o switcher.Output) {
	if r := c.answers.active; r != nil {
		r.last, r.quiet = c.now, time.Time{}
	}
	switch o := o.(type) {
	case switcher.TextOut:
		s := c.turn(o.Item)
		if !s.words && s.said != "" { // what came with the sound was the same words
			s.words = true
			c.forward(o)
			return
		}
		s.words = true
		c.words(s, o.Delta)
		c.forward(o)
	case switcher.SoundOut:
		c.sound(c.turn(o.Item), o)
		c.forward(o)
	case switcher.TurnDoneOut:
		c.forward(o)
		c.turnDone(c.turn(o.Item), o.Status)
	case switcher.ToolCallOut:
		c.call(o)
	}
}

// open begins an answer.
func (c *core) open(p *dialect.ResponseParams) *response {
	r := &response{last: c.now, Response: dialect.Response{
		ID: c.cfg.newID("resp"), Object: "realtime.response", Status: dialect.StatusInProgress, Output: []dialect.Item{},
		ConversationID: c.cfg.conversation, OutputModalities: c.session.OutputModalities, MaxOutputTokens: c.session.MaxOutputTokens,
	}}
	if p != nil {
		r.Metadata = p.Metadata
		if len(p.OutputModalities) > 0 {
			r.OutputModalities = p.OutputModalities
		}
		if r.apart = p.Conversation == "none"; r.apart {
			r.ConversationID = ""
		}
	}
	r.text = r.OutputModalities[0] == "text"
	c.answers.active = r
	c.send(&dialect.ResponseCreated{EventID: c.eventID(), Response: r.Response})
	return r
}

// output puts an item into an answer and tells the client; index is its place there.
func (c *core) output(r *response, it *item) (index int) {
	index = len(r.outputs)
	r.outputs = append(r.outputs, it)
	c.send(&dialect.OutputItemAdded{EventID: c.eventID(), ResponseID: r.ID, OutputIndex: index, Item: it.Item})
	if !r.apart {
		c.add(it, "")
	}
	return index
}

func (c *core) outputDone(r *response, it *item, index int) {
	if !r.apart {
		c.send(&dialect.ItemDone{EventID: c.eventID(), PreviousItemID: c.chat.previous(it.ID), Item: it.Item})
	}
	c.send(&dialect.OutputItemDone{EventID: c.eventID(), ResponseID: r.ID, OutputIndex: index, Item: it.Item})
}

// turn finds the message of the active answer that the leg says something of, or begins it.
func (c *core) turn(id string) *spoken {
	a := &c.answers
	if s := a.turns[id]; s != nil {
		return s
	}
	it := &item{answer: true, Item: dialect.Item{ID: id, Object: "realtime.item", Type: dialect.ItemMessage, Status: dialect.StatusInProgress, Role: "assistant"}}
	s := &spoken{item: it, r: a.active}
	s.voice.format = *c.session.Audio.Output.Format
	a.turns[id], a.owed = s, false
	if a.order = append(a.order, id); len(a.order) > maxTurns {
		delete(a.turns, a.order[0])
		a.order = a.order[1:]
	}
	s.index = c.output(s.r, it)
	s.r.spoken = append(s.r.spoken, s)
	return s
}

func (s *spoken) place() dialect.Place {
	return dialect.Place{ResponseID: s.r.ID, ItemID: s.ID, OutputIndex: s.index}
}

// part is the message's one part as the events of parts have it.
func (s *spoken) part() dialect.Part {
	if s.r.text {
		return dialect.Part{Type: "text", Text: s.said}
	}
	said := s.said // it goes on before the event is written
	return dialect.Part{Type: "audio", Transcript: &said}
}

func (c *core) beginPart(s *spoken) {
	if !s.begun {
		s.begun = true
		c.send(&dialect.ContentPartAdded{EventID: c.eventID(), Place: s.place(), Part: s.part()})
	}
}

// words go on with what a message says.
func (c *core) words(s *spoken, delta string) {
	if delta == "" || s.done {
		return
	}
	c.beginPart(s)
	s.said += delta
	if s.r.text {
		c.send(&dialect.OutputTextDelta{EventID: c.eventID(), Place: s.place(), Delta: delta})
		return
	}
	c.send(&dialect.OutputTranscriptDelta{EventID: c.eventID(), Place: s.place(), Delta: delta})
}

// sound goes on with how it sounds.
func (c *core) sound(s *spoken, o switcher.SoundOut) {
	if s.done || o.Rate <= 0 {
		return
	}
	if !s.words {
		c.words(s, o.Text)
	}
	if s.r.text {
		return
	}
	c.beginPart(s)
	s.item.sound += time.Duration(len(o.PCM)) * time.Second / time.Duration(o.Rate)
	if o.Text != "" {
		s.pieces = append(s.pieces, piece{s.item.sound, o.Text})
	}
	if delta := s.voice.encode(o.Rate, o.PCM); delta != "" {
		c.send(&dialect.OutputAudioDelta{EventID: c.eventID(), Place: s.place(), Delta: delta})
	}
}

// turnDone: the leg has ended a message.
func (c *core) turnDone(s *spoken, status string) {
	if s.done {
		return
	}
	s.r.failed = s.r.failed || status == switcher.TurnFailed
	s.r.cut = s.r.cut || status == switcher.TurnCancelled
	c.closeTurn(s, status == switcher.TurnCompleted)
	c.over(s.r)
}

// closeTurn tells the end of a message; whole: it was said to its end.
func (c *core) closeTurn(s *spoken, whole bool) {
	s.done = true
	s.Status = dialect.StatusCompleted
	if !whole {
		s.Status = dialect.StatusIncomplete
	}
	if s.begun {
		said := s.said
		if s.r.text {
			s.Content = []dialect.Part{{Type: "output_text", Text: said}}
			c.send(&dialect.OutputTextDone{EventID: c.eventID(), Place: s.place(), Text: said})
		} else {
			s.Content = []dialect.Part{{Type: "output_audio", Transcript: &said}}
			if delta := s.voice.flush(); delta != "" {
				c.send(&dialect.OutputAudioDelta{EventID: c.eventID(), Place: s.place(), Delta: delta})
			}
			c.send(&dialect.OutputAudioDone{EventID: c.eventID(), Place: s.place()})
			c.send(&dialect.OutputTranscriptDone{EventID: c.eventID(), Place: s.place(), Transcript: said})
		}
		c.send(&dialect.ContentPartDone{EventID: c.eventID(), Place: s.place(), Part: s.part()})
	}
	c.outputDone(s.r, s.item, s.index)
}

// over ends an answer of which everything has come: at once when its words have ended, else when no further call comes.
func (c *core) over(r *response) {
	if r != c.answers.active {
		return
	}
	for _, s := range r.spoken {
		if !s.done {
			return
		}
	}
	switch {
	case r.failed:
		c.finish(dialect.StatusFailed, "", "the pipeline could not answer")
	case r.cut:
		c.finish(dialect.StatusCancelled, "client_cancelled", "")
	case len(r.spoken) > 0:
		c.finish(dialect.StatusCompleted, "", "")
	default:
		r.quiet = c.now.Add(callsTake)
	}
}

// finish tells the end of the active answer.
func (c *core) finish(status, reason, message string) {
	r := c.answers.active
	c.answers.active = nil
	r.Status = status
	switch {
	case status == dialect.StatusFailed:
		r.StatusDetails = &dialect.StatusDetails{Type: status, Error: &dialect.StatusError{Type: "server_error", Code: "pipeline_failed", Message: message}}
	case reason != "":
		r.StatusDetails = &dialect.StatusDetails{Type: status, Reason: reason}
	}
	for _, it := range r.outputs {
		r.Output = append(r.Output, it.Item)
	}
	c.send(&dialect.ResponseDone{EventID: c.eventID(), Response: r.Response})
	c.settle()
}

// cancel ends the active answer before its time.
func (c *core) cancel(status, reason, message string) {
	r := c.answers.active
	if r == nil {
		return
	}
	for _, s := range r.spoken {
		if !s.done {
			c.kill(s.ID, s.item.sound, s.said)
			c.closeTurn(s, false)
			c.forward(switcher.TurnDoneOut{Item: s.ID, Status: switcher.TurnCancelled})
		}
	}
	if len(r.outputs) == 0 { // it is still being thought of, or waits for the words of the caller
		c.answers.drop = c.answers.owed
		for _, t := range c.ear.waiting {
			t.mute = true
		}
	}
	c.discard()
	c.finish(status, reason, message)
}
