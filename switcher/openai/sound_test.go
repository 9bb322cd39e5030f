package openai

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sightline/switcher/cascade"
	"sightline/switcher/cascade/pcm"
)

func tone(rate int) []int16 {
	out := make([]int16, rate/2)
	for i := range out {
		out[i] = int16(8000 * math.Sin(2*math.Pi*300*float64(i)/float64(rate)))
	}
	return out
}

func TestTranscriptions(t *testing.T) {
	for name, c := range map[string]struct {
		reply http.HandlerFunc
		want  string
	}{
		"json":         {whole("application/json", `{"text":" Hello there. ","usage":{"type":"tokens"}}`), "Hello there."},
		"text":         {whole("text/plain; charset=utf-8", "Hello there.\n"), "Hello there."},
		"json as text": {whole("text/plain", `{"text":"Hi"}`), "Hi"},
		"silence":      {whole("application/json", `{"text":"[BLANK_AUDIO]"}`), ""},
		"two noises":   {whole("application/json", `{"text":" (coughs) [MUSIC]."}`), ""},
		"brackets":     {whole("application/json", `{"text":"(laughs) Yes."}`), "(laughs) Yes."},
		"empty":        {whole("application/json", `{"text":""}`), ""},
		"no text":      {whole("application/json", `{"segments":[]}`), "overloaded true"},
		"a page":       {whole("text/html", "<html>"), "overloaded true"},
		"endless":      {whole("application/json", `{"text":"`+strings.Repeat("x", maxTranscript)+`"}`), "invalid false"},
		"400":          {status(400, `{"error":{"message":"Invalid file format."}}`), "invalid false"},
		"500":          {status(500, ""), "overloaded true"},
		"disconnected": {cutOff("application/json", ""), "unreachable true"},
		"401 with key": {status(401, `{"error":{"message":"`+testKey+`"}}`), "auth false"},
	} {
		t.Run(name, func(t *testing.T) {
			f, cl := newFake(t, c.reply)
			r, err := cl.Recognizer(RecognizerConfig{Model: "whisper-1", Language: "en", Prompt: "Sightline"})
			if err != nil {
				t.Fatal(err)
			}
			u, err := r.Listen(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			sound := tone(16000)
			for piece := range slices.Chunk(sound, 320) {
				if err := u.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			got, err := u.Finish(t.Context())
			if e := (*cascade.EngineError)(nil); errors.As(err, &e) {
				got = fmt.Sprint(e.Code, " ", e.Retryable)
				if strings.Contains(err.Error(), testKey) {
					t.Error("the key is in the error")
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%q (%v), want %q", got, err, c.want)
			}
			body := f.requests()[0]
			if body["model"] != "whisper-1" || body["language"] != "en" || body["prompt"] != "Sightline" {
				t.Errorf("fields %v", body)
			}
			if !bytes.Equal(f.wav, pcm.WAV(16000, sound)) {
				t.Error("the file is not the sound that was given")
			}
		})
	}
}

func TestTooShortToTranscribe(t *testing.T) {
	f, cl := newFake(t, status(500, ""))
	r, err := cl.Recognizer(RecognizerConfig{Model: "w"})
	if err != nil {
		t.Fatal(err)
	}
	u, _ := r.Listen(t.Context(), nil)
	_ = u.Write(make([]int16, 800))
	if text, err := u.Finish(t.Context()); text != "" || err != nil || len(f.requests()) != 0 {
		t.Errorf("%q, %v, %d requests", text, err, len(f.requests()))
	}
	long, _ := r.Listen(t.Context(), nil)
	if err := long.Write(make([]int16, maxUtterance)); err == nil {
		t.Error("an endless utterance is kept")
	}
}

func raw(samples []int16) string { return string(pcm.Append(nil, samples)) }

func streamedWAV(rate int, samples []int16) string {
	b := pcm.WAV(rate, samples)
	binary.LittleEndian.PutUint32(b[4:], 0xFFFFFFFF)
	binary.LittleEndian.PutUint32(b[40:], 0xFFFFFFFF)
	return string(b)
}

// TestSpeech: what servers send for speech, what comes out, and which format is asked for the next time.
func TestSpeech(t *testing.T) {
	sound := tone(24000)
	for name, c := range map[string]struct {
		replies []http.HandlerFunc
		want    []int16 // nil: see err
		err     string
		formats string // asked for in two calls
	}{
		"pcm":           {[]http.HandlerFunc{stream("audio/pcm", raw(sound)[:777], raw(sound)[777:])}, sound, "", "pcm pcm"},
		"wav for pcm":   {[]http.HandlerFunc{whole("audio/wav", streamedWAV(24000, sound))}, sound, "", "pcm pcm"},
		"titles behind": {[]http.HandlerFunc{whole("audio/wav", string(pcm.WAV(24000, sound))+"LIST\x04\x00\x00\x00INFO")}, sound, "", "pcm pcm"},
		"another rate":  {[]http.HandlerFunc{whole("audio/wav", streamedWAV(22050, tone(22050)))}, sound, "", "pcm pcm"},
		"pcm refused":   {[]http.HandlerFunc{status(400, `{"detail":"unsupported format"}`), whole("audio/wav", streamedWAV(24000, sound))}, sound, "", "pcm wav wav"},
		"mp3 for pcm":   {[]http.HandlerFunc{whole("audio/mpeg", "ID3\x04"+strings.Repeat("x", 100)), whole("audio/wav", streamedWAV(24000, sound))}, sound, "", "pcm wav wav"},
		"a message":     {[]http.HandlerFunc{whole("application/json", `{"error":"no such voice"}`)}, nil, "invalid false", "pcm wav wav"},
		"never a wav":   {[]http.HandlerFunc{status(400, ""), whole("audio/mpeg", strings.Repeat("x", 100))}, nil, "invalid false", "pcm wav wav"},
		"500":           {[]http.HandlerFunc{status(500, "")}, nil, "overloaded true", "pcm pcm"},
		"429":           {[]http.HandlerFunc{status(429, "")}, nil, "rate_limited true", "pcm pcm"},
		"breaks off":    {[]http.HandlerFunc{cutOff("audio/pcm", raw(sound)[:2000])}, nil, "unreachable true", "pcm pcm"},
		"nothing":       {[]http.HandlerFunc{stream("audio/pcm")}, []int16{}, "", "pcm pcm"},
	} {
		t.Run(name, func(t *testing.T) {
			pcmFirst, err := ProfileOf("openai")
			if err != nil {
				t.Fatal(err)
			}
			f, cl := newFakeWith(t, Config{Key: testKey, Profile: pcmFirst}, c.replies...)
			v, err := cl.Voice(VoiceConfig{Model: "tts-1", Voice: "alloy", Speed: 1.1, Instructions: "Kindly."})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var got []int16
				err := v.Speak(t.Context(), "Hello there.", func(p []int16) error { got = append(got, p...); return nil })
				if e := (*cascade.EngineError)(nil); errors.As(err, &e) {
					if s := fmt.Sprint(e.Code, " ", e.Retryable); s != c.err {
						t.Errorf("%s (%v), want %q", s, err, c.err)
					}
					continue
				}
				if err != nil || c.err != "" {
					t.Fatalf("%v, want %q", err, c.err)
				}
				if name == "another rate" {
					if d := len(got) - len(sound); d < -2 || d > 2 {
						t.Errorf("%d samples, want %d", len(got), len(sound))
					}
				} else if !slices.Equal(got, c.want) {
					t.Errorf("%d samples, want %d", len(got), len(c.want))
				}
			}
			var formats []string
			for _, body := range f.requests() {
				formats = append(formats, fmt.Sprint(body["response_format"]))
			}
			if got := strings.Join(formats, " "); got != c.formats {
				t.Errorf("asked for %q, want %q", got, c.formats)
			}
		})
	}
}

// TestSpeechStreams: sound is given before all of it is there.
func TestSpeechStreams(t *testing.T) {
	heard := make(chan struct{})
	_, cl := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		stream("audio/wav", streamedWAV(24000, make([]int16, 2400)))(w, r)
		select {
		case <-heard:
		case <-r.Context().Done():
			t.Error("the first sound waits for the last")
		}
		stream("audio/pcm", raw(make([]int16, 2400)))(w, r)
	})
	v, err := cl.Voice(VoiceConfig{Model: "m", Voice: "v"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = v.Speak(t.Context(), "Hello.", func(p []int16) error {
		if n == 0 {
			close(heard)
		}
		n += len(p)
		return nil
	})
	if err != nil || n != 4800 {
		t.Errorf("%d samples, %v", n, err)
	}
}
