package faketest

import (
	"strings"
	"time"

	"sightline/context/project"
	"sightline/switcher/gemini/live"
)

// vad finds turns where the client leaves it to the server: anything louder than a whisper is speech, half a second of anything else
// ends it.
type vad struct {
	speaking bool
	quiet    int // samples of silence since
	pending  int // samples of the current 20 ms
	loud     bool
}

const (
	frame   = live.InRate / 50
	silence = live.InRate / 2
)

func (c *conn) automatic() bool {
	r := c.setup.RealtimeInputConfig
	return r == nil || r.AutomaticActivityDetection == nil || !r.AutomaticActivityDetection.Disabled
}

// input takes what the caller does in real time.
func (c *conn) input(i *live.RealtimeInput, data []byte) {
	n := 0
	for _, has := range []bool{i.Audio != nil, i.Video != nil, i.Text != "", i.ActivityStart != nil, i.ActivityEnd != nil, i.AudioStreamEnd} {
		if has {
			n++
		}
	}
	if n != 1 {
		c.p.violation("a realtimeInput is one of its fields: %.200s", data)
	}
	auto, inTurn := c.automatic(), c.turn.open
	switch {
	case i.Audio != nil:
		c.audio(i.Audio, auto)
	case i.Video != nil:
		c.checkFrame(i.Video)
		if !auto && !inTurn {
			c.p.violation("a frame outside of a turn")
		}
		c.turn.parts = append(c.turn.parts, project.GeminiPart{InlineData: &project.GeminiBlob{MIMEType: i.Video.MIMEType, Data: i.Video.Data}})
	case i.Text != "":
		if strings.TrimSpace(i.Text) == "" {
			c.p.violation("an empty text")
		}
		c.turn.parts = append(c.turn.parts, project.GeminiPart{Text: i.Text})
		switch {
		case auto && !c.ear.speaking:
			c.interrupt()
			c.over("")
		case !auto && !inTurn:
			c.p.violation("a text outside of a turn")
		}
	case i.ActivityStart != nil:
		if auto || inTurn {
			c.wrong("activityStart with automatic detection, or in a turn")
			return
		}
		c.turn.open = true
		c.interrupt()
	case i.ActivityEnd != nil:
		if auto || !inTurn {
			c.wrong("activityEnd with automatic detection, or without a turn")
			return
		}
		c.heard()
	case i.AudioStreamEnd:
		if !auto {
			c.wrong("audioStreamEnd without automatic detection")
			return
		}
		if c.ear.speaking {
			c.ear = vad{}
			c.heard()
		}
	}
}

func (c *conn) audio(b *live.Blob, auto bool) {
	pcm, _, err := b.PCM()
	if err != nil || b.MIMEType != "audio/pcm;rate=16000" || len(pcm) == 0 || len(pcm) > live.InRate/10 {
		c.p.violation("audio of %q, %d samples: %v", b.MIMEType, len(pcm), err)
	}
	c.mu.Lock()
	c.written += len(pcm)
	c.mu.Unlock()
	c.turn.samples += len(pcm)
	if !auto {
		if !c.turn.open {
			c.p.violation("sound outside of a turn")
		}
		return
	}
	for _, s := range pcm {
		c.ear.loud = c.ear.loud || s > 500 || s < -500
		if c.ear.pending++; c.ear.pending == frame {
			c.frame20()
		}
	}
}

// frame20 is called after each 20 ms.
func (c *conn) frame20() {
	loud := c.ear.loud
	c.ear.loud, c.ear.pending = false, 0
	if loud {
		c.ear.quiet = 0
	} else {
		c.ear.quiet += frame
	}
	switch {
	case loud && !c.ear.speaking:
		c.ear.speaking = true
		c.interrupt()
	case c.ear.speaking && c.ear.quiet >= silence:
		c.ear.speaking = false
		c.heard()
	}
}

// heard: a turn of speech is over.
func (c *conn) heard() {
	if c.turn.samples < live.InRate/10 { // no speech: typed, or nothing
		c.over("")
		return
	}
	c.p.mu.Lock()
	n := c.p.utterances
	c.p.utterances++
	c.p.mu.Unlock()
	text := "words"
	if c.p.script.Hears != nil {
		text = c.p.script.Hears(n)
	}
	say := func() { c.transcribe(text) }
	if c.p.script.LateTranscript {
		c.mu.Lock()
		c.late = append(c.late, say)
		c.mu.Unlock()
	} else {
		say()
	}
	c.over(text)
}

func (c *conn) transcribe(text string) {
	if text == "" {
		return
	}
	half := len(text) / 2
	c.content(live.ServerContent{InputTranscription: &live.Transcription{Text: text[:half]}})
	c.content(live.ServerContent{InputTranscription: &live.Transcription{Text: text[half:], Finished: c.p.script.Finishes}})
}

// over puts the turn into the conversation and answers it.
func (c *conn) over(text string) {
	parts := c.turn.parts
	if text != "" {
		parts = append(parts, project.GeminiPart{Text: text})
	}
	c.turn = callerTurn{}
	if len(parts) == 0 {
		return
	}
	c.mu.Lock()
	c.said = append(c.said, project.GeminiContent{Role: "user", Parts: parts})
	c.mu.Unlock()
	c.respond()
}

// Tone is loud sound of a length, as the caller would make it.
func Tone(d time.Duration) []int16 {
	pcm := make([]int16, int(d.Seconds()*live.InRate))
	for i := range pcm {
		pcm[i] = int16(8000 - 16000*(i/18%2)) // some 440 Hz
	}
	return pcm
}
