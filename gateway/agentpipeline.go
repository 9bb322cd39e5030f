package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// handlePipeline does what a message about tools, sound and pipelines asks for.
func (a *agent) handlePipeline(t wire.Type, data []byte) error {
	switch t {
	case wire.TypeToolsSet:
		var m wire.ToolsSet
		if err := decode(data, &m); err != nil {
			return err
		}
		if err := a.session.tools.set(a.id, m.Tools); err != nil {
			return err
		}
		return a.done(m.OpID)
	case wire.TypeToolResult:
		var m wire.ToolResult
		if err := decode(data, &m); err != nil {
			return err
		}
		if err := a.session.finishTool(a.id, m); err != nil {
			return err
		}
		return a.done(m.OpID)
	case wire.TypePipelineSwitch:
		var m wire.PipelineSwitch
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.switchPipeline(m)
	case wire.TypeSay:
		var m wire.Say
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.say(a.ctx, m, nil)
	case wire.TypeInterrupt:
		var m wire.Interrupt
		if err := decode(data, &m); err != nil {
			return err
		}
		if v := a.session.currentVoice(); v != nil {
			v.switcher.Interrupt()
		}
		return a.done(m.OpID)
	case wire.TypeLegRegister:
		var m wire.LegRegister
		if err := decode(data, &m); err != nil {
			return err
		}
		if m.OpID == "" || len(m.OpID) > 128 {
			return problem.New(problem.InvalidArgument, "op_id is required: 1 to 128 bytes").WithField("op_id")
		}
		if err := a.registerLeg(m); err != nil {
			return err
		}
		return a.done(m.OpID)
	}
	return unknownType(t)
}

// done acknowledges what has no seq, where it can be addressed.
func (a *agent) done(opID string) error {
	if opID == "" {
		return nil
	}
	return a.answer(wire.Ack{Type: wire.TypeAck, OpID: opID})
}

// switchPipeline acknowledges the switch with the seq of its started entry; its outcome comes as an event.
func (a *agent) switchPipeline(m wire.PipelineSwitch) error {
	request, err := switchRequest(m, a.id)
	if err != nil {
		return err
	}
	v, err := a.session.speak()
	if err != nil {
		return err
	}
	under, err := v.switcher.Begin(a.ctx, request)
	if err != nil {
		return switchProblem(err)
	}
	return a.answer(wire.Ack{Type: wire.TypeAck, OpID: m.OpID, Seq: under.Seq})
}

// Bounds of a switch.
const (
	maxSwitchWait    = 10 * time.Minute
	maxSwitchPrepare = 2 * time.Minute
	maxInstructions  = 64 << 10
)

func switchRequest(m wire.PipelineSwitch, author string) (switcher.SwitchRequest, error) {
	r := switcher.SwitchRequest{OpID: m.OpID, Target: m.Target, At: switcher.At(m.At), Instructions: m.Instructions, Author: author}
	if m.OpID == "" || len(m.OpID) > 128 {
		return r, problem.New(problem.InvalidArgument, "op_id is required: 1 to 128 bytes").WithField("op_id")
	}
	if m.Target == "" {
		return r, problem.New(problem.InvalidArgument, "target is required: a leg's name, or a kind: cascade, realtime").WithField("target")
	}
	switch r.At {
	case "", switcher.AtTurnEnd, switcher.AtNow, switcher.AtAfterSpeech:
	default:
		return r, problem.New(problem.InvalidArgument, "at %q: allowed are turn_end, now and after_speech", m.At).WithField("at")
	}
	if h := m.Handoff; h != nil {
		if h.ToAgent == "" {
			return r, problem.New(problem.InvalidArgument, "handoff.to_agent is required: who takes over").WithField("handoff.to_agent")
		}
		r.Handoff = &switcher.Handoff{FromAgent: h.FromAgent, ToAgent: h.ToAgent, Reason: h.Reason, Summary: h.Summary}
		if r.Handoff.FromAgent == "" {
			r.Handoff.FromAgent = author
		}
	}
	if len(m.Instructions) > maxInstructions {
		return r, problem.New(problem.TooLarge, "instructions has %d bytes: at most %d are allowed", len(m.Instructions), maxInstructions).WithField("instructions")
	}
	for _, d := range []struct {
		name  string
		ms    *int
		least int
		most  time.Duration
		to    *time.Duration
	}{
		{"max_wait_ms", m.MaxWaitMS, 0, maxSwitchWait, &r.MaxWait},
		{"prepare_timeout_ms", m.PrepareTimeoutMS, 1, maxSwitchPrepare, &r.PrepareTimeout},
	} {
		if d.ms == nil {
			continue
		}
		if *d.ms < d.least || time.Duration(*d.ms)*time.Millisecond > d.most {
			return r, problem.New(problem.InvalidArgument, "%s %d: allowed are %d to %d", d.name, *d.ms, d.least, d.most.Milliseconds()).WithField(d.name)
		}
		*d.to = max(time.Duration(*d.ms)*time.Millisecond, time.Nanosecond) // 0 would be the default
	}
	return r, nil
}

// switchProblem puts an error of the switcher into the wire's codes, which are the same.
func switchProblem(err error) error {
	var e *switcher.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return problem.New(problem.SwitchAborted, "the switch was not waited for: it goes on").WithCause(err)
		}
		return contextProblem(err)
	}
	p := problem.New(problem.Code(e.Code), "%s", switchDetail(e)).WithField(e.Field)
	if e.Cause != nil {
		p = p.WithCause(e.Cause)
	}
	return p
}

// switchDetail is what went wrong, with the leg's own words, which are for people.
func switchDetail(e *switcher.Error) string {
	var leg *switcher.LegError
	if errors.As(e.Cause, &leg) && leg.Message != "" {
		return e.Detail + ": " + leg.Message
	}
	return e.Detail
}

// finishTool takes a tool's result in, of a call under way or of one from before a restart.
func (s *Session) finishTool(agentID string, r wire.ToolResult) error {
	err := s.tools.finish(agentID, r)
	if err == nil || problem.From(err).Code != problem.NotFound {
		return err
	}
	if v := s.currentVoice(); v != nil {
		if e := v.switcher.ToolResult(r.CallID, r.Output, r.IsError); e == nil {
			return nil
		}
	}
	return err
}

// listen makes the agent's wish for sound count. A wish for transcripts waits until somebody talks.
func (a *agent) listen() error {
	a.mu.Lock()
	wants := a.want.Audio != nil && a.want.Audio.In || slices.ContainsFunc(a.want.Images, func(w wire.WantImage) bool { return w.SpeakingFPS > 0 })
	a.mu.Unlock()
	v := a.session.currentVoice()
	if v == nil && wants {
		var err error
		if v, err = a.session.speak(); err != nil {
			return err
		}
	}
	if v != nil {
		v.retune()
	}
	return nil
}
