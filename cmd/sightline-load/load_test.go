package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"
	"sightline/gateway"
	"sightline/gateway/rtc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func none(string) string { return "" }

func startGateway(t *testing.T) (url string) {
	t.Helper()
	server, err := gateway.New(gateway.Config{Store: chatctx.NewMemStore(), Media: rtc.Config{AllowLoopback: true, TCPPort: -1}, DrainTimeout: time.Second})
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

func TestMeasuresARealGateway(t *testing.T) {
	url, file := startGateway(t), filepath.Join(t.TempDir(), "report.json")
	var out, complaints bytes.Buffer
	code := run(t.Context(), []string{"--url", url, "--publishers", "2", "--agents", "3", "--image-fps", "4", "--duration", "3s", "--report", file},
		none, &out, &complaints)
	if code != exitFine {
		t.Errorf("exit %d: %s\n%s", code, complaints.String(), out.String())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Publishers.Connected != 2 || r.Publishers.Failed != 0 || r.Publishers.Frames < 60 || r.Agents.Connected != 3 {
		t.Errorf("publishers %+v, agents %+v", r.Publishers, r.Agents)
	}
	// 3 agents × 4 images/s × 3 s = 36; a busy machine may be slower.
	if r.Images.Received < 12 || r.Images.CaptureToAgent.P50 <= 0 || r.Images.CaptureToAgent.P99 < r.Images.CaptureToAgent.P50 || r.Images.Unmatched > r.Images.Received/10 {
		t.Errorf("images %+v", r.Images)
	}
	if r.Images.LastPacketToAgent.P50 <= 0 || r.Images.BytesMean < 1000 {
		t.Errorf("images %+v", r.Images)
	}
	for _, want := range []string{"publishers 2/2  agents 3/3", "capture→agent", "last packet→agent"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not printed:\n%s", want, out.String())
		}
	}
}

func TestABrokenLimitIsExitCode1(t *testing.T) {
	var out, complaints bytes.Buffer
	code := run(t.Context(), []string{"--url", startGateway(t), "--duration", "2s", "--image-fps", "2", "--max-p99-image-ms", "0.001"}, none, &out, &complaints)
	if code != exitBroken || !strings.Contains(complaints.String(), "limit broken") {
		t.Errorf("exit %d, %q\n%s", code, complaints.String(), out.String())
	}
}

func TestNobodyThereIsExitCode2(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	var out, complaints bytes.Buffer
	code := run(t.Context(), []string{"--url", "http://" + nobody, "--duration", "1s", "--publishers", "2"}, none, &out, &complaints)
	if code != exitUsage || !strings.Contains(complaints.String(), "no publisher could connect") || !strings.Contains(out.String(), "2 × publisher: connection refused") {
		t.Errorf("exit %d, %q\n%s", code, complaints.String(), out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitFine, "-max-p99-image-ms"},
		{[]string{"--publishers", "0"}, exitUsage, "1 to 10000"},
		{[]string{"--duration", "0s"}, exitUsage, "more than 0"},
		{[]string{"--clip", "no-such-file.ivf"}, exitUsage, "no-such-file.ivf"},
		{[]string{"--agents", "0", "--max-p99-image-ms", "5"}, exitUsage, "needs agents"},
		{[]string{"extra"}, exitUsage, `unexpected argument "extra"`},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), test.args, none, &out, &out); code != test.code || !strings.Contains(out.String(), test.want) {
			t.Errorf("%v: exit %d, printed %q", test.args, code, out.String())
		}
	}
}
