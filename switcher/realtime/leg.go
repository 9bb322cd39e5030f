package realtime

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Bounds of what waits. Providers send an answer far faster than it is played, and some close (1011) a connection whose pongs are
// late because nobody reads it: so the longest usual answer (4,096 tokens, 205 s) is taken in whole, 12 MB at most.
const (
	mostUnsent = 30 * time.Second // of the caller's sound, for the provider; the turn that is replayed after a switch comes at once
	mostUnsaid = 4 * time.Minute  // of the model's sound, for the session
	mostWords  = 1024             // of anything else, either way
	tick       = 100 * time.Millisecond
)

// message is one event on its way to the provider.
type message struct {
	data    []byte
	samples int // of sound in it
}

// wires are what connects the loop to the goroutines around it.
type wires struct {
	events chan dialect.ServerEvent
	inputs chan switcher.Input
	looks  chan []switcher.Sight // capacity 1
	ended  chan error            // of reader, writer, emitter, feeder; capacity for all
	send   *queue[message]
	out    *queue[switcher.Output]
}

// Run implements switcher.Leg.
func (l *Leg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if start.Log == nil {
		start.Log = slog.New(slog.DiscardHandler)
	}
	conn, err := l.cfg.dial(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	w := wires{
		events: make(chan dialect.ServerEvent), inputs: make(chan switcher.Input), looks: make(chan []switcher.Sight, 1), ended: make(chan error, 4),
		send: newQueue(func(m message) int { return m.samples }),
		out: newQueue(func(o switcher.Output) int {
			if s, ok := o.(switcher.SoundOut); ok {
				return len(s.PCM)
			}
			return 0
		}),
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	end := func(run func() error) func() {
		return func() { w.ended <- run() }
	}
	wg.Go(end(func() error { return l.read(running, conn, w.events) }))
	wg.Go(end(func() error { return l.write(running, conn, w.send) }))
	wg.Go(end(func() error { return emit(running, w.out, out) }))
	r := newRun(l, start, w, time.Now())
	r.feed = func() {
		wg.Go(end(func() error { return feed(running, in, w.inputs) }))
	}
	r.look = func(look func(context.Context) []switcher.Sight) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(running, lookTimeout)
			defer cancel()
			w.looks <- look(ctx)
		})
	}
	err = r.loop(running)
	stop()
	// A last word is worth one second; a provider that does not read it is left all the same.
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = conn.Close()
	wg.Wait()
	return unlessStopped(ctx, err)
}

// unlessStopped: that the session stops a leg is no failure of it.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// read gives the provider's events to the loop until the socket ends. Time during which the loop does not take counts for
// nothing: the deadline is set anew for every message.
func (l *Leg) read(ctx context.Context, conn *websocket.Conn, events chan<- dialect.ServerEvent) error {
	alive := func(string) error { return conn.SetReadDeadline(time.Now().Add(l.cfg.PongTimeout)) }
	conn.SetPongHandler(alive)
	ping := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		_ = alive("")
		return ping(data)
	})
	for {
		_ = alive("")
		_, data, err := conn.ReadMessage()
		if err != nil {
			return &socketError{err}
		}
		e, err := dialect.DecodeServer(data)
		if err != nil {
			l.counts.malformed.Add(1)
			continue
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// socketError marks what the provider's close code may explain.
type socketError struct{ error }

func (e *socketError) Unwrap() error { return e.error }

// write is the only writer of messages, and keeps the connection alive with pings.
func (l *Leg) write(ctx context.Context, conn *websocket.Conn, send *queue[message]) error {
	always := make(chan struct{})
	close(always)
	pings := time.NewTicker(l.cfg.PongTimeout / 3)
	defer pings.Stop()
	for {
		m, ok := send.take()
		if ok {
			_ = conn.SetWriteDeadline(time.Now().Add(l.cfg.WriteTimeout))
			if err := conn.WriteMessage(websocket.TextMessage, m.data); err != nil {
				return l.unwritten(ctx, err)
			}
		}
		more := send.wake
		if ok { // there may be more: a ping must not wait for the end of it
			more = always
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pings.C:
			if err := conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(l.cfg.WriteTimeout)); err != nil {
				return l.unwritten(ctx, err)
			}
		case <-more:
		}
	}
}

// unwritten lets the reader tell why the socket ended, for a second: it has the close code.
func (l *Leg) unwritten(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return &socketError{err}
}

func emit(ctx context.Context, q *queue[switcher.Output], out switcher.Emit) error {
	for {
		o, err := q.next(ctx)
		if err != nil {
			return err
		}
		if err := out(ctx, o); err != nil {
			return err
		}
	}
}

func feed(ctx context.Context, in *switcher.Inbox, inputs chan<- switcher.Input) error {
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return err
		}
		select {
		case inputs <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// loop owns the state. It returns why the leg has ended.
func (r *run) loop(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for r.err == nil {
		events := r.w.events
		if words, samples := r.w.out.load(); samples > int(mostUnsaid.Seconds()*float64(r.outRate)) || words > mostWords {
			events = nil // the provider waits until the session has taken some
			r.response.last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			r.event(ctx, e, time.Now())
		case i := <-r.w.inputs:
			r.input(ctx, i, time.Now())
		case sights := <-r.w.looks:
			r.seen(sights, time.Now())
		case <-r.w.out.room:
		case now := <-ticks.C:
			r.tick(now)
		case err := <-r.w.ended:
			r.end(err)
		}
		r.pump(time.Now())
	}
	return r.err
}

func (r *run) end(err error) {
	var broken *socketError
	switch {
	case errors.As(err, &broken):
		r.fail(r.cfg.closed(broken.error, r.phase == seeding))
	default:
		r.fail(err)
	}
}

// fail ends the leg; the first reason counts.
func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
