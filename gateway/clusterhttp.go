package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/cluster"
	"sightline/gateway/problem"
)

// nodes hands requests about sessions of other nodes to those, over the cluster's streams.
type nodes struct {
	node      *cluster.Node
	sessions  *registry
	local     http.Handler // all that this node answers itself
	inside    http.Handler // that, for other nodes: who asks them is asked for the token here, too
	https     func(*http.Request) bool
	transport *http.Transport
	log       *slog.Logger
	maxBytes  int
	relays    sync.WaitGroup // agent sockets of sessions elsewhere
	relayed   atomic.Int64   // how many there are
	moved     atomic.Uint64  // times that one went on with another node
	ctx       context.Context
	cancel    context.CancelFunc // ends them
}

// amongNodes puts the other nodes of a cluster in front of what this one serves.
func (s *Server) amongNodes(local, inside http.Handler) http.Handler {
	if s.cfg.Cluster == nil {
		return local
	}
	node := s.cfg.Cluster
	n := &nodes{node: node, sessions: s.sessions, local: local, inside: inside, https: s.limits.https, log: s.cfg.Log, maxBytes: s.cfg.MaxMessageBytes}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return node.Dial(ctx, host)
		},
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
	s.metrics.watchRelays(n)
	node.Watch(s.sessions.countLive, func() { s.sessions.reconsider(n.ctx) })
	s.nodes = n
	return n
}

// serveNodes answers the other nodes; stop returns when nothing of it is left.
func (s *Server) serveNodes() (stop func()) {
	n := s.nodes
	if n == nil {
		return func() {}
	}
	web := &http.Server{
		Handler: n.inside, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(n.node.Listener()) })
	return func() {
		n.cancel()
		n.relays.Wait()
		_ = web.Close()
		n.transport.CloseIdleConnections()
		serving.Wait()
	}
}

// ServeHTTP sends a request to where its session is.
func (n *nodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := sessionOf(r)
	if r.Method == http.MethodPost && r.URL.Path == "/v1/sessions" {
		id = n.sessionOfBody(r)
	}
	owner, whip := whipNode(r.URL.Path)
	if !whip {
		owner = n.ownerOf(r.Context(), id)
	}
	switch {
	case r.URL.Path == "/v1/sessions" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		n.list(w, r)
	case owner == "" || owner == n.node.ID():
		n.local.ServeHTTP(w, r)
	case r.URL.Path == "/v1/agent" && strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		n.relay(w, r, id)
	default:
		n.forward(w, r, owner)
	}
}

// ownerOf is the node of a session that is alive and not this one, else "".
func (n *nodes) ownerOf(ctx context.Context, id string) string {
	if !chatctx.ValidID(id) || n.sessions.isLive(id) {
		return ""
	}
	o, err := n.node.Store().FindSession(ctx, id)
	if err != nil || o.Revision == 0 || o.Deleted || !o.EndedAt.IsZero() || o.Node == n.node.ID() || !n.node.Alive(o.Node) {
		return ""
	}
	return o.Node
}

// sessionOf is the session that a request is about, "" when it is about none or one that is still to be named.
func sessionOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := func(i int, words ...string) bool {
		if len(parts) <= i {
			return false
		}
		for k, word := range words {
			if parts[k] != word {
				return false
			}
		}
		return true
	}
	switch q := r.URL.Query(); {
	case at(1, "v1", "agent"):
		return q.Get("session")
	case r.URL.Path == "/v1/realtime":
		return q.Get("call_id")
	case at(3, "v1", "realtime", "calls"):
		return parts[3]
	case at(2, "v1", "sessions"):
		return parts[2]
	case at(1, "whip") && len(parts) == 2, at(2, "sessions"):
		return parts[1]
	}
	return ""
}

// sessionOfBody reads the id that POST /v1/sessions names, and puts the body back.
func (n *nodes) sessionOfBody(r *http.Request) string {
	data, err := io.ReadAll(io.LimitReader(r.Body, int64(n.maxBytes)+1))
	r.Body = io.NopCloser(bytes.NewReader(data))
	var body struct {
		ID string `json:"id"`
	}
	if err != nil || json.Unmarshal(data, &body) != nil {
		return ""
	}
	return body.ID
}

// forward lets another node answer. What can be read from the store is, when that one does not answer.
func (n *nodes) forward(w http.ResponseWriter, r *http.Request, owner string) {
	proxy := &httputil.ReverseProxy{
		Transport: n.transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", owner+":80", p.In.Host
			p.SetXForwarded()
			if n.https(p.In) {
				p.Out.Header.Set("X-Forwarded-Proto", "https")
			}
			p.Out.Host = p.In.Host
		},
		ModifyResponse: func(answer *http.Response) error {
			answer.Header.Del(problem.RequestID) // it is there already
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/image") && strings.HasPrefix(r.URL.Path, "/v1/sessions/") {
				n.local.ServeHTTP(w, r)
				return
			}
			n.log.Warn("another node does not answer", "node", owner, keyError, err)
			problem.Write(w, problem.New(problem.EngineUnavailable, "the node of this session does not answer: try again").WithRetryAfter(time.Second).WithCause(err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// A publication's URL ends with the node that it is on, since any node may be asked to change it.
const whipSession = "/whip/session/"

func whipNode(path string) (node string, ok bool) {
	secret, ok := strings.CutPrefix(path, whipSession)
	if !ok {
		return "", false
	}
	_, node, ok = strings.Cut(secret, ".")
	return node, ok
}

// whipOfNode adds the node to the URLs of publications, and takes it away again.
func (s *Server) whipOfNode(next http.Handler) http.Handler {
	if s.cfg.Cluster == nil {
		return next
	}
	suffix := "." + s.cfg.Cluster.ID()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutSuffix(r.URL.Path, suffix); ok {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = path, ""
		}
		next.ServeHTTP(&located{ResponseWriter: w, suffix: suffix}, r)
	})
}

type located struct {
	http.ResponseWriter
	suffix string
}

// WriteHeader implements http.ResponseWriter.
func (l *located) WriteHeader(status int) {
	if location := l.Header().Get("Location"); strings.Contains(location, whipSession) {
		l.Header().Set("Location", location+l.suffix)
	}
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (l *located) Unwrap() http.ResponseWriter { return l.ResponseWriter }
