package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

// startEvery spaces the publishers out: a gateway meets its callers one after the other too.
const startEvery = 20 * time.Millisecond

// browser is one publisher with the agents of its session.
type browser struct {
	session   string
	publisher *whipclient.Publisher
	agents    []*agentclient.Client
}

// load is one run. Everything it measures is counted in from the moment that every publisher is connected or has failed.
type load struct {
	o        options
	out      io.Writer
	browsers []*browser

	mu        sync.Mutex
	measuring bool
	captured  histogram // capture, as the gateway says it, to agent
	sent      histogram // last packet of the frame sent, as this program knows it, to agent
	images    uint64
	bytes     uint64
	stale     uint64 // images whose frame was sent too long ago to be found
	replaced  uint64
	failed    int
	errors    map[string]int // by kind
}

func newLoad(o options, clip *whipclient.Clip, out io.Writer) (*load, error) {
	l := &load{o: o, out: out, errors: map[string]int{}}
	for i := range o.publishers {
		b := &browser{session: o.session}
		if o.publishers > 1 {
			b.session = fmt.Sprintf("%s-%d", o.session, i+1)
		}
		cfg := whipclient.Config{URL: o.url, Session: b.session, Token: o.token, Clip: clip, FPS: o.fps, IgnorePLI: o.ignorePLI}
		if o.loss > 0 {
			cfg.Impair = &whipclient.Impairment{Loss: o.loss, Seed: uint64(i + 1)}
		}
		var err error
		if b.publisher, err = whipclient.New(cfg); err != nil {
			return nil, err
		}
		l.browsers = append(l.browsers, b)
	}
	for i := range o.agents {
		b := l.browsers[i%len(l.browsers)]
		client, err := agentclient.New(agentclient.Config{
			URL: o.url, Session: b.session, Token: o.token, AgentID: fmt.Sprintf("load-%d", i+1),
			Want:     wire.Want{Images: []wire.WantImage{{Source: "*", FPS: o.imageFPS}}},
			RetryMin: 50 * time.Millisecond,
			Handler: agentclient.Handler{
				Image:    func(image agentclient.Image) { l.take(b, image) },
				Refused:  func(e wire.Error) { l.fail("agent: " + string(e.Code)) },
				Detached: func(err error, _ time.Duration) { l.fail("agent: " + kind(err)) },
			},
		})
		if err != nil {
			return nil, err
		}
		b.agents = append(b.agents, client)
	}
	return l, nil
}

// run connects everybody, measures for the wanted time and leaves. It returns after all of its goroutines.
func (l *load) run(ctx context.Context) report {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var everybody sync.WaitGroup
	settled := make(chan bool, len(l.browsers)) // one value per publisher: connected or not
	for _, b := range l.browsers {
		everybody.Go(func() { l.play(ctx, b, settled) })
		pause(ctx, startEvery)
	}
	for range l.browsers {
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	begun, before := l.begin(), l.sum()
	if before.connected > 0 {
		l.progress(ctx, begun)
	}
	took := time.Since(begun)
	after := l.sum()
	l.stop()
	cancel()
	everybody.Wait()
	return l.report(took, before, after)
}

// play runs a publisher and, once it is connected, its agents.
func (l *load) play(ctx context.Context, b *browser, settled chan<- bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var agents sync.WaitGroup
	done := make(chan error, 1)
	go func() { done <- b.publisher.Run(ctx) }()
	var err error
	select {
	case <-b.publisher.Connected():
		for _, a := range b.agents {
			agents.Go(func() {
				if err := a.Run(ctx); err != nil {
					l.fail("agent: " + kind(err))
				}
			})
		}
		settled <- true
		err = <-done
	case err = <-done:
		settled <- false
	}
	if err != nil {
		l.fail("publisher: " + kind(err))
		l.mu.Lock()
		l.failed++
		l.mu.Unlock()
	}
	cancel()
	agents.Wait()
}

func (l *load) begin() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measuring = true
	return time.Now()
}

func (l *load) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measuring = false
}

// take is called by each agent's reader.
func (l *load) take(b *browser, image agentclient.Image) {
	_, sent, known := b.publisher.SentAt(image.RTPTimestamp)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.measuring {
		return
	}
	l.images++
	l.bytes += uint64(len(image.Data))
	l.replaced += image.Superseded
	l.captured.add(image.ReceivedAt.Sub(image.CapturedAt.Time))
	if known {
		l.sent.add(image.ReceivedAt.Sub(sent))
	} else {
		l.stale++
	}
}

// maxKinds bounds the table of errors; kinds are few by construction.
const maxKinds = 50

func (l *load) fail(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.errors[kind]; !known && len(l.errors) >= maxKinds {
		kind = "other"
	}
	l.errors[kind]++
}

// kind names an error without what differs from one to the next.
func kind(err error) string {
	var publishing *whipclient.HTTPError
	var attaching *agentclient.HTTPError
	switch {
	case errors.As(err, &publishing):
		return or(publishing.Code, fmt.Sprintf("HTTP %d", publishing.Status))
	case errors.As(err, &attaching):
		return or(string(attaching.Code), fmt.Sprintf("HTTP %d %s", attaching.Status, http.StatusText(attaching.Status)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	text := []rune(err.Error())
	return string(text[:min(len(text), 80)])
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
