package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestE2EReload: SIGHUP takes a renewed certificate and another key up, in a running gateway; what is not good changes nothing.
func TestE2EReload(t *testing.T) {
	dir := t.TempDir()
	cert, key, secret := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "secret.key")
	first := writeCertificate(t, cert, key)
	write := func(text string) {
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Repeat("first-", 8))
	s := serve(t, "--auth-key", secret, "--tls-cert", cert, "--tls-key", key)
	status := func(token string) (int, string) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // which certificate it is, is asked below
		defer transport.CloseIdleConnections()
		request, err := http.NewRequest("GET", s.URL+"/v1/sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode, answer.TLS.PeerCertificates[0].SerialNumber.String()
	}
	hangup := func(want string) {
		t.Helper()
		before := strings.Count(s.stderr.String(), want)
		s.signals <- syscall.SIGHUP
		for deadline := time.Now().Add(10 * time.Second); strings.Count(s.stderr.String(), want) == before; time.Sleep(5 * time.Millisecond) { // polls the log
			if time.Now().After(deadline) {
				t.Fatalf("no %q after SIGHUP: %s", want, s.stderr.String())
			}
		}
	}
	old := mintToken(t, secret, "admin", "demo")
	if code, serial := status(old); code != 200 || serial != first.SerialNumber.String() {
		t.Fatalf("before: %d with %s", code, serial)
	}
	write("short")
	hangup("not all could be read again")
	if code, _ := status(old); code != 200 {
		t.Errorf("a key that is none has taken the place of one: %d", code)
	}
	write(strings.Repeat("second-", 8))
	second := writeCertificate(t, cert, key)
	hangup("certificates and keys were read again")
	fresh := mintToken(t, secret, "admin", "demo")
	if code, serial := status(fresh); code != 200 || serial != second.SerialNumber.String() {
		t.Errorf("after: %d with %s, want 200 with %s", code, serial, second.SerialNumber)
	}
	if code, _ := status(old); code != 401 {
		t.Errorf("a token of the old key: %d", code)
	}
	if strings.Contains(s.stderr.String(), "second-") || strings.Contains(s.stderr.String(), fresh) {
		t.Error("the log holds a secret")
	}
}
