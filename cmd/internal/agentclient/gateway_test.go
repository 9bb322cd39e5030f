package agentclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	chatctx "sightline/context"
	"sightline/gateway/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is the other end of the socket, one script per connection; the real one meets this client in the end-to-end tests.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	hellos []wire.Hello
}

// socket is the gateway's side of one connection.
type socket struct {
	t *testing.T
	*websocket.Conn
}

// serve answers connection number n (from 0) with answer; a status other than 0 is refused before the upgrade.
func serve(t *testing.T, refuse func(n int) int, answer func(n int, s socket, hello wire.Hello)) *gateway {
	t.Helper()
	g := &gateway{}
	n := -1
	var running sync.WaitGroup
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		n++
		mine := n
		g.mu.Unlock()
		if refuse != nil {
			if status := refuse(mine); status != 0 {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"code":"not_found","detail":"refusal %d"}`, mine)
				return
			}
		}
		if r.URL.Path != "/v1/agent" || r.URL.Query().Get("session") != "demo" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
		}
		upgrader := websocket.Upgrader{Subprotocols: []string{wire.Subprotocol}}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		running.Add(1)
		defer running.Done()
		defer ws.Close()
		s := socket{t, ws}
		var hello wire.Hello
		if !s.read(wire.TypeHello, &hello) {
			return
		}
		g.mu.Lock()
		g.hellos = append(g.hellos, hello)
		g.mu.Unlock()
		answer(mine, s, hello)
	}))
	t.Cleanup(func() { running.Wait(); g.Close() })
	return g
}

func (g *gateway) said() []wire.Hello {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]wire.Hello(nil), g.hellos...)
}

func (s socket) send(message any) {
	_ = s.WriteJSON(message) // the client may be gone already
}

func (s socket) image(h wire.ImageHeader, payload string) {
	h.Type = wire.TypeImage
	b, err := wire.EncodeBinary(h, []byte(payload))
	if err != nil {
		s.t.Error(err)
	}
	_ = s.WriteMessage(websocket.BinaryMessage, b)
}

// read takes the next text message, which must be of that type.
func (s socket) read(kind wire.Type, into any) bool {
	_, data, err := s.ReadMessage()
	if err != nil {
		return false
	}
	if got, err := wire.TypeOf(data); err != nil || got != kind {
		s.t.Errorf("got %.200s, want a %s", data, kind)
		return false
	}
	if err := json.Unmarshal(data, into); err != nil {
		s.t.Error(err)
		return false
	}
	return true
}

func (s socket) close(code int) {
	_ = s.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
}

// untilGone reads until the client leaves.
func (s socket) untilGone() {
	for {
		if _, _, err := s.ReadMessage(); err != nil {
			return
		}
	}
}

// testLog is the identity of the log that the scripted gateway serves.
const testLog = "log-1"

func (s socket) welcome(head uint64, replayed bool) {
	s.send(wire.Welcome{Type: wire.TypeWelcome, Session: "demo", AgentID: "a1", LogID: testLog, Seq: head, Replayed: replayed})
}

func (s socket) entry(seq uint64) {
	id := fmt.Sprintf("m%d", seq)
	s.send(wire.ContextEntry{Type: wire.TypeContextEntry, Entry: chatctx.Entry{Seq: seq, OpID: "op" + id, Author: "caller",
		At: chatctx.At(time.Now()), Op: chatctx.OpAppend,
		Item: &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(id)}}})
}
