package realtime

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/sound"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Bounds of a call.
const (
	maxItems  = 2048                  // of the conversation that a client can name; older ones stay in the log
	maxTools  = 128                   // of a session
	maxHeld   = 2 * time.Minute       // of sound that waits for response.create
	maxWaits  = 4096                  // outputs that wait for it
	maxBuffer = 5 * time.Minute       // of sound that waits for input_audio_buffer.commit
	silentFor = time.Minute           // without a word of an answer that was asked for: it has failed
	callsTake = 40 * time.Millisecond // after a call without words: that long no further one came, so the answer is over
)

// effect is what a core wants done, in order.
type effect interface{ effect() }

type (
	eSend struct{ dialect.ServerEvent } // to the client
	eLeg  struct{ switcher.Input }      // to the leg, with its ids
	// eSession goes to the session as the leg's output, with our ids.
	eSession struct{ switcher.Output }
	eRestart struct{ profile } // the leg is to begin anew
	eAppend  struct {
		op   chatctx.Op
		then func(chatctx.Ack, error) // nil: no matter
	}
	eResult struct { // answers a tool call
		callID, output string
	}
	eHear struct { // sound for the pipeline: PCM16 of dialect.Rate
		pcm []int16
		// whole: it is a turn of its own, that was committed by the client
		whole bool
	}
	eListen struct{ sound.TurnPolicy } // turns are found anew, by this policy
	eEnd    struct{}                   // the turn that goes on is over
)

func (eSend) effect()    {}
func (eLeg) effect()     {}
func (eSession) effect() {}
func (eRestart) effect() {}
func (eAppend) effect()  {}
func (eResult) effect()  {}
func (eHear) effect()    {}
func (eListen) effect()  {}
func (eEnd) effect()     {}

// profile is how a leg is started. It is compared: a leg whose profile is another begins anew.
type profile struct {
	tools        string // JSON of the session's tools
	textOnly     bool
	instructions string        // in the place of all others, "" = as the log has them
	items        chatctx.Items // in the place of the conversation, nil: the conversation
	apart        bool          // what it says is not of the conversation
}

func (p profile) same(q profile) bool {
	return p.tools == q.tools && p.textOnly == q.textOnly && p.instructions == q.instructions && p.apart == q.apart && (p.items == nil) == (q.items == nil) && len(p.items) == len(q.items)
}

// core is a call without socket, leg, log and clock. It belongs to one goroutine at a time.
type core struct {
	cfg    coreConfig
	now    time.Time
	out    []effect
	events int // sent
	begun  bool

	instructed bool // the client has given instructions: the log has them

	session dialect.Session
	chat    conversation
	ear     ear
	answers answers
	tools   callbook
	leg     profile // as it was started
}

// coreConfig is what a core is told of its surroundings.
type coreConfig struct {
	id           string // of the session
	model        string
	instructions string
	policy       sound.TurnPolicy // of turns, where the client says nothing
	newID        func(kind string) string
	opPrefix     string // of our operations on the log
	watch        bool   // it is a sideband
	conversation string // its id
}

func newCore(cfg coreConfig) *core {
	c := &core{cfg: cfg, chat: conversation{byID: map[string]*item{}, later: map[string]chatctx.Op{}, ours: map[string]bool{}}}
	c.tools.known = map[string]*toolCall{}
	c.answers.turns, c.answers.dead = map[string]*spoken{}, map[string]bool{}
	c.session = c.defaults()
	c.leg = c.wanted()
	return c
}

// take gives the effects since the last time.
func (c *core) take() []effect {
	out := c.out
	c.out = nil
	return out
}

func (c *core) do(e effect) { c.out = append(c.out, e) }

// eventID is the next of the server's.
func (c *core) eventID() string {
	c.events++
	return "event_" + strconv.Itoa(c.events)
}

// send gives an event to the client.
func (c *core) send(e dialect.ServerEvent) { c.do(eSend{e}) }

// fault is what is wrong with a client's event.
type fault struct{ code, param, message string }

func faultf(code, param, format string, args ...any) *fault {
	return &fault{code, param, fmt.Sprintf(format, args...)}
}

// refuse tells the client what is wrong; nothing has changed.
func (c *core) refuse(eventID string, f *fault) {
	c.send(&dialect.Error{EventID: c.eventID(), Error: dialect.ErrorDetail{
		Type: "invalid_request_error", Code: f.code, Message: f.message, Param: f.param, EventID: eventID,
	}})
}

// begin greets the client.
func (c *core) begin() {
	c.begun = true
	c.send(&dialect.SessionCreated{EventID: c.eventID(), Session: c.session})
}

// malformed: a message was no event, or one of its fields has the wrong type.
func (c *core) malformed(err error) {
	if f, ok := err.(*dialect.FieldError); ok {
		c.refuse(f.EventID, faultf("invalid_type", f.Param, "%s", f.Error()))
		return
	}
	c.refuse("", faultf("invalid_json", "", "%s", err))
}

// client takes an event of the client.
func (c *core) client(e dialect.ClientEvent) {
	if c.cfg.watch && c.watches(e) {
		return
	}
	switch e := e.(type) {
	case *dialect.SessionUpdate:
		c.update(e)
	case *dialect.InputAudioAppend:
		c.appendAudio(e)
	case *dialect.InputAudioCommit:
		c.commit(e)
	case *dialect.InputAudioClear:
		c.clearAudio()
	case *dialect.OutputAudioClear:
		c.refuse(e.EventID, faultf("unsupported_event", "type", "output_audio_buffer.clear is for WebRTC: over a socket the client plays, and empties its own buffer"))
	case *dialect.ItemCreate:
		c.create(e)
	case *dialect.ItemRetrieve:
		c.retrieve(e)
	case *dialect.ItemTruncate:
		c.truncate(e)
	case *dialect.ItemDelete:
		c.remove(e)
	case *dialect.ResponseCreate:
		c.respond(e)
	case *dialect.ResponseCancel:
		c.cancelByClient(e)
	case dialect.Unknown:
		c.refuse(e.EventID, faultf("unknown_event", "type", "unknown event type %.100q", e.Type))
	}
}

// deadline is when tick has something to do.
func (c *core) deadline() (time.Time, bool) {
	r := c.answers.active
	switch {
	case r == nil:
		return time.Time{}, false
	case !r.quiet.IsZero():
		return r.quiet, true
	}
	return r.last.Add(silentFor), true
}

// tick looks at what is due.
func (c *core) tick() {
	r := c.answers.active
	switch {
	case r == nil:
	case !r.quiet.IsZero():
		if !c.now.Before(r.quiet) {
			c.finish(dialect.StatusCompleted, "", "")
		}
	case c.now.Sub(r.last) >= silentFor:
		c.cancel(dialect.StatusFailed, "", "nothing came of the pipeline for a minute")
		if !c.cfg.watch { // it hangs
			c.legGone()
			c.do(eRestart{c.leg})
		}
	}
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings, numbers and maps of strings always have JSON
		return json.RawMessage("null")
	}
	return b
}
