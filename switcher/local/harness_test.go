package local

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// speech is what a caller says, with the silence around it that a turn detector gives along.
func speech(t testing.TB, voice, text string) []int16 {
	t.Helper()
	v, err := NewVoice(VoiceConfig{Voice: voice})
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, recognizerRate/4)
	if err := v.Speak(t.Context(), text, func(p []int16) error { pcm = append(pcm, p...); return nil }); err != nil {
		t.Fatal(err)
	}
	return append(pcm, make([]int16, recognizerRate/4)...)
}

// hear recognises sound as fast as it can be given.
func hear(t testing.TB, r *Recognizer, pcm []int16, partial func(string)) string {
	t.Helper()
	u, err := r.Listen(t.Context(), partial)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for ; len(pcm) > 0; pcm = pcm[min(320, len(pcm)):] {
		if err := u.Write(pcm[:min(320, len(pcm))]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	text, err := u.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// started runs a recogniser for the time of a test.
func started(t testing.TB, cfg RecognizerConfig) *Recognizer {
	t.Helper()
	r := NewRecognizer(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := r.Counters().Live; n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	return r
}

// script makes an executable of shell lines and gives its path.
func script(t testing.TB, lines string) string {
	t.Helper()
	name := t.TempDir() + "/program"
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+lines+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// wordErrors counts the words to change.
func wordErrors(want, got string) int {
	a, b := strings.Fields(want), strings.Fields(got)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			cost := before
			if x != y {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
