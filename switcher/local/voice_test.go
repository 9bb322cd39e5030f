package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func speak(t testing.TB, v *Voice, text string) (samples int) {
	t.Helper()
	if err := v.Speak(t.Context(), text, func(pcm []int16) error {
		if len(pcm) == 0 || len(pcm) > step {
			t.Errorf("a piece of %d samples", len(pcm))
		}
		samples += len(pcm)
		return nil
	}); err != nil {
		t.Fatalf("%.40q: %v", text, err)
	}
	return samples
}

func newVoice(t testing.TB) *Voice {
	t.Helper()
	v, err := NewVoice(VoiceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestG12AnyTextIsSpokenOrSilence(t *testing.T) {
	v := newVoice(t)
	seconds := func(text string) float64 { return float64(speak(t, v, text)) / voiceRate }
	for _, text := range []string{"", " ", "😀", "...", "\x00\x01\x02\x1b\xff\xfe", "你好", "<|>"} {
		if s := seconds(text); s > 0.1 {
			t.Errorf("%q is %.2f s of sound", text, s)
		}
	}
	for _, text := range []string{"a", "-voice", "--help", "-o /tmp/x", "/etc/passwd", "$(reboot)", "yes\x00no", "Grüße, naïve café", strings.Repeat("x", 300)} {
		if s := seconds(text); s < 0.1 {
			t.Errorf("%q is %.2f s of sound", text, s)
		}
	}
	if s := seconds("-o /tmp/x"); s > 5 {
		t.Errorf("%.1f s", s)
	}
}

func TestG12LongTextsAreCut(t *testing.T) {
	pieces := speakable(strings.Repeat("this is a sentence. ", 500) + strings.Repeat("ä", 5000))
	total := 0
	for _, p := range pieces {
		total += len(p)
		if len(p) > longestPiece || p == "" {
			t.Errorf("a piece of %d bytes", len(p))
		}
	}
	if total > 2*MaxSpoken || total < MaxSpoken/2 {
		t.Errorf("%d bytes of 10 KB are spoken", total)
	}
}

func FuzzSpeakable(f *testing.F) {
	f.Add("Dr. Smith, hello. A second, longer sentence!")
	f.Add(strings.Repeat("…×", 300))
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range speakable(text) {
			if p == "" || len(p) > longestPiece || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q", p)
			}
		}
	})
}

// While a sentence plays the next is made, and nothing more.
func TestSentencesArePiecesOfTheirOwn(t *testing.T) {
	got := speakable("Your order is on its way. It arrives on Tuesday, as Dr. Smith said! Is that all?")
	want := []string{"Your order is on its way.", "It arrives on Tuesday, as Dr.", "Smith said! Is that all?"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestSpeakEndsWithYieldAndContext(t *testing.T) {
	v := newVoice(t)
	stop := errors.New("stop")
	if err := v.Speak(t.Context(), "Hello there. This is a second sentence.", func([]int16) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := v.Speak(ctx, "Hello there. This is a second sentence.", func([]int16) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := zombies(t); n != 0 {
		t.Errorf("%d zombies", n)
	}
}

func TestBrokenVoices(t *testing.T) {
	if _, err := NewVoice(VoiceConfig{Voice: "http://example.org/x.flitevox"}); err == nil {
		t.Error("an address is taken for a voice")
	}
	for program, code := range map[string]string{script(t, "echo nonsense"): "invalid", script(t, "exit 1"): "unreachable", script(t, "kill -9 $$"): "unreachable"} {
		v, _ := NewVoice(VoiceConfig{Program: program})
		engineError(t, v.Speak(t.Context(), "hello", func([]int16) error { return nil }), code)
	}
}

func TestWaveFilesOfAnyKindAreReadOrRefused(t *testing.T) {
	good := "RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\xff\xff\xff\xff\x01\x00\x02\x00"
	if pcm, rate, err := parseWAV([]byte(good)); err != nil || rate != 16000 || !slices.Equal(pcm, []int16{1, 2}) {
		t.Errorf("%v %d %v", pcm, rate, err)
	}
	for cut := range len(good) - 4 {
		if pcm, _, err := parseWAV([]byte(good[:cut])); err == nil && len(pcm) > 0 {
			t.Errorf("%d bytes of a header are sound", cut)
		}
	}
}

func BenchmarkFirstSound(b *testing.B) {
	v := newVoice(b)
	const text = "Your order is on its way and arrives on Tuesday. It has three items."
	enough := errors.New("enough")
	for b.Loop() {
		if err := v.Speak(b.Context(), text, func([]int16) error { return enough }); err != enough {
			b.Fatal(err)
		}
	}
}

// The time from a start to a loaded process, which Run takes before anybody speaks.
func BenchmarkStart(b *testing.B) {
	r := NewRecognizer(RecognizerConfig{})
	for b.Loop() {
		hear(b, r, nil, nil)
	}
}

// BenchmarkFinish gives sound at the speed of speech; what is measured is the wait for the text, after 0 or 400 ms of silence.
func BenchmarkFinish(b *testing.B) {
	for name, silence := range map[string]int{"at-once": 0, "after-400ms": recognizerRate * 4 / 10} {
		b.Run(name, func(b *testing.B) {
			r := started(b, RecognizerConfig{})
			pcm := speech(b, "rms", "look up my order and read the sign")
			pcm = append(pcm[:len(pcm)-recognizerRate/4-pause], make([]int16, silence)...)
			var waited time.Duration
			for b.Loop() {
				u, err := r.Listen(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				tick := time.NewTicker(20 * time.Millisecond)
				for rest := pcm; len(rest) > 0; rest = rest[min(320, len(rest)):] {
					<-tick.C
					_ = u.Write(rest[:min(320, len(rest))])
				}
				tick.Stop()
				over := time.Now()
				if text, err := u.Finish(b.Context()); err != nil || !strings.Contains(text, "order") {
					b.Fatalf("%q %v", text, err)
				}
				waited += time.Since(over)
			}
			b.ReportMetric(float64(waited.Milliseconds())/float64(b.N), "finish-ms/op")
		})
	}
}
