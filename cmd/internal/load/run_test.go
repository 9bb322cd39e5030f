package load

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway"
	"sightline/gateway/auth"
	"sightline/gateway/rtc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var clips struct {
	sync.Mutex
	made map[testvideo.Config]*whipclient.Clip
}

// testClip makes VP8 and keeps it: the driver is one for the process.
func testClip(ctx context.Context, _ string, cfg testvideo.Config) (*whipclient.Clip, error) {
	clips.Lock()
	defer clips.Unlock()
	if c := clips.made[cfg]; c != nil {
		return c, nil
	}
	c, err := testvideo.Make(ctx, cfg)
	if err == nil {
		if clips.made == nil {
			clips.made = map[testvideo.Config]*whipclient.Clip{}
		}
		clips.made[cfg] = c
	}
	return c, err
}

// small is video that costs little.
const small = " --size 320x240 --bitrate 300 --key-every 1s --image-size 160x120 --start-every 1ms "

// secret is the key of the gateway that asks for tokens.
const secret = "0123456789abcdef0123456789abcdef-of-a-test"

func startGateway(t *testing.T) string { return serve(t, nil) }

func serve(t *testing.T, verifier *auth.Verifier) string {
	t.Helper()
	server, err := gateway.New(gateway.Config{Store: chatctx.NewMemStore(), Media: rtc.Config{AllowLoopback: true, TCPPort: -1}, DrainTimeout: time.Second, Auth: verifier})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	web := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("gateway: %v", err)
		}
		web.CloseClientConnections()
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return web.URL
}

// play runs the command and gives its report.
func play(t *testing.T, ctx context.Context, args string) (code int, r Report, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	code = Run(ctx, strings.Fields(args+small+"--json "+file), none, &out, &out, testClip)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; it said:\n%s", err, out.String())
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return code, r, out.String()
}

// noSession fails the test when a session has not ended.
func noSession(t *testing.T, url string) {
	t.Helper()
	answer, err := http.Get(url + "/v1/sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var all struct{ Sessions []struct{ ID, State string } }
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.Sessions {
		if s.State != "ended" {
			t.Errorf("session %s is left, %s", s.ID, s.State)
		}
	}
}

func TestMeasuresARealGateway(t *testing.T) {
	t.Parallel()
	url, page := startGateway(t), filepath.Join(t.TempDir(), "report.html")
	code, r, said := play(t, t.Context(), "--url "+url+" --publishers 3 --agents 2 --slow-agents 1 --slow-for 500ms --duration 5s --image-fps 4,2 --append-every 500ms"+
		" --request-every 1s --switch-every 1s --max-lost 100000 --max-errors 20 --html "+page)
	if code != exitFine {
		t.Errorf("exit %d:\n%s", code, said)
	}
	if p := r.Publishers; p.Connected != 3 || p.Failed != 0 || p.Frames < 150 || p.Left != 0 || r.Agents.Connected != 7 {
		t.Errorf("publishers %+v, agents %+v", p, r.Agents)
	}
	// 3 sessions × (4 + 2) images/s × 5 s = 90; a busy machine may be slower by far.
	if i := r.Images; i.Wanted != 18 || i.Received < 9 || i.SentToAgent.P50 <= 0 || i.SentToAgent.P99 < i.SentToAgent.P50 || i.Request.Count == 0 {
		t.Errorf("images %+v", i)
	}
	if c := r.Context; c.Checked != 3 || c.Exact != 3 || c.Entries < 9 || c.Append.Count < 6 {
		t.Errorf("context %+v", c)
	}
	if r.Switches.Committed < 3 || r.Agents.SlowImages == 0 {
		t.Errorf("switches %+v, slow agents %+v", r.Switches, r.Agents)
	}
	if g := r.Gateway; !g.Known || !g.FromEmpty || g.CPUCores <= 0 || g.RSSMaxMiB < 10 || g.Packets < 100 {
		t.Errorf("gateway %+v", g)
	}
	for _, want := range []string{"publishers 3/3", "context            exact in 3 of 3", "limit kept", "switches"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in what was printed:\n%s", want, said)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<svg")) {
		t.Errorf("the page: %v", err)
	}
	noSession(t, url)
}

func TestChurnSoundSimulcastAndABadNetwork(t *testing.T) {
	t.Parallel()
	url := startGateway(t)
	code, r, said := play(t, t.Context(), "--url "+url+" --publishers 2 --agents 1 --duration 4s --simulcast --speech builtin --churn 1500ms"+
		" --loss 3% --delay 10ms --jitter 5ms --image-fps 4 --append-every 500ms --max-errors 100")
	if code != exitFine {
		t.Errorf("exit %d:\n%s", code, said)
	}
	if p := r.Publishers; p.Sessions < 3 || p.Connected < 3 || p.SoundPackets < 100 || r.Network.Lost == 0 || r.Network.Passed < 20*r.Network.Lost {
		t.Errorf("publishers %+v, network %+v", p, r.Network)
	}
	if r.Images.Received == 0 || r.Context.Exact != r.Context.Checked || r.Context.Checked < 3 {
		t.Errorf("images %+v, context %+v", r.Images, r.Context)
	}
	noSession(t, url)
}

// TestASecondRunOnASessionThatWasKept: its operations are others, though the first run's have the same numbers.
func TestASecondRunOnASessionThatWasKept(t *testing.T) {
	t.Parallel()
	url := startGateway(t)
	before := 0
	for range 2 {
		code, r, said := play(t, t.Context(), "--url "+url+" --session kept --keep --duration 3s --image-fps 4 --append-every 400ms --switch-every 700ms --max-errors 0")
		if code != exitFine || r.Switches.Committed < 1 || r.Context.Exact != 1 || r.Context.Entries < before+4 {
			t.Errorf("exit %d, %+v, %d entries before:\n%s", code, r.Context, before, said)
		}
		before = r.Context.Entries
	}
}

func TestTokensAreMadeByTheKey(t *testing.T) {
	t.Parallel()
	key, err := auth.ParseKey([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := auth.New(auth.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, verifier)
	code, r, said := play(t, t.Context(), "--url "+url+" --publishers 2 --duration 1s --image-fps 4 --append-every 500ms --auth-key "+secret)
	if code != exitFine || r.Publishers.Connected != 2 || !r.Gateway.Known || r.Context.Exact != 2 || strings.Contains(said, secret) {
		t.Errorf("exit %d, gateway %+v:\n%s", code, r.Gateway, said)
	}
	code, _, said = play(t, t.Context(), "--url "+url+" --duration 1s")
	if code != exitUsage || !strings.Contains(said, "publisher: unauthenticated") {
		t.Errorf("without a token: exit %d:\n%s", code, said)
	}
}

func TestABrokenLimitIsExitCode1AndCtrlCEndsInOrder(t *testing.T) {
	t.Parallel()
	url := startGateway(t)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() { // Ctrl-C once images have come
		for {
			select {
			case <-t.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			answer, err := http.Get(url + "/metrics")
			if err != nil {
				continue
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if parseMetrics(string(body))["sightline_images_sent_total"] > 5 {
				interrupt()
				return
			}
		}
	}()
	code, r, said := play(t, ctx, "--url "+url+" --duration 1h --image-fps 5 --max-p99-image-ms 0.001")
	if code != exitBroken || !strings.Contains(said, "limit broken: 99 of 100 images") {
		t.Errorf("exit %d:\n%s", code, said)
	}
	if r.Images.Received == 0 || r.Context.Exact != 1 {
		t.Errorf("images %+v, context %+v", r.Images, r.Context)
	}
	noSession(t, url)
}

func TestNobodyThereIsExitCode2(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	code, _, said := play(t, t.Context(), "--url http://"+nobody+" --duration 1s --publishers 2")
	if code != exitUsage || !strings.Contains(said, "no publisher could connect") || !strings.Contains(said, "2 × publisher: connection refused") {
		t.Errorf("exit %d:\n%s", code, said)
	}
}

// TestALieToOneAgentIsFound: between the gateway and its second socket sits somebody who changes one word of the log.
func TestALieToOneAgentIsFound(t *testing.T) {
	t.Parallel()
	url := startGateway(t)
	code, r, said := play(t, t.Context(), "--url "+url+" --agent-url "+liar(t, url)+" --agents 2 --append-every 500ms --duration 1500ms")
	if code != exitBroken || r.Context.Exact != 0 || !strings.Contains(said, "agents 1 and 2 were sent different entries") ||
		!strings.Contains(said, "is not the conversation that the gateway tells") {
		t.Errorf("exit %d, %+v:\n%s", code, r.Context, said)
	}
	noSession(t, url)
}

// liar passes connections on to target; what the second one gets has "note" changed to "nota".
func liar(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to.Host)
			if err != nil {
				client.Close()
				continue
			}
			var change func([]byte) []byte
			if n == 1 {
				change = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("note 0 of"), []byte("nota 0 of")) }
			}
			all.Go(func() { pass(client, server, nil) })
			all.Go(func() { pass(server, client, change) })
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return "http://" + listener.Addr().String()
}

// pass copies until the end; what the change might need the rest of waits for it a moment.
func pass(from, to net.Conn, change func([]byte) []byte) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 256<<10)
	for {
		n, err := from.Read(buffer)
		if change != nil && n > 0 {
			// An entry is small and written at once, but an image before it may have filled the pipe.
			_ = from.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			for n < len(buffer) {
				more, wait := from.Read(buffer[n:])
				n += more
				if wait != nil {
					break
				}
			}
			_ = from.SetReadDeadline(time.Time{})
		}
		out := buffer[:n]
		if change != nil {
			out = change(out)
		}
		if _, failed := to.Write(out); failed != nil || err != nil {
			return
		}
	}
}
