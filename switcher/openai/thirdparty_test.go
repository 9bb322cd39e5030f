//go:build thirdparty

package openai

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/cascade/pcm"
)

// call is a session for one leg, in real time: it keeps the log and when what came.
type call struct {
	t     *testing.T
	in    *switcher.Inbox
	mu    sync.Mutex
	items chatctx.Items
	times map[string]time.Time // first of each kind in this turn, and the last
	text  string
	heard string
	sound []int16
	rate  int
	done  chan string // statuses
}

func (c *call) emit(ctx context.Context, o switcher.Output) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark := func(kind string) {
		if _, seen := c.times[kind]; !seen {
			c.times[kind] = time.Now()
		}
		c.times["last "+kind] = time.Now()
	}
	switch out := o.(type) {
	case switcher.TranscriptOut:
		if out.Final {
			c.heard = out.Text
			mark("transcript")
			c.items = append(c.items, &chatctx.Message{ID: out.Item, Role: chatctx.RoleUser, Content: chatctx.TextContent(out.Text)})
		}
	case switcher.TextOut:
		mark("text")
		c.text += out.Delta
	case switcher.SoundOut:
		mark("sound")
		c.sound, c.rate = append(c.sound, out.PCM...), out.Rate
	case switcher.TurnDoneOut:
		mark("done")
		c.items = append(c.items, &chatctx.Message{ID: out.Item, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(c.text)})
		c.done <- out.Status
	case switcher.NoticeOut:
		c.t.Logf("notice %s: %s", out.Code, out.Message)
	}
	return ctx.Err()
}

func (c *call) log() chatctx.Items {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.items)
}

func server(t *testing.T, variable, profile string) *Client {
	t.Helper()
	p, err := ProfileOf(profile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{BaseURL: os.Getenv(variable), Profile: p})
	if err != nil {
		t.Fatalf("%s: %v (thirdparty/run sets it)", variable, err)
	}
	t.Cleanup(c.cfg.HTTP.CloseIdleConnections)
	return c
}

func clip(t *testing.T, name string) []int16 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "speech", name))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data)
	if f, err := pcm.ReadHeader(r); err != nil || f.Rate != 16000 || f.Channels != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	return pcm.Samples(data[len(data)-r.Len():])
}

// TestThirdPartyCascade speaks to real servers, in real time, and hears what they answer.
func TestThirdPartyCascade(t *testing.T) {
	whisper, err1 := server(t, "STT_URL", "").Recognizer(RecognizerConfig{Model: "whisper-1", Language: "en"})
	model, err2 := server(t, "LLM_URL", "llamacpp").Model(ModelConfig{Model: "smollm2", MaxTokens: 48})
	voice, err3 := server(t, "TTS_URL", "").Voice(VoiceConfig{Model: "tts-1", Voice: "joe"})
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &call{t: t, in: switcher.NewInbox(16000, 0), times: map[string]time.Time{}, done: make(chan string, 16)}
	leg := cascade.New(cascade.Config{Recognizers: []cascade.Recognizer{whisper}, Models: []cascade.Model{model}, Voices: []cascade.Voice{voice},
		// A machine without a GPU that does other things too: the figures are to be seen, not cut off.
		Timeouts: cascade.Timeouts{Transcript: time.Minute, FirstText: time.Minute, FirstSound: time.Minute}})
	ended := make(chan error, 1)
	go func() {
		ended <- leg.Run(ctx, switcher.Start{Session: "t", Epoch: 1, InRate: 16000, OutRate: voice.Rate(), Items: c.log,
			Seed: switcher.Seed{Mode: switcher.SeedItems, Instructions: "You are on a phone call. Answer in two or three short sentences."}}, c.in, c.emit)
	}()
	c.put(switcher.FloorIn{})
	clips := []struct{ file, text string }{
		{"jfk.wav", "And so my fellow Americans ask not what your country can do for you ask what you can do for your country"},
		{"austen.wav", "and mister john dashwood had then leisure to consider how much there might be prudently in his power to do for them"},
	}
	var first, total []time.Duration
	for turn := range 4 {
		said := clips[turn%2]
		f, w := c.turn(clip(t, said.file))
		answer := c.recognise(whisper)
		t.Logf("turn %d: end of speech → transcript %4d ms, first word %4d ms, first sound %4d ms, model done %4d ms, last sound %4d ms; WER in %.0f %%, WER of what is heard of the answer %.0f %%",
			turn+1, w["transcript"].Milliseconds(), w["text"].Milliseconds(), f.Milliseconds(), w["last text"].Milliseconds(), w["last sound"].Milliseconds(), 100*wer(said.text, c.heard), 100*wer(c.text, answer))
		t.Logf("   heard %q, answered %q", c.heard, c.text)
		if c.rate != voice.Rate() || len(c.sound) < c.rate/2 || wer(said.text, c.heard) > 0.3 {
			t.Errorf("%d samples at %d Hz, heard %q", len(c.sound), c.rate, c.heard)
		}
		if strings.Count(strings.TrimSpace(c.text), ". ") > 1 && w["sound"] >= w["last text"] {
			t.Log("   the first sound came after the model was done")
		}
		first, total = append(first, f), append(total, w["last sound"])
	}
	slices.Sort(first)
	slices.Sort(total)
	t.Logf("end of speech → first sound: p50 %v, max %v; last sound p50 %v", first[len(first)/2].Round(time.Millisecond), first[len(first)-1].Round(time.Millisecond), total[len(total)/2].Round(time.Millisecond))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (c *call) put(in switcher.Input) {
	if err := c.in.Put(in); err != nil {
		c.t.Fatal(err)
	}
}

// turn speaks a clip in real time and waits for the answer; times count from the end of speech.
func (c *call) turn(speech []int16) (firstSound time.Duration, when map[string]time.Duration) {
	c.mu.Lock()
	c.times, c.text, c.heard, c.sound = map[string]time.Time{}, "", "", nil
	c.mu.Unlock()
	began := time.Now()
	c.put(switcher.CallerSpeechIn{Started: true, At: began})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for at := began; len(speech) > 0; at = at.Add(20 * time.Millisecond) {
		n := min(320, len(speech))
		c.put(switcher.SoundIn{PCM: speech[:n], At: at})
		speech = speech[n:]
		<-tick.C
	}
	over := time.Now()
	c.put(switcher.CallerSpeechIn{Final: true, At: over})
	select {
	case status := <-c.done:
		if status != switcher.TurnCompleted {
			c.t.Errorf("the turn ended %q", status)
		}
	case <-time.After(2 * time.Minute):
		c.t.Fatal("no answer")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	when = map[string]time.Duration{}
	for kind, at := range c.times {
		when[kind] = at.Sub(over)
	}
	return when["sound"], when
}

// recognise says what the answer sounds like.
func (c *call) recognise(r *Recognizer) string {
	u, err := r.Listen(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer u.Close()
	resampler := pcm.NewResampler(c.rate, r.Rate())
	if err := u.Write(append(resampler.Push(c.sound), resampler.Flush()...)); err != nil {
		c.t.Fatal(err)
	}
	text, err := u.Finish(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// wer is the word error rate: the edit distance in words, over the words that were meant.
func wer(meant, got string) float64 {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(strings.NewReplacer("mr.", "mister", "mr ", "mister ").Replace(strings.ToLower(s))), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
		})
	}
	a, b := words(meant), words(got)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return float64(row[len(b)]) / float64(max(len(a), 1))
}
