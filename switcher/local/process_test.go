package local

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sightline/switcher/cascade"
)

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// childOf waits for a script to write the id of its child.
func childOf(t testing.TB, file string) (pid int) {
	t.Helper()
	eventually(t, "the child's id", func() bool {
		b, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

func zombies(t testing.TB) (n int) {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(after)
		if len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

func engineError(t testing.TB, err error, code string) {
	t.Helper()
	var e *cascade.EngineError
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want an EngineError with code %s", err, code)
	}
}

// TestG13 : the whole group of a program ends with the context, and is waited for.
func TestG13TheGroupEndsWithTheContext(t *testing.T) {
	file := t.TempDir() + "/child"
	program := script(t, `sleep 1000 & echo $! > `+file+`; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := run(ctx, time.Minute, 100, nil, program); done <- err }()
	child := childOf(t, file)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	eventually(t, "the child is gone", func() bool { b, _, _ := usage(child); return b == "" || b == "Z" }) // init's zombie, not ours
	if n := zombies(t); n != 0 {
		t.Errorf("%d zombies", n)
	}
}

func TestG12ProgramsAreBounded(t *testing.T) {
	_, err := run(t.Context(), 100*time.Millisecond, 100, nil, script(t, `sleep 1000`))
	engineError(t, err, "timeout")
	_, err = run(t.Context(), time.Minute, 100, nil, script(t, `exec yes`))
	engineError(t, err, "invalid")
	_, err = run(t.Context(), time.Minute, 100, nil, script(t, `echo no model >&2; exit 3`))
	engineError(t, err, "unreachable")
	if err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("%v does not say what the program said", err)
	}
	_, err = run(t.Context(), time.Minute, 100, nil, "no-such-program-here")
	engineError(t, err, "unreachable")
	if out, err := run(t.Context(), time.Minute, 100, make([]byte, 1<<20), script(t, `echo fine`)); err != nil || string(out) != "fine\n" {
		t.Errorf("a program that does not read: %q, %v", out, err)
	}
}

func TestG12AHungRecogniserIsKilledAndReplaced(t *testing.T) {
	mark := t.TempDir() + "/hung"
	// The first process hangs after its input, the others work.
	program := script(t, `if mkdir `+mark+` 2>/dev/null; then cat >/dev/null; exec sleep 1000; fi; cat >/dev/null; echo hello`)
	r := started(t, RecognizerConfig{Program: program, Stall: 200 * time.Millisecond, Warm: 1})
	eventually(t, "the first process", func() bool { _, err := os.Stat(mark); return err == nil })
	u, err := r.Listen(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = u.Write(make([]int16, 100))
	_, err = u.Finish(t.Context())
	engineError(t, err, "timeout")
	if text := hear(t, r, make([]int16, 100), nil); text != "hello" {
		t.Errorf("the next utterance is %q", text)
	}
	if n := zombies(t); n != 0 {
		t.Errorf("%d zombies", n)
	}
}

func TestG12ARecogniserThatTakesNoSoundIsKilled(t *testing.T) {
	r := started(t, RecognizerConfig{Program: script(t, `exec sleep 1000`), Stall: 200 * time.Millisecond, Warm: -1})
	u, err := r.Listen(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // more than a pipe holds
		if err := u.Write(make([]int16, recognizerRate)); err != nil {
			break
		}
	}
	_, err = u.Finish(t.Context())
	engineError(t, err, "timeout")
}

func TestADeadRecogniserIsATypedError(t *testing.T) {
	r := started(t, RecognizerConfig{Program: script(t, `echo no such model >&2; exit 1`), Warm: -1})
	u, err := r.Listen(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Finish(t.Context())
	engineError(t, err, "unreachable")
	u.Close()
	u, _ = NewRecognizer(RecognizerConfig{Program: "no-such-program-here"}).Listen(t.Context(), nil)
	_, err = u.Finish(t.Context())
	engineError(t, err, "unreachable")
}

// A process that dies while it waits costs nobody an utterance.
func TestADeadWarmProcessIsReplaced(t *testing.T) {
	r := started(t, RecognizerConfig{Program: script(t, `cat >/dev/null; echo hello`), Warm: 1})
	warm := func() *process {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.warm) == 0 {
			return nil
		}
		return r.warm[0]
	}
	eventually(t, "a warm process", func() bool { return warm() != nil })
	first := warm()
	first.kill()
	eventually(t, "another one", func() bool { p := warm(); return p != nil && p != first })
	if text := hear(t, r, nil, nil); text != "hello" {
		t.Errorf("%q", text)
	}
}

func TestG13UtterancesEndWithTheirContextAndWithRun(t *testing.T) {
	r := NewRecognizer(RecognizerConfig{Program: script(t, `exec cat`), Warm: 1})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	call, hangUp := context.WithCancel(t.Context())
	u, err := r.Listen(call, nil)
	if err != nil {
		t.Fatal(err)
	}
	hangUp()
	if _, err := u.Finish(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	closed, _ := r.Listen(t.Context(), nil)
	closed.Close()
	closed.Close()
	open, _ := r.Listen(t.Context(), nil)
	_ = open.Write(make([]int16, 10))
	eventually(t, "its process", func() bool { return r.Counters().Live >= 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, err = open.Finish(t.Context())
	engineError(t, err, "unreachable")
	if n := r.Counters().Live; n != 0 || zombies(t) != 0 {
		t.Errorf("%d processes, %d zombies", n, zombies(t))
	}
	_, err = r.Listen(t.Context(), nil)
	engineError(t, err, "unreachable")
}

func TestG12UtterancesAreBounded(t *testing.T) {
	r := started(t, RecognizerConfig{Program: script(t, `cat >/dev/null`), Warm: -1})
	u, _ := r.Listen(t.Context(), nil)
	defer u.Close()
	var err error
	for range int(MaxUtterance/time.Second) + 1 {
		err = u.Write(make([]int16, recognizerRate))
	}
	engineError(t, err, "invalid")
	if _, err := u.Finish(t.Context()); err != nil {
		t.Errorf("what was taken is lost: %v", err)
	}
	if u.Write([]int16{1}) == nil {
		t.Error("sound after the end is taken")
	}
}

func TestG12NoMoreProcessesThanAllowed(t *testing.T) {
	r := started(t, RecognizerConfig{Program: script(t, `exec cat`), Warm: -1, Most: 2})
	var open []cascade.Utterance
	for range 5 {
		u, err := r.Listen(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, u)
	}
	eventually(t, "two processes", func() bool { return r.Counters().Live == 2 })
	for _, u := range open {
		if n := r.Counters().Live; n > 2 {
			t.Errorf("%d processes", n)
		}
		u.Close()
	}
}
