package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"

	"sightline/gateway"
	"sightline/gateway/rtc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMeasuresARealGateway: every part against a gateway in this process, with little load; the figures are the benchmark's business.
func TestMeasuresARealGateway(t *testing.T) {
	store := chatctx.NewMemStore()
	server, err := gateway.New(gateway.Config{Store: store, Media: rtc.Config{TCPPort: -1, AllowLoopback: true}})
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
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--url", web.URL, "--pid", strconv.Itoa(os.Getpid()), "--duration", time.Second.String(), "--sessions", "6",
		"--idle-calls", "2", "--watched-calls", "2",
		"--clip", "../../../frames/testdata/face480_90.vp8.ivf", "--clip-unwatched", "../../../scripts/bench.d/media/cam720.vp8.ivf"}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	for _, part := range []string{"CPU of one call, % of a core", "agent has the JPEG, p50, ms", "6 sessions opened and closed", "(2 images)", "| after |"} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("no %q in\n%s", part, stdout.String())
		}
	}
}

func TestRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--pid":     nil,
		"above 0":   {"--pid", "1", "--idle-calls", "0"},
		"no such":   {"--pid", "1", "--clip", "nowhere.ivf"},
		"the parts": {"--pid", "1", "--only", "everything", "--clip", "../../../frames/testdata/face480_90.vp8.ivf", "--clip-unwatched", "../../../frames/testdata/face480_90.vp8.ivf"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, &bytes.Buffer{}, &stderr); code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit %d, %q, want 1 and a word about %q", args, code, stderr.String(), want)
		}
	}
}
