package faketest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

type message struct {
	data   []byte
	binary bool
}

// conn is one socket.
type conn struct {
	p    *Provider
	ws   *websocket.Conn
	out  chan message
	done chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu      sync.Mutex
	ordinal int
	said    []Line
	written int // samples
	answer  *playing
	calls   map[string]string // invocation → open, answered

	speaking bool
	quiet    int
	loud     bool
	pending  int
}

// serve returns when the socket and all it started have ended.
func (c *conn) serve() {
	c.wg.Go(c.write)
	if !c.p.script.Mute {
		c.emit(map[string]any{"type": "call_started", "callId": "1"})
		c.emit(map[string]any{"type": "state", "state": "idle"})
		c.state("listening")
	}
	if c.p.script.Greets {
		c.respond()
	}
	for {
		if d := c.p.script.SlowRead; d > 0 {
			time.Sleep(d)
		}
		kind, data, err := c.ws.ReadMessage()
		if err != nil {
			break
		}
		if kind == websocket.BinaryMessage {
			c.audio(data)
		} else {
			c.take(data)
		}
	}
	c.once.Do(func() { close(c.done) })
	c.wg.Wait()
	_ = c.ws.Close()
}

func (c *conn) write() {
	for {
		select {
		case m := <-c.out:
			kind := websocket.TextMessage
			if m.binary {
				kind = websocket.BinaryMessage
			}
			_ = c.ws.SetWriteDeadline(time.Now().Add(10 * time.Minute))
			if c.ws.WriteMessage(kind, m.data) != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *conn) close(code int, text string) {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
	_ = c.ws.SetReadDeadline(time.Now().Add(time.Second)) // for the other side's close
}

func (c *conn) put(m message) {
	select {
	case c.out <- m:
	case <-c.done:
	}
}

func (c *conn) emit(fields map[string]any) {
	data, err := json.Marshal(fields)
	if err != nil {
		c.p.violation("the fake cannot write %v: %v", fields, err)
		return
	}
	c.put(message{data, false})
}

func (c *conn) state(s string) {
	if s == "listening" && c.p.script.NoStates && len(c.lines()) > 0 {
		return
	}
	c.emit(map[string]any{"type": "state", "state": s})
}

func (c *conn) lines() []Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Line(nil), c.said...)
}

func (c *conn) line(role, text string) (ordinal int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, Line{role, text})
	c.ordinal++
	return c.ordinal
}

// take checks a message and does it.
func (c *conn) take(data []byte) {
	c.p.mu.Lock()
	c.p.got = append(c.p.got, string(data))
	c.p.mu.Unlock()
	var kind struct{ Type string }
	if err := json.Unmarshal(data, &kind); err != nil {
		c.p.violation("%.200s: %v", data, err)
		return
	}
	switch kind.Type {
	case "user_text_message":
		c.text(data)
	case "client_tool_result":
		c.result(data)
	default:
		c.p.violation("not documented: %.200s", data)
	}
}

func (c *conn) text(data []byte) {
	var m struct {
		Type, Text, Urgency string
		DeferResponse       bool
	}
	if err := strictly(data, &m); err != nil || !slices.Contains([]string{"", "immediate", "soon", "later"}, m.Urgency) || m.Text == "" && m.Urgency != "immediate" {
		c.p.violation("%.200s: %v", data, err)
	}
	if m.Urgency == "immediate" {
		c.interrupt()
	}
	role := "user"
	if m.DeferResponse {
		role = "note"
	}
	n := c.line(role, m.Text)
	c.emit(map[string]any{"type": "transcript", "role": "user", "medium": "text", "text": m.Text, "final": true, "ordinal": n})
	if !m.DeferResponse {
		c.respond()
	}
}

func (c *conn) result(data []byte) {
	var m struct{ Type, InvocationID, Result, ResponseType, AgentReaction, ErrorType, ErrorMessage string }
	err := strictly(data, &m)
	failed := m.ErrorType != "" || m.ErrorMessage != ""
	if err != nil || failed && (m.Result != "" || m.ErrorType != "implementation-error") || !failed && m.ResponseType != "tool-response" {
		c.p.violation("%.200s: %v", data, err)
	}
	c.mu.Lock()
	state := c.calls[m.InvocationID]
	c.calls[m.InvocationID] = "answered"
	left := slices.Contains(mapValues(c.calls), "open")
	c.mu.Unlock()
	if state != "open" {
		if c.p.script.Lenient {
			return
		}
		c.p.violation("result of %q, which is %q", m.InvocationID, state)
		return
	}
	c.line("tool", m.Result+m.ErrorMessage)
	if !left {
		c.respond()
	}
}

func mapValues(m map[string]string) (all []string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// audio finds turns: anything louder than a whisper is speech, half a second of anything else ends it.
func (c *conn) audio(data []byte) {
	if len(data) == 0 || len(data)%2 != 0 || len(data) > InRate/5 {
		c.p.violation("%d bytes of sound", len(data))
		return
	}
	c.mu.Lock()
	c.written += len(data) / 2
	c.mu.Unlock()
	for i := 0; i < len(data); i += 2 {
		s := int16(uint16(data[i]) | uint16(data[i+1])<<8)
		c.loud = c.loud || s > 500 || s < -500
		if c.pending++; c.pending == InRate/50 {
			c.frame()
		}
	}
}

func (c *conn) frame() {
	loud := c.loud
	c.loud, c.pending = false, 0
	if loud {
		c.quiet = 0
	} else {
		c.quiet += InRate / 50
	}
	switch {
	case loud && !c.speaking:
		c.speaking = true
		c.interrupt()
	case c.speaking && c.quiet >= InRate/2:
		c.speaking = false
		c.heard()
	}
}

func (c *conn) heard() {
	c.p.mu.Lock()
	n := c.p.utterances
	c.p.utterances++
	c.p.mu.Unlock()
	text := "words"
	if c.p.script.Hears != nil {
		text = c.p.script.Hears(n)
	}
	ordinal := c.line("user", text)
	say := func() {
		if text == "" {
			return
		}
		first, _, _ := strings.Cut(text, " ")
		c.emit(map[string]any{"type": "transcript", "role": "user", "medium": "voice", "text": first, "final": false, "ordinal": ordinal})
		c.emit(map[string]any{"type": "transcript", "role": "user", "medium": "voice", "text": text, "final": true, "ordinal": ordinal})
	}
	if !c.p.script.LateTranscript {
		say()
		say = nil
	}
	c.respondThen(say)
}

// Tone is loud sound of a length, as the caller would make it.
func Tone(d time.Duration) []int16 {
	pcm := make([]int16, int(d.Seconds()*InRate))
	for i := range pcm {
		pcm[i] = int16(8000 - 16000*(i/18%2)) // some 440 Hz
	}
	return pcm
}
