package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/wire"
)

// writeCertificate makes a certificate for localhost in the two files and gives it.
func writeCertificate(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestE2ETLS: HTTP/2 for requests and WebSockets beside it, from programs and from the page; a renewed certificate is taken up, a
// broken one is not.
func TestE2ETLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := x509.NewCertPool()
	pool.AddCert(writeCertificate(t, cert, key))
	secret := secretFile(t)
	s := serve(t, "--auth-key", secret, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(s.URL, "https://") {
		t.Fatalf("announced as %s", s.URL)
	}
	token := mintToken(t, secret, "admin", "demo")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	answer, err := client.Get(s.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.ProtoMajor != 2 || answer.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%s over %x", answer.Proto, answer.TLS.Version)
	}
	if status, _, body := s.withClient(client, token, "POST", "/v1/sessions", ""); status != 201 {
		t.Fatalf("over HTTP/2: %d %s", status, body)
	}

	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, TLSClientConfig: &tls.Config{RootCAs: pool}, HandshakeTimeout: 10 * time.Second}
	conn, res, err := d.Dial("wss"+strings.TrimPrefix(s.URL, "https")+"/v1/agent?session=demo", http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		t.Fatalf("wss: %v (%v)", err, res)
	}
	defer conn.Close()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","agent_id":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if _, data, err := conn.ReadMessage(); err != nil || !strings.Contains(string(data), `"welcome"`) {
		t.Errorf("%s %v", data, err)
	}

	p := chromium(t, map[string]any{"ignore-certificate-errors": true})
	p.navigate(s.URL + "/?session=demo#token=" + token)
	p.await(15*time.Second, "the page attaches over wss", `sightline.state.agent === "attached"`, pageState)

	serial := func() *big.Int {
		t.Helper()
		c, err := tls.Dial("tcp", "127.0.0.1:"+s.Port, &tls.Config{InsecureSkipVerify: true}) // which one it is, is the question
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber
	}
	renewed := writeCertificate(t, cert, key)
	await(t, 20*time.Second, "the renewed certificate is served", func() (bool, string) {
		got := serial()
		return got.Cmp(renewed.SerialNumber) == 0, got.String()
	})
	if err := os.WriteFile(key, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, 20*time.Second, "the broken one is complained about", func() (bool, string) {
		if got := serial(); got.Cmp(renewed.SerialNumber) != 0 {
			t.Fatalf("certificate %v after a broken renewal", got)
		}
		log := s.stderr.tail(8 << 10)
		return strings.Contains(log, "the one before stays"), log
	})
}

// TestACMEAsksForItsOwnNamesOnly: what the certificate authority is asked for is bounded by the flags, and kept below the data directory.
func TestACMEAsksForItsOwnNamesOnly(t *testing.T) {
	dir, asked := t.TempDir(), make(chan string, 10)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	authority := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		http.Error(w, "closed today", http.StatusForbidden)
	})}
	go func() { _ = authority.Serve(listener) }()
	defer authority.Close()
	s := tlsSettings{acmeDomains: list{"media.example.org"}, acmeDirectory: "http://" + listener.Addr().String() + "/directory"}
	c, err := s.config(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"h2", "http/1.1", "acme-tls/1"} {
		if !slices.Contains(c.NextProtos, protocol) {
			t.Errorf("ALPN %v lacks %s", c.NextProtos, protocol)
		}
	}
	suites := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	for _, name := range []string{"other.example.org", "", "192.0.2.1", "media.example.org.evil.example"} {
		if _, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name, CipherSuites: suites}); err == nil {
			t.Errorf("a certificate for %q", name)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the authority was asked for other names: %s", <-asked)
	}
	if _, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "media.example.org", CipherSuites: suites}); err == nil || len(asked) == 0 || <-asked != "/directory" {
		t.Errorf("for our own name the authority is asked: %v", err)
	}
	folder, err := os.Stat(filepath.Join(dir, acmeFolder))
	if err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", folder, err)
	}
}
