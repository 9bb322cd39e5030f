package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/auth"
	"sightline/gateway/wire"
)

func TestRatesOfAddressesAndTokens(t *testing.T) {
	for name, limits := range map[string]Limits{"address": {AddressRate: 1, TokenRate: -1}, "token": {AddressRate: -1, TokenRate: 1}} {
		g := startGuarded(t, func(c *Config) { c.Limits = limits })
		with := bearer(t, auth.Admin, "*")
		statuses := map[int]int{}
		for range 6 {
			status, body, header := g.ask(with, "GET", "/v1/sessions", "")
			statuses[status]++
			if status == 429 {
				if wait, err := strconv.Atoi(header.Get("Retry-After")); err != nil || wait < 1 {
					t.Errorf("%s: Retry-After %q: %s", name, header.Get("Retry-After"), body)
				}
			}
		}
		if statuses[200] < 2 || statuses[429] < 2 {
			t.Errorf("%s: %v", name, statuses)
		}
		other, _, _ := g.ask(bearer(t, auth.Agent, "x"), "GET", "/v1/sessions", "")
		if want := map[string]int{"address": 429, "token": 200}[name]; other != want {
			t.Errorf("%s: another token: %d, want %d", name, other, want)
		}
		if status, _, _ := g.ask("", "GET", "/healthz", ""); status != 200 {
			t.Errorf("%s: /healthz: %d", name, status)
		}
	}
}

func TestQuotasOfAToken(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Limits.TokenSockets, c.Limits.TokenSessions = 2, 2 })
	all := bearer(t, auth.Admin, "*")
	for i, want := range []int{201, 201, 429} {
		if status, body, _ := g.ask(all, "POST", "/v1/sessions", fmt.Sprintf(`{"id":"s%d"}`, i)); status != want {
			t.Errorf("session %d: %d %s", i, status, body)
		}
	}
	if status, _, _ := g.ask(all, "POST", "/v1/sessions", `{"id":"s0"}`); status != 200 {
		t.Errorf("one that is there: %d", status)
	}
	if status, _, _ := g.ask(bearer(t, auth.Publisher, "own"), "POST", "/v1/sessions", ""); status != 201 {
		t.Errorf("another token: %d", status)
	}
	g.ask(all, "DELETE", "/v1/sessions/s1", "")
	eventually(t, func() string {
		if status, body, _ := g.ask(all, "POST", "/v1/sessions", `{"id":"s2"}`); status != 201 {
			return string(body)
		}
		return ""
	})
	header := http.Header{"Authorization": {"Bearer " + all}}
	first := g.dialWith("s0", header, "")
	g.dialWith("s0", header, "")
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}}
	_, res, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/agent?session=s0", header)
	if err == nil || res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Errorf("a third socket: %v, %v", res, err)
	}
	_ = first.conn.Close()
	eventually(t, func() string {
		conn, _, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/agent?session=s0", header)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
}

// TestG12TablesOfRatesAreBounded: a flood of addresses is forgotten, and does not make the gateway forget who is there.
func TestG12TablesOfRatesAreBounded(t *testing.T) {
	r := newRates(1)
	now := time.Now()
	r.wait("regular", now)
	r.wait("regular", now)
	for i := range 3 * maxCounted {
		r.wait(fmt.Sprint(i), now)
		if i%1000 == 0 && r.wait("regular", now) == 0 {
			t.Fatalf("after %d others the regular one began anew", i)
		}
	}
	if len(r.known) != maxCounted || r.order.Len() != maxCounted {
		t.Errorf("%d and %d entries", len(r.known), r.order.Len())
	}
	q := newQuota(1)
	for i := range 1000 {
		release, ok := q.take(fmt.Sprint(i))
		if !ok {
			t.Fatal(i)
		}
		release()
		release() // a second time counts for nothing
	}
	if len(q.held) != 0 {
		t.Errorf("%d held", len(q.held))
	}
}

func TestOnlyTrustedProxiesSayWhoAsks(t *testing.T) {
	l := newLimits(Limits{}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for _, c := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.9", "192.0.2.1"}, // who is not trusted says nothing
		{"10.1.1.1:5", "203.0.113.9", "203.0.113.9"},
		{"10.1.1.1:5", "198.51.100.1, 203.0.113.9", "203.0.113.9"}, // what the client itself wrote counts for nothing
		{"10.1.1.1:5", "203.0.113.9, 10.2.2.2", "203.0.113.9"},
		{"10.1.1.1:5", "garbage", "10.1.1.1"},
		{"10.1.1.1:5", "203.0.113.9, garbage", "10.1.1.1"},
		{"10.1.1.1:5", "10.3.3.3", "10.3.3.3"},
		{"[::ffff:10.1.1.1]:5", "203.0.113.9", "203.0.113.9"},
		{"[2001:db8:1:2:3:4:5:6]:5", "", "2001:db8:1:2::/64"},
		{"[fd00::1]:5", "2001:db8::7", "2001:db8::/64"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if r.RemoteAddr = c.remote; c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := l.address(r); got != c.want {
			t.Errorf("%s, X-Forwarded-For %q: %s, want %s", c.remote, c.forwarded, got, c.want)
		}
		r.Header.Set("X-Forwarded-Proto", "https")
		if got, want := l.https(r), l.trusts(peerOf(r)); got != want {
			t.Errorf("%s: X-Forwarded-Proto is believed: %v", c.remote, got)
		}
	}
}

// TestLoopbackIsOpen: on loopback nobody is asked for anything, and nobody is counted.
func TestLoopbackIsOpen(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.Limits = Limits{AddressRate: 1} })
	for range 20 {
		if status, body, _ := g.ask("", "GET", "/v1/sessions", ""); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
}

func TestNonLoopbackNeedsTokensOrInsecure(t *testing.T) {
	key, err := auth.ParseKey([]byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.New(auth.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, nil)
	for _, c := range []struct {
		listen   string
		insecure bool
		auth     *auth.Verifier
		ok       bool
	}{
		{"127.0.0.1:0", false, nil, true}, {"[::1]:0", false, nil, true}, {"127.0.0.1:0", false, v, true},
		{"0.0.0.0:0", false, nil, false}, {":0", false, nil, false}, {"192.0.2.1:0", false, nil, false}, {"[::]:0", false, nil, false}, {"example.org:0", false, nil, false},
		{"0.0.0.0:0", true, nil, true}, {"0.0.0.0:0", false, v, true}, {"0.0.0.0:0", true, v, false},
	} {
		cfg := g.cfg
		cfg.Listen, cfg.Insecure, cfg.Auth = c.listen, c.insecure, c.auth
		if err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
