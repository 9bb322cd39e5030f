package realtime

import (
	"encoding/json"
	"regexp"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/sound"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

const (
	formatPCM = "audio/pcm"
	serverVAD = "server_vad"
	semantic  = "semantic_vad"
)

// defaults are the session before the client has said anything.
func (c *core) defaults() dialect.Session {
	policy := c.cfg.policy
	if policy.EndOfTurn == 0 {
		policy.EndOfTurn = sound.DefaultEndOfTurn
	}
	instructions, yes := c.cfg.instructions, true
	return dialect.Session{
		Type: "realtime", Object: "realtime.session", ID: c.cfg.id, Model: c.cfg.model,
		Instructions: &instructions, OutputModalities: []string{"audio"}, Tools: []dialect.Tool{}, ToolChoice: raw("auto"),
		MaxOutputTokens: raw("inf"), ParallelTools: &yes, Truncation: raw("auto"),
		Tracing: dialect.Null[json.RawMessage](), Prompt: dialect.Null[json.RawMessage](),
		Audio: &dialect.Audio{
			Input: &dialect.AudioInput{
				Format:         &dialect.Format{Type: formatPCM, Rate: dialect.Rate},
				NoiseReduction: dialect.Null[dialect.NoiseReduction](),
				Transcription:  dialect.Some(dialect.Transcription{Model: c.cfg.model}),
				TurnDetection:  dialect.Some(completed(dialect.TurnDetection{Type: serverVAD}, policy)),
			},
			Output: &dialect.AudioOutput{Format: &dialect.Format{Type: formatPCM, Rate: dialect.Rate}, Voice: raw(c.cfg.model), Speed: 1},
		},
	}
}

// completed fills in what a turn detection leaves open.
func completed(t dialect.TurnDetection, p sound.TurnPolicy) dialect.TurnDetection {
	yes := true
	if t.CreateResponse == nil {
		t.CreateResponse = &yes
	}
	if t.InterruptResponse == nil {
		t.InterruptResponse = &yes
	}
	if t.Type == semantic {
		if t.Eagerness == "" {
			t.Eagerness = "auto"
		}
		return t
	}
	if t.Threshold == nil {
		half := 0.5
		t.Threshold = &half
	}
	if t.PrefixPaddingMs == nil {
		ms := dialect.Millis(300)
		t.PrefixPaddingMs = &ms
	}
	if t.SilenceDurationMs == nil {
		ms := dialect.Millis(p.EndOfTurn.Milliseconds())
		t.SilenceDurationMs = &ms
	}
	return t
}

// update merges a session.update.
func (c *core) update(e *dialect.SessionUpdate) {
	if f := c.wrong(e.Session); f != nil {
		c.refuse(e.EventID, f)
		return
	}
	before := *c.session.Instructions
	beforeTurns, turned := c.turnDetection()
	c.session.Merge(e.Session)
	in := c.session.Audio.Input
	if t, on := in.TurnDetection.Get(); on {
		policy := c.cfg.policy
		if policy.EndOfTurn == 0 {
			policy.EndOfTurn = sound.DefaultEndOfTurn
		}
		t = completed(t, policy)
		in.TurnDetection = dialect.Some(t)
		if !turned || !c.turns(t).same(c.turns(beforeTurns)) {
			c.do(eListen{c.turns(t).TurnPolicy})
		}
	}
	c.fixFormats()
	updated := func(chatctx.Ack, error) {
		c.send(&dialect.SessionUpdated{EventID: c.eventID(), Session: c.session})
		c.settle()
	}
	if now := *c.session.Instructions; now != before {
		c.instructed = true
		c.do(eAppend{chatctx.Op{ID: c.opID(), Kind: chatctx.OpAppend, Item: &chatctx.ConfigUpdate{ID: c.cfg.newID("conf"), Instructions: now}}, updated})
		return
	}
	updated(chatctx.Ack{}, nil)
}

// fixFormats writes out the rates that a client may leave out.
func (c *core) fixFormats() {
	for _, f := range []*dialect.Format{c.session.Audio.Input.Format, c.session.Audio.Output.Format} {
		if f.Type == formatPCM {
			f.Rate = dialect.Rate
		}
	}
}

func (c *core) turnDetection() (t dialect.TurnDetection, on bool) {
	return c.session.Audio.Input.TurnDetection.Get()
}

// turnPolicy compares without what the client cannot set.
type turnPolicy struct{ sound.TurnPolicy }

func (p turnPolicy) same(q turnPolicy) bool { return p == q }

// Bounds of the silence that ends a turn.
const (
	leastSilence = 250 * time.Millisecond
	mostSilence  = 10 * time.Second
)

// turns is the policy of our detector that comes closest to what the client asks for.
func (c *core) turns(t dialect.TurnDetection) turnPolicy {
	p := c.cfg.policy
	switch t.Type {
	case semantic:
		p.EndOfTurn = map[string]time.Duration{"low": 1500 * time.Millisecond, "high": 400 * time.Millisecond}[t.Eagerness]
		if p.EndOfTurn == 0 {
			p.EndOfTurn = max(c.cfg.policy.EndOfTurn, sound.DefaultEndOfTurn)
		}
	default:
		if t.SilenceDurationMs != nil {
			p.EndOfTurn = min(max(time.Duration(*t.SilenceDurationMs)*time.Millisecond, leastSilence), mostSilence)
		}
	}
	return turnPolicy{p}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// wrong says what cannot be done of a session.update.
func (c *core) wrong(s dialect.Session) *fault {
	switch s.Type {
	case "realtime":
	case "":
		return faultf("missing_required_parameter", "session.type", "session.type is required: realtime")
	default:
		return faultf("invalid_value", "session.type", "session.type %.40q: this server has sessions of type realtime", s.Type)
	}
	if f := wrongModalities("session.output_modalities", s.OutputModalities); f != nil {
		return f
	}
	if f := wrongTools("session.tools", s.Tools); f != nil {
		return f
	}
	if s.Audio == nil {
		return nil
	}
	if in := s.Audio.Input; in != nil {
		if f := wrongFormat("session.audio.input.format", in.Format); f != nil {
			return f
		}
		if t, on := in.TurnDetection.Get(); on && t.Type != serverVAD && t.Type != semantic {
			return faultf("invalid_value", "session.audio.input.turn_detection.type", "turn_detection.type %.40q: allowed are server_vad and semantic_vad, or turn_detection null", t.Type)
		}
	}
	if out := s.Audio.Output; out != nil {
		return wrongFormat("session.audio.output.format", out.Format)
	}
	return nil
}

func wrongModalities(param string, m []string) *fault {
	if len(m) == 0 || len(m) == 1 && (m[0] == "audio" || m[0] == "text") {
		return nil
	}
	return faultf("invalid_value", param, `%s: allowed are ["audio"] and ["text"]`, param)
}

func wrongFormat(param string, f *dialect.Format) *fault {
	switch {
	case f == nil, f.Type == "audio/pcmu", f.Type == "audio/pcma":
		return nil
	case f.Type != formatPCM:
		return faultf("invalid_value", param+".type", "%s.type %.40q: allowed are audio/pcm, audio/pcmu and audio/pcma", param, f.Type)
	case f.Rate != 0 && f.Rate != dialect.Rate:
		return faultf("invalid_value", param+".rate", "%s.rate %d: audio/pcm has %d Hz here", param, f.Rate, dialect.Rate)
	}
	return nil
}

func wrongTools(param string, tools []dialect.Tool) *fault {
	if len(tools) > maxTools {
		return faultf("invalid_value", param, "%s has %d entries: at most %d are allowed", param, len(tools), maxTools)
	}
	seen := map[string]bool{}
	for _, t := range tools {
		switch {
		case t.Type != "function":
			return faultf("invalid_value", param+".type", "a tool of type %.40q: functions are allowed", t.Type)
		case !toolName.MatchString(t.Name):
			return faultf("invalid_value", param+".name", "a tool named %.80q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", t.Name)
		case seen[t.Name]:
			return faultf("invalid_value", param+".name", "two tools are named %q", t.Name)
		}
		seen[t.Name] = true
		var object map[string]any
		if len(t.Parameters) > 0 && json.Unmarshal(t.Parameters, &object) != nil {
			return faultf("invalid_value", param+".parameters", "the parameters of %s are a JSON Schema, that is an object", t.Name)
		}
	}
	return nil
}

// legTools are the session's tools as a leg takes them.
func legTools(tools []dialect.Tool) []switcher.Tool {
	out := make([]switcher.Tool, 0, len(tools))
	for _, t := range tools {
		out = append(out, switcher.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}

// offers: the client runs a tool of that name.
func (c *core) offers(name string) bool {
	for _, t := range c.session.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// wanted is how the leg is to be started for the session as it is.
func (c *core) wanted() profile {
	p := profile{tools: string(raw(c.session.Tools)), textOnly: c.session.OutputModalities[0] == "text"}
	if string(c.session.ToolChoice) == `"none"` {
		p.tools = "[]"
	}
	return p
}

// settle starts the leg anew when the session is another by now, once nobody speaks and nothing is under way.
func (c *core) settle() {
	if c.cfg.watch { // the leg is not ours, and tools are the session's
		if p := c.wanted(); !p.same(c.leg) {
			c.leg = p
			c.do(eRestart{p})
		}
		return
	}
	if !c.busy() {
		c.startAs(c.wanted())
	}
}

func (c *core) startAs(p profile) {
	if !p.same(c.leg) {
		c.leg = p
		c.legGone()
		c.do(eRestart{p})
	}
}

// busy: a leg that began anew now would lose something.
func (c *core) busy() bool {
	return c.answers.active != nil || c.answers.owed || len(c.answers.held) > 0 || c.ear.turn != nil || len(c.ear.waiting) > 0 || c.tools.open() > 0
}
