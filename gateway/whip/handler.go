package whip

import (
	"context"
	"log/slog"
	"net/http"
)

// Sessions accepts publishers.
type Sessions interface {
	// Publish answers the offer for a session; an empty session asks for a generated id. ctx bounds the answering only.
	Publish(ctx context.Context, session, offer string) (Publication, error)
}

// Publication is one accepted publisher. Errors are *problem.Error.
type Publication interface {
	SessionID() string
	Answer() string                                           // SDP
	RemoteUfrag() string                                      // the publisher's, in force now
	Trickle(ctx context.Context, frag string) error           // RFC 8840 sdpfrag
	Restart(ctx context.Context, frag string) (string, error) // gives our sdpfrag
	Close(reason string)                                      // idempotent
	Done() <-chan struct{}                                    // closed when the publisher is gone
}

// ICEServer is one STUN or TURN server told to clients by a Link header (RFC 9725 §4.6).
type ICEServer struct {
	URL, Username, Credential string
}

// Config of a Handler. Sessions is required.
type Config struct {
	Sessions   Sessions
	ICEServers []ICEServer
	Strict     bool     // RFC 9725 to the letter for PATCH preconditions
	Origins    []string // CORS; default "*"
	Log        *slog.Logger
	BaseURL    func(*http.Request) string                              // scheme and authority of session URLs, no trailing slash; default: from the request
	WriteError func(w http.ResponseWriter, r *http.Request, err error) // default: problem.Write
}

// Handler serves POST|OPTIONS|GET /whip and /whip/{session}, PATCH|DELETE|OPTIONS|GET /whip/session/{secret}.
type Handler struct{ cfg Config }

// New makes a Handler.
func New(cfg Config) *Handler { return &Handler{cfg: cfg} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {}
