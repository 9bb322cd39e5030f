package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // header of JPEG
	_ "image/png"  // header of PNG
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/wire"
)

// transcriptLine is one line of testdata/wire/*.jsonl; README.md there says what each field means.
type transcriptLine struct {
	About        string          `json:"about"`
	Publish      bool            `json:"publish"`
	OpsPerSecond int             `json:"ops_per_second"`
	Dir          string          `json:"dir"`
	Socket       string          `json:"socket"`
	Text         json.RawMessage `json:"text"`
	Invalid      bool            `json:"invalid"`
	Raw          *string         `json:"raw"`
	Base64       []byte          `json:"base64"`
	BinaryHeader json.RawMessage `json:"binary_header"`
	HTTP         string          `json:"http"`
	Status       int             `json:"status"`
	Header       map[string]any  `json:"header"`
	Body         json.RawMessage `json:"body"`
	Close        int             `json:"close"`
	Drop         bool            `json:"drop"`
	Drain        bool            `json:"drain"`
}

func (l transcriptLine) isMessage() bool {
	return l.Dir == "gateway" && (l.Text != nil || l.BinaryHeader != nil)
}

// speaks: the client sends a message on that socket.
func (l transcriptLine) speaks(socket string) bool {
	return l.Dir == "client" && l.HTTP == "" && !l.Drop && l.Socket == socket
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.jsonl")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d transcripts found: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) { replay(t, file) })
	}
}

// player replays one transcript against a gateway of its own, whose session demo is there.
type player struct {
	*testing.T
	g       *gatewayUnderTest
	schemas *schemaSet
	sockets map[string]*websocket.Conn
	bound   map[string]string // <uuid:name> → what it stood for first
	answer  *http.Response
	body    []byte
	at      string // file:line, for failures
}

func replay(t *testing.T, file string) {
	lines := readTranscript(t, file)
	head := lines[0]
	if head.About == "" {
		t.Fatalf("%s:1: the first line says what it is about", file)
	}
	p := &player{T: t, schemas: schemasFor(t), sockets: map[string]*websocket.Conn{}, bound: map[string]string{}}
	p.g = startGateway(t, func(c *Config) { c.OpsPerSecond = head.OpsPerSecond })
	p.g.createSession("demo")
	if head.Publish {
		publishClip(t, p.g, "demo")
	}
	for n := 1; n < len(lines); n++ {
		p.at = fmt.Sprintf("%s:%d", file, n+1)
		l := lines[n]
		switch {
		case l.isMessage():
			end := n + 1
			for end < len(lines) && lines[end].isMessage() && lines[end].Socket == l.Socket {
				end++
			}
			p.expectMessages(l.Socket, lines[n:end])
			n = end - 1
		case l.Dir == "gateway" && l.Status != 0:
			p.expectAnswer(l)
		case l.Dir == "client":
			p.act(l, n+1 < len(lines) && lines[n+1].speaks(l.Socket))
		case l.Close != 0:
			p.expectClose(l)
		case l.Drain:
			go func() { _ = p.g.stop() }() // the harness waits for it
		default:
			t.Fatalf("%s: nothing to do in this line", p.at)
		}
	}
	for name := range p.sockets {
		p.expectSilence(name)
	}
}

func readTranscript(t *testing.T, file string) []transcriptLine {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []transcriptLine
	for s := bufio.NewScanner(f); s.Scan(); {
		var l transcriptLine
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%s:%d: %v", file, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// batchConn holds writes back while more is set, so that messages in a row reach the gateway at one time: a busy machine must not
// put seconds between them, which a rate limit would see.
type batchConn struct {
	net.Conn
	more    bool
	pending []byte
}

func (c *batchConn) Write(b []byte) (int, error) {
	if c.pending = append(c.pending, b...); c.more {
		return len(b), nil
	}
	_, err := c.Conn.Write(c.pending)
	c.pending = nil
	return len(b), err
}

func (p *player) dial(socket string) *websocket.Conn {
	p.Helper()
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, HandshakeTimeout: testTimeout, NetDial: func(network, address string) (net.Conn, error) {
		conn, err := net.Dial(network, address)
		return &batchConn{Conn: conn}, err
	}}
	conn, _, err := d.Dial("ws"+strings.TrimPrefix(p.g.url, "http")+"/v1/agent?session=demo", nil)
	if err != nil {
		p.Fatalf("%s: dial: %v", p.at, err)
	}
	p.Cleanup(func() { _ = conn.Close() })
	p.sockets[socket] = conn
	return conn
}

// act does one line of the client; more: the next line is a message on the same socket.
func (p *player) act(l transcriptLine, more bool) {
	p.Helper()
	if l.HTTP != "" {
		p.request(l)
		return
	}
	conn := p.sockets[l.Socket]
	if conn == nil {
		conn = p.dial(l.Socket)
	}
	kind, data := websocket.TextMessage, []byte(nil)
	switch {
	case l.Drop:
		_ = conn.NetConn().Close() // no close frame: the network is gone
		delete(p.sockets, l.Socket)
		return
	case l.Text != nil:
		data = p.expand(l.Text)
		p.checkTaken(data, l.Invalid)
	case l.Raw != nil:
		data = p.expand([]byte(*l.Raw))
	case l.BinaryHeader != nil:
		kind = websocket.BinaryMessage
		data = append(wire.AppendBinaryHeader(nil, l.BinaryHeader), l.Base64...)
	default:
		if data = l.Base64; l.Status == websocket.BinaryMessage {
			kind = websocket.BinaryMessage
		}
	}
	conn.NetConn().(*batchConn).more = more
	if err := conn.WriteMessage(kind, data); err != nil && l.Raw == nil { // one that is too long may be cut off on its way
		p.Fatalf("%s: send: %v", p.at, err)
	}
}

// checkTaken holds what the transcript says of a client's message against its schema.
func (p *player) checkTaken(data []byte, invalid bool) {
	p.Helper()
	t, _ := wire.TypeOf(data)
	err := p.schemas.taken(string(t), data)
	if (err != nil) != invalid {
		p.Errorf("%s: marked invalid: %v, but its schema says: %v", p.at, invalid, err)
	}
}

func (p *player) request(l transcriptLine) {
	p.Helper()
	method, path, _ := strings.Cut(string(p.expand([]byte(l.HTTP))), " ")
	req, err := http.NewRequest(method, p.g.url+path, bytes.NewReader(p.expand(l.Body)))
	if err != nil {
		p.Fatalf("%s: %v", p.at, err)
	}
	if host, ok := l.Header["Host"].(string); ok {
		req.Host = host
	}
	if kind, ok := l.Header["Content-Type"].(string); ok {
		req.Header.Set("Content-Type", kind)
	}
	if p.answer, err = http.DefaultClient.Do(req); err != nil {
		p.Fatalf("%s: %v", p.at, err)
	}
	defer p.answer.Body.Close()
	if p.body, err = io.ReadAll(p.answer.Body); err != nil {
		p.Fatalf("%s: %v", p.at, err)
	}
}

func (p *player) expectAnswer(l transcriptLine) {
	p.Helper()
	if p.answer.StatusCode != l.Status {
		p.Fatalf("%s: status %d, body %s", p.at, p.answer.StatusCode, p.body)
	}
	for name, want := range l.Header {
		if err := p.match(want, p.answer.Header.Get(name)); err != nil {
			p.Errorf("%s: header %s: %v", p.at, name, err)
		}
	}
	if l.Body == nil {
		return
	}
	body := p.body
	if l.Status >= 400 {
		if err := p.schemas.sent("problem", p.body); err != nil {
			p.Errorf("%s: %v", p.at, err)
		}
		id := fmt.Sprintf(`,"request_id":%q`, p.answer.Header.Get("X-Request-Id")) // another one each time
		if body = bytes.Replace(p.body, []byte(id), nil, 1); len(body) == len(p.body) {
			p.Errorf("%s: no %s in %s", p.at, id, p.body)
		}
	}
	if err := p.matchJSON(l.Body, body); err != nil {
		p.Errorf("%s: %v\n got %s", p.at, err, p.body)
	}
}

// expectMessages wants these messages next. Types may come in any order among themselves (an answer and an entry have none),
// messages of one type in the order of the lines.
func (p *player) expectMessages(socket string, want []transcriptLine) {
	p.Helper()
	for want = slices.Clone(want); len(want) > 0; {
		text, got := p.read(socket)
		t, _ := wire.TypeOf(got)
		n := slices.IndexFunc(want, func(l transcriptLine) bool {
			expected := l.Text
			if !text {
				expected = l.BinaryHeader
			}
			wanted, err := wire.TypeOf(expected)
			return err == nil && wanted == t
		})
		switch {
		case n >= 0:
		case streamed(t, got):
			continue
		default:
			p.Fatalf("%s: got %s", p.at, got)
		}
		expected := want[n].Text
		if !text {
			expected = want[n].BinaryHeader
		}
		if err := p.matchJSON(expected, got); err != nil {
			p.Fatalf("%s: %v\n got %s\nwant %s", p.at, err, got, expected)
		}
		want = slices.Delete(want, n, n+1)
	}
}

// streamed images come as often as they come; a transcript may leave them out.
func streamed(t wire.Type, header []byte) bool {
	return t == wire.TypeImage && !bytes.Contains(header, []byte(`"request_id"`))
}

// read gives the next message, of a binary one its header; whatever it is must fit its schema.
func (p *player) read(socket string) (text bool, data []byte) {
	p.Helper()
	conn := p.sockets[socket]
	_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
	kind, data, err := conn.ReadMessage()
	if err != nil {
		p.Fatalf("%s: read: %v", p.at, err)
	}
	if kind == websocket.BinaryMessage {
		var payload []byte
		if _, data, payload, err = wire.DecodeBinary(data); err != nil {
			p.Fatalf("%s: %v", p.at, err)
		}
		p.checkImage(data, payload)
	}
	t, err := wire.TypeOf(data)
	if err != nil {
		p.Fatalf("%s: got %s: %v", p.at, data, err)
	}
	if err := p.schemas.sent(string(t), data); err != nil {
		p.Errorf("%s: %v", p.at, err)
	}
	return kind == websocket.TextMessage, data
}

func (p *player) checkImage(header, payload []byte) {
	p.Helper()
	var h wire.ImageHeader
	if err := json.Unmarshal(header, &h); err != nil {
		p.Fatalf("%s: %v", p.at, err)
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(payload))
	if err != nil || cfg.Width != h.Width || cfg.Height != h.Height || h.MIME != "image/"+format {
		p.Errorf("%s: header %s, but the payload is a %s of %d×%d: %v", p.at, header, format, cfg.Width, cfg.Height, err)
	}
}

func (p *player) expectClose(l transcriptLine) {
	p.Helper()
	conn := p.sockets[l.Socket]
	_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		_, data, err := conn.ReadMessage()
		if err == nil {
			if _, header, _, binary := wire.DecodeBinary(data); binary == nil && streamed(wire.TypeImage, header) {
				continue
			}
			p.Fatalf("%s: got %s before the close", p.at, data)
		}
		if !websocket.IsCloseError(err, l.Close) {
			p.Fatalf("%s: %v, want close %d", p.at, err, l.Close)
		}
		delete(p.sockets, l.Socket)
		return
	}
}

// expectSilence: an open socket has nothing more to say than the answer to a ping.
func (p *player) expectSilence(socket string) {
	p.at = fmt.Sprintf("end of the transcript, socket %q", socket)
	p.act(transcriptLine{Socket: socket, Text: json.RawMessage(`{"type":"ping","id":"end"}`)}, false)
	p.expectMessages(socket, []transcriptLine{{Dir: "gateway", Text: json.RawMessage(`{"type":"pong","id":"end"}`)}})
}
