// Package faketest is a server of Gemini's Live API for tests: it holds what it is sent against the official types and the documented rules, answers by script, and misbehaves as real ones do; it neither hears nor speaks.
package faketest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"sightline/context/project"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/sockettest"
)

// History says how the model takes turns that it is told of.
type History int

// The ways.
const (
	Initial History = iota // announced in the setup, before anything else, and never again
	AnyTime
	Never
)

// Script says how a Provider behaves. The zero value behaves well and answers "Hello." in sound.
type Script struct {
	Key     string // wanted in x-goog-api-key; "": none
	Status  int    // answers the connection with this instead of a socket
	History History

	// Answer makes the n-th answer, from 0, to the conversation as it stands; nil: all are Hello.
	Answer func(n int, conversation []project.GeminiContent) Answer
	Hears  func(n int) string // what the n-th utterance of the caller is; nil: "words"; "": nothing is understood

	RefuseHistory  bool          // closes with 1007 at the first clientContent
	RefuseLate     time.Duration // … but only after this
	RefuseSetup    string        // closes with 1007 and this text at the setup
	NoSetup        bool          // does not answer the setup
	LateTranscript bool          // what the caller said comes after the answer
	Finishes       bool          // says that transcripts are finished
	TextFrames     bool          // sends its messages as text; else as binary
	GoAwayAfter    time.Duration // says that it goes, a minute before; 0: never
	AnswersSeed    bool          // answers the history, which nobody asked for
	SlowRead       time.Duration
}

// Provider serves one Script.
type Provider struct {
	script Script
	served sync.WaitGroup

	mu         sync.Mutex
	got        []live.Client
	violations []string
	answers    int
	utterances int
	conn       *conn
	conns      int
	requests   []*http.Request
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

// Got are the client's messages so far, sound left out.
func (p *Provider) Got() []live.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]live.Client(nil), p.got...)
}

// Violations are the broken rules so far.
func (p *Provider) Violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.violations...)
}

// Conns counts the sockets so far.
func (p *Provider) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// Requests are those for a socket.
func (p *Provider) Requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.requests...)
}

// Heard is how much sound the newest connection was given.
func (p *Provider) Heard() time.Duration {
	c := p.current()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.written) * time.Second / live.InRate
}

// Conversation is that of the newest connection; what was said stands in it as text, images as such.
func (p *Provider) Conversation() []project.GeminiContent {
	c := p.current()
	if c == nil {
		return nil
	}
	return c.conversation()
}

// Setup is that of the newest connection.
func (p *Provider) Setup() live.Setup {
	c := p.current()
	if c == nil {
		return live.Setup{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.setup == nil {
		return live.Setup{}
	}
	return *c.setup
}

// Close ends the newest connection with a code.
func (p *Provider) Close(code int, text string) {
	if c := p.current(); c != nil {
		c.close(code, text)
	}
}

// Send sends a message of the test's own, unchecked.
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

// ServeHTTP takes the socket of GET …BidiGenerateContent.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.served.Add(1)
	defer p.served.Done()
	p.mu.Lock()
	p.requests = append(p.requests, r)
	p.mu.Unlock()
	switch {
	case p.script.Status != 0:
		http.Error(w, `{"error":{"message":"refused"}}`, p.script.Status)
		return
	case !strings.HasSuffix(r.URL.Path, ".GenerativeService.BidiGenerateContent") && !strings.HasSuffix(r.URL.Path, ".LlmBidiService/BidiGenerateContent"):
		p.violation("dialled %s", r.URL.Path)
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
	if key := r.Header.Get("x-goog-api-key") + r.URL.Query().Get("key"); p.script.Key != "" && key != p.script.Key {
		c.close(websocket.CloseInvalidFramePayloadData, "API key not valid. Please pass a valid API key: "+key)
	}
	c.serve()
}
