package switcher

import (
	"context"
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
)

// leg is what the runner has of a run.
type leg struct {
	epoch   uint64
	pipe    Pipeline
	inbox   *Inbox
	stop    context.CancelCauseFunc
	ctx     context.Context
	credits chan struct{}
	seed    chan *seeding // capacity 1; filled before the leg runs
}

// legCredits is how many outputs of a leg may wait; its Emit waits for more.
const legCredits = 256

func (l *leg) credit(n int) {
	for range n {
		<-l.credits
	}
}

// perform does one thing that the core wants done.
func (s *Switcher) perform(a action) {
	switch a := a.(type) {
	case aStart:
		s.start(a)
	case aStop:
		if l := s.legs[a.epoch]; l != nil {
			l.stop(a.reason)
		}
	case aGive:
		s.give(a.epoch, a.in)
	case aNoFloor:
		s.ear.turnTo(nil, 0, false, false)
	case aMark:
		s.ear.mark(a.at)
	case aUnmark:
		s.ear.unmark(a.upTo)
	case aPlay:
		s.out.play(a.turn, a.rate, a.pcm)
	case aEndTurn:
		s.out.end(a.turn)
	case aRecord:
		s.notes.put(note{Event: a.Event})
	case aObserve:
		s.observe(a.Event)
	case aAck:
		s.ack(a)
	case aAnswer:
		s.answer(a)
	case aReply:
		a.to <- a.ok
	case aReplyError:
		a.to <- a.err
	case aCall:
		a.f()
	default:
		s.performSlow(a)
	}
}

// performSlow begins what is answered by an event.
func (s *Switcher) performSlow(a action) {
	switch a := a.(type) {
	case aFlush:
		s.flush(func(err error) {
			if err == nil {
				s.box.put(evFlushed(a))
			}
		})
	case aLogCall:
		s.flush(func(err error) {
			if err == nil {
				s.box.put(evToolLogged(a))
			}
		})
	case aWriteStarted:
		s.log.started(a, func(seq uint64, dup bool, err error) { s.box.put(evStarted{a.item.OpID, seq, dup, err}) })
	case aWriteCommit:
		s.log.commit(a, func(err error) { s.box.put(evCommitted{a.item.Epoch, err}) })
	case aWriteAborted:
		s.log.aborted(a)
	case aSpeak:
		s.crew.Go(func() { s.speak(a) })
	case aRunTool:
		ctx, cancel := context.WithTimeout(s.live, s.cfg.Times.Tool)
		s.tools[a.call.CallID] = cancel
		s.crew.Go(func() { s.runTool(ctx, cancel, a.call) })
	case aCancelTool:
		if cancel := s.tools[a.callID]; cancel != nil {
			cancel()
			delete(s.tools, a.callID)
		}
	}
}

func (s *Switcher) flush(then func(error)) { s.notes.put(note{flushed: then}) }

func (s *Switcher) ack(a aAck) {
	s.mu.Lock()
	t := s.tickets[a.ticket]
	s.mu.Unlock()
	if t != nil {
		t.once.Do(func() {
			if t.w.Seq = a.seq; a.seq == 0 {
				t.w.Seq = s.cfg.Log.Head()
			}
			close(t.acked)
		})
	}
}

func (s *Switcher) answer(a aAnswer) {
	s.mu.Lock()
	t := s.tickets[a.ticket]
	delete(s.tickets, a.ticket)
	s.mu.Unlock()
	if t != nil {
		t.w.res, t.w.err = a.res, a.err
		close(t.w.done)
	}
}

// give puts something into a leg's inbox; one that does not read it is given up.
func (s *Switcher) give(epoch uint64, in Input) {
	l := s.legs[epoch]
	if l == nil {
		return
	}
	if err := l.inbox.Put(in); err != nil {
		s.cfg.Logger.Warn("a leg is given up", "leg", l.pipe.Name, "error", err)
		s.box.put(evDied{epoch, &LegError{Code: "overloaded", Message: err.Error(), Retryable: true, Err: err}})
		l.stop(StopEnded)
	}
}

// floor gives a leg the floor: first what it has missed, then the floor, then the caller's sound.
func (s *Switcher) floor(a aFloor) (e evFloored) {
	l := s.legs[a.epoch]
	if l == nil {
		return e // it is dead already
	}
	chat := s.cfg.Log.Chat()
	tool := s.core.switchTool
	select {
	case seed := <-l.seed:
		var in []Input
		in, e.missed = seed.missed(chat, tool)
		e.stale = seed.stale
		for _, i := range in {
			s.give(a.epoch, i)
		}
	default: // it said that it is ready before it was seeded: it knows nothing, and that is its fault
	}
	s.give(a.epoch, FloorIn{Respond: !a.replay && unanswered(chat.Items(), tool)})
	s.ear.turnTo(l.inbox, l.pipe.Can.InRate, l.pipe.Can.OwnTurns, a.replay)
	e.seen = chat.Seq()
	return e
}

// start makes a leg and runs it in a goroutine of its own.
func (s *Switcher) start(a aStart) {
	p := a.pipe
	l := &leg{epoch: a.epoch, pipe: p, inbox: NewInbox(p.Can.InRate, max(DefaultInboxSound, s.cfg.Times.Replay+5*time.Second)), credits: make(chan struct{}, legCredits), seed: make(chan *seeding, 1)}
	l.ctx, l.stop = context.WithCancelCause(s.work)
	s.legs[a.epoch] = l
	s.crew.Go(func() {
		err := s.runLeg(l, a)
		l.stop(StopEnded)
		s.mu.Lock()
		s.sound += l.inbox.Dropped()
		s.mu.Unlock()
		s.box.put(evDied{l.epoch, err})
	})
}

func (s *Switcher) runLeg(l *leg, a aStart) error {
	snap := s.snapshot()
	p := l.pipe
	if a.plain {
		p.Can.Seeds = []SeedMode{SeedInstructions}
	}
	seed := makeSeed(snap, a.plus, p, s.cfg.seedOptions(time.Now()), s.core.switchTool)
	s.mu.Lock()
	s.seeds = append(s.seeds, seeded{l.epoch, seed.Seed})
	if len(s.seeds) > keptSeeds {
		s.seeds = slices.Delete(s.seeds, 0, 1)
	}
	s.mu.Unlock()
	s.box.put(evSeeded{l.epoch, seed.seeded, seed.dropped})
	l.seed <- &seed
	start := Start{
		Session: s.cfg.Session, Epoch: l.epoch, Reason: a.reason, Seed: seed.Seed, Tools: s.toolList(), InRate: l.pipe.Can.InRate, OutRate: l.pipe.Can.OutRate,
		Items: func() chatctx.Items { return s.itemsFor(l) },
		Image: s.cfg.Image, Look: s.cfg.Look, Log: s.cfg.Logger.With("leg", l.pipe.Name, "epoch", l.epoch),
	}
	if start.Look == nil {
		start.Look = func(context.Context, time.Duration) []Sight { return nil }
	}
	if start.Image == nil {
		start.Image = func(context.Context, string) (string, []byte, error) {
			return "", nil, fail(NotFound, "url", "the session has no images")
		}
	}
	made := l.pipe.New()
	if c, ok := made.(Counting); ok {
		s.mu.Lock()
		s.counting[l.epoch] = c
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.counting, l.epoch)
			s.counted.add(c.Counted())
		}()
	}
	return made.Run(l.ctx, start, l.inbox, s.emit(l))
}

// toolList is what a leg may call.
func (s *Switcher) toolList() []Tool {
	var tools []Tool
	if s.cfg.Tools != nil {
		tools = slices.Clone(s.cfg.Tools())
	}
	if t := s.cfg.SwitchTool; t != nil {
		d := t.Description
		if d == "" {
			d = "Switch the call to another voice pipeline: realtime (one speech-to-speech model) or cascade (speech to text, text model, voice). Only when the caller asks for it. The conversation goes on where it was."
		}
		names := []string{}
		for _, l := range s.Legs() {
			names = append(names, l.Name)
		}
		params := `{"type":"object","properties":{"target":{"type":"string","description":` + jsonText("cascade, realtime, or one of: "+strings.Join(names, ", ")) + `},"reason":{"type":"string"}},"required":["target"]}`
		tools = append(tools, Tool{Name: t.Name, Description: d, Parameters: []byte(params)})
	}
	return tools
}

// emit is a leg's way to the session.
func (s *Switcher) emit(l *leg) Emit {
	return func(ctx context.Context, o Output) error {
		if o == nil {
			return fail(InvalidArgument, "output", "an output must not be nil")
		}
		if _, sound := o.(SoundOut); sound && s.out != nil {
			wait, done := context.WithCancel(ctx)
			unhook := context.AfterFunc(l.ctx, done)
			err := s.out.wait(wait)
			unhook()
			done()
			if err != nil && l.ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-l.ctx.Done():
			s.late.Add(1)
			return context.Cause(l.ctx)
		default:
		}
		select {
		case l.credits <- struct{}{}:
			s.box.put(evOutput{l.epoch, o})
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ctx.Done():
			s.late.Add(1)
			return context.Cause(l.ctx)
		}
	}
}

// itemsWait bounds how long a leg waits for its own words to be in the conversation that it reads.
const itemsWait = time.Second

// itemsFor is the conversation with all that the leg has said until now.
func (s *Switcher) itemsFor(l *leg) chatctx.Items {
	ctx, done := context.WithTimeout(l.ctx, itemsWait)
	defer done()
	flushed := make(chan struct{})
	s.box.put(evBarrier{func() { s.flush(func(error) { close(flushed) }) }})
	select {
	case <-flushed:
	case <-ctx.Done():
	}
	items, _ := relevant(s.snapshot().Items, s.core.switchTool)
	return items
}

// snapshot is the conversation for those who go on with it: answers that are being heard stand in it whole, as they will be if
// nobody interrupts.
func (s *Switcher) snapshot() chatctx.Snapshot {
	snap := s.cfg.Log.Snapshot()
	playing := s.rec.Playing()
	if len(playing) == 0 {
		return snap
	}
	snap.Items = slices.Clone(snap.Items)
	for i, it := range snap.Items {
		m, ok := it.(*chatctx.Message)
		if text, is := playing[it.ItemID()]; ok && is && m.Interrupted {
			whole := *m
			whole.Content, whole.Interrupted, whole.TextGenerated = chatctx.TextContent(text), false, ""
			snap.Items[i] = &whole
		}
	}
	return snap
}

// speak makes the sound of a text.
func (s *Switcher) speak(a aSpeak) {
	err := s.cfg.Voice(s.live, a.text, func(rate int, pcm []int16) error {
		if err := s.out.wait(s.live); err != nil {
			return err
		}
		s.box.put(evSaySound{a.turn, rate, pcm})
		return s.live.Err()
	})
	s.box.put(evSayDone{a.turn, err})
}

// runTool runs a tool, once.
func (s *Switcher) runTool(ctx context.Context, cancel context.CancelFunc, call ToolCallOut) {
	defer cancel()
	if s.cfg.RunTool == nil {
		s.box.put(evToolDone{call.CallID, "no such tool", true})
		return
	}
	output, isError := s.cfg.RunTool(ctx, call)
	if s.live.Err() != nil {
		return // the session has ended: the call is recorded as interrupted
	}
	s.box.put(evToolDone{call.CallID, output, isError})
}
