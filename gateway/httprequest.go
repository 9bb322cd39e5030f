package gateway

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"

	chatctx "sightline/context"
	"sightline/gateway/problem"
)

// reception is what every request meets first: it gives it an id, finds the trace that it belongs to, and counts and logs what became of
// it. The id stands in the answer's X-Request-Id, in its problem JSON and in the log; whoever asks may choose it.
type reception struct {
	server *Server
	mux    *http.ServeMux // knows the routes; serves nothing here
	next   http.Handler
	inside bool // serves other nodes of the cluster: theirs have counted the request
}

// ServeHTTP implements http.Handler.
func (c *reception) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(problem.RequestID)
	if !chatctx.ValidID(id) {
		id = uuid.NewString()
		r.Header.Set(problem.RequestID, id) // another node may have to know it
	}
	w.Header().Set(problem.RequestID, id)
	if c.server.cfg.Tracer != nil {
		r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	}
	_, route := c.mux.Handler(r)
	if route == "" {
		route = "none"
	}
	a := &answer{ResponseWriter: w, status: http.StatusOK}
	began := time.Now()
	c.next.ServeHTTP(a, r)
	took := time.Since(began)
	if !c.inside {
		c.server.metrics.answered(route, a.status, took)
	}
	if p := a.failed; p != nil { // of what another node answers, that node knows why
		attrs := []any{keyRequest, id, "method", r.Method, "route", route, "status", a.status, "code", string(p.Code), "detail", p.Detail}
		if session := sessionOf(r); session != "" {
			attrs = append(attrs, keySession, clip(session, 64))
		}
		if p.Cause != nil {
			attrs = append(attrs, keyError, p.Cause)
		}
		c.server.cfg.Log.Log(r.Context(), levelOf(p.Code), "a request failed", attrs...)
	}
}

// levelOf: who asks wrongly is told so and is no news; what we could not do is.
func levelOf(code problem.Code) slog.Level {
	switch code {
	case problem.Internal, problem.LogDamaged:
		return slog.LevelError
	case problem.EngineUnavailable, problem.LegFailed:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// answer notes what is answered.
type answer struct {
	http.ResponseWriter
	status int
	failed *problem.Error
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Failed is told by problem.Write.
func (a *answer) Failed(e *problem.Error) { a.failed = e }

// Hijack implements http.Hijacker, for sockets.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// answered counts a request.
func (m *metrics) answered(route string, status int, took time.Duration) {
	m.http.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if status != http.StatusSwitchingProtocols {
		m.httpTime.WithLabelValues(route).Observe(took.Seconds())
	}
}
