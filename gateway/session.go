package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/cluster"
	"sightline/gateway/problem"
	"sightline/gateway/sound/vad"
	"sightline/gateway/trace"
)

// Session is one user's call and all that hangs on it: at most one publisher with its sources, the agents, the conversation.
type Session struct {
	id      string
	key     string // of its log in the store: the log's identity
	created time.Time
	cfg     Config
	logger  *slog.Logger
	shared  *shared
	log     *chatctx.Log
	tools   *toolbox
	spans   *trace.Recorder // nil: none are made

	tasks sync.WaitGroup // track readers, tracks, agent sockets; Add only under mu while not ended
	kick  chan struct{}  // capacity 1: something about the session's life changed
	done  chan struct{}  // closed when all tasks have returned and the log is closed

	mu         sync.Mutex // guards what follows
	ended      bool
	endReason  string
	publisher  *publication
	sides      map[string]*publication // by the source that each publishes
	published  bool                    // somebody has published before
	sources    []*source
	agents     map[string]*agent
	sockets    int                          // agent sockets, those included that have not said hello
	newcomers  map[*websocket.Conn]struct{} // those
	idleSince  time.Time                    // when publisher and last agent had gone; zero while there is one
	voice      *voice                       // nil until somebody needs it
	microphone *microphone                  // of the present publisher
	pipelines  *PipelineConfig              // its own, of a session that is spoken to over /v1/realtime; nil: the gateway's
	dialects   map[*dialectSocket]struct{}  // sockets of /v1/realtime
	used       bool                         // somebody published, attached or wrote; an unused session leaves nothing behind

	previous *restingSession // what had this id before; set by the registry, read after the end
}

// shared is what all sessions of a server use together.
type shared struct {
	budget  *frames.Budget
	metrics *metrics
	speech  *vad.Model    // tells speech from other sound
	node    *cluster.Node // nil: no other gateways
}

// resumeAt is where an agent may go on when this gateway goes away, "" when there is no such place.
func (sh *shared) resumeAt() string {
	if sh.node == nil {
		return ""
	}
	peer, _ := sh.node.Elsewhere()
	return peer.URL
}

func newSession(id, key string, cfg Config, sh *shared, log *chatctx.Log, now time.Time) *Session {
	s := &Session{
		id: id, key: key, created: now, cfg: cfg, logger: cfg.Log.With(keySession, id), shared: sh, log: log,
		kick: make(chan struct{}, 1), done: make(chan struct{}),
		agents: map[string]*agent{}, newcomers: map[*websocket.Conn]struct{}{}, dialects: map[*dialectSocket]struct{}{}, idleSince: now,
	}
	s.tools = newToolbox(s, cfg.Pipelines.Tools)
	s.spans = trace.New(cfg.Tracer, id)
	return s
}

// ID is the public session id.
func (s *Session) ID() string { return s.id }

// Conversation is the session's log: append to it, follow it.
func (s *Session) Conversation() *chatctx.Log { return s.log }

// Done is closed when the session has ended and nothing of it runs any more.
func (s *Session) Done() <-chan struct{} { return s.done }

// End ends the session: agents are told, the publisher is closed. It does not wait; see Done.
func (s *Session) End(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(reason)
}

// endIfUnused ends a session that was made for an offer which was then refused, unless somebody else uses it by now.
func (s *Session) endIfUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publisher == nil && len(s.sides) == 0 && s.sockets == 0 && !s.used {
		s.endLocked("its offer was refused")
	}
}

func (s *Session) endLocked(reason string) {
	if s.ended {
		return
	}
	s.ended, s.endReason = true, reason
	s.wake()
}

func (s *Session) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // run has yet to see the last kick, and looks at everything when it does
	}
}

// run watches over the session's life and returns after all of its goroutines.
func (s *Session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.watch(ctx)
	s.mu.Lock()
	s.ended = true
	publishers := s.publishersLocked()
	agents := make([]*agent, 0, len(s.agents))
	for _, a := range s.agents {
		agents = append(agents, a)
	}
	for conn := range s.newcomers { // their hello is not waited for
		_ = conn.Close()
	}
	for d := range s.dialects {
		d.leave(s.endReason)
	}
	reason, voice := s.endReason, s.voice
	sources := append([]*source(nil), s.sources...)
	s.mu.Unlock()
	if voice != nil { // its legs are told while their agents are still there
		voice.cancel()
		<-voice.ended
	}
	for _, a := range agents {
		a.leave(reason)
	}
	for _, p := range publishers {
		p.Close(reason)
	}
	for _, src := range sources {
		src.stop()
	}
	s.tasks.Wait()
	if voice != nil {
		s.shared.metrics.sound.end(voice)
		s.spans.Close(time.Now())
	}
	s.log.Close()
	close(s.done)
	s.logger.Info("session ended", keyReason, reason, "entries", s.log.Head())
}

// watch returns when the session is to end: asked to, server stopping, or idle for longer than the grace.
func (s *Session) watch(ctx context.Context) {
	timer := time.NewTimer(s.cfg.SessionGrace)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if !s.ended && !s.idleSince.IsZero() && time.Since(s.idleSince) >= s.cfg.SessionGrace {
			s.endLocked("nobody published or attached for the session grace")
		}
		ended, idle := s.ended, s.idleSince
		s.mu.Unlock()
		if ended {
			return
		}
		if !idle.IsZero() {
			timer.Reset(time.Until(idle.Add(s.cfg.SessionGrace)))
		}
		select {
		case <-ctx.Done():
			s.End(reasonDrain)
			return
		case <-s.kick:
		case <-timer.C:
		}
	}
}

// use notes that the session has become somebody's.
func (s *Session) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
}

// touchLocked keeps idleSince true after publisher or agents changed.
func (s *Session) touchLocked(now time.Time) {
	busy := s.publisher != nil || len(s.sides) > 0 || len(s.agents) > 0 || len(s.dialects) > 0
	if busy {
		s.idleSince = time.Time{}
	} else if s.idleSince.IsZero() {
		s.idleSince = now
	}
	s.wake()
}

// begin counts a task in; false when the session has ended.
func (s *Session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked()
}

func (s *Session) beginLocked() bool {
	if s.ended {
		return false
	}
	s.tasks.Add(1)
	return true
}

// append puts an operation into the conversation and tells errors in the wire's codes.
func (s *Session) append(ctx context.Context, author string, op chatctx.Op) (chatctx.Ack, error) {
	start := time.Now()
	s.use()
	s.wakeVoice(op)
	op, warnings := s.fetchImages(ctx, op)
	ack, err := s.log.Append(ctx, chatctx.Origin{Author: author, At: start, Epoch: s.epoch()}, op)
	s.shared.metrics.appended(time.Since(start), err)
	if !ack.Duplicate {
		ack.Warnings = append(ack.Warnings[:len(ack.Warnings):len(ack.Warnings)], warnings...)
	}
	return ack, contextProblem(err)
}

// epoch is that of the pipeline that has the floor, 0 before the first.
func (s *Session) epoch() uint64 {
	if v := s.currentVoice(); v != nil {
		return v.switcher.Epoch()
	}
	return 0
}

func endedProblem(id string) error {
	return problem.New(problem.NotFound, "session %s has ended: its conversation can still be read, publish to its id to go on", id)
}
