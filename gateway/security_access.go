package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sightline/gateway/auth"
	"sightline/gateway/problem"
)

// need is what a request needs of a token, where tokens are asked for.
type need int

// needGateway is the zero value: what stands in no list is for who runs the gateway.
const (
	needGateway need = iota // an admin of all sessions
	needAdmin               // an admin of the session
	needAgent               // an agent or admin of the session
	needPublish             // a publisher or admin of the session
	needMember              // any role, of the session where one is named; lists hold what the token covers
	needCaller              // any role, of all sessions: the call gets an id that nobody has chosen
	needNothing             // no token
)

// needOf is who may do what (PROTOCOL.md §8), by the pattern of routes.
func needOf(pattern string, r *http.Request) need {
	switch pattern {
	case "/", "/healthz", "/readyz":
		return needNothing
	case "/v1/sessions":
		return needMember
	case "/v1/sessions/{id}":
		if r.Method == http.MethodDelete {
			return needAdmin
		}
		return needMember
	case "/v1/sessions/{id}/image", "/v1/sessions/{id}/sources/{name}", "/v1/sessions/{id}/context", "/v1/sessions/{id}/pipeline", "/v1/sessions/{id}/pipeline/seed",
		"/v1/sessions/{id}/blobs/{sha256}", "/v1/agent":
		return needAgent
	case "/v1/realtime":
		if r.URL.Query().Has("model") {
			return needCaller
		}
		return needAgent
	case "/whip", "/whip/":
		return needPublish
	}
	return needGateway
}

// check says whether claims are enough for a session, "" where none is named yet. Of a session that a token is not for nothing is
// told, not even whether there is one: where an unknown one is 404, it is 404; where an unknown one would be made, it is 403.
func (n need) check(c auth.Claims, session string) error {
	role := map[need][]auth.Role{
		needAgent: {auth.Agent}, needPublish: {auth.Publisher}, needMember: {auth.Agent, auth.Publisher}, needCaller: {auth.Agent, auth.Publisher},
	}
	allowed := c.Role == auth.Admin
	for _, r := range role[n] {
		allowed = allowed || c.Role == r
	}
	switch {
	case !allowed:
		return problem.New(problem.Forbidden, "a token with the role %s may not do this", c.Role)
	case (n == needGateway || n == needCaller) && c.Session != auth.AnySession:
		return problem.New(problem.Forbidden, "this takes a token for all sessions (session: \"*\"); this one is for one")
	case session == "" || c.Covers(session):
		return nil
	case n == needPublish:
		return notYours(session)
	}
	return problem.New(problem.NotFound, "there is no session %q for this token", session)
}

func notYours(session string) error {
	return problem.New(problem.Forbidden, "the token is not for session %q", session).WithField("session")
}

type claimsKey struct{}

// claimsOf is what the request's token says; ok is false where no tokens are asked for, and everything is allowed.
func claimsOf(ctx context.Context) (c auth.Claims, ok bool) {
	c, ok = ctx.Value(claimsKey{}).(auth.Claims)
	return c, ok
}

// covers says whether whoever asks may know of a session.
func covers(ctx context.Context, session string) bool {
	c, limited := claimsOf(ctx)
	return !limited || c.Covers(session)
}

// authorOf is who an append over HTTP is by.
func authorOf(ctx context.Context) string {
	if c, ok := claimsOf(ctx); ok {
		return c.Subject
	}
	return authorHTTP
}

// mayTakeOver says whether a publisher may replace one that is connected.
func mayTakeOver(ctx context.Context) bool {
	c, ok := claimsOf(ctx)
	return ok && c.Takeover
}

// untilExpiry calls end when the token behind ctx is no longer taken; stop ends the waiting. Without a token it never does.
func (s *Server) untilExpiry(ctx context.Context, end func()) (stop func()) {
	c, ok := claimsOf(ctx)
	if !ok {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(c.Expires.Add(s.cfg.Auth.Leeway())), end)
	return func() { timer.Stop() }
}

const reasonExpired = "the token has expired: attach again with a new one and resume_from"

// obtain is registry.obtain for who asks: a token for one session makes that one and no other, and one for all has a quota.
func (s *Server) obtain(ctx context.Context, id string) (session *Session, created bool, err error) {
	c, limited := claimsOf(ctx)
	if !limited {
		return s.sessions.obtain(ctx, id)
	}
	if id == "" && c.Session != auth.AnySession {
		id = c.Session
	}
	if id != "" && !c.Covers(id) {
		return nil, false, notYours(id)
	}
	if s.sessions.isLive(id) {
		return s.sessions.obtain(ctx, id)
	}
	release, ok := s.limits.sessions.take(c.Token)
	if !ok {
		return nil, false, problem.New(problem.RateLimited, "this token has begun %d sessions that are still live, the limit", s.limits.sessions.max).WithRetryAfter(5 * time.Second)
	}
	session, created, err = s.sessions.obtain(ctx, id)
	if err != nil || !created {
		release()
		return session, created, err
	}
	go func() { // ends with the session
		<-session.done
		release()
	}()
	return session, true, nil
}

// doorkeeper asks every request for its token, before anything is looked up or read for it, and holds rates and quotas.
type doorkeeper struct {
	server *Server
	mux    *http.ServeMux // knows the routes; serves nothing here
	cors   func(w http.ResponseWriter, r *http.Request)
	next   http.Handler
	inside bool // serves other nodes of the cluster: theirs have counted the request
}

// ServeHTTP implements http.Handler.
func (d *doorkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := d.mux.Handler(r)
	needed := needOf(pattern, r)
	if needed == needNothing {
		d.next.ServeHTTP(w, r)
		return
	}
	leave := func() {}
	err := d.count(r)
	if err == nil && d.server.cfg.Auth != nil && r.Method != http.MethodOptions { // a pre-flight has no token, and gets nothing
		r, leave, err = d.identify(r, needed)
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	defer leave()
	d.next.ServeHTTP(w, r)
}

// count holds the rate of the address.
func (d *doorkeeper) count(r *http.Request) error {
	if d.inside || !d.server.limited() {
		return nil
	}
	if wait := d.server.limits.addresses.wait(d.server.limits.address(r), time.Now()); wait > 0 {
		return problem.New(problem.RateLimited, "more requests from this address than are served: wait %d ms", wait.Milliseconds()).WithRetryAfter(wait)
	}
	return nil
}

// identify checks the token and what it allows. leave is to be called when the request is over; that of a socket ends with it.
func (d *doorkeeper) identify(r *http.Request, needed need) (known *http.Request, leave func(), err error) {
	leave = func() {}
	token, given := tokenOf(r)
	if !given {
		return r, leave, problem.New(problem.Unauthenticated, "a token is needed: Authorization: Bearer TOKEN, or of a browser's socket ?access_token=TOKEN")
	}
	c, err := d.server.cfg.Auth.Verify(r.Context(), token, time.Now())
	switch {
	case isUnavailable(err):
		return r, leave, problem.New(problem.EngineUnavailable, "%s", err).WithRetryAfter(5 * time.Second)
	case err != nil:
		return r, leave, problem.New(problem.Unauthenticated, "%s", err)
	}
	if !d.inside {
		if wait := d.server.limits.tokens.wait(c.Token, time.Now()); wait > 0 {
			return r, leave, problem.New(problem.RateLimited, "more requests with this token than are served: wait %d ms", wait.Milliseconds()).WithRetryAfter(wait)
		}
	}
	if err := needed.check(c, sessionOf(r)); err != nil {
		return r, leave, err
	}
	if !d.inside && isUpgrade(r) {
		release, ok := d.server.limits.sockets.take(c.Token)
		if !ok {
			return r, leave, problem.New(problem.RateLimited, "this token has %d sockets open, the limit", d.server.limits.sockets.max).WithRetryAfter(5 * time.Second)
		}
		leave = release
	}
	return r.WithContext(context.WithValue(r.Context(), claimsKey{}, c)), leave, nil
}

// refuse answers so that a page that is allowed here can read why.
func (d *doorkeeper) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.From(err)
	d.server.metrics.turnedAway(p.Code)
	h := w.Header()
	if strings.HasPrefix(r.URL.Path, "/whip") {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate, X-Request-Id")
	} else {
		d.cors(w, r)
	}
	_, given := tokenOf(r)
	switch { // RFC 6750 §3.1
	case p.Code == problem.Unauthenticated && given:
		h.Set("WWW-Authenticate", `Bearer realm="sightline", error="invalid_token"`)
	case p.Code == problem.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="sightline"`)
	case p.Code == problem.Forbidden:
		h.Set("WWW-Authenticate", `Bearer realm="sightline", error="insufficient_scope"`)
	}
	problem.Write(w, p)
}
