package gateway

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/wire"
)

// goodAgents are a writer and a reader of a session, beside whatever else is attached to it.
type goodAgents struct {
	g       *gatewayUnderTest
	session string
	stop    chan struct{}
	ended   sync.WaitGroup
	mu      sync.Mutex
	acked   map[string]uint64 // op_id → seq
	read    []uint64          // in the order of arrival
}

// attachGood attaches both; the writer appends until unharmed is called.
func (g *gatewayUnderTest) attachGood(session string) *goodAgents {
	g.t.Helper()
	a := &goodAgents{g: g, session: session, stop: make(chan struct{}), acked: map[string]uint64{}}
	w, _ := g.attach(session, "good-writer", `"want":{}`)
	r, _ := g.attach(session, "good-reader", `"resume_from":0,"want":{"context":true}`)
	a.ended.Go(func() {
		beat := time.NewTicker(25 * time.Millisecond) // below the limit of operations a second
		defer beat.Stop()
		for n := 0; ; n++ {
			select {
			case <-a.stop:
				w.send(`{"type":"bye"}`)
				return
			case <-beat.C:
			}
			op := fmt.Sprintf("good-%d", n)
			w.send(fmt.Sprintf(`{"type":"context.append","op_id":%q,"item":{"type":"message","role":"user","content":%q}}`, op, op))
			m := w.next()
			if m["type"] != "ack" {
				g.t.Errorf("the good writer got %v", m)
				return
			}
			a.mu.Lock()
			a.acked[op] = uint64(m["seq"].(float64))
			a.mu.Unlock()
		}
	})
	go func() {
		beat := time.NewTicker(200 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-g.t.Context().Done():
				return
			case <-beat.C:
				_ = r.conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"ping","id":"here"}`)) // its reader sees the end
			}
		}
	}()
	go func() {
		for {
			kind, data, err := r.conn.ReadMessage()
			if err != nil {
				return // the test has ended
			}
			if t, _ := wire.TypeOf(data); kind == websocket.TextMessage && t == wire.TypeContextEntry {
				e := decodeEntry(g.t, data)
				a.mu.Lock()
				a.read = append(a.read, e)
				a.mu.Unlock()
			}
		}
	}()
	return a
}

func decodeEntry(t *testing.T, data []byte) uint64 {
	var m wire.ContextEntry
	if err := decode(data, &m); err != nil {
		t.Errorf("%v in %s", err, data)
	}
	return m.Seq
}

func (a *goodAgents) appended() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.acked)
}

// unharmed ends the writer and demands that the reader has every entry once and in order, the writer's own among them.
func (a *goodAgents) unharmed(t *testing.T) {
	t.Helper()
	before := a.appended()
	eventually(t, func() string {
		if n := a.appended(); n < before+20 {
			return fmt.Sprintf("the good writer goes on: %d entries, then %d", before, n)
		}
		return ""
	})
	close(a.stop)
	a.ended.Wait()
	head := a.g.sessions.mustGet(t, a.session).log.Head()
	eventually(t, func() string {
		a.mu.Lock()
		defer a.mu.Unlock()
		if uint64(len(a.read)) < head {
			return fmt.Sprintf("the good reader has %d of %d entries", len(a.read), head)
		}
		return ""
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, seq := range a.read {
		if seq != uint64(i+1) {
			t.Fatalf("entry %d of the good reader has seq %d", i+1, seq)
		}
	}
	for op, seq := range a.acked {
		if seq > head {
			t.Errorf("%s was acknowledged as %d, the head is %d", op, seq, head)
		}
	}
}

// mustGet finds a session that must be there.
func (r *registry) mustGet(t *testing.T, id string) *Session {
	t.Helper()
	s, err := r.get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// frame is a WebSocket frame (RFC 6455 §5.2) with a mask of zeros; length is what it claims.
func frame(first byte, length uint64, payload string) []byte {
	b := append([]byte{first, 0x80 | 127}, binary.BigEndian.AppendUint64(nil, length)...)
	return append(append(b, 0, 0, 0, 0), payload...)
}

// TestFaultBadFrames: lengths up to 2^64-1, a compressed bomb, fragments without end, frames without a mask, reserved bits. Each
// ends its own socket with its code, and nothing is put aside for what was only claimed.
func TestFaultBadFrames(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	good := g.attachGood("s")
	for _, bad := range []struct {
		name string
		send func(net.Conn)
		code int
	}{
		{"2^31 bytes", func(c net.Conn) { _, _ = c.Write(frame(0x81, 1<<31, "x")) }, wire.CloseTooBig},
		{"2^63-1 bytes", func(c net.Conn) { _, _ = c.Write(frame(0x82, 1<<63-1, "x")) }, wire.CloseTooBig},
		{"2^64-1 bytes", func(c net.Conn) { _, _ = c.Write(frame(0x82, 1<<64-1, "x")) }, wire.CloseTooBig},
		{"a ping of 2^63-1 bytes", func(c net.Conn) { _, _ = c.Write(frame(0x89, 1<<63-1, "x")) }, websocket.CloseProtocolError},
		{"compressed, as was not agreed", func(c net.Conn) { _, _ = c.Write(frame(0xc1, 5, "\xaa\x56\x4a\x2d\x01")) }, websocket.CloseProtocolError},
		{"not masked", func(c net.Conn) { _, _ = c.Write([]byte{0x81, 1, 'x'}) }, websocket.CloseProtocolError},
		{"reserved opcode", func(c net.Conn) { _, _ = c.Write(frame(0x8b, 1, "x")) }, websocket.CloseProtocolError},
		{"fragments without end", func(c net.Conn) {
			piece := strings.Repeat("x", 64<<10)
			_ = c.SetWriteDeadline(time.Now().Add(testTimeout))
			_, err := c.Write(frame(0x01, uint64(len(piece)), piece))
			for err == nil {
				_, err = c.Write(frame(0x00, uint64(len(piece)), piece))
			}
		}, wire.CloseTooBig},
	} {
		c, _ := g.attach("s", "bad", `"want":{}`)
		bad.send(c.conn.NetConn())
		if code, ok := c.closeCode(); ok && code != bad.code {
			t.Errorf("%s: closed with %d, want %d", bad.name, code, bad.code)
		}
	}
	// permessage-deflate is not agreed to when it is asked for.
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, EnableCompression: true, HandshakeTimeout: testTimeout}
	conn, res, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/agent?session=s", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if x := res.Header.Get("Sec-WebSocket-Extensions"); x != "" {
		t.Errorf("the gateway agrees to %q", x)
	}
	good.unharmed(t)
}

// closeCode is the code of the close frame; not ok where the bytes that were never read reset the connection before it came.
func (c *socket) closeCode() (code int, ok bool) {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		_, _, err := c.conn.ReadMessage()
		var closed *websocket.CloseError
		if asClose(err, &closed) {
			return closed.Code, true
		}
		if timeout, is := err.(net.Error); is && timeout.Timeout() {
			c.t.Fatal("the socket is still open")
		}
		if err != nil {
			return 0, false
		}
	}
}

// TestFaultOpsFlood: 5,000 operations as fast as they go, and 1,000 more that are none. What is taken is in the log once, the
// rest is refused, and the others' operations are all taken.
func TestFaultOpsFlood(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	good := g.attachGood("s")
	const ops = 5_000
	flood, _ := g.attach("s", "flood", `"want":{}`)
	binary, _ := g.attach("s", "binary", `"want":{}`)
	var senders, readers sync.WaitGroup
	senders.Go(func() {
		for n := range ops {
			_ = flood.conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil,
				`{"type":"context.append","op_id":"flood-%d","item":{"type":"message","role":"user","content":"x"}}`, n))
		}
	})
	senders.Go(func() {
		for range ops / 5 { // sound for a leg that is not there
			_ = binary.conn.WriteMessage(websocket.BinaryMessage, append([]byte{0, 0, 0, 29}, `{"type":"audio","epoch":4711}xx`...))
		}
	})
	var acks, limited atomic.Int64
	readers.Go(func() {
		for range ops {
			switch m := flood.next(); {
			case m["type"] == "ack":
				acks.Add(1)
			case m["type"] == "error" && m["code"] == "rate_limited":
				limited.Add(1)
			default:
				t.Errorf("the flood got %v", m)
				return
			}
		}
	})
	go func() { // answers of any kind, or none: its sound is late for a leg
		for {
			if _, _, err := binary.conn.ReadMessage(); err != nil {
				return
			}
		}
	}()
	senders.Wait()
	readers.Wait()
	if acks.Load()+limited.Load() != ops || acks.Load() < 50 || limited.Load() < ops/2 {
		t.Errorf("%d acknowledged and %d limited of %d operations", acks.Load(), limited.Load(), ops)
	}
	good.unharmed(t)
	if head, want := g.sessions.mustGet(t, "s").log.Head(), uint64(acks.Load())+uint64(good.appended()); head != want {
		t.Errorf("the log has %d entries, %d were acknowledged", head, want)
	}
}

// TestFaultSocketsThatSayNothing: sockets without a hello, with a hello in drips, with a hello and then silence (the other end is
// gone without a word), and far more than there is room for. All are gone in their time, and the good ones stay.
func TestFaultSocketsThatSayNothing(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.hello, c.silence = time.Second, 2*time.Second; c.MaxAgents = 6 })
	g.createSession("s")
	good := g.attachGood("s")
	half := g.dial("s")
	half.send(`{"type":"hello","agent_id":"half-open","want":{"context":true}}`) // and is never read, so that no pong is sent
	var refused, open, other int
	for range 200 {
		conn, res, err := g.tryDial("s")
		switch {
		case err == nil:
			open++
			defer conn.Close()
		case res != nil && res.StatusCode == http.StatusServiceUnavailable:
			refused++
		default:
			other++
			t.Logf("%v %v", err, res)
		}
	}
	if open == 0 || open > 6+maxNewcomers-3 || refused == 0 || other != 0 {
		t.Errorf("%d sockets open, %d refused with 503, %d otherwise", open, refused, other)
	}
	drips, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer drips.Close()
	eventually(t, func() string {
		if s := g.sessions.mustGet(t, "s"); s.socketCount() > 2 {
			return fmt.Sprintf("%d sockets of the session are left", s.socketCount())
		}
		return ""
	})
	fmt.Fprintf(drips, "GET /v1/agent?session=s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", wire.Subprotocol)
	answer := bufio.NewReader(drips)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q %v", line, err)
	}
	hello := frame(0x81, 40, `{"type":"hello","agent_id":"drips"......}`)
	begun, ended := time.Now(), make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, answer); close(ended) }()
	for _, b := range hello {
		_, err := drips.Write([]byte{b})
		if err != nil {
			break
		}
		select {
		case <-ended:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatalf("a hello in drips holds its socket since %v", time.Since(begun))
	}
	good.unharmed(t)
}

func (s *Session) socketCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sockets
}
