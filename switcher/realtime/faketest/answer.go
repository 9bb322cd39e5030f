package faketest

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"sightline/switcher/realtime/dialect"
)

// Answer is one scripted answer.
type Answer struct {
	Text     string        // what the sound says, or the text itself
	Sound    time.Duration // 0: 100 ms a word
	TextOnly bool          // text in a session of sound
	Calls    []Call
	Fail     *dialect.StatusError
	Pace     time.Duration // between pieces of 100 ms of sound; 0: all at once
	Hang     bool          // begins and says no more
	Silent   bool          // is not even begun
}

// Call of a tool.
type Call struct {
	ID, Name, Arguments string
	Untold              bool // by function_call_arguments.done only, neither output_item.done nor response.done
	Partial             bool // status incomplete
}

// playing is an answer on its way.
type playing struct {
	id     string
	stop   chan struct{}
	once   sync.Once
	reason string
}

func (c *conn) respond(e *dialect.ResponseCreate) { c.begin(e.Response, e.EventID) }

// begin makes an answer, unless there is one.
func (c *conn) begin(params *dialect.ResponseParams, eventID string) {
	if params != nil && len(params.OutputModalities) > 1 {
		c.p.violation("output_modalities %v", params.OutputModalities)
	}
	id := c.id("resp")
	c.mu.Lock()
	if c.answer != nil {
		c.mu.Unlock()
		c.p.mu.Lock()
		c.p.active++
		c.p.mu.Unlock()
		c.fail("conversation_already_has_active_response", "Conversation already has an active response in progress", eventID)
		return
	}
	a := &playing{id: id, stop: make(chan struct{})}
	c.answer = a
	c.mu.Unlock()
	c.p.mu.Lock()
	n := c.p.answers
	c.p.answers++
	c.p.mu.Unlock()
	script := Answer{Text: "Hello."}
	if c.p.script.Answer != nil {
		script = c.p.script.Answer(n, c.conversation())
	}
	c.wg.Go(func() { c.play(a, script, params) })
}

func (c *conn) cancel(e *dialect.ResponseCancel) {
	if !c.p.script.IgnoresCancel && !c.stop("client_cancelled") {
		c.fail("response_cancel_not_active", "Cancellation failed: no active response found", e.EventID)
	}
}

func (c *conn) stop(reason string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		return false
	}
	c.answer.once.Do(func() {
		c.answer.reason = reason
		close(c.answer.stop)
	})
	return true
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

func (c *conn) play(a *playing, s Answer, params *dialect.ResponseParams) {
	resp := dialect.Response{ID: a.id, Object: "realtime.response", Status: dialect.StatusInProgress, Output: []dialect.Item{}}
	if params != nil {
		resp.Metadata = params.Metadata
	}
	if s.Silent {
		c.finish(nil)
		return
	}
	c.emit(&dialect.ResponseCreated{EventID: c.id("event"), Response: resp})
	going := true
	if s.Fail == nil && s.Text != "" {
		var it dialect.Item
		it, going = c.message(a, s)
		resp.Output = append(resp.Output, it)
	}
	for i, call := range s.Calls {
		if going {
			resp.Output = append(resp.Output, c.call(a, call, i)...)
		}
	}
	if s.Hang {
		going = c.wait(a, 24*time.Hour)
	}
	switch {
	case s.Fail != nil:
		resp.Status, resp.StatusDetails = dialect.StatusFailed, &dialect.StatusDetails{Type: "failed", Error: s.Fail}
	case !going:
		resp.Status, resp.StatusDetails = dialect.StatusCancelled, &dialect.StatusDetails{Type: "cancelled", Reason: a.reason}
	default:
		resp.Status = dialect.StatusCompleted
	}
	c.finish(&resp)
}

// finish ends the active answer and says what was kept for after it.
func (c *conn) finish(resp *dialect.Response) {
	c.mu.Lock()
	c.answer = nil
	late := c.late
	c.late = nil
	c.mu.Unlock()
	if resp != nil {
		c.emit(&dialect.ResponseDone{EventID: c.id("event"), Response: *resp})
	}
	for _, say := range late {
		say()
	}
}

// message speaks; going is false when it was stopped.
func (c *conn) message(a *playing, s Answer) (it dialect.Item, going bool) {
	it = dialect.Item{ID: c.id("item"), Object: "realtime.item", Type: dialect.ItemMessage, Role: "assistant", Status: dialect.StatusInProgress}
	c.emit(&dialect.OutputItemAdded{EventID: c.id("event"), ResponseID: a.id, Item: it})
	kept := c.add(it, "")
	at := dialect.Place{ResponseID: a.id, ItemID: it.ID}
	words := strings.SplitAfter(s.Text, " ")
	if s.Sound == 0 {
		s.Sound = time.Duration(len(words)) * 100 * time.Millisecond
	}
	going = true
	if s.TextOnly {
		for _, w := range words {
			c.emit(&dialect.OutputTextDelta{EventID: c.id("event"), Place: at, Delta: w})
		}
		c.emit(&dialect.OutputTextDone{EventID: c.id("event"), Place: at, Text: s.Text})
		it.Content = []dialect.Part{{Type: "output_text", Text: s.Text}}
	} else {
		going = c.speak(a, s, at, words, kept)
		text := s.Text
		it.Content = []dialect.Part{{Type: "output_audio", Transcript: &text}}
	}
	it.Status = dialect.StatusCompleted
	if !going {
		it.Status = dialect.StatusIncomplete
	}
	c.mu.Lock()
	kept.Item = it
	c.mu.Unlock()
	c.emit(&dialect.OutputItemDone{EventID: c.id("event"), ResponseID: a.id, Item: it})
	return it, going
}

func (c *conn) speak(a *playing, s Answer, at dialect.Place, words []string, kept *item) bool {
	for sent := time.Duration(0); sent < s.Sound; sent += 100 * time.Millisecond {
		if !c.wait(a, s.Pace) {
			return false
		}
		if len(words) > 0 {
			c.emit(&dialect.OutputTranscriptDelta{EventID: c.id("event"), Place: at, Delta: words[0]})
			words = words[1:]
		}
		pcm := Tone(min(100*time.Millisecond, s.Sound-sent))
		c.mu.Lock()
		kept.samples += len(pcm)
		c.mu.Unlock()
		c.emit(&dialect.OutputAudioDelta{EventID: c.id("event"), Place: at, Delta: dialect.EncodePCM(pcm)})
	}
	if len(words) > 0 {
		c.emit(&dialect.OutputTranscriptDelta{EventID: c.id("event"), Place: at, Delta: strings.Join(words, "")})
	}
	c.emit(&dialect.OutputAudioDone{EventID: c.id("event"), Place: at})
	c.emit(&dialect.OutputTranscriptDone{EventID: c.id("event"), Place: at, Transcript: s.Text})
	return true
}

// call asks for a tool; it gives what response.done lists.
func (c *conn) call(a *playing, call Call, index int) []dialect.Item {
	it := dialect.Item{ID: c.id("item"), Object: "realtime.item", Type: dialect.ItemCall, Status: dialect.StatusInProgress, CallID: call.ID, Name: call.Name}
	c.emit(&dialect.OutputItemAdded{EventID: c.id("event"), ResponseID: a.id, OutputIndex: index, Item: it})
	it.Arguments, it.Status = call.Arguments, dialect.StatusCompleted
	if call.Partial {
		it.Status = dialect.StatusIncomplete
	}
	if !c.has(call.ID) {
		c.add(it, "")
	}
	c.emit(&dialect.ArgumentsDone{EventID: c.id("event"), ResponseID: a.id, ItemID: it.ID, OutputIndex: index, CallID: call.ID, Name: call.Name, Arguments: call.Arguments})
	if call.Untold {
		return nil
	}
	c.emit(&dialect.OutputItemDone{EventID: c.id("event"), ResponseID: a.id, OutputIndex: index, Item: it})
	return []dialect.Item{it}
}

func (c *conn) has(callID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.items, func(it *item) bool { return it.Type == dialect.ItemCall && it.CallID == callID })
}

// Tone is loud sound of a length, at the dialect's rate.
func Tone(d time.Duration) []int16 {
	pcm := make([]int16, int(d.Seconds()*dialect.Rate))
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/dialect.Rate))
	}
	return pcm
}
