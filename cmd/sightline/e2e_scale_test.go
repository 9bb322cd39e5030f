package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"sightline/cmd/internal/gatewaybench/churn"
	"sightline/cmd/internal/whipclient"
)

// TestE2EThousandSessionsLeaveNothing: sessions come and go, twenty at once, each with a publisher that sends video and every
// fifth with an agent that sees it. Goroutines, file handles and memory are then what they were after the first hundred.
func TestE2EThousandSessionsLeaveNothing(t *testing.T) {
	// A session that ended is forgotten as soon as the next one ends: its kept conversation is no leak, but it is memory.
	s := serveProcess(t, "--retention", "1ms", "--log-level", "error")
	f, err := os.Open(faceClip)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	clip, err := whipclient.ReadIVF("face480", f)
	if err != nil {
		t.Fatal(err)
	}
	load := func(prefix string, sessions int) (images int, took time.Duration) {
		t.Helper()
		begun := time.Now()
		images, err := churn.Run(t.Context(), churn.Config{URL: s.URL, Clip: clip, Prefix: prefix, Sessions: sessions, AtOnce: 20, AgentEvery: 5})
		if err != nil {
			t.Fatal(err)
		}
		return images, time.Since(begun)
	}
	empty := s.look()
	_, warm := load("warm", 100) // libraries loaded, pools and the heap at their working size
	await(t, 20*time.Second, "the first sessions have ended", func() (bool, string) {
		now := s.look()
		return now.Goroutines <= empty.Goroutines+10, now.String()
	})
	before := s.look()
	const sessions = 900
	images, took := load("session", sessions)
	var after = before
	await(t, 20*time.Second, "goroutines and files are what they were", func() (bool, string) {
		after = s.look()
		return after.Goroutines <= before.Goroutines+3 && after.Files <= before.Files+2,
			fmt.Sprintf("%v, before it was %v", after, before)
	})
	t.Logf("empty: %v; after 100 sessions (%v): %v; after %d more with %d images in %v (%.1f a second): %v",
		empty, warm.Round(time.Millisecond), before, sessions, images, took.Round(time.Millisecond), float64(sessions)/took.Seconds(), after)
	if images != sessions/5 {
		t.Errorf("%d images seen, want %d", images, sessions/5)
	}
	// The heap may be anywhere between two collections; what leaks with each session would be far more.
	if grown := after.Resident - before.Resident; grown > 40<<20 {
		t.Errorf("memory grew by %.1f MB, %d kB a session", float64(grown)/(1<<20), grown/int64(sessions)>>10)
	}
}
