package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sightline/gateway/sound/soundtest"
)

// startExample runs docs/examples/leg.py, with Debian's Python, whose package of websockets scripts/test installs.
func startExample(t *testing.T, s *served, session string) (stop func()) {
	t.Helper()
	var said lockedBuffer
	command := exec.Command("/usr/bin/python3", "../../docs/examples/leg.py", "--url", "ws"+strings.TrimPrefix(s.URL, "http"), "--session", session)
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = command.Process.Signal(syscall.SIGINT) // fails when it has ended
		kill := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		defer kill.Stop()
		if err := command.Wait(); err != nil {
			t.Errorf("leg.py after an interrupt: %v\n%s", err, said.tail(4<<10))
		}
		if t.Failed() {
			t.Logf("leg.py said:\n%s", said.tail(4<<10))
		}
	}
	t.Cleanup(stop)
	s.untilLeg(session, "python", true)
	return stop
}

// TestE2EExampleLegInPython: the example in another language is a leg like any other: it takes the floor, its answer to a typed message
// is recorded as it was heard, it hears the caller, and after a restart of it the call goes on.
func TestE2EExampleLegInPython(t *testing.T) {
	s := serve(t)
	caller := callAndTalk(t, s, "demo")
	stop := startExample(t, s, "demo")
	if r := s.switchTo("demo", "python", "now"); r.To != "python" || r.Mode != "realtime" {
		t.Errorf("switch: %+v", r)
	}

	at := time.Now()
	s.types("demo", "t1", "hello")
	if user, answer := s.answered("demo", 0); user != "hello" || answer != "You typed: hello" {
		t.Errorf("typed %q, answered %q", user, answer)
	}
	hearsTone(t, caller.Caller, at, 400*time.Millisecond)

	at = caller.says("My order number is four seven one one.")
	user, answer := s.answered("demo", 2)
	if !strings.HasPrefix(user, "(speech, ") || user < "(speech, 1" || answer != "I heard you." {
		t.Errorf("spoke: recorded %q, answered %q", user, answer)
	}
	hearsTone(t, caller.Caller, at, 400*time.Millisecond)

	stop()
	s.untilLeg("demo", "python", false)
	startExample(t, s, "demo")
	s.switchTo("demo", "python", "now")
	s.types("demo", "t2", "and again")
	s.answered("demo", 4)
	want := []string{"user: hello", "assistant: You typed: hello", "user: " + user, "assistant: I heard you.", "user: and again", "assistant: You typed: and again"}
	if got := messages(s.conversation("demo")); !slices.Equal(got, want) {
		t.Errorf("the conversation is %q, want %q", got, want)
	}
}

// hearsTone waits until so much of the example's 440 Hz was heard after from.
func hearsTone(t *testing.T, caller *soundtest.Caller, from time.Time, least time.Duration) {
	t.Helper()
	caller.WaitHeard(10*time.Second, "the tone", func() bool { return caller.Loud(from) >= least })
	pcm, began := caller.Heard()
	pcm = pcm[min(len(pcm), max(0, int(from.Sub(began)*soundtest.Rate/time.Second))):]
	rises, loud := 0, 0
	for i := 1; i < len(pcm); i++ {
		if v := pcm[i]; v > 2000 || v < -2000 {
			loud++
		}
		if pcm[i-1] < 0 && pcm[i] >= 0 && loud > 0 {
			rises++
		}
	}
	if seconds := float64(caller.Loud(from)) / float64(time.Second); float64(rises) < 380*seconds || float64(rises) > 520*seconds {
		t.Errorf("%d periods in %.2f s, want a tone of 440 Hz", rises, seconds)
	}
}
