package realtime

import (
	"slices"
	"strings"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// A core that watches is the sideband of a call whose sound goes another way: what its leg says and hears it is told by the session's
// events, and it has the leg answer through the session.

type (
	eAsk  struct{} // the session's leg is to answer to what stands last
	eStop struct{} // what is being played is to stop
)

func (eAsk) effect()  {}
func (eStop) effect() {}

// maxPast is how many items of the conversation before it a client is told.
const maxPast = 256

// watch begins with the conversation so far.
func (c *core) watch(items chatctx.Items) {
	for _, logged := range items[max(0, len(items)-maxPast):] {
		c.mirror(logged, "")
	}
}

// mirror shows an item of the log.
func (c *core) mirror(logged chatctx.Item, after string) {
	d, ok := itemOf(logged)
	if !ok {
		return
	}
	switch l := logged.(type) {
	case *chatctx.Message:
		if len(l.Content) == 0 { // a place that waits for its words
			return
		}
	case *chatctx.FunctionCall:
		if c.tools.known[l.CallID] != nil {
			return
		}
		c.tools.past(l.CallID, l.Name)
	case *chatctx.FunctionCallOutput:
		if t := c.tools.known[l.CallID]; t != nil && t.answered {
			return
		}
	}
	it := &item{Item: d, logged: true}
	c.add(it, after)
	if d.Status == dialect.StatusIncomplete {
		c.send(&dialect.ItemDone{EventID: c.eventID(), PreviousItemID: c.chat.previous(it.ID), Item: it.Item})
	}
}

// happened takes an event of the session.
func (c *core) happened(e switcher.Event) {
	if !c.begun {
		return
	}
	switch e.Kind {
	case switcher.TranscriptSaid:
		if e.Who == "agent" {
			c.agentSays(e)
		} else {
			c.callerSaid(e)
		}
	case switcher.SpeechStarted:
		switch {
		case e.Who == "agent":
			if s := c.answers.turns[e.Item]; s != nil {
				c.send(&dialect.OutputBufferStarted{EventID: c.eventID(), ResponseID: s.r.ID})
			}
		case e.Item == "" || c.ear.turn == nil: // both detectors may find it
			c.begins(0)
		}
	case switcher.SpeechStopped:
		if e.Who == "caller" && e.Final {
			c.ends(0)
		}
	case switcher.TurnPlayed:
		if e.Final {
			c.played(e)
		}
	case switcher.ToolCalled:
		if e.Call != nil && c.offers(e.Call.Name) {
			c.answer(*e.Call, "")
		}
	case switcher.ToolAnswered:
		if e.Call != nil {
			c.toolEnded(e.Call.CallID)
		}
	case switcher.PipelineCommitted, switcher.PipelineLost:
		if c.answers.active != nil { // the leg that made it is gone
			c.cancel(dialect.StatusCancelled, "turn_detected", "")
		}
	}
}

// agentSays: the text of a turn, all of it so far.
func (c *core) agentSays(e switcher.Event) {
	s := c.answers.turns[e.Item]
	if s != nil && s.done {
		return
	}
	said := ""
	if s != nil {
		said = s.said
	}
	if delta, goesOn := strings.CutPrefix(e.Text, said); goesOn && delta != "" {
		c.answer(switcher.TextOut{Item: e.Item, Delta: delta}, e.Item)
	}
	if e.Final {
		c.answer(switcher.TurnDoneOut{Item: e.Item, Status: switcher.TurnCompleted}, e.Item)
	}
}

// callerSaid: the words of what the caller said, all of them so far.
func (c *core) callerSaid(e switcher.Event) {
	if c.turnOf(e.Item) == nil {
		if len(c.ear.unnamed) == 0 { // a leg found the turn that our detector did not
			c.begins(0)
		}
		c.legHears(switcher.CallerSpeechOut{Item: e.Item, Started: true})
	}
	c.transcript(switcher.TranscriptOut{Item: e.Item, Text: e.Text, Final: e.Final})
}

// played: a turn has been heard to its end, or was stopped.
func (c *core) played(e switcher.Event) {
	s := c.answers.turns[e.Item]
	if s == nil {
		return
	}
	if !e.Interrupted {
		c.send(&dialect.OutputBufferStopped{EventID: c.eventID(), ResponseID: s.r.ID})
		return
	}
	if !s.done {
		c.answer(switcher.TurnDoneOut{Item: e.Item, Status: switcher.TurnCancelled}, e.Item)
	}
	c.send(&dialect.OutputBufferCleared{EventID: c.eventID(), ResponseID: s.r.ID})
	text := e.Text
	s.Content, s.Status = []dialect.Part{{Type: "output_audio", Transcript: &text}}, dialect.StatusIncomplete
	c.send(&dialect.ItemTruncated{EventID: c.eventID(), ItemID: s.ID, AudioEndMs: dialect.Millis(e.Played.Milliseconds())})
}

// watches says what a sideband does with an event of its client that a caller's socket handles otherwise.
func (c *core) watches(e dialect.ClientEvent) (handled bool) {
	switch e := e.(type) {
	case *dialect.InputAudioAppend:
		c.refuse(e.EventID, noMicrophone)
	case *dialect.InputAudioCommit:
		c.refuse(e.EventID, noMicrophone)
	case *dialect.InputAudioClear:
		c.refuse(e.EventID, noMicrophone)
	case *dialect.OutputAudioClear:
		c.do(eStop{})
	default:
		return false
	}
	return true
}

var noMicrophone = faultf("unsupported_event", "type", "the caller's sound comes over WebRTC, not over this socket")

// askThere asks the session's leg: a message of the user's that waits for it, or for an answer to what stands last.
func (c *core) askThere(p *dialect.ResponseParams) {
	waiting := c.chat.waiting
	c.chat.waiting = nil
	c.open(p)
	if c.release() {
		return
	}
	if len(waiting) == 0 {
		c.do(eAsk{})
		return
	}
	for _, w := range waiting {
		c.do(eAppend{w, func(_ chatctx.Ack, err error) {
			if err != nil {
				c.refuse("", logFault(err))
			}
		}})
	}
}

// gone forgets a message that waits and was deleted.
func (v *conversation) gone(id string) {
	v.waiting = slices.DeleteFunc(v.waiting, func(op chatctx.Op) bool { return op.Item.ItemID() == id })
}
