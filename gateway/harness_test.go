package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/gateway/rtc"
	"sightline/gateway/wire"
)

const testTimeout = 15 * time.Second

// gatewayUnderTest is a whole gateway on a loopback port.
type gatewayUnderTest struct {
	*Server
	t      *testing.T
	url    string
	header http.Header  // of sockets that are dialled
	stop   func() error // ends Run and gives its error
}

// startGateway runs a gateway until the test ends; change may alter its config.
func startGateway(t *testing.T, change func(*Config)) *gatewayUnderTest {
	t.Helper()
	store := chatctx.NewMemStore()
	cfg := Config{Store: store, Media: rtc.Config{TCPPort: -1, AllowLoopback: true}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	g := &gatewayUnderTest{Server: s, t: t, url: web.URL}
	var stopped bool
	g.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-ended
		web.Close()
		_ = store.Close()
		return err
	}
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return g
}

// do sends an HTTP request and gives status and body.
func (g *gatewayUnderTest) do(method, path, body string) (int, []byte, http.Header) {
	g.t.Helper()
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, data, res.Header
}

func (g *gatewayUnderTest) createSession(id string) {
	g.t.Helper()
	if status, body, _ := g.do("POST", "/v1/sessions", `{"id":"`+id+`"}`); status != 201 && status != 200 {
		g.t.Fatalf("create session: %d %s", status, body)
	}
}

// problemOf checks that an answer is problem JSON and gives its code and detail.
func problemOf(t *testing.T, header http.Header, body []byte) (code, detail string) {
	t.Helper()
	if got := header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q, body %s", got, body)
	}
	var p struct{ Code, Detail, Title, Type string }
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" || p.Detail == "" || p.Title == "" || p.Type == "" {
		t.Fatalf("problem %s: %v", body, err)
	}
	return p.Code, p.Detail
}

// socket is a bare agent connection: what goes over the wire, nothing else.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (g *gatewayUnderTest) dial(session string) *socket {
	g.t.Helper()
	conn, res, err := g.tryDial(session)
	if err != nil {
		g.t.Fatalf("dial: %v (%v)", err, res)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return &socket{g.t, conn}
}

func (g *gatewayUnderTest) tryDial(session string) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, HandshakeTimeout: testTimeout}
	return d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/agent?session="+session, g.header)
}

// attach dials, says hello with the raw JSON of want and resume_from, and gives the welcome.
func (g *gatewayUnderTest) attach(session, agentID, extra string) (*socket, map[string]any) {
	g.t.Helper()
	c := g.dial(session)
	c.send(`{"type":"hello","agent_id":"` + agentID + `",` + extra + `}`)
	m := c.expect("welcome")
	return c, m
}

func (c *socket) send(text string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatalf("send %s: %v", text, err)
	}
}

// next is the next text message.
func (c *socket) next() map[string]any {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		kind, data, err := c.conn.ReadMessage()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if kind != websocket.TextMessage {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Fatalf("message %s: %v", data, err)
		}
		return m
	}
}

// expect is the next text message, which must be of the type.
func (c *socket) expect(kind string) map[string]any {
	c.t.Helper()
	m := c.next()
	if m["type"] != kind {
		c.t.Fatalf("got %v, want a %s", m, kind)
	}
	return m
}

// expectClose reads until the socket closes and gives the close code.
func (c *socket) expectClose() int {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		if _, _, err := c.conn.ReadMessage(); err != nil {
			var closed *websocket.CloseError
			if ok := asClose(err, &closed); !ok {
				c.t.Fatalf("socket ended without a close frame: %v", err)
			}
			return closed.Code
		}
	}
}

func asClose(err error, target **websocket.CloseError) bool {
	c, ok := err.(*websocket.CloseError)
	if ok {
		*target = c
	}
	return ok
}

// eventually waits until check gives "" and fails with what it gave last.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		reason := check()
		if reason == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(reason)
		}
		time.Sleep(5 * time.Millisecond) // polls a condition
	}
}

// leaked lists goroutines of this module that are still there; the caller polls.
func leaked() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []string
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.Contains(g, []byte("sightline/gateway.(*")) && !bytes.Contains(g, []byte("testing.tRunner")) {
			out = append(out, string(g))
		}
	}
	return strings.Join(out, "\n\n")
}
