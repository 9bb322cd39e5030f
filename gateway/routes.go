package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"sightline/gateway/problem"
	"sightline/gateway/whip"
)

// routes is the whole list of URLs.
func (s *Server) routes() http.Handler {
	g := &guard{loopback: IsLoopback(s.cfg.Listen) && !s.cfg.Insecure, origins: s.cfg.AllowOrigins}
	mux := http.NewServeMux()
	signalling := whip.New(whip.Config{
		Sessions: s, Strict: s.cfg.WHIPStrict, Log: s.cfg.Log, BaseURL: s.baseURL,
		Allow: func(r *http.Request, session string) bool { return covers(r.Context(), session) },
	})
	mux.Handle("/whip", s.whipOfNode(signalling))
	mux.Handle("/whip/", s.whipOfNode(signalling))

	api := func(path string, methods map[string]http.HandlerFunc) {
		mux.HandleFunc(path, g.cors(byMethod(methods)))
	}
	api("/v1/sessions", map[string]http.HandlerFunc{"GET": s.listSessions, "POST": s.createSession})
	api("/v1/sessions/{id}", map[string]http.HandlerFunc{"GET": s.getSession, "DELETE": s.deleteSession})
	api("/v1/sessions/{id}/image", map[string]http.HandlerFunc{"GET": s.getImage})
	api("/v1/sessions/{id}/sources/{name}", map[string]http.HandlerFunc{"PATCH": s.changeSource})
	api("/v1/sessions/{id}/context", map[string]http.HandlerFunc{"GET": s.getContext, "POST": s.appendContext})
	api("/v1/sessions/{id}/pipeline", map[string]http.HandlerFunc{"POST": s.switchPipeline})
	api("/v1/sessions/{id}/pipeline/seed", map[string]http.HandlerFunc{"GET": s.getSeed})
	api("/v1/sessions/{id}/blobs/{sha256}", map[string]http.HandlerFunc{"GET": s.getBlob})
	api("/v1/agent", map[string]http.HandlerFunc{"GET": s.attachAgent})
	api("/v1/realtime", map[string]http.HandlerFunc{"GET": s.openRealtime})

	api("/healthz", map[string]http.HandlerFunc{"GET": func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, map[string]string{"status": "ok"}) }})
	api("/readyz", map[string]http.HandlerFunc{"GET": s.readyz})
	api("/metrics", map[string]http.HandlerFunc{"GET": s.metrics.handler().ServeHTTP})
	api("/debug/drain", map[string]http.HandlerFunc{"GET": s.operator(s.tellDrain), "POST": s.operator(s.beginDrain), "DELETE": s.operator(s.endDrain)})
	api("/debug/sessions", map[string]http.HandlerFunc{"GET": s.operator(s.debugSessions)})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, problem.New(problem.NotFound, "there is nothing at %s", r.URL.Path))
	})
	mux.HandleFunc("/", s.console())
	g.next = mux
	door := doorkeeper{server: s, mux: mux, cors: func(w http.ResponseWriter, r *http.Request) { g.allowReading(w.Header(), r) }}
	inside := door
	inside.inside, inside.next = true, g
	door.next = s.amongNodes(g, &reception{server: s, mux: mux, next: &inside, inside: true})
	return &reception{server: s, mux: mux, next: &door}
}

func (s *Server) baseURL(r *http.Request) string {
	if s.limits.https(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// byMethod answers other methods with 405, Allow and problem JSON; GET also serves HEAD.
func byMethod(methods map[string]http.HandlerFunc) http.HandlerFunc {
	var names []string
	for _, m := range []string{"GET", "POST", "PATCH", "DELETE"} {
		if methods[m] != nil {
			names = append(names, m)
		}
	}
	allow := strings.Join(append(names, "OPTIONS"), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if h := methods[method]; h != nil {
			h(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		if method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		problem.Write(w, problem.New(problem.MethodNotAllowed, "%s is not allowed here: allowed are %s", r.Method, allow))
	}
}

func (s *Server) console() http.HandlerFunc {
	if s.cfg.Web == nil {
		return func(w http.ResponseWriter, r *http.Request) {
			problem.Write(w, problem.New(problem.NotFound, "there is nothing at %s", r.URL.Path))
		}
	}
	files := http.FileServerFS(s.cfg.Web)
	return func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.URL.Path, "/"); name != "" {
			if _, err := fs.Stat(s.cfg.Web, name); err != nil {
				problem.Write(w, problem.New(problem.NotFound, "there is nothing at %s", r.URL.Path))
				return
			}
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem.Write(w, problem.New(problem.MethodNotAllowed, "%s is not allowed here: allowed are GET and HEAD", r.Method))
			return
		}
		if s.cfg.WebPolicy != "" {
			w.Header().Set("Content-Security-Policy", s.cfg.WebPolicy)
		}
		w.Header().Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, r)
	}
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.notReady(); err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the status is out: a peer that has gone is all that can go wrong
}

// readBody reads a JSON body within the limit.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.cfg.MaxMessageBytes)))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, problem.New(problem.TooLarge, "the body is over %d bytes, the limit", over.Limit)
	}
	if err != nil {
		return nil, problem.New(problem.InvalidArgument, "the body could not be read").WithCause(err)
	}
	return data, nil
}
