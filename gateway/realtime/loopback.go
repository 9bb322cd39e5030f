package realtime

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/sound"
	"sightline/gateway/sound/vad"
	"sightline/switcher"
)

// LoopbackConfig says what a Loopback serves.
type LoopbackConfig struct {
	Pipeline switcher.Pipeline // a cascade: see Call.Tap
	Turns    sound.TurnPolicy
	Times    switcher.Times
	Speech   *vad.Model // nil: it is loaded
	Log      *slog.Logger
}

// Loopback serves the dialect within the process: a pipeline behind it is a realtime model without any key. Its calls are nobody's
// sessions: their conversations are in memory and end with the socket.
type Loopback struct {
	cfg   LoopbackConfig
	conns chan net.Conn
	done  chan struct{} // closed when Run has returned
}

// NewLoopback makes a Loopback; Run serves it.
func NewLoopback(cfg LoopbackConfig) *Loopback {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Loopback{cfg: cfg, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to it, whatever the address; see switcher/realtime's Config.Dial.
func (l *Loopback) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener for Run's server.
func (l *Loopback) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: the end of Run's context closes it.
func (l *Loopback) Close() error { return nil }

// Addr implements net.Listener.
func (l *Loopback) Addr() net.Addr { return loopbackAddr{} }

type loopbackAddr struct{}

func (loopbackAddr) Network() string { return "pipe" }
func (loopbackAddr) String() string  { return "loopback" }

// Run serves until ctx ends; it returns after all its calls. Call it once.
func (l *Loopback) Run(ctx context.Context) error {
	if l.cfg.Speech == nil {
		model, err := vad.Load()
		if err != nil {
			close(l.done)
			return err
		}
		l.cfg.Speech = model
	}
	var calls sync.WaitGroup
	server := &http.Server{
		ReadHeaderTimeout: handshakeTimeout, ErrorLog: slog.NewLogLogger(l.cfg.Log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1) // before Serve returns: the server waits for no hijacked connection
			defer calls.Done()
			l.serve(ctx, w, r)
		}),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	<-ctx.Done()
	close(l.done)
	_ = server.Close()
	<-served
	calls.Wait()
	return ctx.Err()
}

// serve is one call from upgrade to end.
func (l *Loopback) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	conn, err := Upgrade(w, r)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "loopback"})
	if err != nil { // a store in memory takes everything
		_ = conn.Close()
		return
	}
	defer log.Close()
	call := New(Config{Model: r.URL.Query().Get("model"), Turns: l.cfg.Turns, Speech: l.cfg.Speech, Log: l.cfg.Log})
	s, err := switcher.New(switcher.Config{
		Session: "loopback", Log: log, Pipelines: []switcher.Pipeline{call.Tap(l.cfg.Pipeline)}, First: l.cfg.Pipeline.Name,
		Tools: call.Tools, RunTool: call.RunTool, BargeIn: switcher.BargeIn{Off: true}, Times: l.cfg.Times, Logger: l.cfg.Log,
	})
	if err != nil {
		l.cfg.Log.Error("a call within the process cannot be served", "error", err)
		_ = conn.Close()
		return
	}
	var crew sync.WaitGroup
	var once sync.Once
	begin := func() (*switcher.Switcher, error) {
		once.Do(func() { crew.Go(func() { _ = s.Run(ctx) }) })
		return s, nil
	}
	err = call.Serve(ctx, conn, Session{Log: log, Switcher: begin, Append: func(ctx context.Context, op chatctx.Op) (chatctx.Ack, error) {
		return log.Append(ctx, chatctx.Origin{Author: "caller", At: time.Now(), Epoch: s.Epoch()}, op)
	}})
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		l.cfg.Log.Debug("a call within the process ended", "reason", err)
	}
	cancel()
	crew.Wait()
}
