package realtime

import (
	"encoding/json"
	"unicode/utf8"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Bounds of a response's metadata, as the official documentation has them.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
	maxInput         = 512 // items of response.input
)

// respond asks for an answer.
func (c *core) respond(e *dialect.ResponseCreate) {
	if c.answers.active != nil {
		c.refuse(e.EventID, faultf("conversation_already_has_active_response", "", "the answer %s is being made: wait for response.done, or cancel it", c.answers.active.ID))
		return
	}
	p := e.Response
	if p == nil {
		p = &dialect.ResponseParams{}
	}
	as, f := c.profileOf(p)
	if f != nil {
		c.refuse(e.EventID, f)
		return
	}
	a := &c.answers
	own := as.items != nil || as.apart
	if c.cfg.watch {
		if own || !as.same(c.wanted()) {
			c.refuse(e.EventID, faultf("unsupported_value", "response", "over a sideband an answer is made by the session's own pipeline, as it is: metadata is allowed"))
			return
		}
		c.askThere(p)
		return
	}
	switch waits := len(c.ear.waiting) > 0; {
	case !as.same(c.leg) && waits:
		c.refuse(e.EventID, faultf("unsupported_value", "response", "a response of its own kind cannot be asked for before the words of the caller's turn are there: wait for conversation.item.input_audio_transcription.completed"))
	case own || !as.same(c.leg):
		c.discard()
		if !own {
			c.release()
		}
		c.startAs(as)
		c.open(p)
		c.ask()
	case len(a.held) > 0:
		held := a.held
		a.held, a.heldSound = nil, 0
		c.open(p)
		for _, o := range held {
			c.answer(o, itemOfOutput(o))
		}
	default:
		c.open(p)
		if released := c.release(); !released && !waits && (!a.owed || a.drop) {
			c.ask()
		}
	}
}

// ask has the leg answer to what stands last.
func (c *core) ask() {
	c.answers.owed = true
	c.do(eLeg{switcher.FloorIn{Respond: true}})
}

// itemOfOutput is the turn of a piece of an answer, "" of a call.
func itemOfOutput(o switcher.Output) string {
	switch o := o.(type) {
	case switcher.TextOut:
		return o.Item
	case switcher.SoundOut:
		return o.Item
	case switcher.TurnDoneOut:
		return o.Item
	}
	return ""
}

// profileOf is how the leg is to be started for one answer.
func (c *core) profileOf(r *dialect.ResponseParams) (profile, *fault) {
	p := c.wanted()
	if f := wrongMetadata(r.Metadata); f != nil {
		return p, f
	}
	if f := wrongModalities("response.output_modalities", r.OutputModalities); f != nil {
		return p, f
	}
	if len(r.OutputModalities) > 0 {
		p.textOnly = r.OutputModalities[0] == "text"
	}
	p.instructions = r.Instructions
	if len(r.Tools) > 0 && string(r.Tools) != "null" {
		var tools []dialect.Tool
		if json.Unmarshal(r.Tools, &tools) != nil {
			return p, faultf("invalid_type", "response.tools", "response.tools is a list of functions")
		}
		if f := wrongTools("response.tools", tools); f != nil {
			return p, f
		}
		for _, t := range tools {
			if !c.offers(t.Name) {
				return p, faultf("unsupported_value", "response.tools", "the tool %s: a response has tools of the session's", t.Name)
			}
		}
		p.tools = string(raw(tools))
	}
	if string(r.ToolChoice) == `"none"` {
		p.tools = "[]"
	}
	switch r.Conversation {
	case "", "auto":
	case "none":
		p.apart = true
	default:
		return p, faultf("invalid_value", "response.conversation", "response.conversation %.40q: allowed are auto and none", r.Conversation)
	}
	if r.Input != nil {
		items, f := c.input(r.Input)
		p.items = items
		return p, f
	}
	return p, nil
}

func wrongMetadata(m map[string]string) *fault {
	if len(m) > maxMetadata {
		return faultf("invalid_value", "response.metadata", "response.metadata has %d pairs: at most %d are allowed", len(m), maxMetadata)
	}
	for k, v := range m {
		if utf8.RuneCountInString(k) > maxMetadataKey || utf8.RuneCountInString(v) > maxMetadataValue {
			return faultf("invalid_value", "response.metadata", "response.metadata: keys have at most %d characters, values %d", maxMetadataKey, maxMetadataValue)
		}
	}
	return nil
}

// input is the conversation that an answer is to be made to in the place of the session's.
func (c *core) input(list []json.RawMessage) (chatctx.Items, *fault) {
	if len(list) > maxInput {
		return nil, faultf("invalid_value", "response.input", "response.input has %d items: at most %d are allowed", len(list), maxInput)
	}
	items := chatctx.Items{}
	for _, data := range list {
		var d dialect.Item
		if json.Unmarshal(data, &d) != nil {
			return nil, faultf("invalid_type", "response.input", "response.input is a list of items and item_references")
		}
		if d.Type == "item_reference" {
			it := c.chat.byID[d.ID]
			if it == nil {
				return nil, faultf("invalid_item_id", "response.input", "there is no item %.80q", d.ID)
			}
			d = it.Item
		} else if d.ID == "" {
			d.ID = c.cfg.newID("item")
		}
		item, ok := chatItem(d)
		if !ok {
			return nil, faultf("invalid_value", "response.input", "an item of type %.40q with nothing to read in it", d.Type)
		}
		items = append(items, item)
	}
	return items, nil
}

func (c *core) cancelByClient(e *dialect.ResponseCancel) {
	r := c.answers.active
	switch {
	case r == nil && len(c.answers.held) > 0 && e.ResponseID == "":
		c.discard()
	case r == nil || e.ResponseID != "" && e.ResponseID != r.ID:
		c.refuse(e.EventID, faultf("response_cancel_not_active", "response_id", "no such answer is being made"))
	default:
		c.cancel(dialect.StatusCancelled, "client_cancelled", "")
		if c.cfg.watch {
			c.answers.drop = false
			c.do(eStop{})
		}
	}
}

// legGone: the leg is no more, or begins anew: nothing that it has begun will go on.
func (c *core) legGone() {
	a := &c.answers
	a.held, a.heldSound, a.owed, a.drop = nil, 0, false, false
	clear(a.dead)
	waiting := c.ear.waiting
	c.ear.waiting = nil
	for _, t := range waiting {
		c.unheard(t)
	}
	for _, id := range c.tools.order {
		if t := c.tools.known[id]; t != nil {
			t.live = t.live && t.answered
		}
	}
	r := a.active
	if r == nil {
		return
	}
	for _, s := range r.spoken {
		if !s.done {
			c.closeTurn(s, false)
		}
	}
	c.finish(dialect.StatusFailed, "", "the pipeline broke off; it is being opened again")
}
