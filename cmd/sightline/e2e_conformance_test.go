package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/switcher/cascade/pcm"
	"sightline/switcher/local"
)

// Stock clients of the OpenAI Realtime API, unchanged, talk with GET /v1/realtime?model=local: scripts/conformance. A package
// registry that does not answer is a failure, not a skip.

const conformance = "../../scripts/conformance"

// conformanceFolder has the programs with their packages.
var conformanceFolder = sync.OnceValues(func() (string, error) {
	out, err := exec.Command(conformance + "/install").Output()
	return strings.TrimSpace(string(out)), err
})

// question is a file with a spoken question, PCM16 at 24 kHz, and the silence that ends a turn.
func question(t *testing.T, text string) string {
	t.Helper()
	voice, err := local.NewVoice(local.VoiceConfig{Voice: "rms"})
	if err != nil {
		t.Fatal(err)
	}
	up := pcm.NewResampler(voice.Rate(), 24000)
	sound := make([]int16, 12000)
	if err := voice.Speak(t.Context(), text, func(p []int16) error { sound = append(sound, up.Push(p)...); return nil }); err != nil {
		t.Fatal(err)
	}
	sound = append(sound, make([]int16, 30000)...)
	name := filepath.Join(t.TempDir(), "question.pcm")
	if err := os.WriteFile(name, pcm.Append(nil, sound), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// result is what a client printed of a step.
type result struct {
	Step, Text, Transcript, Status, Before, After, Name, Arguments, Instructions, Code, Output string
	ID                                                                                         string
	EventID                                                                                    string  `json:"event_id"`
	AudioMS                                                                                    float64 `json:"audio_ms"`
	Runs, Left                                                                                 int
	Metadata                                                                                   map[string]string
	Types, Errors                                                                              []string
}

// runClient runs a client to its end and gives what it printed, by step.
func runClient(t *testing.T, s *served, dir string, env []string, name string, args ...string) map[string]result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &stderr
	out, err := cmd.Output()
	t.Logf("%s\n%s", out, stderr.String())
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, stderr.String(), s.stderr.tail(4<<10))
	}
	results := map[string]result{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s printed %q: %v", name, lines.Text(), err)
		}
		results[r.Step] = r
	}
	if _, ok := results["done"]; !ok {
		t.Fatalf("%s did not come to its end", name)
	}
	return results
}

// holds checks what all clients do.
func holds(t *testing.T, got map[string]result) {
	t.Helper()
	digits := strings.NewReplacer(" ", "", "-", "")
	if r := got["typed"]; !strings.Contains(digits.Replace(r.Text), "4711") || r.AudioMS < 500 {
		t.Errorf("typed: %+v", r)
	}
	if r := got["spoken"]; !strings.Contains(strings.ToLower(r.Transcript), "order number") || !strings.Contains(digits.Replace(r.Text), "4711") || r.AudioMS < 500 {
		t.Errorf("spoken: %+v", r)
	}
	if r := got["tool"]; !strings.Contains(r.Text, "shipped") {
		t.Errorf("tool: %+v", r)
	}
}

func TestE2EConformanceOpenAI(t *testing.T) {
	dir, err := conformanceFolder()
	if err != nil {
		t.Fatalf("the clients could not be installed: %v", err)
	}
	s := serve(t, "--pipeline", "local")
	// This client speaks TLS only: a proxy with a certificate of its own stands in front, as an operator's would.
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{DisableKeepAlives: true}}
	front := httptest.NewTLSServer(proxy)
	defer front.Close()
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runClient(t, s, dir, []string{"NODE_EXTRA_CA_CERTS=" + certificate}, "node", "openai.mjs", front.URL+"/v1", question(t, "What was my order number?"))
	holds(t, got)
	if r := got["updated"]; r.Instructions != "Be brief." {
		t.Errorf("updated: %+v", r)
	}
	if r := got["typed"]; r.Metadata["asked_by"] != "conformance" || r.Status != "completed" {
		t.Errorf("typed: %+v", r)
	}
	if r := got["truncated"]; r.After == r.Before || !strings.HasPrefix(r.Before, r.After) || r.Status != "incomplete" {
		t.Errorf("truncated: %+v", r)
	}
	if r := got["called"]; r.Name != "lookup_order" || !strings.Contains(r.Arguments, "4711") || r.Status != "completed" {
		t.Errorf("called: %+v", r)
	}
	if r := got["refused"]; r.Code != "unknown_event" || r.EventID != "mine" {
		t.Errorf("refused: %+v", r)
	}
	// It was a session of the gateway, whose conversation is in the log: with what was heard of the answer that was cut.
	id := got["created"].ID
	_, _, body := s.call("GET", "/v1/sessions/"+id+"/context?format=text", "", "")
	if !bytes.Contains(body, []byte("4711")) || !bytes.Contains(body, []byte("lookup_order")) || bytes.Contains(body, []byte(got["truncated"].Before)) {
		t.Errorf("the conversation in the log: %s", body)
	}
}

func TestE2EConformanceAgents(t *testing.T) {
	dir, err := conformanceFolder()
	if err != nil {
		t.Fatalf("the clients could not be installed: %v", err)
	}
	s := serve(t, "--pipeline", "local")
	got := runClient(t, s, dir, nil, "node", "agents.mjs", strings.Replace(s.URL, "http", "ws", 1)+"/v1/realtime?model=local", question(t, "What was my order number?"))
	holds(t, got)
	if r := got["tool"]; r.Runs != 1 || !strings.Contains(r.Output, "shipped") {
		t.Errorf("tool: %+v", r)
	}
	if r := got["interrupted"]; r.Status != "incomplete" && r.After == r.Before {
		t.Errorf("interrupted: %+v", r)
	}
	// It cancels as soon as it hears speech; an answer may be done by then, which is an error of no consequence.
	if r := got["seen"]; slices.ContainsFunc(r.Errors, func(e string) bool { return !strings.Contains(e, "response_cancel_not_active") }) {
		t.Errorf("errors: %v", r.Errors)
	}
}

func TestE2EConformanceGo(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "build", "-C", conformance, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the client could not be built: %v\n%s", err, out)
	}
	s := serve(t, "--pipeline", "local")
	got := runClient(t, s, "", nil, binary, s.URL+"/v1", question(t, "What was my order number?"))
	holds(t, got)
	if r := got["refused"]; r.Code != "unknown_event" || r.EventID != "mine" {
		t.Errorf("refused: %+v", r)
	}
}
