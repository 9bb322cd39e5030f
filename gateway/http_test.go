package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	chatctx "sightline/context"
)

func TestSessionsOverHTTP(t *testing.T) {
	g := startGateway(t, nil)
	if status, body, _ := g.do("GET", "/v1/sessions", ""); status != 200 || strings.TrimSpace(string(body)) != `{"sessions":[]}` {
		t.Errorf("empty list: %d %s", status, body)
	}
	status, body, h := g.do("POST", "/v1/sessions", `{"id":"s1"}`)
	var d sessionDetail
	if err := json.Unmarshal(body, &d); status != 201 || err != nil || d.ID != "s1" || d.State != "connecting" || h.Get("Location") != "/v1/sessions/s1" {
		t.Errorf("create: %d %s %v", status, body, err)
	}
	for _, name := range []string{`"sources":[]`, `"agents":[]`, `"legs":[]`, `"seq":0`, `"epoch":0`, `"active_leg":null`} {
		if !bytes.Contains(body, []byte(name)) {
			t.Errorf("detail lacks %s: %s", name, body)
		}
	}
	if status, _, _ := g.do("POST", "/v1/sessions", `{"id":"s1"}`); status != 200 {
		t.Errorf("create again: %d, want 200", status)
	}
	if status, body, _ := g.do("POST", "/v1/sessions", ""); status != 201 || bytes.Contains(body, []byte(`"id":""`)) {
		t.Errorf("create with a generated id: %d %s", status, body)
	}
	for range 2 {
		if status, body, _ := g.do("DELETE", "/v1/sessions/s1", ""); status != 200 || !bytes.Contains(body, []byte(`"ended"`)) {
			t.Errorf("delete: %d %s", status, body)
		}
	}
	if status, body, _ := g.do("GET", "/v1/sessions/s1", ""); status != 200 || !bytes.Contains(body, []byte(`"ended"`)) {
		t.Errorf("deleted session reads: %d %s", status, body)
	}
}

func TestHTTPErrorsAreProblemJSON(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/v1/sessions/none", "", 404, "not_found"},
		{"DELETE", "/v1/sessions/none", "", 404, "not_found"},
		{"POST", "/v1/sessions", `{"id":"a b"}`, 400, "invalid_argument"},
		{"POST", "/v1/sessions", `{"id":7}`, 400, "invalid_argument"},
		{"POST", "/v1/sessions", `{"id":`, 400, "invalid_json"},
		{"PUT", "/v1/sessions/s", "", 405, "method_not_allowed"},
		{"GET", "/v1/sessions/s/image", "", 404, "not_found"},
		{"GET", "/v1/sessions/s/image?width=0", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?width=ten", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?height=5000", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?quality=-1", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?fit=fill", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?format=webp", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/image?wait_ms=999999", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/context?format=poem", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/context?max_items=0", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/context?max_tokens=-3", "", 400, "invalid_argument"},
		{"GET", "/v1/sessions/s/context?from_seq=x", "", 400, "invalid_argument"},
		{"POST", "/v1/sessions/s/context", `{"op_id":`, 400, "invalid_json"},
		{"POST", "/v1/sessions/s/context", `[]`, 400, "invalid_argument"},
		{"POST", "/v1/sessions/s/context", `{}`, 400, "invalid_argument"},
		{"POST", "/v1/sessions/s/context", "{\"op_id\":\"\xff\"}", 400, "invalid_json"},
		{"POST", "/v1/sessions/s/context", `{"type":"fly"}`, 400, "unknown_type"},
		{"POST", "/v1/sessions/none/context", `{}`, 404, "not_found"},
		{"POST", "/v1/sessions/s/context", strings.Repeat(" ", DefaultMaxMessageBytes+1), 413, "too_large"},
		{"GET", "/v1/sessions/s/blobs/abc", "", 404, "not_found"},
		{"GET", "/v1/nothing", "", 404, "not_found"},
		{"GET", "/nothing", "", 404, "not_found"},
		{"GET", "/v1/agent?session=s", "", 400, "invalid_argument"},
	} {
		status, body, h := g.do(c.method, c.path, c.body)
		code, _ := problemOf(t, h, body)
		if status != c.status || code != c.code {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, status, code, c.status, c.code)
		}
		if status == 405 && h.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if _, body, _ := g.do("GET", "/v1/sessions/s/context", ""); !bytes.Contains(body, []byte(`"seq":0`)) {
		t.Errorf("refused requests changed the context: %s", body)
	}
}

func TestPagesOfOtherOriginsAreKeptAway(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.AllowOrigins = []string{"https://app.example"} })
	g.createSession("s")
	own := strings.TrimPrefix(g.url, "http://")
	request := func(method, path, host, origin, site string) int {
		r := httptest.NewRequest(method, "http://"+host+path, nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		what, method, path, host, origin, site string
		status                                 int
	}{
		{"a program", "GET", "/v1/sessions/s", own, "", "", 200},
		{"our page", "GET", "/v1/sessions/s", own, "http://" + own, "same-origin", 200},
		{"an allowed page", "GET", "/v1/sessions/s", own, "https://app.example", "cross-site", 200},
		{"another page", "GET", "/v1/sessions/s", own, "https://evil.example", "cross-site", 403},
		{"another page deletes", "DELETE", "/v1/sessions/s", own, "https://evil.example", "cross-site", 403},
		{"another page embeds an image", "GET", "/v1/sessions/s/image", own, "", "cross-site", 403},
		{"another page's socket", "GET", "/v1/agent?session=s", own, "https://evil.example", "", 403},
		{"a rebound name", "GET", "/v1/sessions/s", "evil.example:8080", "http://evil.example:8080", "same-origin", 403},
		{"localhost by name", "GET", "/v1/sessions/s", "localhost:1", "http://localhost:1", "same-origin", 200},
		{"sandboxed page", "GET", "/v1/sessions/s", own, "null", "", 403},
	} {
		if got := request(c.method, c.path, c.host, c.origin, c.site); got != c.status {
			t.Errorf("%s: %d, want %d", c.what, got, c.status)
		}
	}
}

func TestDebugStateIsForTheMachineItself(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.Insecure = true; c.Listen = "0.0.0.0:0" })
	for remote, want := range map[string]int{"192.0.2.7:1": 403, "127.0.0.1:1": 200, "[::1]:1": 200, "nonsense": 403} {
		r := httptest.NewRequest("GET", "/debug/sessions", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", remote, w.Code, want)
		}
	}
}

func TestRefusesToServeTheWorldWithoutSayingSo(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:8080", ":8080", "192.0.2.1:80", "[::]:1", "example.org:80", "nonsense"} {
		_, err := New(Config{Listen: listen, Store: chatctx.NewMemStore()})
		if err == nil || !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "localhost:8080", "[::1]:80", "127.9.9.9:1"} {
		if !IsLoopback(listen) {
			t.Errorf("%s is loopback", listen)
		}
	}
}

func TestSessionEndsAfterItsGraceAndGoesOnWhenUsedAgain(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.SessionGrace = 50 * time.Millisecond })
	g.createSession("s")
	c, _ := g.attach("s", "a", `"want":{}`)
	c.send(`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user","content":"kept"}}`)
	c.expect("ack")
	c.send(`{"type":"bye"}`)
	c.expectClose()
	eventually(t, func() string {
		if _, body, _ := g.do("GET", "/v1/sessions/s", ""); !bytes.Contains(body, []byte(`"ended"`)) {
			return "not ended: " + string(body)
		}
		return ""
	})
	if _, res, err := g.tryDial("s"); err == nil || res.StatusCode != 404 {
		t.Errorf("attach to an ended session: %v", res)
	}
	g.createSession("s")
	if _, body, _ := g.do("GET", "/v1/sessions/s/context", ""); !bytes.Contains(body, []byte("kept")) {
		t.Errorf("an idle session that is used again has lost its conversation: %s", body)
	}
	g.do("DELETE", "/v1/sessions/s", "")
	g.createSession("s")
	if _, body, _ := g.do("GET", "/v1/sessions/s/context", ""); bytes.Contains(body, []byte("kept")) {
		t.Errorf("a deleted session's id begins anew: %s", body)
	}
}

func TestLimitsOfSessionsAndAgents(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.MaxSessions, c.MaxAgents, c.MaxEnded = 2, 1, 1 })
	g.createSession("a")
	g.createSession("b")
	status, body, h := g.do("POST", "/v1/sessions", `{"id":"c"}`)
	if code, _ := problemOf(t, h, body); status != 503 || code != "overloaded" || h.Get("Retry-After") == "" {
		t.Errorf("third session: %d %s", status, body)
	}
	g.attach("a", "one", `"want":{}`)
	second := g.dial("a")
	second.send(`{"type":"hello","agent_id":"two"}`)
	if m := second.expect("error"); m["code"] != "overloaded" {
		t.Errorf("second agent: %v", m)
	}
	if got := second.expectClose(); got != 1013 {
		t.Errorf("second agent closed with %d, want 1013", got)
	}
	if _, w := g.attach("a", "one", `"want":{}`); w["agent_id"] != "one" {
		t.Errorf("an agent at the limit cannot come back: %v", w)
	}
	g.do("DELETE", "/v1/sessions/a", "")
	g.do("DELETE", "/v1/sessions/b", "")
	if status, _, _ := g.do("GET", "/v1/sessions/a", ""); status != 404 {
		t.Errorf("the oldest ended session is still there: %d", status)
	}
	if status, _, _ := g.do("GET", "/v1/sessions/b", ""); status != 200 {
		t.Errorf("the newest ended session is gone: %d", status)
	}
}

func TestHealthReadinessMetricsAndPage(t *testing.T) {
	g := startGateway(t, func(c *Config) {
		c.Web = fstest.MapFS{"index.html": {Data: []byte("<p>console")}, "app.js": {Data: []byte("1")}}
		c.WebPolicy = "default-src 'self'"
	})
	g.createSession("s")
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/": "console", "/?session=x": "console", "/app.js": "1",
		"/metrics": `sightline_sessions{state="connecting"} 1`, "/debug/sessions": `"id":"s"`,
	} {
		if status, body, h := g.do("GET", path, ""); status != 200 || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s: %d %s", path, status, body)
		} else if want == "console" && h.Get("Content-Security-Policy") == "" {
			t.Errorf("%s has no policy", path)
		}
	}
	g.sessions.drain()
	if status, body, h := g.do("GET", "/readyz", ""); status != 503 {
		t.Errorf("draining: %d %s", status, body)
	} else if code, _ := problemOf(t, h, body); code != "draining" {
		t.Errorf("draining: code %s", code)
	}
	if status, _, _ := g.do("GET", "/healthz", ""); status != 200 {
		t.Errorf("liveness is about the process: %d", status)
	}
	if status, _, _ := g.do("POST", "/v1/sessions", `{"id":"new"}`); status != 503 {
		t.Errorf("a new session while draining: %d", status)
	}
	res, err := http.Get(g.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
}

// TestG12ARefusedOfferLeavesNothing: neither a record, nor a conversation lost that was there before.
func TestG12ARefusedOfferLeavesNothing(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.SessionGrace = 50 * time.Millisecond; c.MaxEnded = 3 })
	g.createSession("kept")
	if status, body, _ := g.do("POST", "/v1/sessions/kept/context", `{"op_id":"1","item":{"type":"message","role":"user","content":"precious"}}`); status != 200 {
		t.Fatalf("append: %d %s", status, body)
	}
	ended := func(id, state string) {
		eventually(t, func() string {
			if _, body, _ := g.do("GET", "/v1/sessions/"+id, ""); !bytes.Contains(body, []byte(state)) {
				return id + ": " + string(body)
			}
			return ""
		})
	}
	ended("kept", `"ended"`)
	offer := func(id string) {
		req, err := http.NewRequest("POST", g.url+"/whip/"+id, strings.NewReader("v=0"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/sdp")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 400 {
			t.Fatalf("a bad offer got %d", res.StatusCode)
		}
	}
	for n := range 20 {
		id := fmt.Sprintf("fresh-%d", n)
		offer(id)
		ended(id, "not_found")
	}
	offer("kept")
	ended("kept", `"ended"`)
	if _, body, _ := g.do("GET", "/v1/sessions/kept/context", ""); !bytes.Contains(body, []byte("precious")) {
		t.Errorf("refused offers cost a conversation: %s", body)
	}
}

func TestWantSwitchesContextOnAndOff(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	w, _ := g.attach("s", "writer", `"want":{}`)
	r, _ := g.attach("s", "reader", `"want":{}`)
	say := func(n int) {
		w.send(fmt.Sprintf(`{"type":"context.append","op_id":"%d","item":{"type":"message","role":"user","content":"%d"}}`, n, n))
		w.expect("ack")
	}
	settle := func() { // the reader's writer has seen everything sent to it before
		r.send(`{"type":"ping","id":"x"}`)
		r.expect("pong")
	}
	say(1)
	r.send(`{"type":"want","want":{"context":true}}`)
	if e := r.expect("context.entry"); e["seq"] != 1.0 {
		t.Errorf("switched on: %v, want the entries after the welcome's seq", e)
	}
	r.send(`{"type":"want","want":{"context":false}}`)
	settle()
	say(2)
	settle()
	r.send(`{"type":"want","want":{"context":true}}`)
	if e := r.expect("context.entry"); e["seq"] != 2.0 {
		t.Errorf("switched on again: %v, want what was missed", e)
	}
}
