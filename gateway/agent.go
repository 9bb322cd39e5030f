package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// Bounds of an agent socket.
const (
	helloTimeout   = 10 * time.Second
	pingEvery      = 15 * time.Second
	silenceTimeout = 45 * time.Second // no pong and no message for so long: gone
	writeTimeout   = 30 * time.Second // one write that cannot finish for so long: 1013
	closeTimeout   = 2 * time.Second  // for the close frame, then the socket is cut
	answerQueue    = 16
	maxNewcomers   = 8 // sockets of a session that have yet to say hello, besides its agents
	maxRequests    = 4 // image requests under way on one socket
	entriesAtOnce  = 64
	wantAudioRates = "16000, 24000 and 48000"
)

// agent is one program attached to a session by WebSocket. Two goroutines own it: read and write; write is the socket's only
// writer.
type agent struct {
	session  *Session
	id       string
	conn     *websocket.Conn
	logger   *slog.Logger
	limiter  *rate.Limiter
	attached time.Time

	ctx    context.Context // of this connection, ends when either goroutine does; carried here because both need it
	cancel context.CancelCauseFunc

	answers  chan outgoing // from read and image requests to write; when full, read waits and so does the client
	requests chan struct{} // a token per image request under way
	wake     chan struct{} // capacity 1: images, sources, wishes or the outbox changed
	outbox   outbox        // what it is told unasked

	mu      sync.Mutex
	want    wire.Want
	rewant  bool
	changed map[string]bool       // sources whose state has not been told yet
	legs    map[uint64]*remoteLeg // epochs that are this agent's now

	legDropped uint64 // outputs of an epoch that is not its own

	seq        atomic.Uint64 // last entry sent
	superseded atomic.Uint64 // images replaced before they were sent
}

// outgoing is one message for write: text, or an image with its request.
type outgoing struct {
	text      []byte
	image     *frames.Image
	requestID string
}

// closeReason is why a socket is closed by us; it is the cancel cause of the agent's context.
type closeReason struct {
	code int
	text string
	bye  bool // say bye first
}

func (c *closeReason) Error() string { return c.text }

// serveAgent runs one upgraded socket, counted by openSocket, to its end. watch may end it, until it is stopped.
func (s *Session) serveAgent(conn *websocket.Conn, watch func(*agent) (stop func())) {
	defer s.closeSocket()
	conn.SetReadLimit(int64(s.cfg.MaxMessageBytes))
	s.expectHello(conn, true)
	hello, err := readHello(conn, s.cfg)
	s.expectHello(conn, false)
	if err != nil {
		refuseHello(conn, err)
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a := &agent{
		session: s, id: hello.AgentID, conn: conn, logger: s.logger.With(keyAgent, hello.AgentID),
		limiter:  rate.NewLimiter(rate.Limit(s.cfg.OpsPerSecond), 2*s.cfg.OpsPerSecond),
		attached: time.Now(), ctx: ctx, cancel: cancel,
		answers: make(chan outgoing, answerQueue), requests: make(chan struct{}, maxRequests), wake: make(chan struct{}, 1),
		want: hello.Want, changed: map[string]bool{}, outbox: outbox{counts: s.shared.metrics}, legs: map[uint64]*remoteLeg{},
	}
	if err := s.addAgent(a); err != nil {
		refuseHello(conn, err)
		return
	}
	defer s.removeAgent(a)
	defer watch(a)()
	_ = a.listen() // fails when the session ends, which the loops see too
	a.logger.Info("agent attached")
	a.run(hello)
	a.logger.Info("agent detached", keyReason, context.Cause(ctx).Error())
}

// run reads and writes until either ends, then closes the socket.
func (a *agent) run(hello wire.Hello) {
	var loops sync.WaitGroup
	wrote := make(chan struct{})
	loops.Go(func() { a.cancel(a.read()) })
	loops.Go(func() {
		defer close(wrote)
		a.cancel(a.write(hello))
	})
	<-a.ctx.Done()
	var reason *closeReason
	if errors.As(context.Cause(a.ctx), &reason) {
		select {
		case <-wrote: // what was under way, and the bye, come before the close
		case <-time.After(closeTimeout):
		}
		closeSocket(a.conn, reason)
	}
	_ = a.conn.Close() // ends whichever loop still hangs on the socket
	loops.Wait()
	for range maxRequests { // image requests still under way see ctx and return
		a.requests <- struct{}{}
	}
}

// leave asks the agent's goroutines to end with a bye; it does not wait.
func (a *agent) leave(reason string) {
	code := wire.CloseNoSession
	if reason == reasonDrain || reason == reasonMoved {
		code = wire.CloseDrain
	}
	a.cancel(&closeReason{code: code, text: reason, bye: true})
}

// sourceChanged is told by the media side and must not wait.
func (a *agent) sourceChanged(name string) {
	a.mu.Lock()
	a.changed[name] = true
	a.mu.Unlock()
	a.poke()
}

func (a *agent) poke() {
	select {
	case a.wake <- struct{}{}:
	default: // write has yet to see the last poke, and looks at everything when it does
	}
}

// openSocket counts a socket in before its hello, as a task of the session; who it is, and whether there is room for another
// agent, is known only after it.
func (s *Session) openSocket() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets >= s.cfg.MaxAgents+maxNewcomers {
		return problem.New(problem.Overloaded, "session %s has %d agent sockets, the limit", s.id, s.sockets).WithRetryAfter(5 * time.Second)
	}
	if !s.beginLocked() {
		return endedProblem(s.id)
	}
	s.sockets++
	return nil
}

func (s *Session) closeSocket() {
	s.mu.Lock()
	s.sockets--
	s.mu.Unlock()
	s.tasks.Done()
}

// expectHello notes a socket that has not said hello, so that the session's end need not wait for it.
func (s *Session) expectHello(conn *websocket.Conn, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !waiting {
		delete(s.newcomers, conn)
		return
	}
	s.newcomers[conn] = struct{}{}
	if s.ended {
		_ = conn.Close()
	}
}

// addAgent makes a one of the session's; an older socket of the same agent_id is closed.
func (s *Session) addAgent(a *agent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return &closeReason{code: wire.CloseNoSession, text: "the session has ended"}
	}
	old := s.agents[a.id]
	if old == nil && len(s.agents) >= s.cfg.MaxAgents {
		return problem.New(problem.Overloaded, "session %s has %d agents, the limit", s.id, len(s.agents)).WithRetryAfter(5 * time.Second)
	}
	if old != nil {
		old.cancel(&closeReason{code: wire.CloseReplaced, text: "replaced by a newer connection of the same agent_id"})
	}
	s.agents[a.id], s.used = a, true
	s.touchLocked(time.Now())
	s.wantsChangedLocked()
	return nil
}

func (s *Session) removeAgent(a *agent) {
	s.mu.Lock()
	gone := s.agents[a.id] == a
	if gone {
		delete(s.agents, a.id)
	}
	s.touchLocked(time.Now())
	s.mu.Unlock()
	if gone {
		_ = s.tools.set(a.id, nil) // no tools: always allowed
	}
	if v := s.currentVoice(); v != nil {
		v.unregister(a)
		v.retune()
	}
}

// agent finds an attached agent, nil when it is not.
func (s *Session) agent(id string) *agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[id]
}

// allAgents is a copy of the list.
func (s *Session) allAgents() []*agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.agents))
}

// reservedAuthors are authors of entries that are no agents.
var reservedAuthors = []string{"caller", "system", authorHTTP}

// readHello waits for the first message, which must be a hello.
func readHello(conn *websocket.Conn, cfg Config) (wire.Hello, error) {
	var hello wire.Hello
	_ = conn.SetReadDeadline(time.Now().Add(cfg.hello))
	kind, data, err := conn.ReadMessage()
	if err != nil {
		return hello, readProblem(err)
	}
	if kind == websocket.TextMessage && !utf8.Valid(data) {
		return hello, &closeReason{code: wire.CloseInvalidUTF8, text: "a text message is not valid UTF-8"}
	}
	t, err := wire.TypeOf(data)
	if kind != websocket.TextMessage || err != nil || t != wire.TypeHello {
		return hello, &closeReason{code: wire.CloseProtocolError, text: "the first message must be a hello in JSON"}
	}
	if err := decode(data, &hello); err != nil {
		return hello, err
	}
	if slices.Contains(reservedAuthors, hello.AgentID) {
		return hello, problem.New(problem.InvalidArgument, "agent_id %q is what the gateway calls somebody else: choose another", hello.AgentID).WithField("agent_id")
	}
	if !chatctx.ValidID(hello.AgentID) {
		return hello, problem.New(problem.InvalidArgument, "agent_id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", hello.AgentID).WithField("agent_id")
	}
	return hello, checkWant(hello.Want, cfg)
}

// refuseHello answers a first message that cannot be taken: an error that names the field, then the close.
func refuseHello(conn *websocket.Conn, err error) {
	var reason *closeReason
	if !errors.As(err, &reason) {
		p := problem.From(err)
		_ = conn.SetWriteDeadline(time.Now().Add(closeTimeout))
		_ = conn.WriteJSON(errorMessage(p, "", ""))
		reason = &closeReason{code: wire.CloseProtocolError, text: "hello refused: " + p.Detail}
		if p.Code == problem.Overloaded {
			reason.code = wire.CloseTooSlow // RFC 6455's registry: 1013, try again later
		}
	}
	closeSocket(conn, reason)
	_ = conn.Close()
}

// checkWant refuses wishes that cannot be met.
func checkWant(w wire.Want, cfg Config) error {
	if len(w.Images) > maxSources {
		return problem.New(problem.InvalidArgument, "want.images has %d entries: at most %d are allowed", len(w.Images), maxSources).WithField("want.images")
	}
	for _, img := range w.Images {
		if img.Source == "" {
			return problem.New(problem.InvalidArgument, `want.images.source is required: a source's name, or "*" for each`).WithField("want.images.source")
		}
		if !(img.FPS > 0 && img.FPS <= cfg.MaxImageFPS) {
			return problem.New(problem.InvalidArgument, "want.images.fps %v: allowed is above 0 up to %v", img.FPS, cfg.MaxImageFPS).WithField("want.images.fps")
		}
		if img.SpeakingFPS != 0 && !(img.SpeakingFPS > 0 && img.SpeakingFPS <= cfg.MaxImageFPS) {
			return problem.New(problem.InvalidArgument, "want.images.speaking_fps %v: allowed is above 0 up to %v, or none", img.SpeakingFPS, cfg.MaxImageFPS).WithField("want.images.speaking_fps")
		}
		if img.MaxGapMS < 0 || img.MaxGapMS > int(maxMaxAge/time.Millisecond) || img.MaxGapMS > 0 && !img.OnChange {
			return problem.New(problem.InvalidArgument, "want.images.max_gap_ms %d: allowed are 0 to %d, and with on_change only", img.MaxGapMS, maxMaxAge/time.Millisecond).WithField("want.images.max_gap_ms")
		}
		if _, err := encodeOptions(img.Encode, false); err != nil {
			p := problem.From(err)
			return p.WithField("want.images." + p.Field)
		}
	}
	if a := w.Audio; a != nil && a.In && a.Rate != 16000 && a.Rate != 24000 && a.Rate != 48000 {
		return problem.New(problem.InvalidArgument, "want.audio.rate %d: allowed are %s", a.Rate, wantAudioRates).WithField("want.audio.rate")
	}
	return nil
}

// readProblem tells what a failed read means for the socket.
func readProblem(err error) error {
	var closed *websocket.CloseError
	var timeout net.Error
	switch {
	case errors.Is(err, websocket.ErrReadLimit):
		return &closeReason{code: wire.CloseTooBig, text: "the message is over the size limit"}
	case errors.As(err, &closed):
		return closed
	case errors.As(err, &timeout) && timeout.Timeout():
		return &closeReason{code: wire.CloseProtocolError, text: "nothing was heard in time"}
	}
	return err
}

// closeSocket sends a close frame, as far as the peer takes it.
func closeSocket(conn *websocket.Conn, reason *closeReason) {
	text := reason.text
	if len(text) > 120 { // RFC 6455 §5.5: a control frame has at most 125 bytes, 2 of them the code
		text = text[:120]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(reason.code, text), time.Now().Add(closeTimeout))
}
