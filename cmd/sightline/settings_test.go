package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSettingsOfACluster: what does not go together is refused in a sentence; each flag is also in the environment and the file.
func TestSettingsOfACluster(t *testing.T) {
	noEnv := func(string) string { return "" }
	for _, c := range []struct{ args, want string }{
		{"--nats-url nats://x --data-dir d", "conversations are kept in one of them"},
		{"--nats-url nats://x --nats-replicas 2", "allowed are 1, 3 and 5"},
		{"--nats-url nats://x --nats-cert c", "belong together"},
		{"--nats-url nats://x --nats-lease 10ms", "1s and longer"},
		{"--nats-creds f --data-dir d", "need --nats-url"},
		{"--nats-unsafe-sync --data-dir d", "need --nats-url"},
		{"--store-bytes 5 --data-dir d", "--store-bytes 5: allowed are 0, and"},
	} {
		if _, err := parseSettings(strings.Fields(c.args), noEnv, os.Stderr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.args, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("nats-replicas: 5\nnode-url: http://file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SIGHTLINE_NATS_URL": "nats://a,nats://b", "SIGHTLINE_NODE_URL": "http://env", "SIGHTLINE_CONFIG": file}
	s, err := parseSettings([]string{"--nats-lease", "3s"}, func(name string) string { return env[name] }, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	x := s.nats.external()
	if s.dataDir != "" || x.URL != "nats://a,nats://b" || x.Replicas != 5 || x.Lease != 3*time.Second || s.nats.nodeURL != "http://env" {
		t.Errorf("%+v, data dir %q", s.nats, s.dataDir)
	}
	s, err = parseSettings(nil, func(name string) string { return map[string]string{"HOME": "/home/x"}[name] }, os.Stderr)
	if err != nil || s.nats.external().URL != "" || s.dataDir == "" {
		t.Errorf("without a cluster: %+v, %v", s, err)
	}
}

func TestWhereTracesGo(t *testing.T) {
	for _, c := range []struct{ flag, base, traces, want string }{
		{"", "", "", ""},
		{"http://localhost:4318", "http://elsewhere", "", "http://localhost:4318/v1/traces"},
		{"http://localhost:4318/", "", "", "http://localhost:4318/v1/traces"},
		{"", "https://otel.example/in", "", "https://otel.example/in/v1/traces"},
		{"", "https://otel.example", "https://otel.example/spans", "https://otel.example/spans"},
		{"https://otel.example/v1/traces", "", "", "https://otel.example/v1/traces"},
		{"localhost:4318", "", "", "error"},
		{"grpc://localhost:4317", "", "", "error"},
	} {
		env := map[string]string{otlpEndpoint: c.base, otlpTracesEndpoint: c.traces}
		s := traceSettings{endpoint: c.flag}
		got, err := s.target(func(name string) string { return env[name] })
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
