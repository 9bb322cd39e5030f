package faketest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"sightline/context/project"
	"sightline/switcher/gemini/live"
)

// conn is one socket.
type conn struct {
	p    *Provider
	ws   *websocket.Conn
	out  chan []byte
	done chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu    sync.Mutex
	setup *live.Setup
	waits bool // for the announced history
	said  []project.GeminiContent

	written int // samples in all
	frame   time.Time
	turn    callerTurn
	ear     vad

	answer *playing // the newest
	calls  map[string]*pendingCall
	late   []func() // transcripts for after the answer
}

// callerTurn is what belongs to the turn that is being made.
type callerTurn struct {
	open    bool // activityStart has come
	samples int
	parts   []project.GeminiPart
}

type pendingCall struct {
	name  string
	state string // open, answered, cancelled
}

func newConn(p *Provider, ws *websocket.Conn) *conn {
	return &conn{p: p, ws: ws, out: make(chan []byte, 256), done: make(chan struct{}), calls: map[string]*pendingCall{}}
}

// serve returns when the socket and all it started have ended.
func (c *conn) serve() {
	c.wg.Go(c.write)
	for {
		if d := c.p.script.SlowRead; d > 0 {
			time.Sleep(d)
		}
		kind, data, err := c.ws.ReadMessage()
		if err != nil {
			break
		}
		if kind != websocket.TextMessage {
			c.p.violation("a binary message of the client")
		}
		c.take(data)
	}
	c.once.Do(func() { close(c.done) })
	c.wg.Wait()
	_ = c.ws.Close()
}

func (c *conn) write() {
	kind := websocket.BinaryMessage
	if c.p.script.TextFrames {
		kind = websocket.TextMessage
	}
	for {
		select {
		case data := <-c.out:
			_ = c.ws.SetWriteDeadline(time.Now().Add(10 * time.Minute))
			if c.ws.WriteMessage(kind, data) != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *conn) close(code int, text string) {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text[:min(len(text), 120)]), time.Now().Add(time.Second))
	_ = c.ws.SetReadDeadline(time.Now().Add(time.Second)) // for the other side's close
}

// wrong is a broken rule that the real server answers with a close.
func (c *conn) wrong(format string, args ...any) {
	c.p.violation(format, args...)
	c.close(websocket.CloseInvalidFramePayloadData, "Request contains an invalid argument.")
}

// emit sends a message, which must fit the official types.
func (c *conn) emit(m live.Server) {
	data, err := live.EncodeServer(m)
	if err != nil {
		c.p.violation("the fake cannot write %+v: %v", m, err)
		return
	}
	if err := Server(data); err != nil {
		c.p.violation("the fake sends %.300s: %v", data, err)
	}
	select {
	case c.out <- data:
	case <-c.done:
	}
}

func (c *conn) content(s live.ServerContent) { c.emit(live.Server{ServerContent: &s}) }

// take checks a message and does it.
func (c *conn) take(data []byte) {
	if err := Client(data); err != nil {
		c.p.violation("%.300s: %v", data, err)
	}
	m, err := live.DecodeClient(data)
	if err != nil {
		c.p.violation("%.300s: %v", data, err)
		return
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(data, &fields); len(fields) != 1 {
		c.p.violation("a message has one field: %.200s", data)
	}
	if m.RealtimeInput == nil || m.RealtimeInput.Audio == nil {
		c.p.mu.Lock()
		c.p.got = append(c.p.got, m)
		c.p.mu.Unlock()
	}
	switch {
	case (m.Setup != nil) != (c.setup == nil):
		c.wrong("the setup comes first, and once: %.200s", data)
	case m.Setup != nil:
		c.begin(m.Setup)
	case m.ClientContent != nil:
		c.told(m.ClientContent)
	case m.ToolResponse != nil:
		c.results(m.ToolResponse)
	case m.RealtimeInput != nil:
		if c.waits {
			c.wrong("realtimeInput before the announced history: %.200s", data)
			return
		}
		c.input(m.RealtimeInput, data)
	}
}

func (c *conn) begin(s *live.Setup) {
	script := c.p.script
	if !strings.HasPrefix(s.Model, "models/") && !strings.HasPrefix(s.Model, "projects/") {
		c.p.violation("model %q", s.Model)
	}
	if !slices.Equal(s.GenerationConfig.ResponseModalities, []string{"AUDIO"}) {
		c.p.violation("responseModalities %v", s.GenerationConfig.ResponseModalities)
	}
	if i := s.SystemInstruction; i != nil && (len(i.Parts) != 1 || strings.TrimSpace(i.Parts[0].Text) == "") {
		c.p.violation("systemInstruction %+v", i)
	}
	c.mu.Lock()
	c.setup = s
	c.waits = s.HistoryConfig != nil && s.HistoryConfig.InitialHistoryInClientContent
	c.mu.Unlock()
	switch {
	case s.HistoryConfig != nil && script.History != Initial:
		c.wrong("historyConfig for a model that does not know it")
	case script.RefuseSetup != "":
		c.close(websocket.CloseInvalidFramePayloadData, script.RefuseSetup)
	case !script.NoSetup:
		c.emit(live.Server{SetupComplete: &live.SetupComplete{SessionID: "session"}})
		c.emit(live.Server{SessionResumptionUpdate: &live.ResumptionUpdate{NewHandle: "handle", Resumable: true}})
	}
	if d := script.GoAwayAfter; d > 0 {
		c.wg.Go(func() { c.goAway(d) })
	}
}

func (c *conn) goAway(after time.Duration) {
	for _, step := range []func(){
		func() { c.emit(live.Server{GoAway: &live.GoAway{TimeLeft: "60s"}}) },
		func() { c.close(websocket.CloseGoingAway, "") },
	} {
		select {
		case <-time.After(after):
			step()
		case <-c.done:
			return
		}
		after = time.Minute
	}
}

// told takes turns.
func (c *conn) told(m *live.ClientContent) {
	script := c.p.script
	if script.RefuseHistory {
		c.waits = false
		c.wg.Go(func() {
			select {
			case <-time.After(script.RefuseLate):
				c.close(websocket.CloseInvalidFramePayloadData, "Request contains an invalid argument.")
			case <-c.done:
			}
		})
		return
	}
	first := len(c.conversation()) == 0
	switch {
	case script.History == Never:
		c.wrong("clientContent to a model that takes none")
		return
	case script.History == Initial && !c.waits:
		c.wrong("clientContent without historyConfig, or after the history")
		return
	}
	c.checkTurns(m.Turns, first)
	c.mu.Lock()
	c.said = append(c.said, m.Turns...)
	last := c.said[max(0, len(c.said)-1):]
	c.mu.Unlock()
	switch {
	case script.History == Initial:
		c.waits = !m.TurnComplete
		if script.AnswersSeed {
			c.respond()
		}
	case m.TurnComplete:
		if len(last) == 0 || last[0].Role != "user" {
			c.p.violation("an answer is asked for though the last turn is not the user's")
		}
		c.respond()
	default:
		c.interrupt()
	}
}

func (c *conn) checkTurns(turns []project.GeminiContent, first bool) {
	if !first { // alone it would have to begin with the user's
		turns = append([]project.GeminiContent{{Role: "user", Parts: []project.GeminiPart{{Text: "before"}}}}, turns...)
	}
	data, _ := json.Marshal(map[string]any{"contents": turns})
	for _, p := range project.Validate(project.FormatGemini, data) {
		if !p.Some {
			c.p.violation("turns: %s", p)
		}
	}
}

// results answer calls.
func (c *conn) results(m *live.ToolResponse) {
	if len(m.FunctionResponses) == 0 {
		c.p.violation("a toolResponse without one")
	}
	parts := []project.GeminiPart{}
	for _, f := range m.FunctionResponses {
		c.mu.Lock()
		k := c.calls[f.ID]
		if k == nil || k.state != "open" || k.name != f.Name {
			c.mu.Unlock()
			c.wrong("functionResponse of %q %q: no such call waits", f.ID, f.Name)
			return
		}
		k.state = "answered"
		c.mu.Unlock()
		parts = append(parts, project.GeminiPart{FunctionResponse: &f})
	}
	c.mu.Lock()
	c.said = append(c.said, project.GeminiContent{Role: "user", Parts: parts})
	a := c.answer
	c.mu.Unlock()
	if a != nil {
		select {
		case a.results <- struct{}{}:
		default:
		}
	}
}

func (c *conn) openCalls() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, k := range c.calls {
		if k.state == "open" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *conn) conversation() []project.GeminiContent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]project.GeminiContent(nil), c.said...)
}

// checkFrame holds a video frame against the rules.
func (c *conn) checkFrame(b *live.Blob) {
	raw, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil || b.MIMEType != "image/jpeg" || !bytes.HasPrefix(raw, []byte{0xff, 0xd8}) {
		c.p.violation("video of %q that is no JPEG: %v", b.MIMEType, err)
	}
	if since := time.Since(c.frame); since < time.Second {
		c.p.violation("a frame %v after another", since)
	}
	c.frame = time.Now()
}

// Say is what a conversation says, one turn a line: "role: text", calls and answers by name.
func Say(turns []project.GeminiContent) string {
	var lines []string
	for _, t := range turns {
		line := t.Role + ":"
		for _, p := range t.Parts {
			switch {
			case p.FunctionCall != nil:
				line += fmt.Sprintf(" call %s%s", p.FunctionCall.Name, p.FunctionCall.Args)
			case p.FunctionResponse != nil:
				line += " answer " + p.FunctionResponse.Name + " " + p.FunctionResponse.Response.Output + p.FunctionResponse.Response.Error
			case p.InlineData != nil:
				line += " image"
			default:
				line += " " + p.Text
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
