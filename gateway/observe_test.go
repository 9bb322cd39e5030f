package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	chatctx "sightline/context"
	"sightline/frames/ivf"
	"sightline/gateway/sound/soundtest"
	"sightline/switcher"
	"sightline/switcher/cascade"
)

// What is said in the observed call, none of which may be seen by who watches the machine.
const (
	secretQuestion = "marmalade question"
	secretArgument = "marmalade argument"
	secretOutput   = "marmalade output"
	secretAnswer   = "The marmalade answer."
	secretReason   = "marmalade reason"
)

// hearing, thinking and speaking stand for engines: a recogniser that fails once, a model that asks for a tool, a voice of tones.
type hearing struct{ tries int }

func (*hearing) Name() string { return "hearing" }
func (*hearing) Rate() int    { return 16000 }
func (h *hearing) Listen(context.Context, func(string)) (cascade.Utterance, error) {
	if h.tries++; h.tries == 1 {
		return nil, &cascade.EngineError{Code: "overloaded", Message: "not now", Retryable: true}
	}
	return utterance{}, nil
}

type utterance struct{}

func (utterance) Write([]int16) error                    { return nil }
func (utterance) Finish(context.Context) (string, error) { return secretQuestion, nil }
func (utterance) Close()                                 {}

type thinking struct{}

func (thinking) Name() string { return "thinking" }
func (thinking) Answer(_ context.Context, r cascade.Request, yield func(cascade.Delta) error) (cascade.Finish, error) {
	if _, answered := r.Items[len(r.Items)-1].(*chatctx.FunctionCallOutput); !answered {
		return cascade.Finish{Reason: "tool_calls"}, yield(cascade.Delta{Call: &cascade.Call{Name: "look_up", Arguments: `{"what":"` + secretArgument + `"}`}})
	}
	return cascade.Finish{Reason: "stop", TokensIn: 7, TokensOut: 3}, yield(cascade.Delta{Text: secretAnswer})
}

type speaking struct{}

func (speaking) Name() string { return "speaking" }
func (speaking) Rate() int    { return 16000 }
func (speaking) Speak(_ context.Context, _ string, yield func([]int16) error) error {
	sound := tone(16000, 400*time.Millisecond)
	pcm := make([]int16, len(sound)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(sound[2*i:]))
	}
	return yield(pcm)
}

// spanReceiver is an OpenTelemetry collector: OTLP over HTTP, as it is on the wire.
type spanReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	raw   string // all that came, as JSON
	bad   []string
}

func collectSpans(t *testing.T) *spanReceiver {
	c := &spanReceiver{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			c.bad = append(c.bad, r.URL.Path+" "+r.Header.Get("Content-Type"))
		}
		c.raw += protojson.Format(&m)
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(c.Close)
	return c
}

// the parent of the observed call's spans, as its agent's request says.
const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// observed is what is seen of one short call from outside: caller with camera, a spoken turn with a tool, two switches.
type observed struct {
	spans   *spanReceiver
	metrics []byte // /metrics while it went on
	log     []byte // JSON lines
}

func observe(t *testing.T) observed {
	t.Helper()
	o := observed{spans: collectSpans(t)}
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(o.spans.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	var log lockedLog
	c := cascade.Config{Recognizers: []cascade.Recognizer{&hearing{}}, Models: []cascade.Model{thinking{}}, Voices: []cascade.Voice{speaking{}}}
	pipeline := func(name string) switcher.Pipeline {
		return switcher.Pipeline{Name: name, Kind: switcher.Cascade, Provider: "test", Can: c.Capability(), New: func() switcher.Leg { return cascade.New(c) }}
	}
	broken := switcher.Pipeline{Name: "broken", Kind: switcher.Realtime, Provider: "test", Can: c.Capability(), New: func() switcher.Leg { return brokenLeg{} }}
	a, b := twoNodes(t, func(cfg *Config) {
		cfg.Tracer = provider.Tracer("test")
		cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
		cfg.Pipelines = PipelineConfig{Builtin: []switcher.Pipeline{pipeline("first"), pipeline("second"), broken}, First: "first"}
		cfg.Pipelines.Tools = []BuiltinTool{{
			Tool: switcher.Tool{Name: "look_up", Description: "looks up", Parameters: []byte(`{"type":"object"}`)},
			Run: func(context.Context, string, func(context.Context, time.Duration) []switcher.Sight) (string, bool) {
				return secretOutput, false
			},
		}}
	})
	caller := soundtest.CallWithVideo(t, a.url, "demo", clipFrames(t))
	a.header = http.Header{"Traceparent": {"00-" + parentTrace + "-" + parentSpan + "-01"}}
	agent := a.leg("demo", "watcher", `{"transcripts":true,"images":[{"source":"*","fps":2,"width":64,"height":64}]}`)
	caller.Say(16000, speech(t, 1500*time.Millisecond))
	agent.find("played", func(m map[string]any) bool { return m["interrupted"] == false })
	agent.find("image", nil)
	for _, target := range []string{"second", "broken"} {
		a.do("POST", "/v1/sessions/demo/pipeline", `{"op_id":"to-`+target+`","target":"`+target+`"}`)
	}
	a.say("demo", "typed")
	agent.find("played", func(m map[string]any) bool { return m["interrupted"] == false })
	agent.send(`{"type":"context.append","op_id":"x"}`) // refused
	agent.find("error", nil)
	a.do("GET", "/v1/sessions/nobody/image", "")
	b.do("GET", "/v1/sessions/demo", "")
	_, o.metrics, _ = a.do("GET", "/metrics", "")
	_, o.metrics, _ = a.do("GET", "/metrics", "") // the first is counted in the second
	caller.Hangup()
	a.do("DELETE", "/v1/sessions/demo", "")
	a.stop()
	b.stop()
	if err := provider.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	o.log = []byte(log.String())
	return o
}

// brokenLeg cannot connect.
type brokenLeg struct{}

func (brokenLeg) Run(context.Context, switcher.Start, *switcher.Inbox, switcher.Emit) error {
	return &switcher.LegError{Code: "connect", Message: "nobody is there"}
}

// TestACallIsObserved makes one call and looks at all that can be seen of it: spans, metrics, the dashboard over them, and the log.
func TestACallIsObserved(t *testing.T) {
	o := observe(t)
	t.Run("spans", func(t *testing.T) { checkSpans(t, o.spans) })
	t.Run("metrics", func(t *testing.T) { checkMetrics(t, o.metrics) })
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, o.metrics) })
	t.Run("log", func(t *testing.T) { checkLog(t, o.log) })
	for what, text := range map[string]string{"the spans": o.spans.raw, "the metrics": string(o.metrics), "the log": string(o.log)} {
		if strings.Contains(text, "marmalade") {
			i := strings.Index(text, "marmalade")
			t.Errorf("%s show what was said: …%s…", what, text[max(0, i-100):min(len(text), i+50)])
		}
	}
}

// checkLog: every line of the call says of which session it is.
func checkLog(t *testing.T, log []byte) {
	lines := 0
	for line := range bytes.Lines(log) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines++
		if m["session"] != "demo" {
			t.Errorf("a line without its session: %s", line)
		}
		if m["msg"] == "agent attached" && m["agent"] != "watcher" {
			t.Errorf("a line without its agent: %s", line)
		}
	}
	for _, want := range []string{`"msg":"session begins"`, `"msg":"publishing"`, `"msg":"agent attached"`, `"leg":"first","epoch":1,"stage":"stt"`, `"msg":"session ended"`} {
		if !bytes.Contains(log, []byte(want)) {
			t.Errorf("no %s in %d lines:\n%s", want, lines, log)
		}
	}
	if lines > 40 {
		t.Errorf("%d lines for a short call", lines)
	}
}

// clipFrames is the beginning of a clip, 480p VP8.
func clipFrames(t *testing.T) (frames [][]byte) {
	t.Helper()
	file, err := os.Open("../frames/testdata/face480_90.vp8.ivf")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	clip, err := ivf.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for len(frames) < 10 {
		f, err := clip.Next()
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, bytes.Clone(f.Data))
	}
	return frames
}
