package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

const e2eSecret = "5f1c0f3a-this-is-the-secret-of-the-tests"

// secretFile is --auth-key as an operator would have it.
func secretFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "auth.key")
	if err := os.WriteFile(name, []byte(e2eSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// mintToken runs `sightline token`.
func mintToken(t *testing.T, key, role, session string, args ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	p := program{
		args:   append([]string{"token", "--auth-key", key, "--role", role, "--session", session}, args...),
		getenv: func(string) string { return "" }, stdout: &out, stderr: &complaints,
	}
	if code := p.run(); code != exitOK || complaints.Len() > 0 {
		t.Fatalf("sightline token ended with %d: %s", code, complaints.String())
	}
	return strings.TrimSpace(out.String())
}

// with makes one request with a token.
func (s *served) with(token, method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	return s.withClient(http.DefaultClient, token, method, path, body)
}

func (s *served) withClient(client *http.Client, token, method, path, body string) (int, http.Header, []byte) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(answer.Body); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, answer.Header, data.Bytes()
}

// publisherWith publishes the clip with a token until it is stopped, or says why it cannot.
func publisherWith(t *testing.T, s *served, token, session string) (p *whipclient.Publisher, ended <-chan error, stop func()) {
	t.Helper()
	file, err := os.Open(faceClip)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	clip, err := whipclient.ReadIVF("face", file)
	if err != nil {
		t.Fatal(err)
	}
	p, err = whipclient.New(whipclient.Config{URL: s.URL, Session: session, Token: token, Clip: clip, FPS: 30})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(cancel)
	return p, done, cancel
}

func awaitConnected(t *testing.T, p *whipclient.Publisher, ended <-chan error) {
	t.Helper()
	await(t, 20*time.Second, "the publisher is connected", func() (bool, string) {
		select {
		case err := <-ended:
			t.Fatalf("the publisher ended: %v", err)
		default:
		}
		return p.Stats().State == "connected", p.Stats().State
	})
}

func refusedWith(t *testing.T, ended <-chan error, status int) {
	t.Helper()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("the publisher ended with %v, want %d", err, status)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the publisher is not refused with %d", status)
	}
}

// TestE2ETokens: a publisher, an agent and an admin, each with a token of its own, do what they may and nothing else; nothing of a
// token or of the key is in the log.
func TestE2ETokens(t *testing.T) {
	key := secretFile(t)
	s := serve(t, "--auth-key", key, "--log-level", "debug")
	publish, agent, admin := mintToken(t, key, "publisher", "demo"), mintToken(t, key, "agent", "demo", "--sub", "ann"), mintToken(t, key, "admin", "*")

	_, other, _ := publisherWith(t, s, mintToken(t, key, "publisher", "elsewhere"), "demo")
	refusedWith(t, other, 403)
	_, wrongRole, _ := publisherWith(t, s, agent, "demo")
	refusedWith(t, wrongRole, 403)
	_, none, _ := publisherWith(t, s, "", "demo")
	refusedWith(t, none, 401)
	_, foreign, _ := publisherWith(t, s, mintToken(t, strings.Repeat("x", 40), "publisher", "demo"), "demo")
	refusedWith(t, foreign, 401)

	first, firstEnded, _ := publisherWith(t, s, publish, "demo")
	awaitConnected(t, first, firstEnded)
	_, second, _ := publisherWith(t, s, mintToken(t, key, "publisher", "demo", "--sub", "second"), "demo")
	refusedWith(t, second, 409)

	images := make(chan agentclient.Image, 1)
	client, err := agentclient.New(agentclient.Config{
		URL: s.URL, Session: "demo", WaitForSession: true, Token: agent, AgentID: "seer", Want: wire.Want{Images: []wire.WantImage{{Source: "*", FPS: 5}}},
		Handler: agentclient.Handler{Image: func(i agentclient.Image) {
			select {
			case images <- i:
			default:
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	attached := make(chan error, 1)
	go func() { attached <- client.Run(ctx) }()
	defer func() {
		leave()
		if err := <-attached; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	}()
	nextImage := func(why string) {
		t.Helper()
		for len(images) > 0 {
			<-images
		}
		select {
		case <-images:
		case <-time.After(20 * time.Second):
			t.Fatalf("no image %s", why)
		}
	}
	nextImage("with the agent's token")

	takeover, takeoverEnded, stop := publisherWith(t, s, mintToken(t, key, "publisher", "demo", "--takeover", "--sub", "third"), "demo")
	awaitConnected(t, takeover, takeoverEnded)
	await(t, 20*time.Second, "who was taken over from notices", func() (bool, string) {
		state := first.Stats().State
		return state != "connected", state
	})
	nextImage("after the take-over")

	for _, c := range []struct {
		token, method, path, body string
		want                      int
	}{
		{agent, "GET", "/v1/sessions/demo/image?width=320&height=240", "", 200},
		{publish, "GET", "/v1/sessions/demo/image", "", 403},
		{"", "GET", "/v1/sessions/demo/image", "", 401},
		{mintToken(t, key, "agent", "elsewhere"), "GET", "/v1/sessions/demo/image", "", 404},
		{mintToken(t, key, "agent", "demo", "--audience", "other"), "GET", "/v1/sessions/demo/image", "", 401},
		{agent, "POST", "/v1/sessions/demo/context", `{"op_id":"1","item":{"type":"message","role":"user","content":"hello"}}`, 200},
		{agent, "GET", "/metrics", "", 403},
		{admin, "GET", "/metrics", "", 200},
		{admin, "GET", "/debug/sessions", "", 200},
		{publish, "DELETE", takeover.Location()[len(s.URL):], "", 200}, // the session is the publisher's, too
	} {
		if status, _, body := s.with(c.token, c.method, c.path, c.body); status != c.want {
			t.Errorf("%s %s: %d, want %d: %.200s", c.method, c.path, status, c.want, body)
		}
	}
	stop()
	<-takeoverEnded
	for _, secret := range []string{e2eSecret, publish[strings.LastIndexByte(publish, '.'):], agent[strings.LastIndexByte(agent, '.'):], strings.Split(admin, ".")[1]} {
		if strings.Contains(s.stderr.tail(16<<20), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if !strings.Contains(s.stderr.tail(16<<20), "seer") {
		t.Error("the log has not even the agent: it is not the log")
	}
}

// TestE2EAgentWhoseTokenIsRefused: the real client ends with the gateway's words, and does not knock for ever.
func TestE2EAgentWhoseTokenIsRefused(t *testing.T) {
	key := secretFile(t)
	s := serve(t, "--auth-key", key)
	for name, token := range map[string]string{"none": "", "publisher": mintToken(t, key, "publisher", "demo")} {
		client, err := agentclient.New(agentclient.Config{URL: s.URL, Session: "demo", Token: token, AgentID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = client.Run(ctx)
		cancel()
		if want := map[string]string{"none": "401", "publisher": "403"}[name]; err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestE2EKeySet: tokens signed with a private key, checked with a key set in a file, or with the public key.
func TestE2EKeySet(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	point, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	signer := write("private.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	b64 := base64.RawURLEncoding.EncodeToString
	for flag, file := range map[string]string{
		"--auth-key":  write("public.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"--auth-jwks": write("keys.json", fmt.Appendf(nil, `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","x":%q,"y":%q}]}`, b64(point[1:33]), b64(point[33:]))),
	} {
		// On all addresses: with tokens that is allowed, without it is not.
		s := serve(t, flag, file, "--listen", "0.0.0.0:0")
		for token, want := range map[string]int{mintToken(t, signer, "admin", "*"): 200, mintToken(t, e2eSecret, "admin", "*"): 401, "": 401} {
			if status, _, body := s.with(token, "GET", "/v1/sessions", ""); status != want {
				t.Errorf("%s: %d, want %d: %s", flag, status, want, body)
			}
		}
		if !strings.Contains(s.stderr.tail(8<<10), "in the clear") {
			t.Errorf("%s: nobody is warned that tokens come in the clear: %s", flag, s.stderr.tail(8<<10))
		}
		s.stop()
	}
}

// TestE2EBrowserWithToken: the console with a token in its address publishes, attaches, shows images and those of messages; without
// one it says what it wants.
func TestE2EBrowserWithToken(t *testing.T) {
	key := secretFile(t)
	s := serve(t, "--auth-key", key)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.navigate(s.URL + "/?session=demo")
	p.awaitText(15*time.Second, "the page says that it wants a token", "notices", "wants a token")

	token := mintToken(t, key, "admin", "demo")
	p.navigate(s.URL + "/?session=other#token=" + token)
	p.awaitText(15*time.Second, "the page says that the token is for another session", "notices", "does not allow")

	p.navigate(s.URL + "/?session=demo#token=" + token)
	p.await(15*time.Second, "the page attaches", `sightline.state.agent === "attached"`, pageState)
	p.startCamera()
	p.await(20*time.Second, "an image on the page", `sightline.lastImage`, pageState)
	s.tellImage(token, "demo")
	p.await(15*time.Second, "the image of a message is shown", `[...document.querySelectorAll("[data-testid=log] img")].some((i) => i.src.startsWith("blob:") && i.naturalWidth > 0)`, `[...document.images].map((i) => i.src)`)
	if strings.Contains(s.stderr.tail(16<<20), token[strings.LastIndexByte(token, '.'):]) {
		t.Error("the log has the token")
	}
}

// tellImage appends a message with the picture that the session sees now.
func (s *served) tellImage(token, session string) {
	s.t.Helper()
	status, _, picture := s.with(token, "GET", "/v1/sessions/"+session+"/image?width=64&height=48&wait_ms=10000", "")
	if status != http.StatusOK {
		s.t.Fatalf("image: %d %s", status, picture)
	}
	body := fmt.Sprintf(`{"op_id":"picture","item":{"type":"message","role":"user","content":[{"type":"text","text":"see"},{"type":"image","url":"data:image/jpeg;base64,%s"}]}}`, base64.StdEncoding.EncodeToString(picture))
	if status, _, answer := s.with(token, "POST", "/v1/sessions/"+session+"/context", body); status != http.StatusOK {
		s.t.Fatalf("append: %d %s", status, answer)
	}
}

// TestE2EHalfARequestIsCutOff: who sends a request in drips holds a connection for seconds, not for good.
func TestE2EHalfARequestIsCutOff(t *testing.T) {
	s := serve(t)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Drip:")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(conn); err != nil || bytes.Contains(data, []byte("200 OK")) {
		t.Errorf("%q %v", data, err)
	}
}
