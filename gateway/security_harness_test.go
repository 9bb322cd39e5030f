package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/auth"
	"sightline/gateway/wire"
)

const testSecret = "the secret of the tests, long enough for it"

// guarded is a gateway that asks for tokens, and all that it logs.
type guarded struct {
	*gatewayUnderTest
	log *lockedLog
}

type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func askForTokens(t *testing.T, c *Config) *lockedLog {
	t.Helper()
	key, err := auth.ParseKey([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	if c.Auth, err = auth.New(auth.Config{Key: key, Leeway: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	log := &lockedLog{}
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.Limits = Limits{AddressRate: -1, TokenRate: -1}
	return log
}

func startGuarded(t *testing.T, change func(*Config)) *guarded {
	t.Helper()
	g := &guarded{}
	g.gatewayUnderTest = startGateway(t, func(c *Config) {
		if g.log = askForTokens(t, c); change != nil {
			change(c)
		}
	})
	return g
}

// bearer is a token for an hour; sub is the role.
func bearer(t *testing.T, role auth.Role, session string) string {
	return tokenFor(t, auth.Claims{Subject: string(role), Role: role, Session: session, Expires: time.Now().Add(time.Hour)})
}

func tokenFor(t *testing.T, c auth.Claims) string {
	t.Helper()
	key, err := auth.ParseSigningKey([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	text, err := auth.Sign(key, c, auth.DefaultAudience, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ask sends a request with a token, "" for none.
func (g *gatewayUnderTest) ask(token, method, path, body string) (int, []byte, http.Header) {
	g.t.Helper()
	r, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if strings.HasPrefix(path, "/whip") && body != "" {
		r.Header.Set("Content-Type", "application/sdp")
	}
	if path == "/v1/agent" || strings.HasPrefix(path, "/v1/agent?") {
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, nil, res.Header
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, data, res.Header
}

// dialWith attaches with headers and a query of one's own.
func (g *gatewayUnderTest) dialWith(session string, header http.Header, query string, protocols ...string) *socket {
	g.t.Helper()
	d := websocket.Dialer{Subprotocols: append(protocols, wire.Subprotocol), HandshakeTimeout: testTimeout}
	conn, res, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/agent?session="+session+query, header)
	if err != nil {
		g.t.Fatalf("dial: %v (%v)", err, res)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return &socket{g.t, conn}
}
