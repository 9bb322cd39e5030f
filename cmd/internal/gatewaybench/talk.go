package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/gatewaybench/caller"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// talk is one call with sound: a caller, and an agent that offers legs.
type talk struct {
	id       string
	caller   *caller.Caller
	agent    *agentclient.Client
	switched chan wire.PipelineCommitted // capacity 16
	aborted  chan wire.PipelineAborted   // the same
}

// talks are calls with sound at once.
type talks struct {
	b       *bench
	all     []*talk
	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan error
}

func (b *bench) newTalks(ctx context.Context) (*talks, context.Context) {
	ctx, stop := context.WithCancel(ctx)
	return &talks{b: b, stop: stop, failed: make(chan error, 256)}, ctx
}

// call begins one more: the caller is connected and the legs are registered when it returns.
func (t *talks) call(ctx context.Context, id string, cfg caller.Config, legs ...agentclient.Leg) (*talk, error) {
	cfg.URL, cfg.Session = t.b.gateway.URL, id
	c, err := caller.New(cfg)
	if err != nil {
		return nil, err
	}
	k := &talk{id: id, caller: c, switched: make(chan wire.PipelineCommitted, 16), aborted: make(chan wire.PipelineAborted, 16)}
	t.all = append(t.all, k)
	t.running.Go(func() { t.fail(id, c.Run(ctx)) })
	if err := t.await(ctx, c.Connected(), id+" to be connected"); err != nil || len(legs) == 0 {
		return k, err
	}
	attached := make(chan struct{})
	var once sync.Once
	k.agent, err = agentclient.New(agentclient.Config{
		URL: t.b.gateway.URL, Session: id, WaitForSession: true, AgentID: "legs", Legs: legs, // they are registered at the welcome, before anything else is asked for
		Handler: agentclient.Handler{
			Attached: func(wire.Welcome) { once.Do(func() { close(attached) }) },
			Refused:  func(e wire.Error) { t.fail(id, fmt.Errorf("%s: %s", e.Code, e.Message)) },
			Switched: func(m wire.PipelineCommitted) { keep(k.switched, m) },
			Aborted:  func(m wire.PipelineAborted) { keep(k.aborted, m) },
		},
	})
	if err != nil {
		return nil, err
	}
	t.running.Go(func() { t.fail(id, k.agent.Run(ctx)) })
	return k, t.await(ctx, attached, id+"'s agent to be attached")
}

// keep never waits: what nobody took is no longer wanted.
func keep[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

func (t *talks) fail(id string, err error) {
	if err != nil {
		keep(t.failed, fmt.Errorf("session %s: %w", id, err))
	}
}

const patience = 20 * time.Second

func (t *talks) await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case err := <-t.failed:
		return err
	case <-time.After(patience):
		return fmt.Errorf("waited %s for %s", patience, what)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass lets time go by, unless a call fails meanwhile.
func (t *talks) pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-t.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask asks for a switch at once; it is under way when this returns.
func (k *talk) ask(ctx context.Context, opID, target string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := k.agent.Do(ctx, opID, wire.PipelineSwitch{Type: wire.TypePipelineSwitch, OpID: opID, Target: target, At: string(switcher.AtNow)})
	return err
}

// end hangs up everybody and deletes the sessions.
func (t *talks) end() error {
	t.stop()
	t.running.Wait()
	var errs []error
	for _, k := range t.all {
		request, err := http.NewRequest(http.MethodDelete, t.b.gateway.URL+"/v1/sessions/"+k.id, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		answer.Body.Close()
	}
	return errors.Join(errs...)
}

// leg offers what make makes, with sound both ways.
func leg(name string, kind switcher.Kind, inRate int, make func() switcher.Leg) agentclient.Leg {
	return agentclient.Leg{Name: name, Kind: kind, InRate: inRate, OutRate: legRate, New: make}
}

// stream is what packets of one call tell about the gateway's clock.
type stream struct {
	gaps      []time.Duration // between neighbours, of sound that went on
	late      []time.Duration // beyond the fastest packet, by their timestamps
	underruns int             // sound went on after it had run out: a marker, or timestamps that jump
	lost      int             // by their sequence numbers
}

func (s *stream) add(packets []caller.Packet) {
	if len(packets) == 0 {
		return
	}
	first, fastest := packets[0], time.Duration(0)
	transit := func(p caller.Packet) time.Duration {
		return p.At.Sub(first.At) - time.Duration(int32(p.Timestamp-first.Timestamp))*time.Second/48000
	}
	for _, p := range packets {
		fastest = min(fastest, transit(p))
	}
	s.late = append(s.late, transit(first)-fastest)
	for i, p := range packets[1:] {
		before := packets[i]
		s.late = append(s.late, transit(p)-fastest)
		step, missing := int32(p.Timestamp-before.Timestamp), int(int16(p.Seq-before.Seq))-1
		switch {
		case missing != 0:
			s.lost += max(missing, 0)
			continue
		case p.Marker || step != 960:
			s.underruns++
		}
		s.gaps = append(s.gaps, p.At.Sub(before.At))
	}
}

func (s *stream) sort() {
	slices.Sort(s.gaps)
	slices.Sort(s.late)
}

// above counts what is longer than d, of sorted durations.
func above(sorted []time.Duration, d time.Duration) int {
	i, _ := slices.BinarySearch(sorted, d+1)
	return len(sorted) - i
}
