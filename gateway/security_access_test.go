package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/auth"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// requestID is what differs from one answer to the next.
var requestID = regexp.MustCompile(`,"request_id":"[0-9a-f-]{36}"`)

// TestEveryRouteAsksForAToken takes the routes from the source, so that a new one is asked about.
func TestEveryRouteAsksForAToken(t *testing.T) {
	g := startGuarded(t, nil)
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?:api|mux\.\w+)\("(/[^"]*)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 14 {
		t.Fatalf("only %d routes found in routes.go", len(found))
	}
	open := map[string]bool{"/healthz": true, "/readyz": true, "/": true}
	for _, m := range found {
		path := strings.NewReplacer("{id}", "demo", "{sha256}", strings.Repeat("0", 64)).Replace(m[1])
		for _, method := range []string{"GET", "POST", "DELETE", "PATCH", "PUT"} {
			for name, with := range map[string]string{"no": "", "a broken": "a.b.c", "an expired": tokenFor(t, auth.Claims{Subject: "x", Role: auth.Admin, Session: "*", Expires: time.Now().Add(-time.Second)})} {
				status, body, header := g.ask(with, method, path, "")
				if open[m[1]] {
					if status == http.StatusUnauthorized {
						t.Errorf("%s %s asks for a token", method, path)
					}
					continue
				}
				if status != http.StatusUnauthorized || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") {
					t.Errorf("%s %s with %s token: %d %s %q", method, path, name, status, body, header.Get("WWW-Authenticate"))
				}
				if invalid := strings.Contains(header.Get("WWW-Authenticate"), "invalid_token"); status == 401 && invalid != (with != "") {
					t.Errorf("%s %s with %s token: %q", method, path, name, header.Get("WWW-Authenticate"))
				}
			}
		}
	}
}

func TestRolesAndSessions(t *testing.T) {
	g := startGuarded(t, nil)
	tokens := map[string]string{}
	for _, role := range []auth.Role{auth.Publisher, auth.Agent, auth.Admin} {
		tokens[string(role)] = bearer(t, role, "mine")
		tokens["all "+string(role)] = bearer(t, role, "*")
	}
	for _, id := range []string{"mine", "theirs"} {
		if status, body, _ := g.ask(tokens["all admin"], "POST", "/v1/sessions", `{"id":"`+id+`"}`); status != 201 {
			t.Fatalf("create %s: %d %s", id, status, body)
		}
	}
	// What each gets of its own session, of one that is another's, and of one that is nobody's. 0: the same as of another's.
	type row struct {
		method, path, body              string
		publisher, agent, admin         int // of mine
		other                           int // of theirs, and of nobody's, with whichever role might
		allPublisher, allAgent, allGods int // of theirs with session "*"
	}
	no := 403
	for _, c := range []row{
		{"GET", "/v1/sessions/%s", "", 200, 200, 200, 404, 200, 200, 200},
		{"GET", "/v1/sessions/%s/context", "", no, 200, 200, 404, no, 200, 200},
		{"GET", "/v1/sessions/%s/image?wait_ms=0", "", no, 404, 404, 404, no, 404, 404},                   // no source
		{"PATCH", "/v1/sessions/%s/sources/camera", `{"policy":"full"}`, no, 404, 404, 404, no, 404, 404}, // no source
		{"GET", "/v1/sessions/%s/blobs/" + strings.Repeat("0", 64), "", no, 404, 404, 404, no, 404, 404},
		{"POST", "/v1/sessions/%s/context", "{}", no, 400, 400, 404, no, 400, 400},
		{"POST", "/v1/sessions/%s/pipeline", "{}", no, 400, 400, 404, no, 400, 400},
		{"GET", "/v1/agent?session=%s", "", no, 101, 101, 404, no, 101, 101},
		{"POST", "/whip/%s", "hello", 400, no, 400, 403, 400, no, 400},
		{"GET", "/whip/%s", "", 204, no, 204, 403, 204, no, 204},
		{"POST", "/v1/sessions", `{"id":"%s"}`, 200, 200, 200, 403, 200, 200, 200},
	} {
		at := func(who, session string) (int, string) {
			path, body := c.path, c.body
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, session)
			}
			if strings.Contains(body, "%s") {
				body = fmt.Sprintf(body, session)
			}
			status, data, _ := g.ask(tokens[who], c.method, path, body)
			return status, requestID.ReplaceAllString(strings.ReplaceAll(string(data), session, "ID"), "")
		}
		for who, want := range map[string]int{"publisher": c.publisher, "agent": c.agent, "admin": c.admin} {
			if got, body := at(who, "mine"); got != want {
				t.Errorf("%s %s by a(n) %s: %d, want %d: %s", c.method, c.path, who, got, want, body)
			}
			if want == no {
				want = no // the role is looked at first, and tells nothing
			} else {
				want = c.other
			}
			theirs, said := at(who, "theirs")
			nobodys, saidToo := at(who, "nobodys")
			if theirs != want || nobodys != want || said != saidToo {
				t.Errorf("%s %s by a(n) %s of another session: %d %s; of one that is not: %d %s; want %d", c.method, c.path, who, theirs, said, nobodys, saidToo, want)
			}
		}
		for who, want := range map[string]int{"all publisher": c.allPublisher, "all agent": c.allAgent, "all admin": c.allGods} {
			if got, body := at(who, "theirs"); got != want {
				t.Errorf("%s %s by %s: %d, want %d: %s", c.method, c.path, who, got, want, body)
			}
		}
	}
	for _, path := range []string{"/metrics", "/debug/sessions", "/debug/drain"} { // from this machine itself, which does not help
		for who, with := range tokens {
			want := map[bool]int{true: 200, false: 403}[who == "all admin"]
			if got, body, _ := g.ask(with, "GET", path, ""); got != want {
				t.Errorf("%s by %s: %d, want %d: %.200s", path, who, got, want, body)
			}
		}
	}
	for who, with := range tokens { // ends it, so comes last
		if strings.HasSuffix(who, "admin") {
			continue
		}
		if got, body, _ := g.ask(with, "DELETE", "/v1/sessions/mine", ""); got != 403 {
			t.Errorf("DELETE by %s: %d %s", who, got, body)
		}
	}
	if got, _, _ := g.ask(tokens["admin"], "DELETE", "/v1/sessions/theirs", ""); got != 404 {
		t.Errorf("DELETE of another's: %d", got)
	}
	if got, _, _ := g.ask(tokens["admin"], "DELETE", "/v1/sessions/mine", ""); got != 200 {
		t.Errorf("DELETE of one's own: %d", got)
	}
}

// TestTakingOverLeavesOnePeer: whoever is replaced, also while its offer is still being answered, is closed.
func TestTakingOverLeavesOnePeer(t *testing.T) {
	g := startGateway(t, nil)
	api := loopbackAPI(t)
	offers := make([]string, 6)
	for i := range offers {
		offers[i] = offerOf(t, api)
	}
	if _, err := g.Publish(t.Context(), "demo", "", offers[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Publish(t.Context(), "demo", "", offers[0]); err == nil {
		t.Fatal("replaced without a token")
	}
	may := context.WithValue(t.Context(), claimsKey{}, auth.Claims{Subject: "a", Session: "demo", Role: auth.Publisher, Takeover: true})
	var publishing sync.WaitGroup
	var taken atomic.Int32
	for _, offer := range offers {
		publishing.Go(func() {
			_, err := g.Publish(may, "demo", "", offer)
			switch {
			case err == nil:
				taken.Add(1)
			case problem.From(err).Code != problem.AlreadyPublishing:
				t.Error(err)
			}
		})
	}
	publishing.Wait()
	if taken.Load() == 0 {
		t.Error("nobody took over")
	}
	eventually(t, func() string {
		if n := g.engine.Stats().Peers; n != 1 {
			return fmt.Sprintf("%d peers", n)
		}
		return ""
	})
}

func TestListsHoldWhatTheTokenCovers(t *testing.T) {
	g := startGuarded(t, nil)
	admin := bearer(t, auth.Admin, "*")
	for _, id := range []string{"one", "two", "gone"} {
		g.ask(admin, "POST", "/v1/sessions", `{"id":"`+id+`"}`)
	}
	g.ask(admin, "DELETE", "/v1/sessions/gone", "")
	for session, want := range map[string]string{"one": "one", "gone": "gone", "none": "", "*": "one two gone"} {
		_, body, _ := g.ask(bearer(t, auth.Agent, session), "GET", "/v1/sessions", "")
		var list struct{ Sessions []struct{ ID string } }
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var ids []string
		for _, s := range list.Sessions {
			ids = append(ids, s.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("a token for %s sees %q, want %q", session, got, want)
		}
	}
}

func TestTheAuthorIsTheTokensSubject(t *testing.T) {
	g := startGuarded(t, nil)
	with := tokenFor(t, auth.Claims{Subject: "ann@example.org", Role: auth.Agent, Session: "demo", Expires: time.Now().Add(time.Hour)})
	if status, body, _ := g.ask(with, "POST", "/v1/sessions", ""); status != 201 || !strings.Contains(string(body), `"id":"demo"`) {
		t.Fatalf("a session without an id is the token's own: %d %s", status, body)
	}
	if status, body, _ := g.ask(with, "POST", "/v1/sessions/demo/context", `{"op_id":"1","item":{"type":"message","role":"user","content":"hello"}}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	c := g.dialWith("demo", http.Header{"Authorization": {"Bearer " + with}}, "")
	c.send(`{"type":"hello","agent_id":"a","resume_from":0,"want":{"context":true}}`)
	c.expect("welcome")
	if e := c.expect("context.entry"); e["author"] != "ann@example.org" {
		t.Errorf("author %v", e["author"])
	}
}

// TestSecretsAreNeverLogged: whichever way a token comes, and whatever becomes of it, no line of the log at its most talkative has it.
func TestSecretsAreNeverLogged(t *testing.T) {
	g := startGuarded(t, nil)
	good := bearer(t, auth.Agent, "demo")
	g.ask(good, "POST", "/v1/sessions", "")
	g.dialWith("demo", nil, "&access_token="+good).send(`{"type":"hello","agent_id":"a"}`)
	g.dialWith("demo", nil, "", openAIKey+good).send(`{"type":"hello","agent_id":"b"}`)
	for _, with := range []string{good, good[:len(good)-3], good + "x"} {
		g.ask(with, "GET", "/v1/sessions/demo/context", "")
		g.ask(with, "POST", "/v1/sessions/demo/context", "{")
		g.ask("", "GET", "/v1/sessions/demo/context?access_token="+with, "")
		g.ask("", "GET", "/v1/agent?session=demo&access_token="+with+"%zz", "")
		g.ask("", "GET", "/v1/agent?access_token="+with, "")
	}
	if status, _, _ := g.ask("", "GET", "/v1/sessions/demo?access_token="+good, ""); status != 401 {
		t.Errorf("a token in the query of what is no socket: %d", status)
	}
	eventually(t, func() string {
		if !strings.Contains(g.log.String(), "agent=b") {
			return "the agents did not attach"
		}
		return ""
	})
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(strings.Split(good, "."), testSecret) {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, g.log)
		}
	}
}

// TestAgentSocketClosesWhenItsTokenExpires: with 1008, after a bye, and a newer token goes on where it was.
func TestAgentSocketClosesWhenItsTokenExpires(t *testing.T) {
	g := startGuarded(t, nil)
	g.ask(bearer(t, auth.Agent, "demo"), "POST", "/v1/sessions", "")
	soon := tokenFor(t, auth.Claims{Subject: "a", Role: auth.Agent, Session: "demo", Expires: time.Now().Add(4 * time.Second)})
	c := g.dialWith("demo", http.Header{"Authorization": {"Bearer " + soon}}, "")
	c.send(`{"type":"hello","agent_id":"a"}`)
	c.expect("welcome")
	if bye := c.expect("bye"); !strings.Contains(fmt.Sprint(bye["reason"]), "expired") {
		t.Errorf("%v", bye)
	}
	if code := c.expectClose(); code != wire.CloseAuth {
		t.Errorf("closed with %d", code)
	}
	if status, _, _ := g.ask(soon, "GET", "/v1/agent?session=demo", ""); status != 401 {
		t.Errorf("the expired token again: %d", status)
	}
	again := g.dialWith("demo", http.Header{"Authorization": {"Bearer " + bearer(t, auth.Agent, "demo")}}, "")
	again.send(`{"type":"hello","agent_id":"a","resume_from":0,"want":{"context":true}}`)
	if w := again.expect("welcome"); w["replayed"] != true {
		t.Errorf("%v", w)
	}
}

// TestRealtimeSocketsTakeTokensAsTheirClientsGiveThem: a browser's OpenAI client gives its key as a subprotocol; the socket ends with it.
func TestRealtimeSocketsTakeTokensAsTheirClientsGiveThem(t *testing.T) {
	g := startGuarded(t, nil)
	g.ask(bearer(t, auth.Agent, "demo"), "POST", "/v1/sessions", "")
	dial := func(query string, protocols ...string) (*websocket.Conn, int) {
		t.Helper()
		d := websocket.Dialer{Subprotocols: protocols, HandshakeTimeout: testTimeout}
		conn, res, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/v1/realtime?"+query, nil)
		if res == nil {
			t.Fatal(err)
		}
		return conn, res.StatusCode
	}
	for _, c := range []struct {
		query, token string
		want         int
	}{
		{"call_id=demo", "a.b.c", 401},
		{"call_id=demo", bearer(t, auth.Publisher, "demo"), 403},
		{"call_id=demo", bearer(t, auth.Agent, "other"), 404},
		{"model=local", bearer(t, auth.Admin, "demo"), 403},              // makes a session of another name
		{"model=local", bearer(t, auth.Publisher, auth.AnySession), 503}, // no pipelines here; it came that far
	} {
		if _, got := dial(c.query, "realtime", openAIKey+c.token); got != c.want {
			t.Errorf("%s: %d, want %d", c.query, got, c.want)
		}
	}
	soon := tokenFor(t, auth.Claims{Subject: "a", Role: auth.Agent, Session: "demo", Expires: time.Now().Add(4 * time.Second)})
	conn, status := dial("call_id=demo", "realtime", openAIKey+soon, "openai-beta.realtime-v1")
	if status != http.StatusSwitchingProtocols || conn.Subprotocol() != "realtime" {
		t.Fatalf("%d", status)
	}
	defer conn.Close()
	if code := (&socket{t, conn}).expectClose(); code != wire.CloseAuth {
		t.Errorf("closed with %d", code)
	}
}

// TestThePathsThatAreCheckedAreThoseThatAreServed: the doorkeeper and the routes read the same session out of a URL, however it is written.
func TestThePathsThatAreCheckedAreThoseThatAreServed(t *testing.T) {
	mux := http.NewServeMux()
	served, seen := "", ""
	for _, p := range []string{"/v1/sessions/{id}", "/v1/sessions/{id}/image", "/v1/sessions/{id}/blobs/{sha256}"} {
		mux.HandleFunc(p, func(_ http.ResponseWriter, r *http.Request) { served, seen = r.PathValue("id"), sessionOf(r) })
	}
	for _, path := range []string{
		"/v1/sessions/a", "/v1/sessions/%61", "/v1/sessions/a/image", "//v1/sessions/a", "/v1//sessions/a/image", "/v1/sessions/b/../a", "/v1/./sessions/a",
		"/v1/sessions/b%2f..%2fa", "/v1/sessions/a%2fimage", "/v1%2fsessions/a", "/v1/sessions/b%2Fa/image", "/v1/sessions/%2e%2e/image",
		"/v1/sessions/a;b", "/v1/sessions/a%00", "/v1/sessions/a?session=b", "/v1/sessions/%2561", "/v1/sessions/a/blobs/b", "/%761/sessions/a",
	} {
		r := httptest.NewRequest("GET", "http://gateway"+path, nil)
		served, seen = "", ""
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if served != seen && regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(served) {
			t.Errorf("%s: %q is served and %q checked", path, served, seen)
		}
	}
}

// TestTokensTravelBetweenNodes: each node asks for the token, wherever the session is; what is expired there closes the socket here.
func TestTokensTravelBetweenNodes(t *testing.T) {
	a, b := twoNodes(t, func(c *Config) { askForTokens(t, c) })
	mine, other := bearer(t, auth.Agent, "demo"), bearer(t, auth.Agent, "other")
	if status, body, _ := a.ask(mine, "POST", "/v1/sessions", ""); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	for with, want := range map[string]int{mine: 200, other: 404, "": 401} {
		if status, body, _ := b.ask(with, "GET", "/v1/sessions/demo/context", ""); status != want {
			t.Errorf("through the other node: %d, want %d: %s", status, want, body)
		}
	}
	if _, body, _ := b.ask(mine, "GET", "/v1/sessions", ""); !strings.Contains(string(body), `"demo"`) {
		t.Errorf("the list of all nodes: %s", body)
	}
	if _, body, _ := b.ask(other, "GET", "/v1/sessions", ""); strings.Contains(string(body), `"demo"`) {
		t.Errorf("the list of all nodes: %s", body)
	}
	soon := tokenFor(t, auth.Claims{Subject: "a", Role: auth.Agent, Session: "demo", Expires: time.Now().Add(5 * time.Second)})
	for name, c := range map[string]*socket{
		"header":      b.dialWith("demo", http.Header{"Authorization": {"Bearer " + soon}}, ""),
		"query":       b.dialWith("demo", nil, "&access_token="+soon),
		"subprotocol": b.dialWith("demo", nil, "", openAIKey+soon),
	} {
		c.send(`{"type":"hello","agent_id":"` + name + `"}`)
		c.expect("welcome")
		if code := c.expectClose(); code != wire.CloseAuth {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	out, err := http.NewRequest("GET", "http://a:80/v1/sessions/demo/context", nil) // as another node asks, without a token
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.nodes.transport.RoundTrip(out)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("between the nodes, without a token: %d", res.StatusCode)
	}
}
