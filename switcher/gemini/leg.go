package gemini

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/socket"
)

const tick = 50 * time.Millisecond

// Run implements switcher.Leg.
func (l *Leg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if start.Log == nil {
		start.Log = slog.New(slog.DiscardHandler)
	}
	if err := l.cfg.check(start); err != nil {
		return err
	}
	session := socket.Join(ctx, in, out)
	r := newRun(l, start, session, time.Now())
	var err error
	for {
		if err = r.connection(ctx); !errors.Is(err, errHistory) {
			break
		}
		r.fallBack()
	}
	session.Close()
	if ctx.Err() != nil { // that the session stops a leg is no failure of it
		return nil
	}
	return err
}

func (c *Config) check(start switcher.Start) error {
	invalid := func(format string, args ...any) error {
		return &switcher.LegError{Code: "invalid", Message: fmt.Sprintf(format, args...)}
	}
	p := c.Profile
	switch n := len(start.Seed.Instructions); {
	case p.Path == "" || p.History == "":
		return invalid("the leg's Config has no Profile")
	case start.InRate != 0 && start.InRate != live.InRate:
		return invalid("the leg is given sound of %d Hz, its Capability asks for %d", start.InRate, live.InRate)
	case p.MaxInstructions > 0 && n > p.MaxInstructions:
		return &switcher.LegError{Code: switcher.CodeSeed, Message: fmt.Sprintf("the instructions have %d bytes, %s takes %d", n, p.Provider, p.MaxInstructions)}
	}
	return nil
}

func (c *Config) dialer() socket.Dialer {
	return socket.Dialer{Provider: c.Profile.Provider, Secret: socket.Secret(c.Key), Dial: c.Dial, TLS: c.TLS, Timeout: c.ConnectTimeout}
}

func (c *Config) open(ctx context.Context) (*websocket.Conn, error) {
	path := c.Profile.Path
	if strings.Contains(c.URL, "BidiGenerateContent") {
		path = ""
	}
	u, err := socket.Address(c.URL, path)
	if err != nil {
		return nil, &switcher.LegError{Code: "invalid", Message: err.Error()}
	}
	header := http.Header{}
	switch {
	case c.Key == "":
	case c.Profile.KeyHeader != "":
		header.Set(c.Profile.KeyHeader, c.Profile.KeyPrefix+c.Key)
	case c.Profile.KeyQuery != "":
		q := u.Query()
		q.Set(c.Profile.KeyQuery, c.Key)
		u.RawQuery = q.Encode()
	}
	return c.dialer().Open(ctx, u.String(), header)
}

// connection serves one; it returns why that has ended.
func (r *run) connection(ctx context.Context) error {
	conn, err := r.cfg.open(ctx)
	if err != nil {
		return err
	}
	r.sock = socket.Open(ctx, conn, socket.Times{Write: r.cfg.WriteTimeout, Pong: r.cfg.PongTimeout})
	defer r.sock.Close()
	r.setup(ctx, time.Now())
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for r.err == nil {
		frames := r.sock.Frames
		if r.session.Full(live.OutRate) {
			frames = nil // the provider waits until the session has taken some
			r.gate.last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-frames:
			r.frame(f, time.Now())
		case i := <-r.session.Inputs:
			r.input(i, time.Now())
		case sights := <-r.session.Looks:
			r.seen(sights)
		case <-r.session.Out.Room():
		case now := <-ticks.C:
			r.tick(now)
		case err := <-r.sock.Ended:
			r.broken(err)
		case err := <-r.session.Ended:
			r.fail(err)
		}
		r.pump(ctx, time.Now())
	}
	return r.err
}

// fail ends the connection; the first reason counts.
func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// broken: the socket has ended. The provider says with its close code what it has against a message; there are no error messages.
func (r *run) broken(err error) {
	var broken *socket.Broken
	if !errors.As(err, &broken) {
		r.fail(err)
		return
	}
	e := r.cfg.dialer().Closed(broken.Err)
	var end *websocket.CloseError
	if errors.As(err, &end) && end.Code == websocket.CloseInvalidFramePayloadData && e.Code != "auth" {
		switch {
		case r.phase == opening: // the setup itself
			e.Code, e.Retryable = "invalid", false
		case r.history && !r.proven && r.seed == asGiven:
			r.fail(errHistory)
			return
		}
	}
	r.fail(e)
}

// errHistory: the provider does not take what was said before as turns.
var errHistory = errors.New("the history is refused")
