package rtc

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"
)

// waitTime bounds a test's waiting for a condition; generous, the machine may be busy.
const waitTime = 30 * time.Second

// waitFor polls until ok or fails the test with what it waited for.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTime); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for: %s", waitTime, what)
		}
	}
}

func onlyLoopback(_ string, a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") }

// newEngine serves 127.0.0.1 alone.
func newEngine(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	cfg := Config{AllowLoopback: true, AllowPrivate: true, TCPPort: -1, KeepAddress: onlyLoopback, Log: slog.New(testLog{t.Context(), t})}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e
}

// testLog shows warnings in the test's own log, as long as the test runs.
type testLog struct {
	ctx context.Context
	t   *testing.T
}

func (l testLog) Enabled(context.Context, slog.Level) bool { return l.ctx.Err() == nil }
func (l testLog) Handle(_ context.Context, r slog.Record) error {
	if l.ctx.Err() == nil {
		l.t.Logf("%s %s", r.Level, r.Message)
	}
	return nil
}
func (l testLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l testLog) WithGroup(string) slog.Handler      { return l }
