package project

import (
	"fmt"
	"slices"
	"strings"

	chatctx "sightline/context"
)

// conversation is what all projectors start from: rules 1 to 11 are settled in it.
type conversation struct {
	instructions string
	steps        []step
	losses       []Loss
}

type stepKind uint8

const (
	stepSay   stepKind = iota // a message of the user or the assistant
	stepNote                  // text of ours: a handoff or a summary
	stepCalls                 // calls made in one go, all answered
)

// step is one thing in the conversation. Which fields count depends on kind.
type step struct {
	kind        stepKind
	id          string // of its item; of the first call
	role        chatctx.Role
	agent       string
	parts       []part // say: at least one
	interrupted bool
	note        string // note: without its marks
	calls       []*call
}

// part is a text, or an image when picture is set.
type part struct {
	text string // not blank
	pic  *picture
}

// call is a call and its answer.
type call struct {
	id, callID, name  string
	outer             string // what the provider's id is made of: callID, unless another call's id maps to that
	arguments         string // a JSON object
	output            string // not blank
	outputID          string // "" when it was made up
	isError, answered bool
	group             int // the place of its step
}

type normaliser struct {
	o     Options
	rules imageRules

	instructions []*chatctx.Message
	configured   *chatctx.ConfigUpdate // the last that has instructions; it stands before instructions
	steps        []step
	losses       []Loss
	calls        map[string]*call
	outputs      map[string]*chatctx.FunctionCallOutput // the last of each call
	asked        map[string]bool                        // call_ids of all calls
	group        int                                    // place of the step that the next call joins, -1 = it begins one
	lastHandoff  *chatctx.AgentHandoff
	pictures     []*picture
}

func (n *normaliser) lose(kind, itemID, format string, args ...any) {
	n.losses = append(n.losses, Loss{Kind: kind, ItemID: itemID, Detail: fmt.Sprintf(format, args...)})
}

// normalise settles what all formats have in common.
func normalise(items chatctx.Items, o Options, rules imageRules) conversation {
	n := &normaliser{o: o, rules: rules, group: -1, calls: map[string]*call{}, outputs: map[string]*chatctx.FunctionCallOutput{},
		asked: map[string]bool{}, steps: make([]step, 0, len(items))}
	n.survey(items)
	for i, item := range items {
		switch it := item.(type) {
		case *chatctx.Message:
			n.message(it)
		case *chatctx.FunctionCall:
			n.call(it, i)
		case *chatctx.FunctionCallOutput:
			n.output(it)
		case *chatctx.AgentHandoff:
			n.add(step{kind: stepNote, id: it.ID, note: handoffNote(it, it == n.lastHandoff)})
		case *chatctx.Summary:
			if blank(it.Text) {
				n.lose(LostEmpty, it.ID, "a summary without text")
				continue
			}
			n.add(step{kind: stepNote, id: it.ID, note: summaryNote(it)})
		case *chatctx.ConfigUpdate:
			n.configure(it)
			if len(it.Tools) > 0 {
				n.lose(LostTools, it.ID, "tools are not part of the messages")
			}
		case *chatctx.PipelineSwitch:
			n.lose(LostSwitch, it.ID, "models do not see pipeline switches")
		}
	}
	n.settleImages()
	n.settleIDs()
	return conversation{instructions: n.joinInstructions(), steps: n.steps, losses: n.losses}
}

// settleIDs keeps a call whose own id is what another's is mapped to apart from that other.
func (n *normaliser) settleIDs() {
	suspects := false
	for id := range n.calls {
		suspects = suspects || isMapped(id)
	}
	if !suspects {
		return
	}
	for id := range n.calls {
		if c := n.calls[hashID(id)]; c != nil {
			c.outer = "own id: " + c.callID // with a space, so that it is mapped too
		}
	}
}

// survey finds what has to be known before the first item is looked at.
func (n *normaliser) survey(items chatctx.Items) {
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.FunctionCall:
			n.asked[it.CallID] = it.CallID != ""
		case *chatctx.FunctionCallOutput:
			n.outputs[it.CallID] = it
		case *chatctx.AgentHandoff:
			if n.o.ForAgent == "" || it.ToAgent == n.o.ForAgent {
				n.lastHandoff = it
			}
		}
	}
}

// add ends the present group of calls.
func (n *normaliser) add(s step) {
	n.group = -1
	n.steps = append(n.steps, s)
}

func (n *normaliser) message(m *chatctx.Message) {
	if m.Role == chatctx.RoleSystem || m.Role == chatctx.RoleDeveloper {
		n.instruct(m)
		n.orphanImages(m, "image that came with instructions")
		return
	}
	if m.TextGenerated != "" && m.TextGenerated != m.Content.Text() {
		n.lose(LostUnheard, m.ID, "%d bytes of text that nobody heard", len(m.TextGenerated))
	}
	role := chatctx.RoleAssistant
	if m.Role != chatctx.RoleAssistant {
		role = chatctx.RoleUser
	}
	s := step{kind: stepSay, id: m.ID, role: role, agent: m.AgentID, interrupted: m.Interrupted, parts: make([]part, 0, len(m.Content))}
	images := 0
	for _, p := range m.Content {
		switch it := p.(type) {
		case chatctx.Text:
			if text := n.clean(m.ID, it.Text); !blank(text) {
				s.parts = append(s.parts, part{text: text})
			}
		case chatctx.ImageContent:
			if images++; role == chatctx.RoleUser {
				s.parts = append(s.parts, part{pic: n.picture(m.ID, it)})
			}
		}
	}
	switch {
	case len(s.parts) > 0:
		n.add(s)
	case images == 0:
		n.lose(LostEmpty, m.ID, "a message without anything to see")
	}
	if role == chatctx.RoleAssistant && images > 0 {
		n.orphanImages(m, "image that the assistant showed")
	}
}

// orphanImages puts images where providers take them: into a user message, with a line that says it is not the caller's.
func (n *normaliser) orphanImages(m *chatctx.Message, what string) {
	images := m.Content.Images()
	if len(images) == 0 {
		return
	}
	s := step{kind: stepSay, id: m.ID, role: chatctx.RoleUser, parts: []part{{text: mark(what + ", not sent by the caller")}}}
	for _, img := range images {
		s.parts = append(s.parts, part{pic: n.picture(m.ID, img)})
	}
	n.lose(ChangedMoved, m.ID, "images of a %s message stand in a marked user message", m.Role)
	n.add(s)
}

func (n *normaliser) picture(itemID string, img chatctx.ImageContent) *picture {
	p := &picture{img: img, itemID: itemID}
	n.pictures = append(n.pictures, p)
	return p
}

func (n *normaliser) clean(itemID, text string) string {
	text, changed := clean(text)
	if changed {
		n.lose(ChangedText, itemID, "reserved or invalid characters were replaced")
	}
	return text
}

func (n *normaliser) instruct(m *chatctx.Message) {
	text := m.Content.Text()
	switch {
	case n.o.ForAgent != "" && m.AgentID != "" && m.AgentID != n.o.ForAgent:
		n.lose(LostOthers, m.ID, "instructions of the agent %s", short(m.AgentID))
	case blank(text):
		if len(m.Content.Images()) == 0 {
			n.lose(LostEmpty, m.ID, "instructions without text")
		}
	default:
		n.instructions = append(n.instructions, m)
	}
}

func (n *normaliser) configure(u *chatctx.ConfigUpdate) {
	if blank(u.Instructions) {
		return
	}
	for _, m := range n.instructions {
		n.lose(LostInstructions, m.ID, "config_update %s took their place", u.ID)
	}
	if n.configured != nil {
		n.lose(LostInstructions, n.configured.ID, "config_update %s took their place", u.ID)
	}
	n.instructions, n.configured = nil, u
}

func (n *normaliser) joinInstructions() string {
	var texts []string
	if n.configured != nil {
		texts = append(texts, n.configured.Instructions)
	}
	for _, m := range n.instructions {
		texts = append(texts, m.Content.Text())
	}
	if len(texts) > 1 {
		n.lose(ChangedMerged, n.instructions[0].ID, "%d instructions joined into one", len(texts))
	}
	return strings.ToValidUTF8(strings.Join(texts, "\n\n"), "\uFFFD")
}

func (n *normaliser) call(c *chatctx.FunctionCall, at int) {
	callID := c.CallID
	if callID == "" { // only from elsewhere: a log refuses it
		callID = fmt.Sprintf("call_without_id_%d", at)
	}
	if n.calls[callID] != nil {
		n.lose(LostDuplicateCall, c.ID, "call_id %s was there before", short(callID))
		return
	}
	made := &call{id: c.ID, callID: callID, outer: callID, name: c.Name}
	n.calls[callID] = made
	if slices.Contains(n.o.HideTools, c.Name) {
		made.group = -1
		n.lose(LostHiddenCall, c.ID, "a call of %s", short(c.Name))
		return
	}
	var wrapped bool
	if made.arguments, wrapped = argumentsObject(c.Arguments); wrapped {
		n.lose(ChangedArguments, c.ID, "arguments that are no JSON object")
	}
	n.answer(made, n.outputs[c.CallID])
	if n.group < 0 {
		n.add(step{kind: stepCalls, id: c.ID, agent: c.AgentID})
		n.group = len(n.steps) - 1
	}
	made.group = n.group
	n.steps[n.group].calls = append(n.steps[n.group].calls, made)
}

// answer gives a call its output, or one of ours.
func (n *normaliser) answer(c *call, out *chatctx.FunctionCallOutput) {
	switch {
	case out == nil || c.callID != out.CallID:
		c.output = `{"status":"interrupted"}`
		if n.o.Running[c.callID] {
			c.output = `{"status":"running"}`
		}
		n.lose(ChangedMadeUp, c.id, "the call has no output: %s", c.output)
	case blank(out.Output):
		c.output, c.outputID, c.isError, c.answered = "(no output)", out.ID, out.IsError, true
		n.lose(ChangedNoOutput, out.ID, "the tool said nothing")
	default:
		c.output, c.outputID, c.isError, c.answered = n.clean(out.ID, out.Output), out.ID, out.IsError, true
	}
}

// output only says where an output went: it came along with its call.
func (n *normaliser) output(o *chatctx.FunctionCallOutput) {
	c := n.calls[o.CallID]
	switch {
	case n.outputs[o.CallID] != o:
		n.lose(LostEarlierOutput, o.ID, "a later output of %s took its place", short(o.CallID))
	case c == nil && n.asked[o.CallID]:
		n.lose(ChangedMoved, o.ID, "the output came before its call")
	case c == nil:
		n.lose(LostOrphanOutput, o.ID, "no call has the call_id %s", short(o.CallID))
	case c.group < 0:
		n.lose(LostHiddenCall, o.ID, "the output of a call of %s", short(c.name))
	case c.group != len(n.steps)-1:
		n.lose(ChangedMoved, o.ID, "the output stands after its call")
	default:
		n.group = -1 // a call after an output begins another go
	}
}
