package whip

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sightline/gateway/problem"
)

// Bounds and names of the wire.
const (
	maxOfferBytes    = 64 << 10
	maxFragmentBytes = 16 << 10
	maxSessionID     = 64

	mediaSDP      = "application/sdp"
	mediaFragment = "application/trickle-ice-sdpfrag"

	root            = "/whip"
	resourcePrefix  = "/whip/session/"
	endpointMethods = "POST, OPTIONS, GET, HEAD"
	resourceMethods = "PATCH, DELETE, OPTIONS, GET, HEAD"
)

// Sessions accepts publishers.
type Sessions interface {
	// Publish answers the offer for a session; an empty session asks for a generated id. With a source it is published under that name
	// alone, beside the session's publisher; empty: as the session's publisher. ctx bounds the answering
	// only: what is published must outlive it, but when it ends before Publish returns, nothing may stay behind.
	Publish(ctx context.Context, session, source, offer string) (Publication, error)
}

// Publication is one accepted publisher. Its errors are *problem.Error; its methods may be called from any goroutine.
type Publication interface {
	SessionID() string
	Answer() string                                           // SDP
	RemoteUfrag() string                                      // the publisher's, of the ICE generation in force
	Trickle(ctx context.Context, frag string) error           // RFC 8840 fragment
	Restart(ctx context.Context, frag string) (string, error) // gives our fragment; failed: all stays as it was
	Close(reason string)                                      // idempotent
	Done() <-chan struct{}                                    // closed when the publisher is gone
}

// ICEServer is one STUN or TURN server told to clients by a Link header (RFC 9725 §4.6).
type ICEServer struct {
	URL, Username, Credential string // URL as in stun:host:port or turn:host:port?transport=udp
}

// Config of a Handler; only Sessions is required.
type Config struct {
	Sessions   Sessions
	ICEServers []ICEServer
	Strict     bool     // RFC 9725 to the letter in PATCH preconditions
	Origins    []string // allowed by CORS; default "*"
	// Allow says whether a request may touch the publication of a session; nil: whoever knows its URL may.
	Allow func(r *http.Request, session string) bool
	Log   *slog.Logger
	// BaseURL gives scheme and authority of session URLs, no slash at the end; default: from the request.
	BaseURL func(*http.Request) string
	// WriteError answers with an error; default problem.Write. Headers are set already.
	WriteError func(w http.ResponseWriter, r *http.Request, err error)
}

// Handler is the http.Handler. It holds one goroutine and one map entry per living publication, until its Done.
type Handler struct {
	cfg   Config
	links []string // Link header values for the 201
	open  []string // those without credentials, for OPTIONS

	mu        sync.Mutex           // guards what follows
	resources map[string]*resource // by secret
	ended     endings
}

// resource is what a session URL leads to.
type resource struct {
	pub  Publication
	turn chan struct{} // capacity 1, a lock that can be given up: one PATCH at a time
	etag string        // of the ICE generation; guarded by turn
}

// New makes a Handler.
func New(cfg Config) *Handler {
	if len(cfg.Origins) == 0 {
		cfg.Origins = []string{"*"}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.BaseURL == nil {
		cfg.BaseURL = func(r *http.Request) string {
			if r.TLS != nil {
				return "https://" + r.Host
			}
			return "http://" + r.Host
		}
	}
	if cfg.WriteError == nil {
		cfg.WriteError = func(w http.ResponseWriter, _ *http.Request, err error) { problem.Write(w, err) }
	}
	h := &Handler{cfg: cfg, resources: make(map[string]*resource)}
	for _, s := range cfg.ICEServers {
		link := fmt.Sprintf("<%s>; rel=\"ice-server\"", s.URL)
		if s.Username == "" && s.Credential == "" {
			h.open = append(h.open, link)
		} else {
			link += fmt.Sprintf("; username=%s; credential=%s; credential-type=\"password\"", quoted(s.Username), quoted(s.Credential))
		}
		h.links = append(h.links, link)
	}
	return h
}

// Len is the number of living session URLs.
func (h *Handler) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.resources)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.cors(w, r)
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/")
	if secret, ok := strings.CutPrefix(path, resourcePrefix); ok {
		h.serveResource(w, r, secret)
		return
	}
	session := ""
	if path != root {
		var ok bool
		session, ok = strings.CutPrefix(path, root+"/")
		if !ok || strings.Contains(session, "/") {
			h.fail(w, r, problem.New(problem.NotFound, "there is nothing here; publishing goes to %s or %s/{session}", root, root))
			return
		}
	}
	h.serveEndpoint(w, r, session)
}

func (h *Handler) serveEndpoint(w http.ResponseWriter, r *http.Request, session string) {
	w.Header().Set("Accept-Post", mediaSDP)
	if r.Method == http.MethodOptions {
		h.options(w, r, endpointMethods)
		return
	}
	if session != "" && !validSession(session) {
		h.fail(w, r, problem.New(problem.InvalidArgument, "a session id has 1 to %d characters of A-Z, a-z, 0-9, - and _", maxSessionID).WithField("session"))
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, session)
	case http.MethodGet, http.MethodHead:
		w.WriteHeader(http.StatusNoContent)
	default:
		h.wrongMethod(w, r, endpointMethods)
	}
}

func (h *Handler) serveResource(w http.ResponseWriter, r *http.Request, secret string) {
	w.Header().Set("Accept-Patch", mediaFragment)
	if r.Method == http.MethodOptions {
		h.options(w, r, resourceMethods) // a pre-flight must never fail: the real request says what is wrong
		return
	}
	if r.Method == http.MethodDelete && h.alreadyEnded(r, secret) {
		w.WriteHeader(http.StatusOK)
		return
	}
	h.mu.Lock()
	res := h.resources[secret]
	h.mu.Unlock()
	if res == nil || h.cfg.Allow != nil && !h.cfg.Allow(r, res.pub.SessionID()) {
		h.fail(w, r, problem.New(problem.NotFound, "there is no such publication, or it has ended"))
		return
	}
	switch r.Method {
	case http.MethodPatch:
		h.patch(w, r, res)
	case http.MethodDelete: // entity tags are ignored here (RFC 9725 §4.2)
		h.remove(secret)
		res.pub.Close("deleted by the publisher")
		w.WriteHeader(http.StatusOK)
	case http.MethodGet, http.MethodHead:
		w.WriteHeader(http.StatusNoContent)
	default:
		h.wrongMethod(w, r, resourceMethods)
	}
}

// post publishes.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, session string) {
	offer, err := readBody(w, r, mediaSDP, "offer", maxOfferBytes)
	if err != nil {
		w.Header().Set("Accept", mediaSDP)
		h.fail(w, r, err)
		return
	}
	pub, err := h.cfg.Sessions.Publish(r.Context(), session, r.URL.Query().Get("source"), offer)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if err := r.Context().Err(); err != nil {
		pub.Close("the publisher left before the answer")
		h.fail(w, r, problem.New(problem.Internal, "the request ended before its answer").WithCause(err))
		return
	}
	secret, res := randomToken(20), &resource{pub: pub, turn: make(chan struct{}, 1), etag: newTag()}
	etag := res.etag
	h.add(secret, res)
	h.cfg.Log.Info("publishing", "session", pub.SessionID())

	header := w.Header()
	header.Set("Location", h.cfg.BaseURL(r)+resourcePrefix+secret)
	header.Set("ETag", etag)
	header.Set("Content-Type", mediaSDP)
	header.Set("Cache-Control", "no-store")
	for _, link := range h.links {
		header.Add("Link", link)
	}
	w.WriteHeader(http.StatusCreated)
	if _, err := w.Write([]byte(pub.Answer())); err != nil {
		h.remove(secret)
		pub.Close("the publisher left before the answer")
	}
}

// add makes a publication reachable until it is gone.
func (h *Handler) add(secret string, res *resource) {
	h.mu.Lock()
	h.resources[secret] = res
	h.mu.Unlock()
	go func() {
		<-res.pub.Done()
		h.mu.Lock()
		if h.resources[secret] == res { // not by DELETE
			delete(h.resources, secret)
			h.ended.add(secret, res.pub.SessionID(), time.Now())
		}
		h.mu.Unlock()
		h.cfg.Log.Info("publishing ended", "session", res.pub.SessionID())
	}()
}

// alreadyEnded reports whether the publication to delete ended by itself a moment ago.
func (h *Handler) alreadyEnded(r *http.Request, secret string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	session, ok := h.ended.sessions[secret]
	if !ok || h.cfg.Allow != nil && !h.cfg.Allow(r, session) {
		return false
	}
	_, ok = h.ended.take(secret, time.Now())
	return ok
}

func (h *Handler) remove(secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.resources, secret)
}

// cors sets what every answer carries, errors too: a page must be able to read them.
func (h *Handler) cors(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	allowed := "*"
	if !slices.Contains(h.cfg.Origins, "*") {
		header.Add("Vary", "Origin")
		if allowed = r.Header.Get("Origin"); !slices.Contains(h.cfg.Origins, allowed) {
			return
		}
	}
	header.Set("Access-Control-Allow-Origin", allowed)
	header.Set("Access-Control-Expose-Headers", "Location, ETag, Link, Accept-Post, Accept-Patch, Retry-After")
}

func (h *Handler) options(w http.ResponseWriter, r *http.Request, methods string) {
	header := w.Header()
	header.Set("Allow", methods)
	if r.Header.Get("Access-Control-Request-Method") != "" {
		if header.Get("Access-Control-Allow-Origin") != "" {
			header.Set("Access-Control-Allow-Methods", "POST, PATCH, DELETE, OPTIONS")
			header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match")
			header.Set("Access-Control-Max-Age", "86400")
		}
	} else {
		for _, link := range h.open { // nobody is authenticated here: no TURN credentials
			header.Add("Link", link)
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (h *Handler) wrongMethod(w http.ResponseWriter, r *http.Request, methods string) {
	w.Header().Set("Allow", methods)
	h.fail(w, r, problem.New(problem.MethodNotAllowed, "%s is not possible here; allowed are %s", clip(r.Method), methods))
}

func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.cfg.WriteError(w, r, err)
}

func validSession(id string) bool {
	if len(id) > maxSessionID {
		return false
	}
	for _, c := range []byte(id) {
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			continue
		}
		return false
	}
	return id != ""
}

// randomToken gives n random bytes in URL-safe letters.
func randomToken(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// newTag is a strong entity tag, different for every ICE generation.
func newTag() string { return `"` + randomToken(9) + `"` }

// quoted makes a quoted-string (RFC 9110 §5.6.4); control characters cannot stand in one.
func quoted(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func clip(s string) string { return url.PathEscape(s[:min(len(s), 20)]) }
