package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TestE2ETraces: the program sends what it traces to the collector that a flag names, the last of it at its end, as the service that it
// is, and nothing of what is said. A collector that is not there keeps no call from being served.
func TestE2ETraces(t *testing.T) {
	var mu sync.Mutex
	var got strings.Builder
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		text, _ := protojson.Marshal(&m)
		got.Write(text)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer web.Close()
	for _, endpoint := range []string{web.URL, "http://127.0.0.1:1"} {
		s := serve(t, "--pipeline", "local", "--otlp-endpoint", endpoint)
		s.open("demo")
		const said = "good morning, aubergine"
		if code, _, body := s.call("POST", "/v1/sessions/demo/context", "application/json", `{"op_id":"1","item":{"type":"message","role":"user","content":"`+said+`"}}`); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // polls the conversation
			_, _, body := s.call("GET", "/v1/sessions/demo/context", "", "")
			if strings.Contains(string(body), `"role":"assistant"`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("no answer: %s", body)
			}
		}
		s.stop()
	}
	mu.Lock()
	defer mu.Unlock()
	text := strings.ReplaceAll(got.String(), " ", "") // protojson puts spaces where it likes
	for _, want := range []string{`"name":"switch"`, `"name":"seed"`, `"name":"turn"`, `"name":"llm"`, `"service.name","value":{"stringValue":"sightline"}`, `"service.version"`, `"stringValue":"rules"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %.2000s", want, text)
		}
	}
	if strings.Contains(text, "aubergine") {
		t.Error("the traces hold what was said")
	}
}
