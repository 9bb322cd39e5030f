package gateway

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sightline/gateway/problem"
)

// guard keeps web pages of other origins away: they may not use the API or the sockets in a visitor's browser, neither
// directly (Origin) nor by a name that they make point at this machine (Host, "DNS rebinding").
type guard struct {
	loopback bool // the gateway serves this machine only
	origins  []string
	next     http.Handler
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if g.loopback && !g.knownHost(r.Host) {
		problem.Write(w, problem.New(problem.Forbidden, "host %q: this gateway serves localhost only; allow others with --allow-origin", r.Host))
		return
	}
	// WHIP is open to pages of any origin (RFC 9725 §4.4 asks for CORS): it takes media in and gives nothing away, and a
	// session that somebody publishes to cannot be taken over.
	if !strings.HasPrefix(r.URL.Path, "/whip") && !g.allowed(r) {
		problem.Write(w, problem.New(problem.Forbidden, "origin %q is not this gateway's own; allow it with --allow-origin", r.Header.Get("Origin")))
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) knownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(g.origins, func(o string) bool {
		u, err := url.Parse(o)
		return err == nil && (u.Host == hostport || u.Hostname() == host)
	})
}

// allowed passes requests without an Origin (programs; links within a browser), of the gateway's own and of allowed origins.
func (g *guard) allowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// A browser that sends no Origin says by Sec-Fetch-Site where a request comes from; a page elsewhere may link here
		// (navigate) but not read or change.
		site := r.Header.Get("Sec-Fetch-Site")
		return site != "cross-site" || r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Host == r.Host || slices.Contains(g.origins, origin))
}

// cors lets pages of allowed origins read answers.
func (g *guard) cors(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g.allowReading(w.Header(), r) && r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next(w, r)
	}
}

// allowReading sets the CORS headers for a page of an allowed origin.
func (g *guard) allowReading(h http.Header, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if !slices.Contains(g.origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Expose-Headers", "Sightline-Captured-At, Sightline-Age-Ms, Sightline-Source, Sightline-Seq, Sightline-Capture-Clock, Sightline-Capture-Error-Ms, Retry-After, WWW-Authenticate, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// operator serves what is for who runs the gateway. Where tokens are asked for, the doorkeeper has asked for theirs; that a request
// comes from the machine itself means nothing then, since all requests do that come through a proxy on it.
func (s *Server) operator(next http.HandlerFunc) http.HandlerFunc {
	if s.cfg.Auth != nil {
		return next
	}
	return fromLoopback(next)
}

// fromLoopback serves what is for the operator on the machine itself, whatever address the gateway listens on.
func fromLoopback(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			problem.Write(w, problem.New(problem.Forbidden, "this is served to the gateway's own machine only"))
			return
		}
		next(w, r)
	}
}
