package gateway

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	oteltrace "go.opentelemetry.io/otel/trace"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

const handshakeTimeout = 10 * time.Second

// attachAgent upgrades GET /v1/agent?session={id} to the agent socket. Whatever is wrong is answered before the upgrade.
func (s *Server) attachAgent(w http.ResponseWriter, r *http.Request) {
	session, err := s.agentSession(r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout,
		Subprotocols:     []string{wire.Subprotocol},
		CheckOrigin:      func(*http.Request) bool { return true }, // guard has checked it
		WriteBufferSize:  16 << 10,
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			p := problem.New(problem.InvalidArgument, "this is a WebSocket: %s", reason)
			if status == http.StatusMethodNotAllowed {
				p.Code = problem.MethodNotAllowed
			}
			problem.Write(w, p)
		},
		// No compression: images gain nothing, and a compressed message can hide its true size.
	}
	if err := session.openSocket(); err != nil {
		problem.Write(w, err)
		return
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil { // answered by Error
		session.closeSocket()
		return
	}
	session.spans.BelowIfFree(oteltrace.SpanContextFromContext(r.Context()))
	session.serveAgent(conn, func(a *agent) (stop func()) {
		return s.untilExpiry(r.Context(), func() { a.cancel(&closeReason{code: wire.CloseAuth, text: reasonExpired, bye: true}) })
	})
}

func (s *Server) agentSession(r *http.Request) (*Session, error) {
	id := r.URL.Query().Get("session")
	if id == "" {
		return nil, problem.New(problem.InvalidArgument, "say which session: /v1/agent?session=ID").WithField("session")
	}
	return s.sessions.get(r.Context(), id)
}
