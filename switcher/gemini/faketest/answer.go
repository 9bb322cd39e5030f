package faketest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"sightline/context/project"
	"sightline/switcher/gemini/live"
)

// Answer is one scripted answer.
type Answer struct {
	Text     string        // what the sound says, or the text itself
	Sound    time.Duration // 0: 100 ms a word
	TextOnly bool          // text in a session of sound
	Thought  string        // of the model, before it
	Calls    []Call        // the next answer goes on when they have their results
	Pace     time.Duration // between pieces of 100 ms of sound; 0: all at once
	Playback time.Duration // between generationComplete and turnComplete
	Words    string        // "": with the sound; "first": before it; "late": after generationComplete; "last": after turnComplete
	Hang     bool          // begins and says no more
	Silent   bool          // is not even begun
	Reason   string        // of turnComplete
	Rate     int           // Hz of the sound; 0: 24000
}

// Call of a function.
type Call struct {
	ID, Name, Arguments string
	Twice               bool // in serverContent as well as in toolCall
	NoID                bool // … without its id there
	OnlyContent         bool // in serverContent only
}

// playing is an answer on its way.
type playing struct {
	stop    chan struct{}
	once    sync.Once
	done    chan struct{}
	results chan struct{} // capacity 1
}

// interrupt stops the answer that is being made, and takes its calls back.
func (c *conn) interrupt() {
	c.mu.Lock()
	a := c.answer
	c.mu.Unlock()
	if a == nil {
		return
	}
	a.once.Do(func() { close(a.stop) })
	if ids := c.openCalls(); len(ids) > 0 {
		c.mu.Lock()
		for _, id := range ids {
			c.calls[id].state = "cancelled"
		}
		c.mu.Unlock()
		c.emit(live.Server{ToolCallCancellation: &live.ToolCancellation{IDs: ids}})
	}
}

// respond makes an answer, when the one before it has ended.
func (c *conn) respond() {
	c.interrupt()
	a := &playing{stop: make(chan struct{}), done: make(chan struct{}), results: make(chan struct{}, 1)}
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
		c.play(a)
		c.mu.Lock()
		late := c.late
		c.late = nil
		c.mu.Unlock()
		for _, say := range late {
			say()
		}
	})
}

// wait is false when the answer is stopped.
func (c *conn) wait(a *playing, d time.Duration) bool {
	if d <= 0 {
		select {
		case <-a.stop:
			return false
		case <-c.done:
			return false
		default:
			return true
		}
	}
	select {
	case <-time.After(d):
		return true
	case <-a.stop:
	case <-c.done:
	}
	return false
}

func (c *conn) next() Answer {
	c.p.mu.Lock()
	n := c.p.answers
	c.p.answers++
	c.p.mu.Unlock()
	if c.p.script.Answer == nil {
		return Answer{Text: "Hello."}
	}
	return c.p.script.Answer(n, c.conversation())
}

func (c *conn) play(a *playing) {
	for {
		s := c.next()
		if s.Silent {
			return
		}
		going := c.message(a, s)
		if going && len(s.Calls) > 0 {
			c.call(s.Calls)
			for going && len(c.openCalls()) > 0 {
				select {
				case <-a.results:
				case <-a.stop:
					going = false
				case <-c.done:
					return
				}
			}
			if going {
				continue // the same turn, with the results
			}
		}
		if s.Hang && going {
			going = c.wait(a, 24*time.Hour)
		}
		if !going {
			c.content(live.ServerContent{Interrupted: true})
			c.content(live.ServerContent{TurnComplete: true})
			return
		}
		c.content(live.ServerContent{GenerationComplete: true})
		if s.Words == "late" {
			c.content(live.ServerContent{OutputTranscription: &live.Transcription{Text: s.Text}})
		}
		c.wait(a, s.Playback)
		c.emit(live.Server{ServerContent: &live.ServerContent{TurnComplete: true, TurnCompleteReason: s.Reason}, UsageMetadata: &live.Usage{TotalTokenCount: 7}})
		if s.Words == "last" {
			c.content(live.ServerContent{OutputTranscription: &live.Transcription{Text: s.Text}})
		}
		return
	}
}

func model(p live.Part) live.ServerContent {
	return live.ServerContent{ModelTurn: &live.Content{Role: "model", Parts: []live.Part{p}}}
}

// message speaks; going is false when it was stopped.
func (c *conn) message(a *playing, s Answer) (going bool) {
	if s.Thought != "" {
		c.content(model(live.Part{Text: s.Thought, Thought: true}))
	}
	if s.Text == "" {
		return true
	}
	c.mu.Lock()
	c.said = append(c.said, project.GeminiContent{Role: "model", Parts: []project.GeminiPart{{Text: s.Text}}})
	c.mu.Unlock()
	words := strings.SplitAfter(s.Text, " ")
	if s.TextOnly {
		for _, w := range words {
			c.content(model(live.Part{Text: w}))
		}
		return true
	}
	if s.Sound == 0 {
		s.Sound = time.Duration(len(words)) * 100 * time.Millisecond
	}
	if s.Words == "first" {
		c.content(live.ServerContent{OutputTranscription: &live.Transcription{Text: s.Text}})
	}
	rate, kind := live.OutRate, "audio/pcm;rate=24000"
	if s.Rate != 0 {
		rate, kind = s.Rate, "audio/pcm;rate=16000"
	}
	for sent := time.Duration(0); sent < s.Sound; sent += 100 * time.Millisecond {
		if !c.wait(a, s.Pace) {
			return false
		}
		if len(words) > 0 && s.Words == "" {
			c.content(live.ServerContent{OutputTranscription: &live.Transcription{Text: words[0]}})
			words = words[1:]
		}
		n := int(min(100*time.Millisecond, s.Sound-sent).Seconds() * float64(rate))
		c.content(model(live.Part{InlineData: &live.Blob{MIMEType: kind, Data: base64.StdEncoding.EncodeToString(slices.Repeat([]byte{0, 16}, n))}}))
	}
	if len(words) > 0 && s.Words == "" {
		c.content(live.ServerContent{OutputTranscription: &live.Transcription{Text: strings.Join(words, "")}})
	}
	return true
}

// call asks for functions.
func (c *conn) call(calls []Call) {
	var all []project.GeminiFunctionCall
	for _, k := range calls {
		f := project.GeminiFunctionCall{ID: k.ID, Name: k.Name, Args: json.RawMessage(k.Arguments)}
		c.mu.Lock()
		c.calls[k.ID] = &pendingCall{name: k.Name, state: "open"}
		c.said = append(c.said, project.GeminiContent{Role: "model", Parts: []project.GeminiPart{{FunctionCall: &f}}})
		c.mu.Unlock()
		if k.Twice || k.OnlyContent {
			told := f
			if k.NoID {
				told.ID = ""
			}
			c.content(model(live.Part{FunctionCall: &told}))
		}
		if !k.OnlyContent {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		c.emit(live.Server{ToolCall: &live.ToolCall{FunctionCalls: all}})
	}
}
