// Package faketest is a server of Ultravox's calls for tests: it holds what it is sent against the documented rules, answers by script, and misbehaves as real ones do; it neither hears nor speaks.
package faketest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher/internal/sockettest"
)

// Rates of PCM16 mono in Hz that the call has to ask for.
const (
	InRate  = 16000
	OutRate = 24000
)

// Line is what somebody said in the call: Role is user, agent, tool, or note for a text that asks for no answer.
type Line struct{ Role, Text string }

// Script says how a Provider behaves. The zero value behaves well and answers "Hello." in sound.
type Script struct {
	Key    string // wanted in X-API-Key; "": none
	Status int    // answers POST /api/calls with this
	Body   string // … or with this, instead of a call
	Join   string // the joinUrl instead of one's own

	// Answer makes the n-th answer, from 0, to what was said; nil: all are Hello.
	Answer func(n int, said []Line) Answer
	Hears  func(n int) string // what the n-th utterance of the caller is; nil: "words"; "": nothing is transcribed

	LateTranscript bool // what the caller said is transcribed after the answer has begun
	SlowRead       time.Duration
	Mute           bool // never says that the call has begun
	Greets         bool // says something at once
	NoStates       bool // says nothing of its state after the beginning
	Lenient        bool // lets results pass of calls that it did not make: the test made them
}

// Call is the body of POST /api/calls as the API documents it.
type Call struct {
	SystemPrompt, Model, Voice, LanguageHint, MaxDuration, JoinTimeout string

	FirstSpeakerSettings struct {
		User *struct{}
	}
	Medium struct {
		ServerWebSocket struct {
			InputSampleRate, OutputSampleRate, ClientBufferSizeMs int
		}
	}
	SelectedTools []struct {
		TemporaryTool struct {
			ModelToolName, Description, Timeout string
			DynamicParameters                   []struct {
				Name, Location string
				Schema         map[string]any
				Required       bool
			}
			Client *struct{}
		}
	}
}

// Provider serves one Script.
type Provider struct {
	script Script
	served sync.WaitGroup

	mu         sync.Mutex
	calls      []Call
	got        []string // the client's text messages
	violations []string
	answers    int
	utterances int
	conn       *conn
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

// Calls are those that were made.
func (p *Provider) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Got are the client's text messages so far.
func (p *Provider) Got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got...)
}

// Violations are the broken rules so far.
func (p *Provider) Violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.violations...)
}

// Said is what was said in the newest call.
func (p *Provider) Said() []Line {
	c := p.current()
	if c == nil {
		return nil
	}
	return c.lines()
}

// Heard is how much sound the newest call was given.
func (p *Provider) Heard() time.Duration {
	c := p.current()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.written) * time.Second / InRate
}

// Close ends the newest socket with a code.
func (p *Provider) Close(code int, text string) {
	if c := p.current(); c != nil {
		c.close(code, text)
	}
}

// Send sends a message of the test's own, unchecked.
func (p *Provider) Send(raw string) {
	if c := p.current(); c != nil {
		c.out <- message{[]byte(raw), false}
	}
}

// Play sends sound of the test's own, unchecked.
func (p *Provider) Play(raw []byte) {
	if c := p.current(); c != nil {
		c.out <- message{raw, true}
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

// ServeHTTP takes POST /api/calls, and the socket of GET /join.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.served.Add(1)
	defer p.served.Done()
	switch r.URL.Path {
	case "/api/calls":
		p.create(w, r)
	case "/join":
		p.join(w, r)
	default:
		p.violation("%s %s", r.Method, r.URL)
		http.NotFound(w, r)
	}
}

func (p *Provider) create(w http.ResponseWriter, r *http.Request) {
	s := p.script
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.URL.RawQuery != "enableGreetingPrompt=false" {
		p.violation("%s %s %v", r.Method, r.URL, r.Header)
	}
	var c Call
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		p.violation("the call: %v", err)
	}
	p.check(c)
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	switch {
	case s.Key != "" && r.Header.Get("X-API-Key") != s.Key:
		http.Error(w, `{"detail":"bad key `+r.Header.Get("X-API-Key")+`"}`, http.StatusForbidden)
		return
	case s.Status != 0:
		http.Error(w, `{"detail":"refused"}`, s.Status)
		return
	}
	w.WriteHeader(http.StatusCreated)
	if s.Body != "" {
		_, _ = w.Write([]byte(s.Body))
		return
	}
	join := s.Join
	if join == "" {
		join = "ws://" + r.Host + "/join?call_id=1&token=once-only"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"callId": "1", "joinUrl": join, "created": "2026-01-01T00:00:00Z"})
}

// check holds a call against what the API documents.
func (p *Provider) check(c Call) {
	m := c.Medium.ServerWebSocket
	if m.InputSampleRate != InRate || m.OutputSampleRate != OutRate || m.ClientBufferSizeMs < 60 {
		p.violation("medium %+v", m)
	}
	if c.Model == "" || c.FirstSpeakerSettings.User == nil {
		p.violation("no model, or the agent would speak first: %+v", c)
	}
	for _, d := range []string{c.MaxDuration, c.JoinTimeout} {
		if v, err := time.ParseDuration(d); err != nil || !strings.HasSuffix(d, "s") || strings.ContainsAny(d, "hm") || v <= 0 {
			p.violation("duration %q", d)
		}
	}
	for _, t := range c.SelectedTools {
		tool := t.TemporaryTool
		if tool.ModelToolName == "" || tool.Client == nil || !strings.HasSuffix(tool.Timeout, "s") {
			p.violation("tool %+v", tool)
		}
		for _, d := range tool.DynamicParameters {
			if d.Location != "PARAMETER_LOCATION_BODY" || d.Schema == nil || d.Name == "" {
				p.violation("parameter %+v", d)
			}
		}
	}
}

func (p *Provider) join(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("token") != "once-only" {
		p.violation("joined %s", r.URL)
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{p: p, ws: ws, out: make(chan message, 256), done: make(chan struct{}), calls: map[string]string{}}
	p.mu.Lock()
	if p.conn != nil {
		p.violations = append(p.violations, "the call is joined twice")
	}
	p.conn = c
	p.mu.Unlock()
	c.serve()
}

func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
