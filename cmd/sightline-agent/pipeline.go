package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sightline/cmd/internal/agentclient"
	chatctx "sightline/context"
	"sightline/gateway/wire"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/local"
)

// legs is the pipeline that this agent offers: a cascade of the engines of this machine, or, where they are not installed, the
// rules alone, by text. Offered as realtime it is the same: the kind is a label that a switch can name.
func (a *agent) legs() ([]agentclient.Leg, error) {
	if a.o.leg == "" {
		return nil, nil
	}
	made, err := local.New(local.Config{})
	if err != nil {
		return nil, err
	}
	engines := made.Cascade()
	leg := agentclient.Leg{Name: a.o.agentID, Kind: switcher.Kind(a.o.leg), Default: true, Seed: switcher.SeedItems, Look: func(ctx context.Context, _ time.Duration) []switcher.Sight { return a.look(ctx) }}
	for _, m := range local.Check() {
		a.say("%s", m.Sentence)
		switch m.Engine {
		case "pocketsphinx":
			engines.Recognizers, leg.InRate = nil, -1
		case "flite":
			engines.Voices, leg.OutRate = nil, -1
		}
	}
	if len(engines.Recognizers) > 0 {
		leg.InRate = engines.Recognizers[0].Rate()
	}
	if len(engines.Voices) > 0 {
		leg.OutRate = engines.Voices[0].Rate()
	}
	leg.New = func() switcher.Leg { return cascade.New(engines) }
	leg.Stopped = func(epoch uint64, err error) {
		if err != nil {
			a.say("the leg of epoch %d failed: %v", epoch, err)
			return
		}
		a.say("the leg of epoch %d was stopped", epoch)
	}
	return []agentclient.Leg{leg}, nil
}

// begin says what this agent offers, and asks once for the switch; it is called at every welcome.
func (a *agent) begin() {
	if a.o.leg != "" {
		a.say("offering the pipeline %s (%s): switch to it on the page, or run sightline-agent --session %s --switch=%s", a.o.agentID, a.o.leg, a.o.session, a.o.agentID)
	}
	if a.o.tools {
		m := wire.ToolsSet{Type: wire.TypeToolsSet, OpID: uuid.NewString()}
		for _, t := range (local.Tools{}).List() {
			m.Tools = append(m.Tools, wire.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
		a.later("offering tools", m.OpID, m)
	}
	a.mu.Lock()
	ask := a.o.switchTo.asked && !a.asked
	a.asked = true
	a.mu.Unlock()
	if ask {
		m := wire.PipelineSwitch{Type: wire.TypePipelineSwitch, OpID: uuid.NewString(), Target: or(a.o.switchTo.name, a.o.agentID)}
		a.later("asking for a switch to "+m.Target, m.OpID, m)
	}
}

// later sends an operation without holding up the client's handlers.
func (a *agent) later(what, opID string, operation any) {
	a.tasks.Go(func() {
		if _, err := a.client.Do(a.ctx, opID, operation); err != nil && a.ctx.Err() == nil {
			a.say("%s: %v", what, err)
		}
	})
}

// pipelines, with mu held: which leg has the floor, and which is being prepared.
func (a *agent) pipelines(floor, coming string) {
	a.floor, a.coming = floor, coming
	close(a.moved)
	a.moved = make(chan struct{})
}

// switching follows the switches in the log.
func (a *agent) switching(p *chatctx.PipelineSwitch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch p.State {
	case "started":
		a.pipelines(a.floor, p.To)
	case "committed":
		a.pipelines(p.To, "")
	default:
		a.pipelines(a.floor, "")
	}
}

// answersItself waits for what a message sets going and tells whether it is this agent that answers: a session's first pipeline, and
// the one that goes on after a restart, begin when somebody speaks, so that their first entry comes after the message.
func (a *agent) answersItself(ctx context.Context) bool {
	patience := time.NewTimer(pipelineBegins)
	defer patience.Stop()
	over := false
	for {
		a.mu.Lock()
		floor, coming, moved := a.floor, a.coming, a.moved
		a.mu.Unlock()
		if floor != "" || over && coming == "" {
			return floor == ""
		}
		select {
		case <-moved:
		case <-patience.C:
			over = true
		case <-ctx.Done():
			return false
		}
	}
}

func (a *agent) switched(m wire.PipelineCommitted) {
	a.mu.Lock()
	a.pipelines(m.To, a.coming)
	a.mu.Unlock()
	if m.Noop {
		a.say("%s has the floor already", m.To)
		return
	}
	a.say("epoch %d: %s (%s) has the floor, after %q; %d items told, %d left out, %d ms", m.Epoch, m.To, m.Mode, m.From, m.SeededItems, m.DroppedItems, m.SwitchMS)
}

func (a *agent) aborted(m wire.PipelineAborted) {
	a.say("the switch to %s did not come about (%s: %s); %q keeps the floor", m.To, m.Code, m.Message, m.From)
}

func (a *agent) transcript(m wire.Transcript) {
	if m.Final {
		a.say("%s said: %s", m.Who, m.Text)
	}
}

func (a *agent) played(m wire.Played) {
	if m.Interrupted {
		a.say("interrupted after %d ms: %q was heard", m.PlayedMS, m.TextHeard)
	}
}

// toolCall runs a demo tool.
func (a *agent) toolCall(m wire.ToolCall) {
	a.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, time.Duration(m.DeadlineMS)*time.Millisecond)
		defer cancel()
		output, isError := local.Tools{}.Run(ctx, switcher.ToolCallOut{CallID: m.CallID, Name: m.Name, Arguments: m.Arguments})
		a.say("tool %s(%s): %s", m.Name, m.Arguments, output)
		r := wire.ToolResult{Type: wire.TypeToolResult, OpID: "result-" + m.CallID, CallID: m.CallID, Output: output, IsError: isError}
		if _, err := a.client.Do(a.ctx, r.OpID, r); err != nil && a.ctx.Err() == nil {
			a.say("the result of %s was not taken: %v", m.Name, err)
		}
	})
}
