// Package sockettest serves HTTP in memory, so that tests of sockets run in a bubble of their own time; for tests only.
package sockettest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listen serves in memory until stop is called, which waits for the server but not for the sockets that it gave away; dial reaches
// it.
func Listen(h http.Handler) (dial func(ctx context.Context, network, addr string) (net.Conn, error), stop func()) {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	return l.dial, func() {
		_ = server.Close()
		wg.Wait()
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener, as do the others.
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }
