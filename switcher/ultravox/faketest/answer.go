package faketest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Answer is one scripted answer.
type Answer struct {
	Text   string        // what the sound says
	Sound  time.Duration // 0: 100 ms a word
	Calls  []Invocation  // after it; the next answer comes when they have their results
	Pace   time.Duration // between pieces of 100 ms of sound; 0: all at once
	Texts  bool          // transcripts have all the text so far, not what is new
	Silent bool          // is not even begun
	Odd    bool          // sends half a sample
}

// Invocation is a call of a tool.
type Invocation struct{ ID, Name, Parameters string }

// playing is an answer on its way.
type playing struct {
	stop chan struct{}
	once sync.Once
	done chan struct{}
}

// interrupt stops the answer that is being made or played.
func (c *conn) interrupt() {
	c.mu.Lock()
	a := c.answer
	c.mu.Unlock()
	if a == nil {
		return
	}
	a.once.Do(func() { close(a.stop) })
	select {
	case <-a.done:
	case <-c.done:
	}
}

func (c *conn) respond() { c.respondThen(nil) }

// respondThen makes an answer when the one before it has ended; then is called when it has begun.
func (c *conn) respondThen(then func()) {
	a := &playing{stop: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	before := c.answer
	c.answer = a
	c.mu.Unlock()
	c.wg.Go(func() {
		defer close(a.done)
		if before != nil {
			select {
			case <-before.done:
			case <-c.done:
				return
			}
		}
		c.play(a, then)
	})
}

// wait is false when the answer is stopped.
func (c *conn) wait(a *playing, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.stop:
		return false
	case <-c.done:
		return false
	default:
	}
	select {
	case <-timer.C:
		return true
	case <-a.stop:
	case <-c.done:
	}
	return false
}

func (c *conn) play(a *playing, then func()) {
	c.p.mu.Lock()
	n := c.p.answers
	c.p.answers++
	c.p.mu.Unlock()
	s := Answer{Text: "Hello."}
	if c.p.script.Answer != nil {
		s = c.p.script.Answer(n, c.lines())
	}
	if s.Silent {
		return
	}
	c.state("thinking")
	going := true
	if s.Text != "" {
		going = c.speak(a, s, then)
	}
	if !going {
		c.emit(map[string]any{"type": "playback_clear_buffer"})
		c.state("listening")
		return
	}
	for _, k := range s.Calls {
		c.mu.Lock()
		c.calls[k.ID] = "open"
		c.mu.Unlock()
		c.emit(map[string]any{"type": "client_tool_invocation", "toolName": k.Name, "invocationId": k.ID, "parameters": json.RawMessage(k.Parameters)})
	}
	if len(s.Calls) == 0 {
		c.state("listening")
	}
}

func (c *conn) speak(a *playing, s Answer, then func()) bool {
	ordinal := c.line("agent", s.Text)
	c.state("speaking")
	words := strings.SplitAfter(s.Text, " ")
	if s.Sound == 0 {
		s.Sound = time.Duration(len(words)) * 100 * time.Millisecond
	}
	said := ""
	word := func(n int, final bool) {
		said += strings.Join(words[:n], "")
		m := map[string]any{"type": "transcript", "role": "agent", "medium": "voice", "final": final, "ordinal": ordinal}
		switch {
		case s.Texts || final:
			m["text"] = said
		default:
			m["delta"] = strings.Join(words[:n], "")
		}
		words = words[n:]
		c.emit(m)
	}
	begun := time.Now()
	for sent := time.Duration(0); sent < s.Sound; sent += 100 * time.Millisecond {
		if s.Pace > 0 && !c.wait(a, s.Pace) {
			return false
		}
		if len(words) > 0 {
			word(1, false)
		}
		n := int(min(100*time.Millisecond, s.Sound-sent).Seconds() * OutRate)
		c.put(message{slices.Repeat([]byte{0, 16}, n), true})
		if then != nil {
			then()
			then = nil
		}
	}
	if s.Odd {
		c.put(message{[]byte{1}, true})
	}
	word(len(words), true)
	return c.wait(a, s.Sound-time.Since(begun)) // it listens again when all is played, by its clock
}
