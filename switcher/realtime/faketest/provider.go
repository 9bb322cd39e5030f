// Package faketest is a provider of the OpenAI Realtime dialect for tests: it holds what it is sent against the official types and the documented rules, answers by script, and misbehaves as real ones do; it neither hears nor speaks.
package faketest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher/internal/sockettest"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

// Script says how a Provider behaves. The zero value behaves well and answers "Hello." in sound.
type Script struct {
	Key       string // wanted as a bearer; "": none
	Status    int    // answers the connection with this instead of a socket
	ExpiresIn time.Duration

	// Answer makes the n-th answer, from 0, to the conversation as it stands; nil: all are Hello.
	Answer func(n int, conversation []dialect.Item) Answer
	Hears  func(n int) string // what the n-th utterance of the caller is; nil: "words"; "\x00": the transcription fails

	Beta           bool // event names of the beta
	CreatedToo     bool // item.created beside item.added
	Conversation   bool // conversation.created comes first, session.created never
	OwnIDs         bool // gives items ids of its own
	NoUpdated      bool // session.update is not answered
	LateTranscript bool // transcripts come after the answer
	IgnoresCreate  bool // answers turns by itself whatever create_response says
	IgnoresCancel  bool
	IgnoresTurns   bool // never answers one by itself, and says nothing of it
	RefuseItem     int  // the n-th item.create is refused with an error, from 1
	CloseOnItem    int  // the first item.create is answered with this close code
	SlowRead       time.Duration
	Deaf           bool // no server VAD
}

// Provider serves one Script.
type Provider struct {
	script Script
	served sync.WaitGroup

	mu         sync.Mutex
	got        []dialect.ClientEvent
	violations []string
	active     int // refusals of a second answer
	answers    int
	utterances int
	conn       *conn
	conns      int
}

// New makes a Provider; it serves through ServeHTTP or Listen.
func New(s Script) *Provider { return &Provider{script: s} }

// Listen serves in memory until stop is called; dial reaches it.
func (p *Provider) Listen() (dial func(ctx context.Context, network, addr string) (net.Conn, error), stop func()) {
	dial, end := sockettest.Listen(p)
	return dial, func() {
		p.Close(websocket.CloseGoingAway, "the test is over")
		end()
		p.served.Wait() // the server forgets the sockets it gave away
	}
}

// Got are the client's events so far, sound left out.
func (p *Provider) Got() []dialect.ClientEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]dialect.ClientEvent(nil), p.got...)
}

// Violations are the broken rules so far.
func (p *Provider) Violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.violations...)
}

// Refusals counts the answers that were asked for while there was one.
func (p *Provider) Refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active
}

// Heard is how much sound the newest connection was given.
func (p *Provider) Heard() time.Duration {
	c := p.current()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return samples(c.written)
}

// Said is how much sound the newest connection has made for its client.
func (p *Provider) Said() time.Duration {
	c := p.current()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, it := range c.items {
		total += it.samples
	}
	return samples(total)
}

// Items are the conversation of the newest connection.
func (p *Provider) Items() []dialect.Item {
	c := p.current()
	if c == nil {
		return nil
	}
	return c.conversation()
}

// Session is what the newest connection is set to.
func (p *Provider) Session() dialect.Session {
	c := p.current()
	if c == nil {
		return dialect.Session{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Close ends the newest connection with a code.
func (p *Provider) Close(code int, text string) {
	if c := p.current(); c != nil {
		c.close(code, text)
	}
}

// Send sends an event of the test's own, unchecked.
func (p *Provider) Send(raw string) {
	if c := p.current(); c != nil {
		c.out <- []byte(raw)
	}
}

func (p *Provider) current() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

func (p *Provider) violation(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.violations = append(p.violations, fmt.Sprintf(format, args...))
}

// ServeHTTP takes the socket of GET …/realtime?model=….
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.served.Add(1)
	defer p.served.Done()
	switch {
	case p.script.Status != 0:
		http.Error(w, `{"error":{"message":"refused"}}`, p.script.Status)
		return
	case p.script.Key != "" && r.Header.Get("Authorization") != "Bearer "+p.script.Key:
		http.Error(w, `{"error":{"message":"Incorrect API key provided: `+r.Header.Get("Authorization")+`"}}`, http.StatusUnauthorized)
		return
	}
	if r.URL.Path != "/v1/realtime" || r.URL.Query().Get("model") == "" {
		p.violation("dialled %s", r.URL)
	}
	if r.Header.Get("OpenAI-Beta") != "" {
		p.violation("the beta's header is sent")
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := newConn(p, ws)
	p.mu.Lock()
	p.conn = c
	p.conns++
	p.mu.Unlock()
	c.serve()
}

// emit sends an event, which must fit the official types.
func (c *conn) emit(e dialect.ServerEvent) {
	data, err := dialect.Encode(e)
	if err != nil {
		c.p.violation("the fake cannot write %T: %v", e, err)
		return
	}
	if _, sound := e.(*dialect.OutputAudioDelta); sound && c.sounds.Add(1) > 50 {
		// One piece of sound is like another, and there are thousands.
	} else if err := dialecttest.Server(data); err != nil {
		c.p.violation("the fake sends %s: %v", data, err)
	}
	if c.p.script.Beta {
		data = toBeta(data)
	}
	select {
	case c.out <- data:
	case <-c.done:
	}
}

func (c *conn) fail(code, message, eventID string) {
	c.emit(&dialect.Error{EventID: c.id("event"), Error: dialect.ErrorDetail{Type: "invalid_request_error", Code: code, Message: message, EventID: eventID}})
}
