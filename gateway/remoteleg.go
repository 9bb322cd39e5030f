package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// Bounds of what a remote leg may be ahead of the session; a leg that sends more waits, and with it its socket.
const (
	maxLegOutputs    = 4096
	maxLegSoundBytes = 16 << 20
)

// remoteLeg is one epoch of a pipeline that an agent offers: it speaks the leg.… messages with the agent's socket. It
// implements switcher.Leg.
type remoteLeg struct {
	session *Session
	agentID string
	name    string
	timeout time.Duration // for preparing, as the agent is told

	mu      sync.Mutex
	epoch   uint64
	running bool
	queue   []switcher.Output
	bytes   int           // of sound in queue
	more    chan struct{} // capacity 1: queue has grown
	room    chan struct{} // capacity 1: queue has shrunk
	failure *switcher.LegError
}

func newRemoteLeg(s *Session, agentID, name string, timeout time.Duration) *remoteLeg {
	return &remoteLeg{session: s, agentID: agentID, name: name, timeout: timeout, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Run implements switcher.Leg.
func (l *remoteLeg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	a := l.session.agent(l.agentID)
	if a == nil {
		return &switcher.LegError{Code: "disconnected", Message: "the agent of " + l.name + " has left", Retryable: true}
	}
	l.mu.Lock()
	l.epoch, l.running = start.Epoch, true
	l.mu.Unlock()
	a.addLeg(l)
	defer a.removeLeg(l)
	a.tell(l.startMessage(start), false)

	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var loops sync.WaitGroup
	loops.Go(func() { cancel(l.forward(run, a, start, in)) })
	loops.Go(func() { cancel(l.collect(run, out)) })
	select {
	case <-run.Done():
	case <-a.ctx.Done():
		cancel(&switcher.LegError{Code: "disconnected", Message: "the agent of " + l.name + " has left", Retryable: true})
	}
	loops.Wait()
	l.mu.Lock()
	l.running = false
	l.mu.Unlock()
	wake(l.room) // who waits in put sees that it is over
	var failed *switcher.LegError
	if errors.As(context.Cause(run), &failed) && ctx.Err() == nil {
		return failed
	}
	reason := switcher.StopEnded
	if stopped, ok := errors.AsType[switcher.StopReason](context.Cause(ctx)); ok {
		reason = stopped
	}
	a.tell(wire.LegStop{Type: wire.TypeLegStop, Epoch: start.Epoch, Reason: string(reason)}, false)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(run)
}

func (l *remoteLeg) startMessage(start switcher.Start) wire.LegStart {
	m := wire.LegStart{
		Type: wire.TypeLegStart, Name: l.name, Epoch: start.Epoch, Reason: start.Reason,
		Seed:  wire.LegSeed{Mode: string(start.Seed.Mode), Instructions: start.Seed.Instructions, Items: start.Seed.Items},
		Tools: []wire.Tool{}, InRate: max(start.InRate, 0), OutRate: max(start.OutRate, 0), PrepareTimeoutMS: l.timeout.Milliseconds(),
	}
	if m.Seed.Items == nil {
		m.Seed.Items = chatctx.Items{}
	}
	for _, t := range start.Tools {
		m.Tools = append(m.Tools, wire.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return m
}

// forward tells the agent what the leg is given.
func (l *remoteLeg) forward(ctx context.Context, a *agent, start switcher.Start, in *switcher.Inbox) error {
	for {
		input, err := in.Next(ctx)
		if err != nil {
			return err
		}
		switch m := input.(type) {
		case switcher.SoundIn:
			a.hearCaller(m.PCM, start.InRate, start.Epoch, l.session.soundTime(m.At))
		case switcher.CallerSpeechIn:
			a.tell(speechMessage(m.Started, m.Final, "caller", m.At), false)
		case switcher.FloorIn:
			a.tell(wire.LegCommit{Type: wire.TypeLegCommit, Epoch: start.Epoch, Respond: m.Respond}, false)
		case switcher.ItemIn:
			if !m.Respond { // entries come by want.context
				continue
			}
			item, err := json.Marshal(m.Item)
			if err != nil {
				return fmt.Errorf("marshal item: %w", err)
			}
			a.tell(wire.LegRespond{Type: wire.TypeLegRespond, Epoch: start.Epoch, Seq: m.Seq, Item: item}, false)
		case switcher.InterruptedIn:
			a.tell(wire.LegInterrupt{Type: wire.TypeLegInterrupt, Epoch: start.Epoch, ItemID: m.Item, PlayedMS: m.Played.Milliseconds(), TextHeard: m.Text}, false)
		case switcher.ToolResultIn:
			a.tell(wire.LegToolResult{Type: wire.TypeLegToolResult, Epoch: start.Epoch, CallID: m.CallID, Name: m.Name, Output: m.Output, IsError: m.IsError}, false)
		case switcher.PlayedIn: // told by played, to whom wants transcripts
		}
	}
}

// collect hands what the agent has sent to the session, which may be behind.
func (l *remoteLeg) collect(ctx context.Context, out switcher.Emit) error {
	for {
		o, ok, failure := l.next()
		switch {
		case failure != nil:
			return failure
		case !ok:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-l.more:
			}
			continue
		}
		if err := out(ctx, o); err != nil {
			return err
		}
	}
}

func (l *remoteLeg) next() (switcher.Output, bool, *switcher.LegError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, false, l.failure
	}
	o := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	if s, ok := o.(switcher.SoundOut); ok {
		l.bytes -= 2 * len(s.PCM)
	}
	wake(l.room)
	return o, true, nil
}

// put takes an output of the agent in; it waits while the leg is too far ahead, and drops what comes after the leg's end.
func (l *remoteLeg) put(ctx context.Context, o switcher.Output) error {
	size := 0
	if s, ok := o.(switcher.SoundOut); ok {
		size = 2 * len(s.PCM)
	}
	for {
		l.mu.Lock()
		if !l.running || l.failure != nil {
			l.mu.Unlock()
			return nil
		}
		if len(l.queue) < maxLegOutputs && (size == 0 || l.bytes+size <= maxLegSoundBytes) {
			l.queue = append(l.queue, o)
			l.bytes += size
			l.mu.Unlock()
			wake(l.more)
			return nil
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.room:
		}
	}
}

// fail ends the leg, behind what it has said.
func (l *remoteLeg) fail(e *switcher.LegError) {
	l.mu.Lock()
	if l.failure == nil {
		l.failure = e
	}
	l.mu.Unlock()
	wake(l.more)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func speechMessage(started, final bool, who string, at time.Time) wire.Speech {
	m := wire.Speech{Type: wire.TypeSpeechStopped, Who: who, At: chatctx.At(at), Final: final && !started}
	if started {
		m.Type = wire.TypeSpeechStarted
	}
	return m
}
