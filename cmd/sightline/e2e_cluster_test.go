package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
)

// natsCluster is three NATS servers in this process, as an operator would set them up.
func natsCluster(t *testing.T) string {
	t.Helper()
	var ports []int
	var taken []net.Listener
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, l) // all are taken before any is let go
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range taken {
		_ = l.Close()
	}
	dir := t.TempDir()
	routes := fmt.Sprintf("nats://127.0.0.1:%d, nats://127.0.0.1:%d, nats://127.0.0.1:%d", ports[3], ports[4], ports[5])
	var configs, urls []string
	for i := range 3 {
		config := filepath.Join(dir, fmt.Sprint(i, ".conf"))
		text := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:%d\nmax_payload: 4MB\nserver_tags: [\"sync:always\"]\njetstream { store_dir: %q, sync_interval: always, max_file: 32GB }\ncluster { name: c, listen: 127.0.0.1:%d, routes: [%s] }\n",
			i, ports[i], filepath.Join(dir, fmt.Sprint(i)), ports[3+i], routes)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		configs, urls = append(configs, config), append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	url := strings.Join(urls, ",")
	startNATS(t, configs, url)
	return url
}

func startNATS(t *testing.T, configs []string, url string) {
	t.Helper()
	for _, config := range configs {
		o, err := server.ProcessConfigFile(config)
		if err != nil {
			t.Fatal(err)
		}
		o.NoSigs, o.NoLog = true, true
		srv, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() {
			srv.Shutdown()
			srv.WaitForShutdown()
		})
	}
	await(t, 30*time.Second, "the NATS cluster has a leader", func() (bool, string) {
		conn, err := nats.Connect(url, nats.Timeout(time.Second))
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close()
		answer, err := conn.Request("$JS.API.INFO", nil, time.Second)
		if err != nil {
			return false, err.Error()
		}
		return !bytes.Contains(answer.Data, []byte(`"error"`)), string(answer.Data)
	})
}

// TestE2ETwoGatewaysOneCluster: the camera is on node A, the agent on node B: images and the conversation come over. A is killed (-9):
// the agent's socket stays, the history is there at once, what it says meanwhile is answered, and it gets images again when the
// camera publishes to B. Every entry comes once.
func TestE2ETwoGatewaysOneCluster(t *testing.T) {
	url := natsCluster(t)
	node := []string{"--data-dir", "", "--nats-url", url, "--nats-lease", "2s", "--store-bytes", "268435456", "--drain-timeout", "1s"}
	a, b := serveProcess(t, node...), serveProcess(t, node...)
	reel := readFootage(t, faceClip)
	a.open("call")
	camera := a.publish("call", reel, cameraOptions{})
	far := b.attach("call", "far", 2)
	defer far.leave()
	far.awaitImages(30*time.Second, "images of the other node's camera", 2, func(agentclient.Image) bool { return true })
	say := func(op string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		if _, err := far.Append(ctx, op, &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(op)}); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	for i := range 20 {
		say(fmt.Sprint("before-", i))
	}
	if status, _, body := b.call("GET", "/v1/sessions/call/image", "", ""); status != http.StatusOK || !bytes.HasPrefix(body, []byte{0xff, 0xd8}) {
		t.Errorf("an image through the other node: %d, %d bytes", status, len(body))
	}

	a.kill()
	killed := time.Now()
	camera.leave()
	if status, _, body := b.call("GET", "/v1/sessions/call/context", "", ""); status != http.StatusOK || bytes.Count(body, []byte(`"before-`)) < 20 {
		t.Errorf("the history %v after the kill: %d %.200s", time.Since(killed).Round(time.Millisecond), status, body)
	}
	say("meanwhile")
	t.Logf("an append was acknowledged %v after the kill, with a lease of 2 s", time.Since(killed).Round(time.Millisecond))
	far.forget()
	again := b.publish("call", reel, cameraOptions{})
	defer again.leave()
	far.awaitImages(30*time.Second, "images of the camera that has come to this node", 2, func(agentclient.Image) bool { return true })
	say("after")
	await(t, 10*time.Second, "the agent has every entry once", func() (bool, string) {
		_, entries, _ := far.seen()
		for n, e := range entries {
			if e.Seq != uint64(n+1) {
				t.Fatalf("entry %d of the agent has seq %d", n+1, e.Seq)
			}
		}
		return len(entries) == 22, fmt.Sprintf("%d entries of 22", len(entries))
	})
	far.mu.Lock()
	defer far.mu.Unlock()
	if len(far.detached) > 0 {
		t.Errorf("the agent's socket did not stay: %v", far.detached)
	}
}

// TestE2EG2TheGatewayThatSlept: the gateway of a session is stopped (SIGSTOP) while it is written to, another takes the session over
// when the lease has ended, the first wakes up (SIGCONT): each op is in the log once, whoever it was sent to, and the one that slept
// passes on what it is asked.
func TestE2EG2TheGatewayThatSlept(t *testing.T) {
	url := natsCluster(t)
	node := []string{"--data-dir", "", "--nats-url", url, "--nats-lease", "1s", "--store-bytes", "268435456", "--drain-timeout", "1s"}
	a, b := serveProcess(t, node...), serveProcess(t, node...)
	a.open("call")
	client := &http.Client{Timeout: 20 * time.Second}
	post := func(g *process, op string) int {
		body := fmt.Sprintf(`{"op_id":%q,"item":{"type":"message","role":"user","content":%q}}`, op, op)
		res, err := client.Post(g.URL+"/v1/sessions/call/context", "application/json", strings.NewReader(body))
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	asleep := make(chan struct{})
	var acked []string // written by the writer until it ends
	var writer sync.WaitGroup
	writer.Go(func() { // until an answer does not come, or is no
		for i := range 10_000 {
			op := fmt.Sprint("a-", i)
			if post(a, op) != http.StatusOK {
				return
			}
			if acked = append(acked, op); i == 40 {
				close(asleep)
			}
		}
	})
	<-asleep
	if err := a.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	await(t, 20*time.Second, "the other takes the session over", func() (bool, string) {
		status := post(b, "b-0")
		return status == http.StatusOK, fmt.Sprint(status)
	})
	t.Logf("taken over %v after the stop, with a lease of 1 s", time.Since(stopped).Round(10*time.Millisecond))
	for i := 1; i < 20; i++ {
		if status := post(b, fmt.Sprint("b-", i)); status != http.StatusOK {
			t.Fatalf("b-%d: %d", i, status)
		}
	}
	if err := a.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	writer.Wait()
	await(t, 20*time.Second, "the one that slept passes on", func() (bool, string) {
		status := post(a, "late")
		return status == http.StatusOK, fmt.Sprint(status)
	})
	for i := range 20 {
		acked = append(acked, fmt.Sprint("b-", i))
	}
	for name, g := range map[string]*process{"the one that slept": a, "the other": b} {
		_, _, body := g.call("GET", "/v1/sessions/call/context", "", "")
		for _, op := range append(acked, "late") {
			if n := strings.Count(string(body), `"`+op+`"`); n != 1 {
				t.Errorf("%s: %s is there %d times", name, op, n)
			}
		}
	}
}

// TestE2EFromADirectoryToACluster: exported from a data directory and imported into a cluster, twice, conversations with their images
// and sessions are what they were, and go on.
func TestE2EFromADirectoryToACluster(t *testing.T) {
	url := natsCluster(t)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "all.jsonl")
	one := serveProcess(t, "--data-dir", dir)
	one.open("call")
	pixel := "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	say := func(s *served, op, content string) {
		t.Helper()
		if status, _, body := s.call("POST", "/v1/sessions/call/context", "application/json",
			fmt.Sprintf(`{"op_id":%q,"item":{"type":"message","role":"user","content":%s}}`, op, content)); status != http.StatusOK {
			t.Fatalf("%s: %d %s", op, status, body)
		}
	}
	say(one.served, "one", `"words"`)
	say(one.served, "two", `[{"type":"image","url":"`+pixel+`"}]`)
	_, _, want := one.call("GET", "/v1/sessions/call/context?inline=true", "", "")
	one.kill()
	tool := func(args ...string) {
		t.Helper()
		var out, complaints lockedBuffer
		p := program{args: append([]string{"log"}, args...), getenv: func(string) string { return "" }, stdout: &out, stderr: &complaints}
		if code := p.run(); code != exitOK {
			t.Fatalf("sightline log %s: %d %s", strings.Join(args, " "), code, complaints.String())
		}
	}
	tool("export", "--data-dir", dir, "--out", file)
	tool("import", "--nats-url", url, file)
	tool("import", "--nats-url", url, file)
	tool("verify", "--nats-url", url)
	many := serveProcess(t, "--data-dir", "", "--nats-url", url)
	if _, _, got := many.call("GET", "/v1/sessions/call/context?inline=true", "", ""); !bytes.Equal(got, want) {
		t.Errorf("in the cluster it is %.400s\nwant %.400s", got, want)
	}
	say(many.served, "one", `"again"`) // known from before
	say(many.served, "three", `"more"`)
	if s := many.session("call"); s.Seq != 3 {
		t.Errorf("seq %d, want 3", s.Seq)
	}
}

// TestE2ESignals: SIGTERM lets running calls end and can be undone, SIGINT does not wait, a second signal ends at once with 1.
func TestE2ESignals(t *testing.T) {
	s := serve(t, "--drain-timeout", "1m")
	s.open("call")
	agent := s.attach("call", "a", 0)
	attached := func(w *witness) {
		t.Helper()
		await(t, 10*time.Second, "the agent is attached", func() (bool, string) { return w.Connected(), "it is not" })
	}
	attached(agent)
	ready := func(want int) {
		t.Helper()
		await(t, 10*time.Second, "readyz", func() (bool, string) {
			status, _, body := s.call("GET", "/readyz", "", "")
			return status == want, fmt.Sprint(status, string(body))
		})
	}
	s.signals <- syscall.SIGTERM
	ready(http.StatusServiceUnavailable)
	if _, err := agent.Append(t.Context(), "op", &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("still here")}); err != nil {
		t.Errorf("an append during the drain: %v", err)
	}
	if status, _, body := s.call("DELETE", "/debug/drain", "", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	ready(http.StatusOK)
	await(t, 5*time.Second, "the process serves again", func() (bool, string) {
		return strings.Contains(s.stderr.String(), "the drain was undone"), s.stderr.tail(1 << 10)
	})
	s.open("another")
	s.signals <- syscall.SIGTERM
	ready(http.StatusServiceUnavailable)
	agent.leave() // the last one: the drain is over
	select {
	case code := <-s.exit:
		if code != exitOK {
			t.Errorf("exit code %d after a drain", code)
		}
	case <-time.After(20 * time.Second):
		t.Error("the drain does not end with the last call")
	}
	s.stopped = true

	s = serve(t, "--drain-timeout", "1m")
	s.open("call")
	attached(s.attach("call", "a", 0))
	s.signals <- syscall.SIGTERM
	ready(http.StatusServiceUnavailable)
	await(t, 5*time.Second, "a second signal is one", func() (bool, string) {
		return strings.Contains(s.stderr.String(), "draining"), ""
	})
	time.Sleep(2 * sameSignal) // sooner it counts as the first one again
	s.signals <- syscall.SIGTERM
	select {
	case code := <-s.exit:
		if code != exitFail {
			t.Errorf("exit code %d after a second signal", code)
		}
	case <-time.After(5 * time.Second):
		t.Error("a second signal does not end it")
	}
	s.stopped = true
}
