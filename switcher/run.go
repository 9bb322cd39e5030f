package switcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// note is a report for the recorder, or with flushed the wish to have all reports before it written.
type note struct {
	recorder.Event
	flushed func(error)
}

// endGrace bounds what is still written when Run ends.
const endGrace = 5 * time.Second

// Run serves the session until ctx ends, whose error it then returns, or until its log is damaged. All goroutines, of legs and
// tools too, have ended when it returns. Call it once.
func (s *Switcher) Run(ctx context.Context) error {
	defer close(s.ended)
	past, cursor, err := s.past(ctx)
	if err != nil {
		return err
	}
	live, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	s.live, s.work = live, work

	var rest sync.WaitGroup // what serves the crew, and ends after it
	recCtx, recStop := context.WithCancel(work)
	defer recStop()
	rest.Go(func() {
		if err := s.rec.Run(recCtx); recCtx.Err() == nil {
			stop(fmt.Errorf("the recorder: %w", err))
		}
	})
	noted := make(chan struct{})
	rest.Go(func() { defer close(noted); s.report(work) })
	written := make(chan struct{})
	rest.Go(func() { defer close(written); s.log.run(work) })
	rest.Go(func() {
		if err := s.follow(live, cursor); live.Err() == nil {
			stop(fmt.Errorf("the log: %w", err))
		}
	})
	if s.out != nil {
		rest.Go(func() { s.out.run(work) })
		rest.Go(func() { s.listen(work) })
	}
	if s.cfg.Window != nil {
		rest.Go(func() { _ = s.cfg.Window.Run(live) })
	}

	s.step(past)
	s.serve(live)
	s.end()
	// Everything that was said and done goes into the log, in this order: reports, the recorder's rest, the own entries.
	late := time.AfterFunc(endGrace, done)
	defer late.Stop()
	s.notes.put(note{})
	<-noted
	recStop()
	s.log.close()
	<-written
	done()
	rest.Wait()
	if err := context.Cause(live); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// serve is the session's one goroutine while it lives.
func (s *Switcher) serve(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if at, ok := s.core.deadline(); ok {
			timer.Reset(max(0, time.Until(at)))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.carryOut(s.core.advance(time.Now()))
		case <-s.box.wake:
			for ctx.Err() == nil {
				e, ok := s.box.take()
				if !ok {
					break
				}
				s.step(e)
			}
		}
	}
}

// step has an event decided, and does what follows.
func (s *Switcher) step(e event) {
	held := len(s.core.held)
	o, isOutput := e.(evOutput)
	actions := s.core.handle(e, time.Now())
	if isOutput {
		if l := s.legs[o.epoch]; l != nil {
			if len(s.core.held) > held {
				s.owed[l]++
			} else {
				l.credit(1)
			}
		}
	}
	switch e := e.(type) {
	case evToolDone:
		if cancel := s.tools[e.callID]; cancel != nil {
			cancel()
			delete(s.tools, e.callID)
		}
	case evDied:
		delete(s.legs, e.epoch)
	}
	s.carryOut(actions)
}

// carryOut does what the core wants, and what comes of it at once.
func (s *Switcher) carryOut(actions []action) {
	shown := false // something that Legs and Rates show may have changed
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch a.(type) {
		case aPlay, aRecord, aObserve, aEndTurn:
		default:
			shown = true
		}
		switch a := a.(type) {
		case aCut:
			e := evStopped{}
			if s.out != nil {
				e.heard, e.queued = s.out.cut()
			}
			actions = append(s.core.handle(e, time.Now()), actions...)
		case aFloor:
			actions = append(s.core.handle(s.floor(a), time.Now()), actions...)
		default:
			s.perform(a)
		}
	}
	if len(s.core.held) == 0 {
		for l, n := range s.owed {
			l.credit(n)
			delete(s.owed, l)
		}
	}
	s.mu.Lock()
	s.counters = s.core.count
	s.mu.Unlock()
	if shown || s.core.dirty {
		s.core.dirty = false
		s.publish()
	}
}

// publish makes what the methods give.
func (s *Switcher) publish() {
	infos, rates := s.core.legs(), s.core.rates()
	s.mu.Lock()
	newLegs, newRates := !slices.Equal(infos, s.infos), !slices.Equal(rates, s.rates)
	s.infos, s.rates = infos, rates
	s.mu.Unlock()
	s.epoch.Store(s.core.epoch)
	if newRates {
		s.ear.setRates(rates)
		if s.cfg.RatesChanged != nil {
			s.cfg.RatesChanged(rates)
		}
	}
	if newLegs {
		s.observe(Event{Kind: LegsChanged, At: time.Now(), Epoch: s.core.epoch})
	}
}

func (s *Switcher) observe(e Event) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(e)
	}
}

// end stops everybody and waits for them; what is in flight is closed.
func (s *Switcher) end() {
	s.step(evEnd{})
	s.carryOut(s.core.ended())
	for _, cancel := range s.tools {
		cancel()
	}
	s.crew.Wait()
	s.mu.Lock()
	waiting := s.tickets
	s.tickets = map[uint64]*ticket{}
	s.mu.Unlock()
	for _, t := range waiting {
		t.w.err = fail(Draining, "", "the session has ended")
		close(t.w.done)
	}
}

// report hands reports to the recorder, which may be slow while its store is.
func (s *Switcher) report(ctx context.Context) {
	for {
		n, ok := s.notes.take()
		if !ok {
			select {
			case <-s.notes.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		switch {
		case n.flushed != nil:
			n.flushed(s.rec.Flush(ctx))
		case n.Kind == 0:
			return
		default:
			if s.rec.Report(ctx, n.Event) != nil {
				return
			}
		}
	}
}

// listen reads the speaker's clock.
func (s *Switcher) listen(ctx context.Context) {
	for {
		select {
		case h, ok := <-s.cfg.Speaker.Heard():
			if !ok {
				return
			}
			s.post(evHeard{h})
		case <-ctx.Done():
			return
		}
	}
}

// follow reads what comes into the log.
func (s *Switcher) follow(ctx context.Context, c *chatctx.Cursor) error {
	for wait := minWriteRetry; ; {
		e, err := c.Next(ctx)
		switch {
		case err == nil:
			wait = minWriteRetry
			s.box.put(evEntry{e})
		case unavailable(err) && ctx.Err() == nil:
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			wait = min(2*wait, maxWriteRetry)
		default:
			return err
		}
	}
}

// past reads from the log what was before, and closes what it left open.
func (s *Switcher) past(ctx context.Context) (evBegin, *chatctx.Cursor, error) {
	b := evBegin{pipes: s.cfg.Pipelines, first: s.cfg.First, rejoin: s.cfg.Times.Rejoin}
	cursor, err := s.cfg.Log.Follow(0)
	if err != nil {
		return b, nil, err
	}
	open := map[string]*chatctx.PipelineSwitch{}
	calls := map[string]*callRecord{}
	var order []string
	for wait := minWriteRetry; ; {
		e, ok, err := cursor.TryNext(ctx)
		switch {
		case unavailable(err) && ctx.Err() == nil && !errors.Is(err, chatctx.ErrClosed):
			if err := sleep(ctx, wait); err != nil {
				return b, nil, err
			}
			wait = min(2*wait, maxWriteRetry)
			continue
		case err != nil:
			return b, nil, err
		}
		if !ok {
			break
		}
		b.last = max(b.last, e.Epoch)
		if e.Op != chatctx.OpAppend {
			continue
		}
		switch it := e.Item.(type) {
		case *chatctx.PipelineSwitch:
			b.last = max(b.last, it.Epoch)
			switch it.State {
			case "started":
				open[it.OpID] = it
			case "committed":
				b.epoch, b.resume = it.Epoch, it.To
				delete(open, it.OpID)
			default:
				delete(open, it.OpID)
			}
		case *chatctx.FunctionCall:
			calls[it.CallID] = &callRecord{callID: it.CallID, name: it.Name, args: it.Arguments}
			order = append(order, it.CallID)
		case *chatctx.FunctionCallOutput:
			if k := calls[it.CallID]; k != nil {
				k.answered, k.output, k.isError = true, it.Output, it.IsError
			}
		}
	}
	for _, id := range order {
		b.calls = append(b.calls, *calls[id])
	}
	for _, it := range open {
		a := *it
		a.ID, a.State, a.Reason = fmt.Sprintf("switch-%d-aborted", it.Epoch), "aborted", string(SwitchAborted)
		s.log.aborted(aWriteAborted{item: a, epoch: b.epoch})
	}
	return b, cursor, nil
}
