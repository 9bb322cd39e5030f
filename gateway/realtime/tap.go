package realtime

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Tap puts the call around a pipeline: it hears all that its legs are given and say, and decides what of it the session does.
// The pipeline's legs must read the conversation at each turn (Start.Items) and answer again to a second FloorIn with Respond, as
// cascades do.
func (k *Call) Tap(p switcher.Pipeline) switcher.Pipeline {
	inner := p.New
	p.New = func() switcher.Leg { return &tap{call: k, inner: inner} }
	return p
}

// tap is one leg with the call around it.
type tap struct {
	call  *Call
	inner func() switcher.Leg

	base uint64 // of the epochs that its legs are told
	rate int    // Hz of the sound that it is given
	said *outputs

	mu      sync.Mutex
	inbox   *switcher.Inbox // of the leg that runs
	floor   bool
	made    int // legs so far
	stop    context.CancelFunc
	restart bool
}

// Run implements switcher.Leg. The leg in it may begin anew, with other settings, without the session's noticing.
func (t *tap) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	t.base, t.rate, t.said = uint64(rand.Uint32())*1000, start.InRate, newOutputs()
	t.inbox = switcher.NewInbox(t.rate, 0)
	running, cancel := context.WithCancelCause(ctx)
	var crew sync.WaitGroup
	defer crew.Wait()
	defer cancel(nil)
	crew.Go(func() { cancel(t.pump(running, in)) })
	crew.Go(func() { cancel(t.said.drain(running, out)) })
	for {
		err := t.runInner(running, start)
		switch {
		case ctx.Err() != nil:
			t.call.legEnded(t)
			return nil
		case running.Err() != nil:
			t.call.legEnded(t)
			return context.Cause(running)
		case t.again():
			continue
		}
		t.call.legEnded(t)
		return err
	}
}

// runInner runs one leg to its end.
func (t *tap) runInner(ctx context.Context, start switcher.Start) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t.mu.Lock()
	t.made++
	gen, inbox := t.made, t.inbox
	t.stop = stop
	if t.restart { // asked for between two
		stop()
	}
	t.mu.Unlock()
	start.Epoch = t.base + uint64(gen) // legs make their ids of it: they must differ, also from those of another call
	t.call.startedAs(&start)
	return t.inner().Run(ctx, start, inbox, func(ctx context.Context, o switcher.Output) error {
		if _, ready := o.(switcher.ReadyOut); ready && gen > 1 {
			return nil
		}
		if err := t.call.room(ctx, t.said); err != nil {
			return err
		}
		t.mu.Lock()
		current := t.made == gen && !t.restart
		t.mu.Unlock()
		if current {
			t.call.legSays(t, o)
		}
		return nil
	})
}

// again prepares for the next leg, if one is wanted.
func (t *tap) again() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.restart
	t.restart = false
	return was
}

// begin has the leg begin anew. What it is given from now on the new one is given.
func (t *tap) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restart = true
	t.inbox = switcher.NewInbox(t.rate, 0)
	if t.floor {
		_ = t.inbox.Put(switcher.FloorIn{}) // an empty inbox takes it
	}
	if t.stop != nil {
		t.stop()
	}
}

// give puts something of ours into the leg's inbox.
func (t *tap) give(in switcher.Input) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.inbox.Put(in); err != nil && t.stop != nil { // it does not read: the session opens another
		t.stop()
	}
}

// pump hands the leg what the session gives it, but for what is the client's to decide.
func (t *tap) pump(ctx context.Context, in *switcher.Inbox) error {
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		switch i := i.(type) {
		case switcher.FloorIn:
			t.mu.Lock()
			t.floor = true
			t.mu.Unlock()
			t.give(switcher.FloorIn{}) // the client asks for answers
			t.call.floorTaken(t)
			continue
		case switcher.ItemIn:
			i.Respond = i.Respond && t.call.typedByOthers(i.Item)
			t.give(i)
			continue
		case switcher.CallerSpeechIn:
			i.At = t.call.spokenAt(i.At)
			t.give(i)
			continue
		case switcher.ToolResultIn:
			t.call.toolEnded(i.CallID)
		}
		t.give(i)
	}
}

// outputs wait for the session, in order.
type outputs struct {
	wake chan struct{} // capacity 1
	more chan struct{} // capacity 1: there is room again

	mu    sync.Mutex
	queue []switcher.Output
}

// maxOutputs is how many outputs wait for the session before its leg does.
const maxOutputs = 256

func newOutputs() *outputs {
	return &outputs{wake: make(chan struct{}, 1), more: make(chan struct{}, 1)}
}

func (q *outputs) put(o switcher.Output) {
	q.mu.Lock()
	q.queue = append(q.queue, o)
	q.mu.Unlock()
	poke(q.wake)
}

func (q *outputs) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

func (q *outputs) drain(ctx context.Context, out switcher.Emit) error {
	for {
		q.mu.Lock()
		var o switcher.Output
		if len(q.queue) > 0 {
			o = q.queue[0]
			q.queue[0] = nil
			q.queue = q.queue[1:]
		}
		q.mu.Unlock()
		if o == nil {
			select {
			case <-q.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := out(ctx, past(o)); err != nil {
			return err
		}
		poke(q.more)
	}
}

// past brings the times of an output to before now: a client may send sound faster than it is spoken.
func past(o switcher.Output) switcher.Output {
	now := time.Now()
	switch o := o.(type) {
	case switcher.CallerSpeechOut:
		if o.At.After(now) {
			o.At = now
		}
		return o
	case switcher.TranscriptOut:
		if o.At.After(now) {
			o.At = now
		}
		return o
	}
	return o
}

// startedAs fills in what the client has settled.
func (k *Call) startedAs(start *switcher.Start) {
	k.mu.Lock()
	p, instructed := k.core.leg, k.core.instructed
	k.mu.Unlock()
	var tools []dialect.Tool
	_ = json.Unmarshal([]byte(p.tools), &tools) // our own JSON
	others := start.Tools[:0:0]
	for _, t := range start.Tools {
		if !k.isClients(t.Name) {
			others = append(others, t)
		}
	}
	start.Tools = append(others, legTools(tools)...)
	if p.textOnly {
		start.OutRate = 0
	}
	// The seed says that a call is under way, and may hold a record of it: to the client's model the items are all there is.
	switch base := k.cfg.Instructions; {
	case p.instructions != "":
		start.Seed.Instructions = p.instructions
	case instructed: // the log has them
		start.Seed.Instructions = ""
	default:
		config, _ := project.ActiveConfig(start.Items(), project.Options{})
		start.Seed.Instructions = strings.TrimSpace(base + "\n\n" + config.Instructions)
	}
	if p.items != nil {
		start.Items = func() chatctx.Items { return p.items }
		return
	}
	items := start.Items
	start.Items = func() chatctx.Items { return k.withUnlogged(items()) }
}

// withUnlogged adds what the log does not hold yet.
func (k *Call) withUnlogged(items chatctx.Items) chatctx.Items {
	k.mu.Lock()
	said := k.core.unlogged()
	k.mu.Unlock()
	if len(said) == 0 {
		return items
	}
	has := make(map[string]bool, len(items))
	for _, it := range items {
		has[it.ItemID()] = true
	}
	out := items[:len(items):len(items)]
	for _, it := range said {
		if !has[it.ItemID()] {
			out = append(out, it)
		}
	}
	return out
}
