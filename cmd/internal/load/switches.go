package load

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// outcome is what came of a switch.
type outcome struct {
	epoch  uint64
	noop   bool
	failed string // a code, empty when it was committed
}

// legRate is that of the sound of our own legs, in Hz.
const legRate = 16000

// switcher makes an agent the one that asks for switches, and that offers the pipelines where the gateway's own are not wanted.
func (s *session) switcher(cfg *agentclient.Config) {
	cfg.Handler.Switched = func(m wire.PipelineCommitted) { s.came(m.OpID, outcome{epoch: m.Epoch, noop: m.Noop}) }
	cfg.Handler.Aborted = func(m wire.PipelineAborted) { s.came(m.OpID, outcome{failed: m.Code}) }
	if s.l.o.switchBetween != "" {
		return
	}
	outRate := -1 // text only, where nobody could hear it
	if s.l.sound != nil {
		outRate = legRate
	}
	for i, name := range ownLegs {
		kind := []switcher.Kind{switcher.Cascade, switcher.Realtime}[i]
		cfg.Legs = append(cfg.Legs, agentclient.Leg{Name: name, Kind: kind, InRate: -1, OutRate: outRate, New: func() switcher.Leg { return &turnLeg{name, outRate} }})
	}
}

var ownLegs = [2]string{"load-cascade", "load-realtime"}

func (s *session) came(opID string, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.outcomes[opID]; waiting != nil {
		select {
		case waiting <- o: // capacity 1
		default:
		}
	}
}

// change asks for a switch and waits until it is committed.
func (s *session) change(life context.Context, a *agent, n int) {
	ctx, cancel := context.WithTimeout(life, answerWithin)
	defer cancel()
	targets := ownLegs
	if first, second, ok := strings.Cut(s.l.o.switchBetween, ","); ok {
		targets = [2]string{first, second}
	}
	opID := fmt.Sprintf("%s-switch-%d", s.l.name, n)
	waiting := make(chan outcome, 1)
	s.mu.Lock()
	s.outcomes[opID] = waiting
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.outcomes, opID)
	}()
	begun := time.Now()
	if _, err := a.client.Do(ctx, opID, wire.PipelineSwitch{Type: wire.TypePipelineSwitch, OpID: opID, Target: targets[n%2], At: string(switcher.AtNow)}); err != nil {
		s.l.m.fail("switch: " + kind(err))
		return
	}
	select {
	case o := <-waiting:
		if o.failed != "" {
			s.l.m.fail("switch aborted: " + o.failed)
			return
		}
		if o.noop { // it had the floor already
			return
		}
		s.l.m.time(s.l.m.switches, time.Since(begun))
		s.mu.Lock()
		s.commits[o.epoch] = opID
		s.mu.Unlock()
	case <-ctx.Done():
		s.l.m.fail("switch: no answer in " + answerWithin.String())
	}
}

// turnLeg says one sentence when it gets the floor, so that each switch leaves a turn in the conversation.
type turnLeg struct {
	name    string
	outRate int
}

// Run implements switcher.Leg.
func (l *turnLeg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if err := out(ctx, switcher.ReadyOut{}); err != nil {
		return nil // it was stopped
	}
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		if _, ok := i.(switcher.FloorIn); !ok {
			continue
		}
		if l.turn(ctx, start.Epoch, out) != nil {
			return nil
		}
	}
}

func (l *turnLeg) turn(ctx context.Context, epoch uint64, out switcher.Emit) error {
	item := fmt.Sprint("turn-", epoch)
	text := fmt.Sprintf("%s has the floor in epoch %d.", l.name, epoch)
	if l.outRate < 0 {
		if err := out(ctx, switcher.TextOut{Item: item, Delta: text}); err != nil {
			return err
		}
		return out(ctx, switcher.TurnDoneOut{Item: item, Status: "completed"})
	}
	pcm := make([]int16, l.outRate/2)
	for i := range pcm {
		pcm[i] = int16(6000 * math.Sin(2*math.Pi*440*float64(i)/float64(l.outRate)))
	}
	if err := out(ctx, switcher.SoundOut{Item: item, Rate: l.outRate, PCM: pcm, Text: text}); err != nil {
		return err
	}
	return out(ctx, switcher.TurnDoneOut{Item: item, Status: "completed"})
}
