package realtime

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/realtime/dialect"
)

const tick = 100 * time.Millisecond

// Run implements switcher.Leg.
func (l *Leg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if start.Log == nil {
		start.Log = slog.New(slog.DiscardHandler)
	}
	conn, err := l.cfg.dial(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	session := socket.Join(ctx, in, out)
	sock := socket.Open(ctx, conn, socket.Times{Write: l.cfg.WriteTimeout, Pong: l.cfg.PongTimeout})
	err = newRun(l, start, session, sock, time.Now()).loop(ctx)
	sock.Close()
	session.Close()
	return unlessStopped(ctx, err)
}

// unlessStopped: that the session stops a leg is no failure of it.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loop owns the state. It returns why the leg has ended.
func (r *run) loop(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for r.err == nil {
		frames := r.sock.Frames
		if r.session.Full(r.outRate) {
			frames = nil // the provider waits until the session has taken some
			r.response.last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-frames:
			if e, err := dialect.DecodeServer(f.Data); err != nil {
				r.counts.malformed.Add(1)
			} else {
				r.event(ctx, e, time.Now())
			}
		case i := <-r.session.Inputs:
			r.input(ctx, i, time.Now())
		case sights := <-r.session.Looks:
			r.seen(sights, time.Now())
		case <-r.session.Out.Room():
		case now := <-ticks.C:
			r.tick(now)
		case err := <-r.sock.Ended:
			r.end(err)
		case err := <-r.session.Ended:
			r.fail(err)
		}
		r.pump(time.Now())
	}
	return r.err
}

func (r *run) end(err error) {
	var broken *socket.Broken
	if errors.As(err, &broken) {
		err = r.cfg.closed(broken.Err, r.phase == seeding)
	}
	r.fail(err)
}

// fail ends the leg; the first reason counts.
func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
