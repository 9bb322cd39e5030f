package whip

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/gateway/problem"
)

// fakeSessions stands for the gateway: it records, and answers as told.
type fakeSessions struct {
	mu      sync.Mutex
	err     error
	publish func(ctx context.Context) // runs inside Publish
	pubs    []*fakePublication
}

func (f *fakeSessions) Publish(ctx context.Context, session, _, offer string) (Publication, error) {
	if f.publish != nil {
		f.publish(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if session == "" {
		session = "generated"
	}
	p := &fakePublication{session: session, offer: offer, ufrag: "abcd", done: make(chan struct{})}
	f.pubs = append(f.pubs, p)
	return p, nil
}

func (f *fakeSessions) last(t *testing.T) *fakePublication {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pubs) == 0 {
		t.Fatal("nothing was published")
	}
	return f.pubs[len(f.pubs)-1]
}

type fakePublication struct {
	session, offer string
	done           chan struct{}
	once           sync.Once

	mu        sync.Mutex
	ufrag     string
	reason    string
	fragments []string
	restarts  int
	err       error
}

func (p *fakePublication) SessionID() string     { return p.session }
func (p *fakePublication) Answer() string        { return "v=0\r\nanswer" }
func (p *fakePublication) Done() <-chan struct{} { return p.done }
func (p *fakePublication) RemoteUfrag() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ufrag
}
func (p *fakePublication) Trickle(_ context.Context, frag string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fragments = append(p.fragments, frag)
	return p.err
}
func (p *fakePublication) Restart(_ context.Context, frag string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return "", p.err
	}
	p.restarts++
	p.ufrag = fragmentUfrag(frag)
	return "a=ice-ufrag:ours\r\n", nil
}
func (p *fakePublication) Close(reason string) {
	p.once.Do(func() { p.mu.Lock(); p.reason = reason; p.mu.Unlock(); close(p.done) })
}

// request is one HTTP request to a handler.
type request struct {
	method, path, contentType, body string
	header                          map[string]string
}

func (q request) do(t *testing.T, h http.Handler) *http.Response {
	t.Helper()
	r := httptest.NewRequest(q.method, "http://gateway.example:8080"+q.path, strings.NewReader(q.body))
	if q.contentType != "" {
		r.Header.Set("Content-Type", q.contentType)
	}
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func wantStatus(t *testing.T, resp *http.Response, status int, code problem.Code) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", resp.StatusCode, status, body)
	}
	if code == "" {
		if status == http.StatusNoContent && len(body) != 0 {
			t.Errorf("204 with a body %q", body)
		}
		return
	}
	var p struct {
		Code   problem.Code
		Detail string
		Status int
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code != code || p.Status != status || p.Detail == "" {
		t.Errorf("problem %s, want code %s", body, code)
	}
}

func publishOne(t *testing.T, h *Handler, f *fakeSessions, path string) (url, etag string, pub *fakePublication) {
	t.Helper()
	resp := request{"POST", path, mediaSDP, "v=0", nil}.do(t, h)
	wantStatus(t, resp, http.StatusCreated, "")
	return strings.TrimPrefix(resp.Header.Get("Location"), "http://gateway.example:8080"), resp.Header.Get("ETag"), f.last(t)
}

func TestPublishingGivesASessionURL(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{Sessions: f, ICEServers: []ICEServer{{URL: "stun:stun.example:3478"}, {URL: "turn:turn.example:3478?transport=udp", Username: `u"1`, Credential: `p\2`}}})
	resp := request{"POST", "/whip/demo?token=x", "application/sdp; charset=utf-8", "v=0\r\noffer", map[string]string{"Origin": "https://page.example"}}.do(t, h)
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusCreated || string(body) != "v=0\r\nanswer" {
		t.Fatalf("%d %q", resp.StatusCode, body)
	}
	if pub := f.last(t); pub.session != "demo" || pub.offer != "v=0\r\noffer" {
		t.Errorf("published %q %q", pub.session, pub.offer)
	}
	location, etag := resp.Header.Get("Location"), resp.Header.Get("ETag")
	secret, ok := strings.CutPrefix(location, "http://gateway.example:8080/whip/session/")
	if !ok || len(secret) < 22 || strings.ContainsAny(secret, "?/") || strings.Contains(location, "demo") {
		t.Errorf("Location %q", location)
	}
	if len(etag) < 10 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		t.Errorf("ETag %q", etag)
	}
	for key, want := range map[string]string{
		"Content-Type": mediaSDP, "Access-Control-Allow-Origin": "*",
		"Access-Control-Expose-Headers": "Location, ETag, Link, Accept-Post, Accept-Patch, Retry-After",
	} {
		if got := resp.Header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	links := resp.Header.Values("Link")
	if len(links) != 2 || links[0] != `<stun:stun.example:3478>; rel="ice-server"` ||
		links[1] != `<turn:turn.example:3478?transport=udp>; rel="ice-server"; username="u\"1"; credential="p\\2"; credential-type="password"` {
		t.Errorf("Link %q", links)
	}
	other := request{"POST", "/whip", mediaSDP, "v=0", nil}.do(t, h)
	if other.Header.Get("Location") == location || other.Header.Get("ETag") == etag {
		t.Error("two publications share a URL or a tag")
	}
	if h.Len() != 2 {
		t.Errorf("%d session URLs", h.Len())
	}
}

func TestStatusCodes(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{Sessions: f})
	url, etag, _ := publishOne(t, h, f, "/whip")
	const frag = "a=ice-ufrag:abcd\r\na=candidate:x\r\n"
	same := map[string]string{"If-Match": etag}
	cases := []struct {
		name   string
		q      request
		status int
		code   problem.Code
		header [2]string
	}{
		{"wrong type", request{"POST", "/whip", "text/plain", "v=0", nil}, 415, problem.UnsupportedMediaType, [2]string{"Accept-Post", mediaSDP}},
		{"no type", request{"POST", "/whip", "", "v=0", nil}, 415, problem.UnsupportedMediaType, [2]string{"Accept", mediaSDP}},
		{"JSON", request{"POST", "/whip", "application/json", "{}", nil}, 415, problem.UnsupportedMediaType, [2]string{}},
		{"upper-case type", request{"POST", "/whip", "Application/SDP", "v=0", nil}, 201, "", [2]string{}},
		{"empty offer", request{"POST", "/whip", mediaSDP, "", nil}, 400, problem.InvalidArgument, [2]string{}},
		{"just fits", request{"POST", "/whip", mediaSDP, strings.Repeat("v", 64<<10), nil}, 201, "", [2]string{}},
		{"one too many", request{"POST", "/whip", mediaSDP, strings.Repeat("v", 64<<10+1), nil}, 413, problem.TooLarge, [2]string{}},
		{"1 MB", request{"POST", "/whip", mediaSDP, strings.Repeat("v", 1<<20), nil}, 413, problem.TooLarge, [2]string{}},
		{"session with a dot", request{"POST", "/whip/a.b", mediaSDP, "v=0", nil}, 400, problem.InvalidArgument, [2]string{}},
		{"session of 65", request{"POST", "/whip/" + strings.Repeat("a", 65), mediaSDP, "v=0", nil}, 400, problem.InvalidArgument, [2]string{}},
		{"session of 64", request{"POST", "/whip/" + strings.Repeat("a", 64), mediaSDP, "v=0", nil}, 201, "", [2]string{}},
		{"escaped session", request{"POST", "/whip/a%2fb", mediaSDP, "v=0", nil}, 400, problem.InvalidArgument, [2]string{}},
		{"deeper path", request{"POST", "/whip/a/b", mediaSDP, "v=0", nil}, 404, problem.NotFound, [2]string{}},
		{"slash at the end", request{"POST", "/whip/", mediaSDP, "v=0", nil}, 201, "", [2]string{}},
		{"GET", request{"GET", "/whip", "", "", nil}, 204, "", [2]string{"Accept-Post", mediaSDP}},
		{"HEAD", request{"HEAD", "/whip/demo", "", "", nil}, 204, "", [2]string{"Accept-Post", mediaSDP}},
		{"PUT", request{"PUT", "/whip", mediaSDP, "v=0", nil}, 405, problem.MethodNotAllowed, [2]string{"Allow", endpointMethods}},
		{"DELETE the endpoint", request{"DELETE", "/whip", "", "", nil}, 405, problem.MethodNotAllowed, [2]string{"Allow", endpointMethods}},
		{"PATCH the endpoint", request{"PATCH", "/whip/demo", mediaFragment, frag, nil}, 405, problem.MethodNotAllowed, [2]string{"Allow", endpointMethods}},
		{"OPTIONS", request{"OPTIONS", "/whip", "", "", nil}, 200, "", [2]string{"Accept-Post", mediaSDP}},
		{"OPTIONS of a wrong session", request{"OPTIONS", "/whip/a.b", "", "", nil}, 200, "", [2]string{"Accept-Post", mediaSDP}},
		{"pre-flight", request{"OPTIONS", "/whip", "", "", map[string]string{"Access-Control-Request-Method": "POST", "Origin": "https://page.example"}}, 200, "", [2]string{"Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match"}},

		{"session GET", request{"GET", url, "", "", nil}, 204, "", [2]string{"Accept-Patch", mediaFragment}},
		{"session HEAD", request{"HEAD", url, "", "", nil}, 204, "", [2]string{}},
		{"session OPTIONS", request{"OPTIONS", url, "", "", nil}, 200, "", [2]string{"Allow", resourceMethods}},
		{"session POST", request{"POST", url, mediaSDP, "v=0", nil}, 405, problem.MethodNotAllowed, [2]string{"Allow", resourceMethods}},
		{"session PUT", request{"PUT", url, mediaSDP, "v=0", nil}, 405, problem.MethodNotAllowed, [2]string{"Allow", resourceMethods}},
		{"trickle", request{"PATCH", url, mediaFragment, frag, same}, 204, "", [2]string{"ETag", ""}},
		{"PATCH of a wrong type", request{"PATCH", url, mediaSDP, frag, same}, 415, problem.UnsupportedMediaType, [2]string{"Accept-Patch", mediaFragment}},
		{"empty PATCH", request{"PATCH", url, mediaFragment, "", same}, 400, problem.InvalidArgument, [2]string{}},
		{"long PATCH", request{"PATCH", url, mediaFragment, strings.Repeat("a=x\r\n", 4000), same}, 413, problem.TooLarge, [2]string{}},
		{"stale tag", request{"PATCH", url, mediaFragment, frag, map[string]string{"If-Match": `"other"`}}, 412, problem.PreconditionFailed, [2]string{}},
		{"weak tag", request{"PATCH", url, mediaFragment, frag, map[string]string{"If-Match": "W/" + etag}}, 412, problem.PreconditionFailed, [2]string{}},
		{"unknown GET", request{"GET", resourcePrefix + "nobody", "", "", nil}, 404, problem.NotFound, [2]string{}},
		{"unknown PATCH", request{"PATCH", resourcePrefix + "nobody", mediaFragment, frag, nil}, 404, problem.NotFound, [2]string{}},
		{"unknown DELETE", request{"DELETE", resourcePrefix + "nobody", "", "", nil}, 404, problem.NotFound, [2]string{}},
		{"unknown OPTIONS", request{"OPTIONS", resourcePrefix + "nobody", "", "", nil}, 200, "", [2]string{}},
		{"DELETE, tag ignored", request{"DELETE", url, "", "", map[string]string{"If-Match": `"other"`}}, 200, "", [2]string{}},
		{"DELETE again", request{"DELETE", url, "", "", nil}, 404, problem.NotFound, [2]string{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			resp := c.q.do(t, h)
			wantStatus(t, resp, c.status, c.code)
			if c.header[0] != "" && resp.Header.Get(c.header[0]) != c.header[1] {
				t.Errorf("%s: %q, want %q", c.header[0], resp.Header.Get(c.header[0]), c.header[1])
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "*" || resp.Header.Get("Access-Control-Expose-Headers") == "" {
				t.Error("an answer that a page cannot read")
			}
		})
	}
}

func TestPatchPreconditions(t *testing.T) {
	const sameFrag, newFrag, bareFrag = "a=ice-ufrag:abcd\r\n", "a=ice-ufrag:wxyz\r\n", "a=candidate:1\r\n"
	for _, c := range []struct {
		frag, ifMatch   string // "etag": the one in force
		lenient, strict int
	}{
		{sameFrag, "", 204, 428},
		{bareFrag, "", 204, 428},
		{newFrag, "", 428, 428},
		{sameFrag, "*", 204, 400},
		{bareFrag, "*", 204, 400},
		{newFrag, "*", 200, 200},
		{newFrag, `"*"`, 200, 200},
		{sameFrag, "etag", 204, 204},
		{bareFrag, "etag", 204, 204},
		{newFrag, "etag", 412, 412},
		{sameFrag, `"x", etag`, 204, 204},
		{sameFrag, `"x"`, 412, 412},
		{newFrag, `"x"`, 412, 412},
	} {
		for strict, want := range map[bool]int{false: c.lenient, true: c.strict} {
			t.Run(fmt.Sprintf("%q %s strict=%v", c.frag, c.ifMatch, strict), func(t *testing.T) {
				f := &fakeSessions{}
				h := New(Config{Sessions: f, Strict: strict})
				url, etag, pub := publishOne(t, h, f, "/whip")
				header := map[string]string{}
				if c.ifMatch != "" {
					header["If-Match"] = strings.Replace(c.ifMatch, "etag", etag, 1)
				}
				resp := request{"PATCH", url, mediaFragment, c.frag, header}.do(t, h)
				if resp.StatusCode != want {
					body, _ := io.ReadAll(resp.Body)
					t.Fatalf("status %d, want %d: %s", resp.StatusCode, want, body)
				}
				next := resp.Header.Get("ETag")
				if want == 200 {
					body, _ := io.ReadAll(resp.Body)
					if pub.restarts != 1 || next == "" || next == etag || string(body) != "a=ice-ufrag:ours\r\n" || resp.Header.Get("Content-Type") != mediaFragment {
						t.Errorf("restart: %d, tag %q after %q, %q", pub.restarts, next, etag, body)
					}
					stale := request{"PATCH", url, mediaFragment, newFrag, map[string]string{"If-Match": etag}}.do(t, h)
					wantStatus(t, stale, 412, problem.PreconditionFailed)
					fresh := request{"PATCH", url, mediaFragment, newFrag, map[string]string{"If-Match": next}}.do(t, h)
					wantStatus(t, fresh, 204, "")
				} else if next != "" || pub.restarts != 0 {
					t.Errorf("tag %q, %d restarts", next, pub.restarts)
				}
				if (want == 204) != (len(pub.fragments) == 1) && want != 200 {
					t.Errorf("%d fragments", len(pub.fragments))
				}
			})
		}
	}
}

func TestFailedRestartKeepsTheTag(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{Sessions: f})
	url, etag, pub := publishOne(t, h, f, "/whip")
	pub.err = problem.New(problem.InvalidArgument, "a=ice-pwd is too short")
	resp := request{"PATCH", url, mediaFragment, "a=ice-ufrag:wxyz\r\n", map[string]string{"If-Match": "*"}}.do(t, h)
	wantStatus(t, resp, 400, problem.InvalidArgument)
	if resp.Header.Get("ETag") != "" {
		t.Error("a tag for a restart that did not happen")
	}
	pub.err = nil
	wantStatus(t, request{"PATCH", url, mediaFragment, "a=ice-ufrag:abcd\r\n", map[string]string{"If-Match": etag}}.do(t, h), 204, "")
}

func TestErrorsOfThePublisherAreItsAnswer(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{Sessions: f})
	for _, c := range []struct {
		err    error
		status int
	}{
		{problem.New(problem.NotNegotiable, "VP8 is needed"), 422},
		{problem.New(problem.AlreadyPublishing, "taken"), 409},
		{problem.New(problem.Forbidden, "not yours"), 403},
		{problem.New(problem.Overloaded, "full").WithRetryAfter(1500 * time.Millisecond), 503},
		{fmt.Errorf("boom"), 500},
	} {
		f.err = c.err
		resp := request{"POST", "/whip", mediaSDP, "v=0", nil}.do(t, h)
		wantStatus(t, resp, c.status, problem.From(c.err).Code)
		if c.status == 503 && resp.Header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
		}
		if resp.Header.Get("Location") != "" || h.Len() != 0 {
			t.Error("a session URL for nothing")
		}
	}
}

func TestSessionURLEndsWithThePublication(t *testing.T) {
	f := &fakeSessions{}
	log := &syncBuffer{}
	h := New(Config{Sessions: f, Log: slog.New(slog.NewTextHandler(log, nil))})
	url, _, pub := publishOne(t, h, f, "/whip/demo")
	pub.Close("vanished")
	for end := time.Now().Add(30 * time.Second); h.Len() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the session URL outlives its publication")
		}
	}
	wantStatus(t, request{"PATCH", url, mediaFragment, "a=candidate:1", nil}.do(t, h), 404, problem.NotFound)
	url, _, pub = publishOne(t, h, f, "/whip/demo")
	wantStatus(t, request{"DELETE", url, "", "", nil}.do(t, h), 200, "")
	if pub.reason != "deleted by the publisher" {
		t.Errorf("closed for %q", pub.reason)
	}
	if secret, told := strings.TrimPrefix(url, resourcePrefix), log.String(); strings.Contains(told, secret) || !strings.Contains(told, "session=demo") {
		t.Errorf("the log must name the session and never its URL:\n%s", told)
	}
}

func TestPublisherThatLeavesDuringTheAnswerLeavesNothing(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{Sessions: f})
	ctx, cancel := context.WithCancel(t.Context())
	f.publish = func(context.Context) { cancel() }
	r := httptest.NewRequestWithContext(ctx, "POST", "http://gateway.example/whip", strings.NewReader("v=0"))
	r.Header.Set("Content-Type", mediaSDP)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if pub := f.last(t); pub.reason == "" || h.Len() != 0 {
		t.Errorf("closed for %q, %d session URLs", pub.reason, h.Len())
	}
}

func TestOriginsAreRespected(t *testing.T) {
	h := New(Config{Sessions: &fakeSessions{}, Origins: []string{"https://page.example"}})
	for origin, want := range map[string]string{"https://page.example": "https://page.example", "https://evil.example": "", "": ""} {
		resp := request{"OPTIONS", "/whip", "", "", map[string]string{"Origin": origin, "Access-Control-Request-Method": "POST"}}.do(t, h)
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want || resp.StatusCode != 200 || resp.Header.Get("Vary") != "Origin" {
			t.Errorf("origin %q: %q, status %d, Vary %q", origin, got, resp.StatusCode, resp.Header.Get("Vary"))
		}
		if got := resp.Header.Get("Access-Control-Allow-Methods"); (got != "") != (want != "") {
			t.Errorf("origin %q may %q", origin, got)
		}
	}
}

func TestOptionsTellNoCredentials(t *testing.T) {
	h := New(Config{Sessions: &fakeSessions{}, ICEServers: []ICEServer{{URL: "stun:s.example"}, {URL: "turn:t.example", Username: "u", Credential: "secret"}}})
	resp := request{"OPTIONS", "/whip", "", "", nil}.do(t, h)
	if links := resp.Header.Values("Link"); len(links) != 1 || links[0] != `<stun:s.example>; rel="ice-server"` {
		t.Errorf("Link %q", links)
	}
	if links := (request{"OPTIONS", "/whip", "", "", map[string]string{"Access-Control-Request-Method": "POST"}}).do(t, h).Header.Values("Link"); len(links) != 0 {
		t.Errorf("pre-flight with Link %q", links)
	}
}

func TestBaseURLAndErrorsAreTheCallers(t *testing.T) {
	f := &fakeSessions{}
	h := New(Config{
		Sessions:   f,
		BaseURL:    func(*http.Request) string { return "https://public.example" },
		WriteError: func(w http.ResponseWriter, _ *http.Request, err error) { w.WriteHeader(418) },
	})
	resp := request{"POST", "/whip", mediaSDP, "v=0", nil}.do(t, h)
	if !strings.HasPrefix(resp.Header.Get("Location"), "https://public.example/whip/session/") {
		t.Errorf("Location %q", resp.Header.Get("Location"))
	}
	if resp := (request{"PUT", "/whip", "", "", nil}).do(t, h); resp.StatusCode != 418 || resp.Header.Get("Allow") == "" {
		t.Errorf("status %d", resp.StatusCode)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
