package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/cascade"
)

// echo is a model that gives the last words back.
type echo struct{}

func (echo) Name() string { return "echo" }

func (echo) Answer(_ context.Context, r cascade.Request, yield func(cascade.Delta) error) (cascade.Finish, error) {
	text := ""
	for _, item := range r.Items {
		if b, err := json.Marshal(item); err == nil {
			text = string(b)
		}
	}
	return cascade.Finish{Reason: "stop"}, yield(cascade.Delta{Text: "You said " + text + "."})
}

// withEcho is a gateway whose one pipeline is a cascade that is only typed with.
func withEcho(t *testing.T) *gatewayUnderTest {
	c := cascade.Config{Models: []cascade.Model{echo{}}}
	return startGateway(t, func(cfg *Config) {
		cfg.Pipelines.Builtin = []switcher.Pipeline{
			{Name: "echo", Kind: switcher.Cascade, Provider: "test", Can: c.Capability(), New: func() switcher.Leg { return cascade.New(c) }},
			{Name: "other", Kind: switcher.Realtime, Provider: "test", New: func() switcher.Leg { return cascade.New(c) }},
		}
		cfg.Pipelines.First = "echo"
	})
}

func (g *gatewayUnderTest) dialRealtime(query string) (*websocket.Conn, *http.Response, error) {
	return websocket.DefaultDialer.Dial(strings.Replace(g.url, "http", "ws", 1)+"/v1/realtime?"+query, nil)
}

// realtime is a client's end that is read by whoever waits.
type realtimeSocket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (g *gatewayUnderTest) realtime(query string) *realtimeSocket {
	g.t.Helper()
	conn, _, err := g.dialRealtime(query)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return &realtimeSocket{g.t, conn}
}

func (c *realtimeSocket) send(text string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// until reads up to an event of a type.
func (c *realtimeSocket) until(kind string) map[string]any {
	c.t.Helper()
	var seen []string
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, data, err := c.conn.ReadMessage()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v; seen %v", kind, err, seen)
		}
		var e map[string]any
		if err := json.Unmarshal(data, &e); err != nil {
			c.t.Fatal(err)
		}
		if e["type"] == kind {
			return e
		}
		seen = append(seen, e["type"].(string))
	}
}

func TestARealtimeSocketIsASession(t *testing.T) {
	g := withEcho(t)
	c := g.realtime("model=echo")
	id := c.until("session.created")["session"].(map[string]any)["id"].(string)
	state := func() string {
		_, body, _ := g.do("GET", "/v1/sessions/"+id, "")
		var d struct{ State string }
		_ = json.Unmarshal(body, &d)
		return d.State
	}
	if s := state(); s != "live" {
		t.Errorf("the session is %q", s)
	}
	_, agent := func() (*socket, map[string]any) { return g.attach(id, "watcher", `"want":{"context":true}`) }()
	if agent["type"] != "welcome" {
		t.Errorf("an agent is told %v", agent)
	}
	c.send(`{"type":"conversation.item.create","item":{"id":"m1","type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}`)
	c.send(`{"type":"response.create","response":{"output_modalities":["text"]}}`)
	if text := c.until("response.output_text.done")["text"].(string); !strings.Contains(text, "hello") {
		t.Errorf("answered %q", text)
	}
	c.until("response.done")
	eventually(t, func() string {
		_, body, _ := g.do("GET", "/v1/sessions/"+id+"/context?format=text", "")
		if text := string(body); !strings.Contains(text, "hello") || !strings.Contains(text, "You said") {
			return "the log has " + text
		}
		return ""
	})

	// What others type is told to the client, and answered.
	g.do("POST", "/v1/sessions/"+id+"/context", `{"type":"context.append","op_id":"o1","item":{"type":"message","id":"typed","role":"user","content":"from elsewhere"}}`)
	for added := c.until("conversation.item.added"); added["item"].(map[string]any)["id"] != "typed"; {
		added = c.until("conversation.item.added")
	}
	if text := c.until("response.output_audio_transcript.done")["transcript"].(string); !strings.Contains(text, "from elsewhere") {
		t.Errorf("answered %q", text)
	}
	_ = c.conn.Close()
	eventually(t, func() string {
		if s := state(); s != "ended" {
			return "the session is " + s + " after its caller left"
		}
		return ""
	})
}

func TestARealtimeSocketEndsWithTheGateway(t *testing.T) { // G13
	g := withEcho(t)
	c := g.realtime("model=echo")
	c.until("session.created")
	side := g.realtime("call_id=" + func() string { g.createSession("watched"); return "watched" }())
	side.until("session.created")
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*realtimeSocket{c, side} {
		_ = s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		for {
			if _, _, err := s.conn.ReadMessage(); err != nil {
				if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
					t.Errorf("closed with %v", err)
				}
				break
			}
		}
	}
}

func TestG12RealtimeSocketsThatAreNone(t *testing.T) {
	g := withEcho(t)
	for query, want := range map[string]struct {
		status int
		code   string
	}{
		"":                           {400, "invalid_argument"},
		"model=echo&call_id=x":       {400, "invalid_argument"},
		"intent=transcription":       {400, "invalid_argument"},
		"model=gpt-realtime":         {404, "not_found"},
		"model=other":                {404, "not_found"},
		"call_id=nobody":             {404, "not_found"},
		"call_id=" + "a%20b":         {404, "not_found"},
		"model=echo&intent=whatever": {400, "invalid_argument"},
	} {
		_, answer, err := g.dialRealtime(query)
		if err == nil || answer == nil || answer.StatusCode != want.status {
			t.Errorf("%s: %v", query, err)
			continue
		}
		_, body, header := g.do("GET", "/v1/realtime?"+query, "")
		if code, _ := problemOf(t, header, body); code != want.code {
			t.Errorf("%s: code %s", query, code)
		}
	}
	if status, body, _ := g.do("GET", "/v1/realtime?model=echo", ""); status != 400 {
		t.Errorf("without an upgrade: %d %s", status, body)
	}
	if status, _, header := g.do("POST", "/v1/realtime?model=echo", ""); status != 405 || header.Get("Allow") != "GET, OPTIONS" {
		t.Errorf("POST: %d %s", status, header.Get("Allow"))
	}
	none := startGateway(t, nil)
	if status, _, _ := none.do("GET", "/v1/realtime?model=local", ""); status != 503 {
		t.Errorf("without any pipeline: %d", status)
	}
}
