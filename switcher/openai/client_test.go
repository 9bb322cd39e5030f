package openai

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher/cascade"
)

func TestNewChecksTheConfig(t *testing.T) {
	for base, says := range map[string]string{
		"":                              "a host is needed",
		"localhost:8080/v1":             "a host is needed",
		"ftp://host/v1":                 "allowed are http and https",
		"http:///v1":                    "a host is needed",
		"https://user:pw@host/v1":       "no user and no password",
		"https://host/v1?key=x":         "nothing may follow the path",
		"https://host/v1#x":             "nothing may follow the path",
		"http://api.example.com/v1":     "plain http",
		"http://8.8.8.8/v1":             "plain http",
		"http://127.0.0.1:8080/v1":      "",
		"http://[::1]:8080/v1/":         "",
		"http://192.168.1.7/v1":         "",
		"http://llama:8080/v1":          "",
		"http://localhost/v1":           "",
		"https://api.example.com/v1/":   "",
		"https://api.example.com/a%2Fb": "",
	} {
		c, err := New(Config{BaseURL: base, Key: "k"})
		switch {
		case says == "" && err != nil, says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%q: %v, want %q", base, err, says)
		case err == nil && strings.HasSuffix(c.base, "/"):
			t.Errorf("%q: base %q", base, c.base)
		}
	}
	if _, err := New(Config{BaseURL: "http://api.example.com/v1", Key: "k", PlainKey: true}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{BaseURL: "https://h/v1", Key: "k\n"}); err == nil {
		t.Error("a key with a line break is taken")
	}
	if _, err := New(Config{BaseURL: "https://h/v1", MaxInFlight: -1}); err == nil {
		t.Error("a bound below 0 is taken")
	}
}

func TestEnginesCheckTheirConfigs(t *testing.T) {
	c, err := New(Config{BaseURL: "http://localhost/v1"})
	if err != nil {
		t.Fatal(err)
	}
	_, e1 := c.Model(ModelConfig{})
	_, e2 := c.Model(ModelConfig{Model: "m", ImageDetail: "best"})
	_, e3 := c.Recognizer(RecognizerConfig{})
	_, e4 := c.Recognizer(RecognizerConfig{Model: "m", Rate: 4000})
	_, e5 := c.Voice(VoiceConfig{Model: "m"})
	_, e6 := c.Voice(VoiceConfig{Model: "m", Voice: "v", Speed: 9})
	for i, err := range []error{e1, e2, e3, e4, e5, e6} {
		if err == nil {
			t.Errorf("config %d is taken", i+1)
		}
	}
	for _, name := range []string{"", "openai", "llamacpp", "vllm", "ollama", "localai"} {
		if _, err := ProfileOf(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := ProfileOf("nobody"); err == nil {
		t.Error("an unknown profile is taken")
	}
}

// TestTheKeyIsNeverWritten, in no log at any level, in no error and no print, also when the provider says it back.
func TestTheKeyIsNeverWritten(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, c := newFakeWith(t, Config{Key: testKey, Log: logger},
		status(400, `{"error":{"message":"stream_options and `+testKey+`"}}`), status(401, testKey), status(500, testKey))
	logger.Info("starting", "config", c.cfg)
	m := mustModel(t, c)
	for range 3 {
		_, _, _, err := ask(t.Context(), m, cascade.Request{Items: chatctx.Items{user("hi")}})
		logger.Warn("failed", "error", err)
	}
	fmt.Fprintf(&log, "%v %+v %#v %s", c.cfg, c.cfg, c.cfg, c.cfg)
	if strings.Contains(log.String(), testKey) {
		t.Errorf("the key was written:\n%s", log.String())
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "1e99": 0,
		"Mon, 30 Nov 2026 09:00:20 GMT": 20 * time.Second, "Mon, 30 Nov 2026 08:00:00 GMT": 0} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}

// TestNobodyThere: a port that nobody listens on is a failure to try again elsewhere.
func TestNobodyThere(t *testing.T) {
	c, err := New(Config{BaseURL: "http://127.0.0.1:1/v1"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = ask(t.Context(), mustModel(t, c), cascade.Request{Items: chatctx.Items{user("hi")}})
	if e, ok := err.(*cascade.EngineError); !ok || e.Code != "unreachable" || !e.Retryable {
		t.Errorf("%v", err)
	}
}
