package faketest

import (
	"time"

	"sightline/switcher/realtime/dialect"
)

// vad finds turns: anything louder than a whisper is speech, half a second of anything else ends it.
type vad struct {
	item    string // what is being said, "" nothing
	quiet   int    // samples of silence since
	pending int    // samples of the current 20 ms
	loud    bool
}

const (
	frame   = dialect.Rate / 50
	silence = dialect.Rate / 2
	padding = 300
)

func (c *conn) append(e *dialect.InputAudioAppend) {
	pcm, err := dialect.DecodePCM(e.Audio)
	if err != nil {
		c.p.violation("%v", err)
		return
	}
	if d := samples(len(pcm)); d > 60*time.Millisecond {
		c.p.violation("%v of sound in one event", d)
	}
	for _, s := range pcm {
		c.mu.Lock()
		c.written++
		c.buffer++
		c.ear.loud = c.ear.loud || s > 500 || s < -500
		c.ear.pending++
		full := c.ear.pending == frame
		c.mu.Unlock()
		if full {
			c.frame()
		}
	}
}

// frame is called after each 20 ms.
func (c *conn) frame() {
	c.mu.Lock()
	loud := c.ear.loud
	c.ear.loud, c.ear.pending = false, 0
	t, on := c.session.Audio.Input.TurnDetection.Get()
	at := dialect.Millis(samples(c.written).Milliseconds())
	speaking := c.ear.item
	if loud {
		c.ear.quiet = 0
	} else {
		c.ear.quiet += frame
	}
	ended := speaking != "" && c.ear.quiet >= silence
	c.mu.Unlock()
	if !on || c.p.script.Deaf {
		return
	}
	switch {
	case loud && speaking == "":
		id := c.id("item")
		c.mu.Lock()
		c.ear.item = id
		c.mu.Unlock()
		if t.InterruptResponse == nil || *t.InterruptResponse {
			c.stop("turn_detected")
		}
		c.emit(&dialect.SpeechStarted{EventID: c.id("event"), ItemID: id, AudioStartMs: max(at-20-padding, 0)})
	case ended:
		c.emit(&dialect.SpeechStopped{EventID: c.id("event"), ItemID: speaking, AudioEndMs: at})
		c.mu.Lock()
		c.ear.item = ""
		c.mu.Unlock()
		c.committed(speaking)
		if wanted := t.CreateResponse == nil || *t.CreateResponse || c.p.script.IgnoresCreate; wanted && !c.p.script.IgnoresTurns {
			c.begin(nil, "")
		}
	}
}

func (c *conn) commit(e *dialect.InputAudioCommit) {
	c.mu.Lock()
	n := c.buffer
	c.mu.Unlock()
	if samples(n) < 100*time.Millisecond {
		c.fail("input_audio_buffer_commit_empty", "buffer too small", e.EventID)
		return
	}
	c.committed(c.id("item"))
}

// committed makes the buffer an item, with its transcript now or after the next answer.
func (c *conn) committed(id string) {
	c.mu.Lock()
	c.buffer = 0
	last := ""
	if n := len(c.items); n > 0 {
		last = c.items[n-1].ID
	}
	s := c.session
	c.mu.Unlock()
	c.emit(&dialect.InputAudioCommitted{EventID: c.id("event"), ItemID: id, PreviousItemID: &last})
	it := dialect.Item{ID: id, Object: "realtime.item", Type: dialect.ItemMessage, Role: "user", Status: dialect.StatusCompleted, Content: []dialect.Part{{Type: "input_audio"}}}
	c.add(it, last)
	c.emit(&dialect.ItemDone{EventID: c.id("event"), PreviousItemID: &last, Item: it})
	if _, on := s.Audio.Input.Transcription.Get(); !on {
		return
	}
	c.p.mu.Lock()
	n := c.p.utterances
	c.p.utterances++
	c.p.mu.Unlock()
	if !c.p.script.LateTranscript {
		c.transcribe(id, n)
		return
	}
	c.mu.Lock()
	c.late = append(c.late, func() { c.transcribe(id, n) })
	c.mu.Unlock()
}

func (c *conn) transcribe(id string, n int) {
	text := "words"
	if c.p.script.Hears != nil {
		text = c.p.script.Hears(n)
	}
	if text == "\x00" {
		c.emit(&dialect.TranscriptionFailed{EventID: c.id("event"), ItemID: id, Error: dialect.ErrorDetail{Type: "server_error", Code: "audio_unintelligible", Message: "not understood"}})
		return
	}
	if half := len(text) / 2; half > 0 {
		c.emit(&dialect.TranscriptionDelta{EventID: c.id("event"), ItemID: id, Delta: text[:half]})
		c.emit(&dialect.TranscriptionDelta{EventID: c.id("event"), ItemID: id, Delta: text[half:]})
	}
	seconds := 1.0
	c.emit(&dialect.TranscriptionCompleted{EventID: c.id("event"), ItemID: id, Transcript: text, Usage: dialect.Usage{Type: "duration", Seconds: &seconds}})
}
