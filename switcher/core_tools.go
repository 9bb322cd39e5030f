package switcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// toolCall is one call_id of the session (G4).
type toolCall struct {
	ToolCallOut                 // CallID: the session's
	epoch       uint64          // of the leg that asked
	running     bool            // or about to
	answered    bool            // and recorded
	cancelled   map[uint64]bool // legs, by epoch, that took it back
	same        []*toolCall     // that ask for the same in the same turn, and wait for its result
	output      string
	isError     bool
}

// resumeCall takes in a call of the log. One without an output was in flight when the session ended.
func (c *core) resumeCall(k callRecord, wait time.Duration) {
	t := &toolCall{ToolCallOut: ToolCallOut{CallID: k.callID, Name: k.name, Arguments: k.args}, answered: k.answered, output: k.output, isError: k.isError}
	c.calls[k.callID] = t
	switch {
	case k.answered:
	case wait > 0 && k.name != c.switchTool:
		t.running = true
		c.timers[timer{dueTool, k.callID}] = c.now.Add(wait)
	default:
		c.answerCall(t, interruptedOutput, true)
	}
}

// interruptedOutput is the output of a call whose tool was cut off.
const interruptedOutput = `{"status":"interrupted"}`

// toolCall is the wish of the active leg.
func (c *core) toolCall(r *run, o ToolCallOut) {
	if strings.TrimSpace(o.Name) == "" || len(o.CallID) > 128 {
		c.count.BadOutputs++
		return
	}
	id := o.CallID
	if id == "" {
		id = fmt.Sprintf("call-%d-%d", r.epoch, len(c.calls)+1)
	}
	t := c.calls[id]
	if t != nil && t.epoch != r.epoch && (t.Name != o.Name || t.Arguments != o.Arguments) { // its id, but another call
		id = fmt.Sprintf("%.100s-e%d", o.CallID, r.epoch)
		r.alias[id] = o.CallID
		t = c.calls[id]
	}
	if t != nil {
		c.toolAgain(r, t)
		return
	}
	t = &toolCall{ToolCallOut: o, epoch: r.epoch}
	t.CallID = id
	c.calls[id] = t
	c.record(recorder.Event{Kind: recorder.ToolCall, Epoch: r.epoch, Leg: r.Name, CallID: id, Name: o.Name, Arguments: o.Arguments})
	if o.Name == c.switchTool && c.switchTool != "" {
		c.switchByModel(r, t)
		return
	}
	if c.turnCalls++; c.turnCalls > c.maxTools {
		c.answerCall(t, fmt.Sprintf("refused: more than %d tool calls in one turn of the caller", c.maxTools), true)
		return
	}
	t.running = true
	if first := c.inTurn[callKey(o)]; first == nil || first.answered && first.isError {
		c.inTurn[callKey(o)] = t
		c.do(aLogCall{id})
	} else if c.count.ToolSame++; first.answered {
		c.answerCall(t, first.output, false)
	} else {
		first.same = append(first.same, t)
	}
}

// callKey says what a call asks for: the same in one turn of the caller is not run twice, whoever asks, unless it failed.
func callKey(o ToolCallOut) string {
	var args bytes.Buffer
	if json.Compact(&args, []byte(o.Arguments)) != nil {
		return o.Name + " " + o.Arguments
	}
	return o.Name + " " + args.String()
}

// toolAgain: the call is known. It is not run again.
func (c *core) toolAgain(r *run, t *toolCall) {
	c.count.ToolRepeats++
	if t.answered && !r.told[t.CallID] {
		c.tell(r, t)
	}
}

// toolLogged: the call is in the log, so that no restart makes it run twice.
func (c *core) toolLogged(id string) {
	t := c.calls[id]
	if t == nil || t.answered {
		return
	}
	c.count.ToolCalls++
	c.in(dueTool, id, c.times.Tool+toolGrace)
	call := t.ToolCallOut
	c.observe(Event{Kind: ToolCalled, Epoch: t.epoch, Call: &call, Deadline: c.now.Add(c.times.Tool)})
	c.do(aRunTool{call})
}

// toolGrace is how long a tool whose time is over may take to say so itself.
const toolGrace = 250 * time.Millisecond

// toolDone is what a tool answered.
func (c *core) toolDone(e evToolDone) {
	if c.holding() {
		c.held = append(c.held, e)
		return
	}
	if t := c.calls[e.callID]; t != nil && !t.answered {
		c.answerCall(t, e.output, e.isError)
	}
}

// lateTool is an answer that RunTool did not give.
func (c *core) lateTool(e evLateTool) {
	switch t := c.calls[e.callID]; {
	case t == nil:
		c.do(aReplyError{e.answer, fail(NotFound, "call_id", "no call has the id %q", e.callID)})
	case t.answered:
		c.do(aReplyError{e.answer, fail(Conflict, "call_id", "the call %q is answered already", e.callID)})
	default:
		c.do(aReplyError{e.answer, nil}, aCancelTool{e.callID})
		c.toolDone(e.evToolDone)
	}
}

// answerCall records a call's only output and tells the leg that has the floor.
func (c *core) answerCall(t *toolCall, output string, isError bool) {
	t.running, t.answered, t.output, t.isError = false, true, output, isError
	c.off(dueTool, t.CallID)
	leg := ""
	if c.active != nil && c.active.epoch == t.epoch {
		leg = c.active.Name
	}
	c.record(recorder.Event{Kind: recorder.ToolOutput, Epoch: c.epoch, Leg: leg, CallID: t.CallID, Name: t.Name, Output: output, IsError: isError})
	c.answeredCall(t)
	c.answerSame(t)
}

// answerSame answers those that asked for the same meanwhile.
func (c *core) answerSame(t *toolCall) {
	same := t.same
	t.same = nil
	for _, s := range same {
		c.toolDone(evToolDone{s.CallID, t.output, t.isError})
	}
}

func (c *core) answeredCall(t *toolCall) {
	call := t.ToolCallOut
	c.observe(Event{Kind: ToolAnswered, Epoch: c.epoch, Call: &call, Text: t.output, IsError: t.isError})
	if c.active != nil && !t.cancelled[c.active.epoch] && !(t.Name == c.switchTool && t.epoch != c.active.epoch) {
		c.tell(c.active, t)
	}
}

func (c *core) tell(r *run, t *toolCall) {
	r.told[t.CallID] = true
	id := t.CallID
	if own, ok := r.alias[id]; ok {
		id = own
	}
	c.give(r, ToolResultIn{CallID: id, Name: t.Name, Output: t.output, IsError: t.isError})
}

// answeredByOthers: somebody put the output into the log.
func (c *core) answeredByOthers(o *chatctx.FunctionCallOutput) {
	t := c.calls[o.CallID]
	if t == nil || t.answered {
		return
	}
	t.running, t.answered, t.output, t.isError = false, true, o.Output, o.IsError
	c.off(dueTool, t.CallID)
	c.do(aCancelTool{t.CallID})
	c.answeredCall(t)
	c.answerSame(t)
}

// toolCancel: a leg does not want the results any more.
func (c *core) toolCancel(r *run, o ToolCancelOut) {
	for _, id := range o.CallIDs {
		for session, own := range r.alias {
			if own == id {
				id = session
				break
			}
		}
		t := c.calls[id]
		if t == nil || t.answered {
			continue
		}
		if t.cancelled == nil {
			t.cancelled = map[uint64]bool{}
		}
		t.cancelled[r.epoch] = true
		call := t.ToolCallOut
		c.observe(Event{Kind: ToolCancelled, Epoch: r.epoch, Call: &call})
	}
}

// switchByModel is a model's wish to switch. Its repeats end here (G7).
func (c *core) switchByModel(r *run, t *toolCall) {
	var args struct {
		Target string `json:"target"`
		Reason string `json:"reason"`
	}
	err := json.Unmarshal([]byte(t.Arguments), &args)
	target, ok := c.resolve(args.Target)
	switch {
	case err != nil || !ok:
		c.answerCall(t, jsonText(map[string]any{"status": "error", "error": "no such pipeline", "targets": c.targets()}), true)
		return
	case target.reg == r.reg || args.Target == string(r.Kind):
		c.count.LoopGuards++
		c.answerCall(t, jsonText(map[string]any{"status": "already_active", "active": r.Name, "kind": r.Kind, "note": "Nothing had to be done. Do not call this tool again; go on with the conversation."}), false)
		return
	case !c.spoke:
		c.count.LoopGuards++
		c.answerCall(t, jsonText(map[string]any{"status": "just_switched", "active": r.Name, "kind": r.Kind, "note": "The pipeline was switched a moment ago. Go on with the conversation; the caller has not asked for another switch."}), false)
		return
	}
	reason := args.Reason
	if reason == "" {
		reason = "switch"
	}
	t.running = true
	c.ask(&change{
		opID: "tool:" + t.CallID[:min(len(t.CallID), 100)], author: "leg:" + r.Name, why: "switch", reason: clipReason(reason), target: target, at: AtAfterSpeech, maxWait: c.times.MaxWait,
		patience: c.times.Prepare, tools: []string{t.CallID}, asked: c.now,
	})
}

// maxReason bounds the reason of a switch in the log.
const maxReason = 400

func clipReason(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.ToValidUTF8(s, "")
}

// targets are what a switch may name.
func (c *core) targets() []string {
	names := []string{string(Cascade), string(Realtime)}
	for _, p := range c.pipes {
		names = append(names, p.Name)
	}
	slices.Sort(names[2:])
	return names
}

// toolSwitched answers the calls of models that asked for a switch.
func (c *core) toolSwitched(callIDs []string, res *Result, err *Error) {
	for _, id := range callIDs {
		t := c.calls[id]
		switch {
		case t == nil || t.answered || c.unsure:
		case err != nil:
			c.answerCall(t, jsonText(map[string]any{"status": "failed", "code": err.Code, "error": err.Detail, "note": "You go on with the call."}), true)
		default:
			c.answerCall(t, jsonText(map[string]any{"status": "switched", "active": res.To, "kind": res.Mode}), false)
		}
	}
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}
