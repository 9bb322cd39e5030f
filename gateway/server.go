package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"sightline/frames"
	"sightline/gateway/auth"
	"sightline/gateway/problem"
	"sightline/gateway/rtc"
	"sightline/gateway/sound/vad"
	"sightline/gateway/whip"
)

// Server is a gateway. New opens its media sockets, Handler is its HTTP side, Run keeps it until its ctx ends.
type Server struct {
	cfg      Config
	sessions *registry
	engine   *rtc.Engine
	metrics  *metrics
	handler  http.Handler
	cancel   context.CancelFunc // ends all sessions
	started  time.Time
	nodes    *nodes // nil: no other gateways
	draining drain
	limits   *limits
}

// loadTimeout bounds reading the sessions on record at start.
const loadTimeout = time.Minute

// New checks cfg and opens the media sockets; Run closes them.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	engine, err := rtc.New(cfg.Media)
	if err != nil {
		return nil, err
	}
	speech, err := vad.Load()
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	base, cancel := context.WithCancel(context.Background())
	sh := &shared{budget: frames.NewBudget(runtime.GOMAXPROCS(0)), metrics: newMetrics(), speech: speech, node: cfg.Cluster}
	sh.budget.LimitDecoders(int64(cfg.MaxDecoderBytes))
	s := &Server{
		cfg: cfg, engine: engine, metrics: sh.metrics, cancel: cancel, started: time.Now(),
		sessions: newRegistry(base, cfg, sh), limits: newLimits(cfg.Limits, cfg.TrustedProxies),
	}
	loading, done := context.WithTimeout(base, loadTimeout)
	defer done()
	if err := s.sessions.load(loading, s.started); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("the sessions on record cannot be read: %w", err), engine.Close())
	}
	s.draining.wake = make(chan struct{}, 1)
	s.metrics.watch(s.sessions, sh.budget)
	s.metrics.watchMedia(engine)
	s.metrics.watchStills(cfg.Stills)
	s.metrics.watchStore(cfg)
	s.handler = s.routes()
	return s, nil
}

// Handler serves everything: signalling, API, agent socket, console page, metrics. It is for one http.Server whose
// ReadHeaderTimeout is set by the caller.
func (s *Server) Handler() http.Handler { return s.handler }

// Verifier checks the tokens, nil where none are asked for.
func (s *Server) Verifier() *auth.Verifier { return s.cfg.Auth }

// Session finds a live session or makes one; an empty id asks for a generated one.
func (s *Server) Session(ctx context.Context, id string) (*Session, error) {
	session, _, err := s.sessions.obtain(ctx, id)
	if err == nil {
		session.use()
	}
	return session, err
}

// Run sweeps ended sessions until ctx ends, then ends all others: no new session, every agent told, every publisher closed. It
// returns after the last goroutine of the last session, or with an error when that took longer than the drain's timeout. Who wants
// calls to end by themselves first calls Drain.
func (s *Server) Run(ctx context.Context) error {
	stopNodes := s.serveNodes()
	defer stopNodes()
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-ticker.C:
			s.sessions.sweep(now)
			frames.ReturnMemory()
		}
	}
	return s.shutdown()
}

func (s *Server) shutdown() error {
	s.sessions.drain()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.sessions.tasks.Wait()
		close(done)
	}()
	timeout := time.NewTimer(s.cfg.DrainTimeout)
	defer timeout.Stop()
	var late error
	select {
	case <-done:
	case <-timeout.C:
		late = errors.New("sessions were still ending when the drain timeout passed")
	}
	return errors.Join(late, s.engine.Close())
}

// Publish implements whip.Sessions: it takes a publisher into a session, making the session where it is not there.
func (s *Server) Publish(ctx context.Context, id, source, offer string) (whip.Publication, error) {
	if err := checkSourceName(source); err != nil {
		return nil, err
	}
	session, created, err := s.obtain(ctx, id)
	if err != nil {
		return nil, err
	}
	session.spans.Below(oteltrace.SpanContextFromContext(ctx))
	p, err := session.publish(ctx, s.engine, source, offer)
	if err != nil {
		if created { // a refused offer leaves nothing behind
			session.endIfUnused()
		}
		return nil, err
	}
	return p, nil
}

// reasonDrain is why sessions end when the gateway does; agents are closed with 1001 and resume elsewhere, or here later.
const reasonDrain = "the gateway is shutting down"

func (s *Server) notReady() error {
	if s.sessions.isDraining() {
		return problem.New(problem.Draining, "the gateway is shutting down")
	}
	if s.cfg.Health != nil {
		if err := s.cfg.Health(); err != nil {
			return problem.New(problem.EngineUnavailable, "the store of conversations takes nothing now").WithCause(err)
		}
	}
	return nil
}
