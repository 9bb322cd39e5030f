package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeRefusesUnsafeSettings: each in a sentence that says what to do, and none with a secret in it.
func TestServeRefusesUnsafeSettings(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short.key")
	if err := os.WriteFile(short, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		"all addresses without tokens": {[]string{"--listen", "0.0.0.0:0"}, nil, exitFail, "refusing to listen"},
		"another address":              {[]string{"--listen", "192.0.2.1:0"}, nil, exitFail, "refusing to listen"},
		"insecure with tokens":         {[]string{"--insecure", "--auth-key", e2eSecret}, nil, exitUsage, "leave one of them out"},
		"a short secret":               {[]string{"--auth-key", short}, nil, exitFail, "allowed are 32"},
		"a short value":                {nil, map[string]string{"SIGHTLINE_AUTH_KEY": "hunter2"}, exitFail, "allowed are 32"},
		"a slip in a path":             {[]string{"--auth-key", "/etc/sightline/no-such-file-with-a-long-name"}, nil, exitFail, "no such file"},
		"a slip in a name":             {[]string{"--auth-key", "no-such-file-with-quite-a-long-name.pem"}, nil, exitFail, "no such file"},
		"two kinds of keys":            {[]string{"--auth-key", e2eSecret, "--auth-jwks", "https://id.example/keys"}, nil, exitUsage, "one of them"},
		"keys in the clear":            {[]string{"--auth-jwks", "http://id.example/keys"}, nil, exitFail, "https"},
		"keys that are none":           {[]string{"--auth-jwks", short}, nil, exitFail, "Key Set"},
		"a proxy that is none":         {[]string{"--trusted-proxy", "proxy"}, nil, exitUsage, "--trusted-proxy"},
		"rate zero":                    {[]string{"--ip-rate", "0"}, nil, exitUsage, "--ip-rate 0"},
		"half of TLS":                  {[]string{"--tls-cert", "a.pem"}, nil, exitUsage, "belong together"},
		"a certificate that is none":   {[]string{"--tls-cert", short, "--tls-key", short}, nil, exitFail, "--tls-cert"},
		"ACME without a folder":        {[]string{"--acme-domain", "media.example.org"}, nil, exitUsage, "--data-dir"},
	} {
		var complaints bytes.Buffer
		p := program{
			args:   append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", inMemory, "--pipeline", pipelineNone}, c.args...),
			getenv: func(name string) string { return c.env[name] }, stdout: &bytes.Buffer{}, stderr: &complaints,
		}
		code := p.run()
		if code != c.code || !strings.Contains(complaints.String(), c.want) {
			t.Errorf("%s: %d %s, want %d %q", name, code, complaints.String(), c.code, c.want)
		}
		if strings.Contains(complaints.String(), "hunter2") || strings.Contains(complaints.String(), e2eSecret) {
			t.Errorf("%s: a secret in %s", name, complaints.String())
		}
	}
}

func TestTokenCommandRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no key":         {[]string{"--session", "a", "--role", "agent"}, exitUsage, "--auth-key"},
		"no session":     {[]string{"--auth-key", e2eSecret, "--role", "agent"}, exitUsage, "--session"},
		"no role":        {[]string{"--auth-key", e2eSecret, "--session", "a"}, exitUsage, "--role"},
		"unknown role":   {[]string{"--auth-key", e2eSecret, "--session", "a", "--role", "root"}, exitFail, "publisher, agent and admin"},
		"bad session":    {[]string{"--auth-key", e2eSecret, "--session", "a/b", "--role", "agent"}, exitFail, "session"},
		"sub of ours":    {[]string{"--auth-key", e2eSecret, "--session", "a", "--role", "agent", "--sub", "system"}, exitFail, "gateway's own"},
		"ttl zero":       {[]string{"--auth-key", e2eSecret, "--session", "a", "--role", "agent", "--ttl", "0s"}, exitUsage, "--ttl"},
		"short key":      {[]string{"--auth-key", "hunter2", "--session", "a", "--role", "agent"}, exitFail, "32"},
		"an argument":    {[]string{"demo"}, exitUsage, "flags only"},
		"an odd flag":    {[]string{"--what"}, exitUsage, "what"},
		"help is no ill": {[]string{"--help"}, exitOK, ""},
	} {
		var out, complaints bytes.Buffer
		p := program{args: append([]string{"token"}, c.args...), getenv: func(string) string { return "" }, stdout: &out, stderr: &complaints}
		if code := p.run(); code != c.code || !strings.Contains(complaints.String(), c.want) || (out.Len() > 0) != (code == exitOK) {
			t.Errorf("%s: %d %q %q, want %d %q", name, code, out.String(), complaints.String(), c.code, c.want)
		}
		if strings.Contains(out.String()+complaints.String(), e2eSecret) {
			t.Errorf("%s shows the key", name)
		}
	}
	var out bytes.Buffer
	p := program{args: []string{"token", "--help"}, getenv: func(name string) string { return map[string]string{"SIGHTLINE_AUTH_KEY": e2eSecret}[name] }, stdout: &out, stderr: &out}
	if p.run(); strings.Contains(out.String(), e2eSecret) {
		t.Error("--help shows the key in the environment")
	}
}
