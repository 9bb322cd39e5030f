package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"sightline/switcher/cascade"
	"sightline/switcher/cascade/pcm"
)

// VoiceConfig is a voice of a server's audio/speech.
type VoiceConfig struct {
	Model, Voice string
	Name         string  // for people, "" = Model and Voice
	Speed        float64 // 0.25 to 4, 0 = not sent
	Instructions string  // how to speak, "" = not sent
	Rate         int     // Hz that Speak gives, 0 = as the profile says of pcm; a WAV of another rate is resampled
}

// Voice is a cascade.Voice. Safe for concurrent use.
type Voice struct {
	c       *Client
	cfg     VoiceConfig
	raw     int // Hz of pcm without a header
	formats []string
	format  atomic.Int32 // of formats: those before it were refused
}

// Voice makes an engine for a voice.
func (c *Client) Voice(cfg VoiceConfig) (*Voice, error) {
	v := &Voice{c: c, cfg: cfg, raw: c.cfg.Profile.SpeechRate, formats: c.cfg.Profile.SpeechFormats}
	if v.raw == 0 {
		v.raw = 24000
	}
	if v.cfg.Rate == 0 {
		v.cfg.Rate = v.raw
	}
	if len(v.formats) == 0 {
		v.formats = []string{"wav", "pcm"}
	}
	switch {
	case cfg.Model == "" || cfg.Voice == "":
		return nil, errors.New("model and voice: both names are needed")
	case cfg.Speed != 0 && (cfg.Speed < 0.25 || cfg.Speed > 4):
		return nil, errors.New("speed: 0.25 to 4")
	case v.cfg.Rate < 8000 || v.cfg.Rate > 48000 || v.raw < 8000 || v.raw > 48000:
		return nil, errors.New("rate: 8000 to 48000 Hz")
	case slices.ContainsFunc(v.formats, func(f string) bool { return f != "pcm" && f != "wav" }):
		return nil, errors.New("speech formats: allowed are pcm and wav")
	}
	return v, nil
}

// Name implements cascade.Voice, as Rate and Speak do.
func (v *Voice) Name() string { return first(v.cfg.Name, v.cfg.Model+"/"+v.cfg.Voice) }

// Rate is the Hz of what Speak gives.
func (v *Voice) Rate() int { return v.cfg.Rate }

// maxInput is what the interface takes, in characters.
const maxInput = 4096

type speechRequest struct {
	Model          string  `json:"model"`
	Input          string  `json:"input"`
	Voice          string  `json:"voice"`
	ResponseFormat string  `json:"response_format"`
	Speed          float64 `json:"speed,omitempty"`
	Instructions   string  `json:"instructions,omitempty"`
}

// Speak has a text said. A format that the server refuses, or does not keep to, is not asked for again.
func (v *Voice) Speak(ctx context.Context, text string, yield func([]int16) error) error {
	if len([]rune(text)) > maxInput {
		return invalid("a text of more than %d characters is not spoken in one go", maxInput)
	}
	for {
		n := v.format.Load()
		err := v.speak(ctx, v.formats[n], text, yield)
		var e *cascade.EngineError
		if err == nil || !errors.As(err, &e) || e.Code != "invalid" || int(n)+1 >= len(v.formats) {
			return err
		}
		if v.format.CompareAndSwap(n, n+1) {
			v.c.cfg.Log.Warn("the server does not speak in this format", "voice", v.Name(), "format", v.formats[n], "error", e.Message)
		}
	}
}

func (v *Voice) speak(ctx context.Context, format, text string, yield func([]int16) error) error {
	body, err := json.Marshal(speechRequest{v.cfg.Model, text, v.cfg.Voice, format, v.cfg.Speed, v.cfg.Instructions})
	if err != nil {
		return invalid("the request has no JSON")
	}
	res, err := v.c.post(ctx, "/audio/speech", "application/json", "audio/*", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return v.play(ctx, res, format, yield)
}

// play reads sound in pieces. What it is, the bytes say: servers give a WAV where pcm was asked for.
func (v *Voice) play(ctx context.Context, res *http.Response, format string, yield func([]int16) error) error {
	in := bufio.NewReaderSize(&io.LimitedReader{R: res.Body, N: maxSpeechBytes}, 8<<10)
	head, err := in.Peek(12)
	if err != nil && !errors.Is(err, io.EOF) {
		return unreachable(ctx, v.c.redacted(err))
	}
	sound := pcm.Format{Rate: v.raw, Channels: 1}
	switch {
	case bytes.HasPrefix(head, []byte("RIFF")):
		if sound, err = pcm.ReadHeader(in); err != nil {
			return invalid("%v", err)
		}
		if sound.Bytes > 0 { // titles may stand behind the sound
			return v.pieces(ctx, io.LimitReader(in, sound.Bytes), sound, yield)
		}
	case format == "wav" || foreign(head, res.Header.Get("Content-Type")):
		return invalid("asked for %s, the server sent something else (%s)", format, cut(res.Header.Get("Content-Type"), 60))
	}
	return v.pieces(ctx, in, sound, yield)
}

// foreign tells other files from raw samples.
func foreign(head []byte, contentType string) bool {
	for _, magic := range []string{"ID3", "OggS", "fLaC", "{\"", "<!", "<h"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	for _, kind := range []string{"application/json", "text/", "audio/mpeg", "audio/ogg", "audio/opus", "audio/aac", "audio/flac"} {
		if strings.HasPrefix(contentType, kind) {
			return true
		}
	}
	return false
}

func (v *Voice) pieces(ctx context.Context, in io.Reader, sound pcm.Format, yield func([]int16) error) error {
	resampler := pcm.NewResampler(sound.Rate, v.cfg.Rate)
	frame := 2 * sound.Channels
	buf, have := make([]byte, 8<<10), 0
	for {
		n, err := in.Read(buf[have:])
		have += n
		whole := have - have%frame
		if out := resampler.Push(pcm.Mono(pcm.Samples(buf[:whole]), sound.Channels)); len(out) > 0 {
			if err := yield(out); err != nil {
				return err
			}
		}
		have = copy(buf, buf[whole:have])
		switch {
		case errors.Is(err, io.EOF):
			if out := resampler.Flush(); len(out) > 0 {
				return yield(out)
			}
			return nil
		case err != nil:
			return unreachable(ctx, v.c.redacted(err))
		}
	}
}
