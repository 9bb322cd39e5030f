package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
	chatctx "sightline/context"
	"sightline/gateway"
	"sightline/gateway/rtc"
	"sightline/switcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output collects what the agent prints and wakes those who wait for a line.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// waitFor returns the first match of pattern in what was printed.
func (o *output) waitFor(t *testing.T, pattern string) string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	deadline := time.After(30 * time.Second)
	for {
		o.mu.Lock()
		found, changed := wanted.FindString(o.text.String()), o.changed
		o.mu.Unlock()
		if found != "" {
			return found
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q was not printed within 30 s; printed was:\n%s", pattern, o)
		}
	}
}

// startGateway serves a gateway on this address (port 0 = any free one) until stop.
func startGateway(t *testing.T, address string) (url string, stop func()) {
	t.Helper()
	return startGatewayWith(t, address, gateway.PipelineConfig{})
}

func startGatewayWith(t *testing.T, address string, talks gateway.PipelineConfig) (url string, stop func()) {
	t.Helper()
	server, err := gateway.New(gateway.Config{Pipelines: talks, Store: chatctx.NewMemStore(), Media: rtc.Config{AllowLoopback: true, TCPPort: -1}, DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: server.Handler()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- server.Run(ctx) }()
	go func() { _ = web.Serve(listener); done <- nil }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("gateway: %v", err)
		}
		_ = web.Close()
		<-done
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(stop)
	return "http://" + listener.Addr().String(), stop
}

func startAgent(t *testing.T, args ...string) (*output, func() int) {
	t.Helper()
	out := newOutput()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, func(string) string { return "" }, out, out) }()
	stop := sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { stop() })
	return out, stop
}

func startPublisher(t *testing.T, url string) {
	t.Helper()
	clip, err := testvideo.Make(t.Context(), testvideo.Config{Length: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p, err := whipclient.New(whipclient.Config{URL: url, Session: "demo", Clip: clip})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("publisher: %v", err)
		}
	})
	select {
	case <-p.Connected():
	case err := <-done:
		done <- err
		t.Fatalf("publisher: %v", err)
	}
}

func typeText(t *testing.T, url, opID, text string) {
	t.Helper()
	body := `{"op_id":"` + opID + `","item":{"type":"message","role":"user","content":"` + text + `"}}`
	answer, err := http.Post(url+"/v1/sessions/demo/context", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Fatalf("append: %d %s", answer.StatusCode, said)
	}
}

func TestWaitsAttachesSavesAndAnswers(t *testing.T) {
	url, _ := startGateway(t, "127.0.0.1:0")
	dir := filepath.Join(t.TempDir(), "images")
	out, stop := startAgent(t, "--url", url, "--images-dir", dir, "--agent-id", "a1", "--fps", "5")

	out.waitFor(t, `session demo does not exist yet: open `+url+`/\?session=demo and press Start camera; waiting`)
	startPublisher(t, url)
	out.waitFor(t, `attached to session demo as a1`)
	out.waitFor(t, `source camera is live: \S+ 640×480`)
	saved := strings.TrimPrefix(out.waitFor(t, `image camera #\d+ 1024×1024, \d+ bytes, captured \d\.\d\d s ago.*, saved as \S+`), "")
	data, err := os.ReadFile(saved[strings.LastIndex(saved, " ")+1:])
	if err != nil {
		t.Fatal(err)
	}
	picture, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil || picture.Bounds() != image.Rect(0, 0, 1024, 1024) {
		t.Errorf("the saved image: %v, %v", picture.Bounds(), err)
	}

	typeText(t, url, "1", "what do you see?")
	out.waitFor(t, `append assistant: I see your camera: 1024×1024, mean brightness \d+ of 255 \([a-z ]+\), captured 0\.\d s ago\.\n`)
	typeText(t, url, "2", "repeat my last message")
	out.waitFor(t, `append assistant: Before this you said "what do you see\?"\.\n`)

	if code := stop(); code != exitFine {
		t.Errorf("exit %d", code)
	}
	out.waitFor(t, `left session demo: 4 entries`)
	if n := strings.Count(out.String(), "append assistant"); n != 2 {
		t.Errorf("%d answers to 2 messages:\n%s", n, out)
	}
}

func TestOutlivesARestartOfTheGateway(t *testing.T) {
	url, stopFirst := startGateway(t, "127.0.0.1:0")
	create := func() {
		answer, err := http.Post(url+"/v1/sessions", "application/json", strings.NewReader(`{"id":"demo"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatalf("create session: %d", answer.StatusCode)
		}
	}
	create()
	typeText(t, url, "1", "hello") // before the agent is there
	out, stop := startAgent(t, "--url", url, "--agent-id", "a1")
	out.waitFor(t, `append assistant: Hello`)
	stopFirst()
	out.waitFor(t, `not attached: .*trying again until Ctrl-C`)

	startGateway(t, strings.TrimPrefix(url, "http://")) // its store is empty
	out.waitFor(t, `session demo does not exist yet`)
	create()
	out.waitFor(t, `(?s)attached to session demo.*attached to session demo as a1 at entry 0`)
	typeText(t, url, "2", "help")
	out.waitFor(t, `append assistant: I answer by rules`)
	if code := stop(); code != exitFine {
		t.Errorf("exit %d", code)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitFine, "-images-dir"},
		{[]string{"--colour"}, exitUsage, "colour"},
		{[]string{"demo"}, exitUsage, `unexpected argument "demo"`},
		{[]string{"--fps", "-1"}, exitUsage, "must be 0 or more"},
		{[]string{"--speaking-fps", "-1"}, exitUsage, "must be 0 or more"},
		{[]string{"--fps", "0", "--on-change"}, exitUsage, "wants no images"},
		{[]string{"--max-gap", "1s"}, exitUsage, "goes with --on-change"},
		{[]string{"--session", "de mo"}, exitUsage, `session "de mo"`},
		{[]string{"--url", "localhost:8080"}, exitUsage, "http://"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), test.args, func(string) string { return "" }, &out, &out); code != test.code || !strings.Contains(out.String(), test.want) {
			t.Errorf("%v: exit %d, printed %q", test.args, code, out.String())
		}
	}
}

func TestBrightness(t *testing.T) {
	gray := image.NewGray(image.Rect(3, 3, 19, 19))
	ycc := image.NewYCbCr(image.Rect(2, 2, 18, 18), image.YCbCrSubsampleRatio420)
	for i := range gray.Pix {
		gray.Pix[i], ycc.Y[i] = 200, 200
	}
	for name, picture := range map[string]image.Image{"gray": gray, "YCbCr": ycc} {
		if got := brightness(picture); got < 199 || got > 201 {
			t.Errorf("%s: %g, want 200", name, got)
		}
	}
	if got := brightness(image.NewGray(image.Rect(0, 0, 0, 0))); got != 0 {
		t.Errorf("empty: %g", got)
	}
}

// echoLeg is a pipeline that answers what is typed by the same words.
type echoLeg struct{}

func (echoLeg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	_ = out(ctx, switcher.ReadyOut{})
	turns := 0
	say := func(text string) {
		turns++
		item := fmt.Sprintf("echo-%d-%d", start.Epoch, turns)
		_ = out(ctx, switcher.TextOut{Item: item, Delta: "echo: " + text})
		_ = out(ctx, switcher.TurnDoneOut{Item: item, Status: switcher.TurnCompleted})
	}
	for {
		input, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		switch m := input.(type) {
		case switcher.FloorIn:
			if m.Respond {
				say("what was said before")
			}
		case switcher.ItemIn:
			if message, ok := m.Item.(*chatctx.Message); ok && m.Respond {
				say(message.Content.Text())
			}
		}
	}
}

// A session's first pipeline begins with the first message, after the agent has read that: it is not answered twice.
func TestAPipelineThatBeginsAnswersAlone(t *testing.T) {
	url, _ := startGatewayWith(t, "127.0.0.1:0", gateway.PipelineConfig{First: "echo", Builtin: []switcher.Pipeline{{
		Name: "echo", Kind: switcher.Cascade, New: func() switcher.Leg { return echoLeg{} },
	}}})
	answer, err := http.Post(url+"/v1/sessions", "application/json", strings.NewReader(`{"id":"demo"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	out, _ := startAgent(t, "--url", url, "--agent-id", "a1", "--fps", "0")
	out.waitFor(t, `attached to session demo as a1`)
	typeText(t, url, "1", "hello")
	out.waitFor(t, `append assistant: echo: what was said before`)
	typeText(t, url, "2", "once more")
	out.waitFor(t, `append assistant: echo: once more`)
	if n := strings.Count(out.String(), "append assistant"); n != 2 {
		t.Errorf("%d answers to 2 messages:\n%s", n, out)
	}
}
