package gateway

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// TestRequestsHaveIDs: whoever asks may name a request, else the gateway does; the name is in the answer once, in its problem and in the
// log, also where another node answers. Secrets that a URL holds are not.
func TestRequestsHaveIDs(t *testing.T) {
	log := &lockedLog{}
	a, b := twoNodes(t, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	a.createSession("s")
	ask := func(g *nodeUnderTest, method, path, id string) (string, map[string]any) {
		t.Helper()
		request, err := http.NewRequest(method, g.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id != "" {
			request.Header.Set("X-Request-Id", id)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		ids := answer.Header.Values("X-Request-Id")
		if len(ids) != 1 {
			t.Fatalf("%s %s: ids %q", method, path, ids)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		_ = json.Unmarshal(body, &m)
		return ids[0], m
	}
	for name, g := range map[string]*nodeUnderTest{"own": a, "other": b} {
		id, problem := ask(g, "GET", "/v1/sessions/s/image?source=none", "mine-"+name)
		if id != "mine-"+name || problem["request_id"] != id || problem["code"] != "not_found" {
			t.Errorf("%s node: id %q, %v", name, id, problem)
		}
		eventually(t, func() string {
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, `"request_id":"`+id+`"`) && strings.Contains(line, `"session":"s"`) && strings.Contains(line, `"code":"not_found"`) {
					return ""
				}
			}
			return "the log does not have " + id
		})
	}
	for _, given := range []string{"", "with space", strings.Repeat("x", 65), "<script>"} {
		if id, problem := ask(a, "GET", "/v1/nothing", given); !uuidPattern.MatchString(id) || problem["request_id"] != id {
			t.Errorf("asked with %q: %q, %v", given, id, problem)
		}
	}
	if id, _ := ask(a, "GET", "/v1/sessions/s", "fine"); id != "fine" {
		t.Errorf("an answer without an error has the id %q", id)
	}
	ask(a, "DELETE", "/whip/session/very-secret", "gone")
	if text := log.String(); strings.Contains(text, "very-secret") || !strings.Contains(text, `"route":"/whip/"`) || strings.Contains(text, `"request_id":"fine"`) {
		t.Errorf("the log: %s", text)
	}
}
