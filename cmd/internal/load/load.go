package load

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"sightline/cmd/internal/whipclient"
	"sightline/gateway/auth"
)

// load is one run. What it measures is counted in from the moment that every publisher is connected or has failed.
type load struct {
	o       options
	name    string // of this run, in its op_ids: a session that was kept would take those of an earlier run for the same operations
	out     io.Writer
	clips   []*whipclient.Clip // one, or the layers of simulcast
	sound   whipclient.Sound
	gateway *remote
	m       *measure
	leaving chan struct{} // bounds how many sessions are checked and deleted at once

	mu      sync.Mutex
	live    map[*session]struct{}
	retired counts // of sessions that are over
	begun   int    // sessions so far
	checks  []checked
	left    int // sessions that could not be deleted
}

// atOnce is how many sessions are checked and deleted at once.
const atOnce = 16

func newLoad(o options, clips []*whipclient.Clip, sound whipclient.Sound, out io.Writer) (*load, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2 * atOnce, IdleConnTimeout: 30 * time.Second}
	l := &load{o: o, name: rand.Text()[:8], out: out, clips: clips, sound: sound, m: newMeasure(), live: map[*session]struct{}{}, leaving: make(chan struct{}, atOnce)}
	tokens, err := tokensOf(o)
	if err != nil {
		return nil, err
	}
	l.gateway = &remote{url: o.url, token: tokens, http: &http.Client{Transport: transport}}
	return l, nil
}

// tokensOf gives tokens for sessions: always the same one, or by a key.
func tokensOf(o options) (func(session string) (string, error), error) {
	if o.authKey == "" {
		return func(string) (string, error) { return o.token, nil }, nil
	}
	data, err := readKey(o.authKey)
	if err != nil {
		return nil, fmt.Errorf("--auth-key: %w", err)
	}
	key, err := auth.ParseSigningKey(data)
	if err != nil {
		return nil, fmt.Errorf("--auth-key: %w", err)
	}
	ttl := min(o.duration+time.Hour, auth.DefaultMaxLifetime)
	return func(session string) (string, error) {
		now := time.Now()
		return auth.Sign(key, auth.Claims{Subject: "load", Session: session, Role: auth.Role("admin"), Expires: now.Add(ttl)}, or(o.audience, auth.DefaultAudience), now)
	}, nil
}

// run connects everybody, measures for the wanted time and leaves. It returns after all of its goroutines.
func (l *load) run(ctx context.Context) *Report {
	defer l.gateway.http.CloseIdleConnections()
	w := newWatch(l)
	w.look(ctx) // the gateway without us
	l.respect(ctx)
	working, stop := context.WithCancel(ctx)
	defer stop()

	var sessions, watching sync.WaitGroup
	watching.Go(func() { w.run(working) })
	settled := make(chan struct{}, l.o.publishers) // one for each publisher: connected or not
	over := make(chan struct{})
	for i := range l.o.publishers {
		sessions.Go(func() { l.place(working, i, settled) })
		pause(ctx, l.o.startEvery)
	}
	go func() { defer close(over); sessions.Wait() }()
	for range l.o.publishers {
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	l.settle(working)
	l.m.begin()
	w.begin(ctx)
	select {
	case <-time.After(l.o.duration):
	case <-ctx.Done():
	case <-over: // nobody is left
	}
	l.m.end()
	w.end(context.WithoutCancel(ctx))
	stop()
	watching.Wait()
	if n := l.connected(); n > 0 && l.o.progress > 0 {
		fmt.Fprintf(l.out, "        leaving: %d sessions are checked and deleted\n", n)
	}
	<-over
	return l.report(w)
}

// respect keeps a session that was there before us.
func (l *load) respect(ctx context.Context) {
	if l.o.keep || l.o.publishers > 1 || l.o.churn > 0 {
		return
	}
	if _, err := l.gateway.do(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(l.o.session), l.o.session); err == nil {
		l.o.keep = true
		fmt.Fprintf(l.out, "session %s is there already: it will stay\n", l.o.session)
	}
}

// join counts a session in, retire keeps what it has counted.
func (l *load) join(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[s] = struct{}{}
}

func (l *load) retire(s *session) {
	c := s.counts()
	c.agents, c.attached = 0, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, s)
	l.retired.add(c)
}

// checked keeps the result of a session's check.
func (l *load) checked(c checked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks = append(l.checks, c)
}

// delete ends a session. One that the gateway does not know is not there any more.
func (l *load) delete(ctx context.Context, id string) {
	l.leaving <- struct{}{}
	defer func() { <-l.leaving }()
	err := l.gateway.delete(ctx, id)
	if refused, ok := errors.AsType[*httpError](err); ok && refused.status == http.StatusNotFound || err == nil {
		return
	}
	l.m.fail("delete: " + kind(err))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
}

// settleWait is how long the agents of everybody may take to attach.
const settleWait = 15 * time.Second

// settle waits until the agents of those who are connected are attached, too.
func (l *load) settle(ctx context.Context) {
	deadline := time.Now().Add(settleWait)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if c := l.sum(); c.attached >= c.agents {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// place is one publisher's place: a session, or with churn one after the other.
func (l *load) place(ctx context.Context, i int, settled chan<- struct{}) {
	first := sync.OnceFunc(func() { settled <- struct{}{} })
	defer first()
	for {
		l.mu.Lock()
		l.begun++
		name := l.o.session
		if l.o.publishers > 1 || l.o.churn > 0 {
			name = fmt.Sprintf("%s-%d", l.o.session, l.begun)
		}
		l.mu.Unlock()
		s, err := l.newSession(name, i)
		if err != nil {
			l.m.fail("session: " + kind(err))
			return
		}
		s.run(ctx, first)
		if l.o.churn == 0 || ctx.Err() != nil {
			return
		}
		pause(ctx, l.o.startEvery) // also after a refusal: no storm of attempts
	}
}

func (l *load) connected() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for s := range l.live {
		if s.publisher.Stats().ConnectedIn > 0 {
			n++
		}
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
