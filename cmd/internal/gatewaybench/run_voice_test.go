package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/gateway"
	"sightline/gateway/rtc"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/local"
)

// serveVoice runs a gateway in this process until the test ends.
func serveVoice(t *testing.T, pipelines gateway.PipelineConfig) (url string) {
	t.Helper()
	store := chatctx.NewMemStore()
	server, err := gateway.New(gateway.Config{Store: store, Media: rtc.Config{TCPPort: -1, AllowLoopback: true}, Pipelines: pipelines})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server.Handler())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the gateway: %v", err)
		}
		web.Close()
		store.Close()
	})
	return web.URL
}

// measures runs parts with little load, and wants these words of the tables; the figures are the benchmark's business.
func measures(t *testing.T, url, only string, words ...string) {
	t.Helper()
	speech, err := os.ReadFile("../../../gateway/sound/testdata/speech/jfk.wav")
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.wav")
	if err := os.WriteFile(short, speech[:60000], 0o600); err != nil { // readers take what is there
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--url", url, "--pid", strconv.Itoa(os.Getpid()), "--only", only, "--duration", "2s", "--voice-calls", "2", "--delay-calls", "1",
		"--switches", "4", "--turns", "1", "--speech", short,
		"--clip", "../../../frames/testdata/face480_90.vp8.ivf", "--clip-unwatched", "../../../scripts/bench.d/media/cam720.vp8.ivf"}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	for _, word := range words {
		if !strings.Contains(stdout.String(), word) {
			t.Errorf("no %q in\n%s", word, stdout.String())
		}
	}
}

func TestMeasuresRealCalls(t *testing.T) {
	url := serveVoice(t, gateway.PipelineConfig{BargeIn: switcher.BargeIn{Off: true}})
	measures(t, url, "voice,delay,switch",
		"2 calls at once for 2 s", "(all callers and legs in one other process; 1 of the calls", "under this load: caller's packet sent", "1 calls, ",
		"4 switches `at: now`", "1 that fail", "0 packets were lost and 0 overlapped")
}

func TestMeasuresTheLocalEngines(t *testing.T) {
	engines, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engines.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	url := serveVoice(t, gateway.PipelineConfig{First: "local", Builtin: []switcher.Pipeline{{
		Name: "local", Kind: switcher.Cascade, Can: switcher.Capability{InRate: engines.Recognizer.Rate(), OutRate: engines.Voice.Rate()},
		New: func() switcher.Leg { return cascade.New(engines.Cascade()) },
	}}})
	measures(t, url, "response", "1 turns with the local engines", "the rest, ours, ms")
}

// TestMarkersAreFound: what a leg and a caller find of markers is where they were put.
func TestMarkersAreFound(t *testing.T) {
	coded, err := markers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, payload := range coded {
		if burst := i%markerEvery == markerAt; burst && len(payload) < markerBytes {
			t.Errorf("packet %d, in which a marker begins, has %d bytes", i, len(payload))
		} else if before := i%markerEvery < markerAt && i%markerEvery > 5; before && len(payload) >= markerBytes {
			t.Errorf("packet %d, of silence, has %d bytes", i, len(payload))
		}
	}
	if len(coded) != 4*markerEvery {
		t.Errorf("%d packets", len(coded))
	}
}
