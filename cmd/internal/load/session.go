package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
	"sightline/internal/faultnet"
)

// session is one publisher with its agents.
type session struct {
	l         *load
	id        string
	token     string
	publisher *whipclient.Publisher
	agents    []*agent
	stopping  chan struct{} // closed when nobody is to begin anything any more

	mu       sync.Mutex
	acked    map[string]uint64 // seq of each message that was acknowledged, by op_id
	commits  map[uint64]string // op_id of each switch of ours that was committed, by epoch
	outcomes map[string]chan outcome
}

// agent is one attached program.
type agent struct {
	client *agentclient.Client
	log    *logBook // nil: it does not follow the conversation
	slow   bool
	fps    float64
}

func (l *load) newSession(id string, place int) (*session, error) {
	s := &session{l: l, id: id, stopping: make(chan struct{}), acked: map[string]uint64{}, commits: map[uint64]string{}, outcomes: map[string]chan outcome{}}
	var err error
	if s.token, err = l.gateway.token(id); err != nil {
		return nil, err
	}
	o := &l.o
	cfg := whipclient.Config{URL: o.url, Session: id, Token: s.token, FPS: o.fps, IgnorePLI: o.ignorePLI, Sound: l.sound,
		ConnectTimeout: 30 * time.Second, HTTP: l.gateway.http}
	if len(l.clips) > 1 {
		cfg.Layers = l.clips
	} else {
		cfg.Clip = l.clips[0]
	}
	if o.loss > 0 || o.delay > 0 || o.jitter > 0 {
		faults := faultnet.Faults{LossUp: float64(o.loss), LossDown: float64(o.loss), Delay: o.delay, Jitter: o.jitter}
		cfg.Relay = &faultnet.Config{Faults: faults, Seed: rand.Uint64()}
	}
	if s.publisher, err = whipclient.New(cfg); err != nil {
		return nil, err
	}
	for i := range o.agents {
		if err := s.addAgent(fmt.Sprintf("load-%d", i+1), o.imageFPS[i%len(o.imageFPS)], false); err != nil {
			return nil, err
		}
	}
	for i := place; i < o.slowAgents; i += o.publishers {
		if err := s.addAgent(fmt.Sprintf("slow-%d", i+1), o.imageFPS[0], true); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *session) addAgent(id string, fps float64, slow bool) error {
	a := &agent{slow: slow, fps: fps}
	o := &s.l.o
	cfg := agentclient.Config{
		URL: or(o.agentURL, o.url), Session: s.id, WaitForSession: true, Token: s.token, AgentID: id, FromStart: !o.noContext, RetryMin: 50 * time.Millisecond,
		Want: wire.Want{Context: !o.noContext, Images: []wire.WantImage{{Source: "*", FPS: fps, Encode: wire.Encode{Width: o.imageWidth, Height: o.imageHeight}}}},
		Handler: agentclient.Handler{
			Image:    func(image agentclient.Image) { s.take(a, image) },
			Refused:  func(e wire.Error) { s.fail("agent: " + string(e.Code)) },
			Detached: func(err error, _ time.Duration) { s.fail("agent: " + kind(err)) },
		},
	}
	if !o.noContext {
		a.log = &logBook{}
		cfg.Handler.Attached = func(w wire.Welcome) { a.log.welcome(w) }
		cfg.Handler.Entry = a.log.entry
	}
	if o.switchEvery > 0 && len(s.agents) == 0 {
		s.switcher(&cfg)
	}
	client, err := agentclient.New(cfg)
	a.client = client
	s.agents = append(s.agents, a)
	return err
}

// run is the session's life: publish, attach, work until ctx ends or its time is over, check, leave, delete.
// connected is told when the publisher is.
func (s *session) run(ctx context.Context, connected func()) {
	s.l.join(s)
	defer s.l.retire(s)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var publishing error
	gone := make(chan struct{})
	go func() { defer close(gone); publishing = s.publisher.Run(life) }()
	select {
	case <-s.publisher.Connected():
		connected()
		s.work(ctx, life, gone)
	case <-gone:
	case <-ctx.Done():
	}
	end()
	<-gone
	if publishing != nil {
		s.l.m.publisherFailed("publisher: " + kind(publishing))
	}
	if s.publisher.Location() != "" && !s.l.o.keep { // refused, it was not ours
		s.l.delete(context.WithoutCancel(ctx), s.id)
	}
}

// work runs the agents and what they do until ctx ends, the publisher is gone or the session's time is over; then it
// checks what they have seen.
func (s *session) work(ctx, life context.Context, gone <-chan struct{}) {
	attached, detach := context.WithCancel(life)
	defer detach()
	var agents, deeds sync.WaitGroup
	for _, a := range s.agents {
		agents.Go(func() {
			if err := a.client.Run(attached); err != nil {
				s.fail("agent: " + kind(err))
			}
		})
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	for i, a := range s.agents {
		if !a.slow {
			s.begin(working, life, &deeds, i, a)
		}
	}
	var over <-chan time.Time
	if churn := s.l.o.churn; churn > 0 {
		over = time.After(churn/2 + rand.N(churn))
	}
	select {
	case <-ctx.Done():
	case <-gone:
	case <-over:
	}
	close(s.stopping)
	stop()
	deeds.Wait()
	if !s.l.o.noContext && len(s.agents) > 0 {
		s.l.leaving <- struct{}{}
		s.l.checked(s.check(life))
		<-s.l.leaving
	}
	detach()
	agents.Wait()
}

// take is called by each agent's reader.
func (s *session) take(a *agent, image agentclient.Image) {
	_, sent, known := s.publisher.SentAt(image.RTPTimestamp)
	s.l.m.image(image, sent, known, a.slow)
	if a.slow {
		select {
		case <-time.After(s.l.o.slowFor):
		case <-s.stopping:
		}
	}
}

// fail counts an error, unless the session is leaving: what breaks then was to break.
func (s *session) fail(kind string) {
	select {
	case <-s.stopping:
	default:
		s.l.m.fail(kind)
	}
}
