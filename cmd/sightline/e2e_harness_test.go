package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
)

// The end-to-end tests run the real program value in this process and reach it only over its ports, as users do. They run one
// after the other: a test that measures shares the machine with nothing, and goroutines that are left belong to one test.

// served is one running `sightline serve`.
type served struct {
	t       *testing.T
	URL     string // as announced: http://localhost:PORT
	Port    string
	signals chan os.Signal
	exit    chan int
	stderr  lockedBuffer
	stopped bool
}

// serve starts the program on a free loopback port; args come after and may say otherwise. When the test ends it is stopped,
// and nothing that began after it may be left: what a test starts later is cleaned up earlier.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := &served{t: t, signals: make(chan os.Signal, 2), exit: make(chan int, 1)}
	ready := make(chan string, 1)
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", inMemory, "--pipeline", pipelineNone}, args...)
	p := program{args: args, getenv: func(string) string { return "" }, stdout: &lockedBuffer{}, stderr: &s.stderr, signals: s.signals, ready: ready}
	go func() { s.exit <- p.run() }()
	select {
	case s.URL = <-ready:
	case code := <-s.exit:
		t.Fatalf("sightline %s ended with %d: %s", strings.Join(args, " "), code, s.stderr.tail(4<<10))
	case <-time.After(10 * time.Second):
		t.Fatalf("sightline %s is not ready after 10 s: %s", strings.Join(args, " "), s.stderr.tail(4<<10))
	}
	s.Port = s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	t.Cleanup(func() {
		s.stop()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := goleak.Find(before); err != nil {
			t.Errorf("left after sightline serve and its clients have ended: %v", err)
		}
	})
	return s
}

// stop does what Ctrl-C does and demands exit code 0. It may be called before the test's end.
func (s *served) stop() {
	s.t.Helper()
	if s.stopped {
		return
	}
	s.stopped = true
	s.signals <- syscall.SIGINT
	select {
	case code := <-s.exit:
		if code != exitOK {
			s.t.Errorf("sightline serve ended with %d, want %d", code, exitOK)
		}
	case <-time.After(20 * time.Second):
		s.t.Error("sightline serve still runs 20 s after SIGINT")
	}
	if s.t.Failed() {
		s.t.Logf("the log of sightline serve ends with:\n%s", s.stderr.tail(8<<10))
	}
}

// call makes one HTTP request and gives status, header and body. Any status is an answer; only no answer fails the test.
func (s *served) call(method, path, contentType, body string) (int, http.Header, []byte) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(answer.Body); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, answer.Header, data.Bytes()
}

// open makes the session, so that agents can attach before anybody publishes.
func (s *served) open(session string) {
	s.t.Helper()
	status, _, body := s.call("POST", "/v1/sessions", "application/json", fmt.Sprintf(`{"id":%q}`, session))
	if status != http.StatusCreated && status != http.StatusOK {
		s.t.Fatalf("opening session %s: %d %s", session, status, body)
	}
}

// sessionState is what these tests read of GET /v1/sessions/{id}.
type sessionState struct {
	State   string `json:"state"`
	Seq     uint64 `json:"seq"`
	Sources []struct {
		Name, State, Codec string
		Width, Height      int
		Decoded, Delivered uint64
		Superseded, Lost   uint64
		Dropped, Packets   uint64
		KeyFrames          uint64 `json:"key_frames"`
		Policy             string
		BitrateBPS         int64 `json:"bitrate_bps"`
		PLIs               uint64
		Layers             []struct {
			RID           string
			Used, Sent    bool
			Width, Height int
			Packets, Lost uint64
		}
		LayerSwitches uint64 `json:"layer_switches"`
		SpatialLayer  int    `json:"spatial_layer"`
		SpatialLayers int    `json:"spatial_layers"`
		FPS           float64
		AgeMS         *int64 `json:"age_ms"`
	} `json:"sources"`
	Agents []struct {
		AgentID          string `json:"agent_id"`
		Connected        bool
		Seq              uint64
		ImagesSuperseded uint64 `json:"images_superseded"`
	} `json:"agents"`
	Publisher *json.RawMessage `json:"publisher"`
}

func (s *served) session(id string) sessionState {
	s.t.Helper()
	status, _, body := s.call("GET", "/v1/sessions/"+id, "", "")
	var state sessionState
	if status != http.StatusOK {
		s.t.Fatalf("GET /v1/sessions/%s: %d %s", id, status, body)
	}
	if err := json.Unmarshal(body, &state); err != nil {
		s.t.Fatalf("GET /v1/sessions/%s: %v in %s", id, err, body)
	}
	return state
}

// witness is an agent attached over the real socket that keeps what it was told.
type witness struct {
	*agentclient.Client
	t      *testing.T
	cancel context.CancelFunc
	done   chan error

	mu       sync.Mutex
	images   []agentclient.Image // subscribed ones, in order; at most keptImages
	entries  []chatctx.Entry
	sources  []wire.Source // every report, those of each welcome included
	detached []error
}

// keptImages bounds what a witness holds: 1024×1024 JPEGs of 100 kB, some minutes of them.
const keptImages = 1000

// attach attaches an agent that wants the conversation from the start and fps images a second of every source; 0 = none.
func (s *served) attach(session, agentID string, fps float64) *witness {
	s.t.Helper()
	want := wire.Want{Context: true}
	if fps > 0 {
		want.Images = []wire.WantImage{{Source: "*", FPS: fps}}
	}
	return s.attachWanting(session, agentID, want)
}

func (s *served) attachWanting(session, agentID string, want wire.Want) *witness {
	s.t.Helper()
	w := &witness{t: s.t, done: make(chan error, 1)}
	keep := func(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }
	client, err := agentclient.New(agentclient.Config{
		URL: s.URL, Session: session, WaitForSession: true, AgentID: agentID, Want: want, FromStart: true, RetryMin: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond,
		Handler: agentclient.Handler{
			Attached: func(m wire.Welcome) { keep(func() { w.sources = append(w.sources, m.Sources...) }) },
			Entry:    func(e chatctx.Entry) { keep(func() { w.entries = append(w.entries, e) }) },
			Image: func(i agentclient.Image) {
				keep(func() { w.images = append(w.images[max(0, len(w.images)+1-keptImages):], i) })
			},
			Source:   func(m wire.Source) { keep(func() { w.sources = append(w.sources, m) }) },
			Refused:  func(e wire.Error) { s.t.Errorf("agent %s was refused: %s: %s", agentID, e.Code, e.Message) },
			Detached: func(err error, _ time.Duration) { keep(func() { w.detached = append(w.detached, err) }) },
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	w.Client = client
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() { w.done <- client.Run(ctx) }()
	s.t.Cleanup(w.leave)
	return w
}

// leave says bye and waits for the client's end.
func (w *witness) leave() {
	w.cancel()
	select {
	case err := <-w.done:
		w.done <- nil // for a second call
		if err != nil {
			w.t.Errorf("the agent ended with: %v", err)
		}
	case <-time.After(10 * time.Second):
		w.t.Error("the agent has not ended 10 s after it was told to")
	}
}

// seen copies what was received so far.
func (w *witness) seen() (images []agentclient.Image, entries []chatctx.Entry, sources []wire.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.images), slices.Clone(w.entries), slices.Clone(w.sources)
}

// forget drops the images received so far, so that the next ones are later than now.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images = nil
}

// awaitImages waits until n subscribed images are kept that pass ok (nil = all), and gives them.
func (w *witness) awaitImages(within time.Duration, why string, n int, ok func(agentclient.Image) bool) []agentclient.Image {
	w.t.Helper()
	var good []agentclient.Image
	await(w.t, within, why, func() (bool, string) {
		all, _, sources := w.seen()
		good = nil
		for _, i := range all {
			if ok == nil || ok(i) {
				good = append(good, i)
			}
		}
		return len(good) >= n, fmt.Sprintf("%d of %d images, %d of them as wanted; source reports %v", len(all), n, len(good), sources)
	})
	return good
}

// awaitSource waits until the last report about the source says state.
func (w *witness) awaitSource(within time.Duration, why, name, state string) wire.Source {
	w.t.Helper()
	var last wire.Source
	await(w.t, within, why, func() (bool, string) {
		_, _, sources := w.seen()
		for _, s := range sources {
			if s.Name == name {
				last = s
			}
		}
		return last.State == state, fmt.Sprintf("source %s is %q, want %q; reports %v", name, last.State, state, sources)
	})
	return last
}

// await looks again and again until ok, and fails the test with the last word of what is there instead.
func await(t *testing.T, within time.Duration, why string, look func() (ok bool, instead string)) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	beat := time.NewTicker(10 * time.Millisecond)
	defer beat.Stop()
	for {
		ok, instead := look()
		if ok {
			return
		}
		select {
		case <-beat.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s: %s", within, why, instead)
		case <-t.Context().Done():
			t.Fatalf("the test ended while waiting: %s: %s", why, instead)
		}
	}
}

// tool finds a program the tests need; one that is missing is a failure, scripts/test installs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; scripts/test installs what the tests need", err)
	}
	return path
}

// ffmpeg runs it quietly and fails the test with its own words.
func ffmpeg(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), tool(t, "ffmpeg"), append([]string{"-nostdin", "-v", "error", "-y"}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// agentBinary builds the real sightline-agent, once for all tests.
func agentBinary(t *testing.T) string {
	t.Helper()
	path, err := builtAgent()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	builtFolder string
	builtAgent  = sync.OnceValues(func() (string, error) {
		path := filepath.Join(builtFolder, "sightline-agent")
		out, err := exec.Command("go", "build", "-o", path, "sightline/cmd/sightline-agent").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build sightline-agent: %w\n%s", err, out)
		}
		return path, nil
	})
)

// startAgent runs the real sightline-agent as a process of its own and gives what it prints. It is interrupted when the test
// ends, and must then exit with 0.
func (s *served) startAgent(session string, args ...string) *lockedBuffer {
	s.t.Helper()
	out := &lockedBuffer{}
	command := exec.Command(agentBinary(s.t), append([]string{"--url", s.URL, "--session", session}, args...)...)
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		defer kill.Stop()
		if err := command.Wait(); err != nil {
			s.t.Errorf("sightline-agent after an interrupt: %v\n%s", err, out.tail(4<<10))
		}
	})
	return out
}

func TestMain(m *testing.M) {
	var err error
	if builtFolder, err = os.MkdirTemp("", "sightline-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(builtFolder)
	os.Exit(code)
}

// lockedBuffer takes what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// tail is the end of it, at most n bytes.
func (b *lockedBuffer) tail(n int) string {
	s := b.String()
	return s[max(0, len(s)-n):]
}
