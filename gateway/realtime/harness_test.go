package realtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"sightline/gateway/realtime"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/local"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something that must come.
const patience = 30 * time.Second

// engines are the real ones, warm for the time of a test.
func engines(t *testing.T) *local.Engines {
	t.Helper()
	e, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("engines: %v", err)
		}
	})
	return e
}

// pipeline is a cascade as a switcher takes it.
func pipeline(c cascade.Config) switcher.Pipeline {
	return switcher.Pipeline{Name: "local", Kind: switcher.Cascade, Provider: "local", Can: c.Capability(), New: func() switcher.Leg { return cascade.New(c) }}
}

// serve runs a Loopback for the time of a test.
func serve(t *testing.T, p switcher.Pipeline) *realtime.Loopback {
	t.Helper()
	l := realtime.NewLoopback(realtime.LoopbackConfig{Pipeline: p})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the Loopback does not return")
		}
	})
	return l
}

// client is the other end of a socket. Each event of the server is held against the official types.
type client struct {
	t    *testing.T
	conn *websocket.Conn

	mu      sync.Mutex
	got     []dialect.ServerEvent
	taken   int // of got, by next
	changed chan struct{}
	err     error
}

func connect(t *testing.T, l *realtime.Loopback) *client {
	t.Helper()
	d := websocket.Dialer{NetDialContext: l.Dial, Subprotocols: []string{"realtime", "openai-insecure-api-key.x"}}
	conn, answer, err := d.DialContext(t.Context(), "ws://loopback/v1/realtime?model=local", nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := answer.Header.Get("Sec-WebSocket-Protocol"); p != "realtime" {
		t.Errorf("subprotocol %q", p)
	}
	c := &client{t: t, conn: conn, changed: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.read()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return c
}

func (c *client) read() {
	for {
		_, data, err := c.conn.ReadMessage()
		c.mu.Lock()
		if err != nil {
			c.err = err
		} else {
			if e := dialecttest.Server(data); e != nil && !strings.Contains(string(data[:40]), "sightline.") {
				c.t.Errorf("the server sent what the official types do not know: %v\n%.600s", e, data)
			}
			e, decodeErr := dialect.DecodeServer(data)
			if decodeErr != nil {
				c.t.Errorf("no event: %s", data)
			}
			c.got = append(c.got, e)
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *client) send(e dialect.ClientEvent) {
	c.t.Helper()
	data, err := dialect.Encode(e)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := dialecttest.Client(data); err != nil {
		c.t.Errorf("the test sends what no client may: %v\n%.300s", err, data)
	}
	c.raw(string(data))
}

func (c *client) raw(text string) {
	c.t.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// next waits for an event of a type that is right, and takes all up to it.
func next[E dialect.ServerEvent](c *client, right func(E) bool) E {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		for c.taken < len(c.got) {
			e := c.got[c.taken]
			c.taken++
			if x, ok := e.(E); ok && (right == nil || right(x)) {
				c.mu.Unlock()
				return x
			}
		}
		changed, err := c.changed, c.err
		c.mu.Unlock()
		if err != nil {
			c.t.Fatalf("the socket ended: %v\n%s", err, c.tail())
		}
		select {
		case <-changed:
		case <-deadline:
			var want E
			c.t.Fatalf("no %T came within %s\n%s", want, patience, c.tail())
		}
	}
}

// tail is what came last.
func (c *client) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, e := range c.got[max(0, len(c.got)-30):] {
		data, _ := json.Marshal(e)
		fmt.Fprintf(&b, "%s %.160s\n", e.EventType(), data)
	}
	return b.String()
}

// types are those of the events so far, deltas once in a row.
func (c *client) types() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.got {
		if n := len(list); n == 0 || list[n-1] != e.EventType() {
			list = append(list, e.EventType())
		}
	}
	return list
}

// all are the events of a type so far.
func all[E dialect.ServerEvent](c *client) (list []E) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.got {
		if x, ok := e.(E); ok {
			list = append(list, x)
		}
	}
	return list
}

func ptr[T any](v T) *T { return &v }

// says puts a message of the user in.
func (c *client) says(id, text string) {
	c.t.Helper()
	c.send(&dialect.ItemCreate{EventID: "e-" + id, Item: dialect.Item{ID: id, Type: "message", Role: "user", Content: []dialect.Part{{Type: "input_text", Text: text}}}})
}

// asks asks for an answer and waits for its end.
func (c *client) asks(p *dialect.ResponseParams) dialect.Response {
	c.t.Helper()
	c.send(&dialect.ResponseCreate{Response: p})
	return next[*dialect.ResponseDone](c, nil).Response
}

// speaks sends speech in pieces of 50 ms, faster than it was spoken, with silence behind it.
func (c *client) speaks(e *local.Engines, text string) {
	c.t.Helper()
	v, err := local.NewVoice(local.VoiceConfig{Voice: "rms"})
	if err != nil {
		c.t.Fatal(err)
	}
	pcm := make([]int16, dialect.Rate/2)
	r := resampler(v.Rate())
	if err := v.Speak(c.t.Context(), text, func(p []int16) error { pcm = append(pcm, r.Push(p)...); return nil }); err != nil {
		c.t.Fatal(err)
	}
	pcm = append(pcm, make([]int16, dialect.Rate)...)
	for ; len(pcm) > 0; pcm = pcm[min(len(pcm), dialect.Rate/20):] {
		c.send(&dialect.InputAudioAppend{Audio: dialect.EncodePCM(pcm[:min(len(pcm), dialect.Rate/20)])})
	}
}

// sound is how much sound of an item came.
func (c *client) sound(item string) (d time.Duration) {
	for _, e := range all[*dialect.OutputAudioDelta](c) {
		if e.ItemID == item {
			pcm, err := dialect.DecodePCM(e.Delta)
			if err != nil {
				c.t.Error(err)
			}
			d += time.Duration(len(pcm)) * time.Second / dialect.Rate
		}
	}
	return d
}
