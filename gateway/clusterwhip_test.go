package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPublishThroughAnotherNode: an offer for a session on a that comes to b is answered by a, a second one is refused in a's words, and
// the publication's URL works at either node.
func TestPublishThroughAnotherNode(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	request := func(method, url, body string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/sdp")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		return res.StatusCode, res.Header, string(data)
	}
	api := loopbackAPI(t)
	status, header, answer := request("POST", b.url+"/whip/s", offerOf(t, api))
	location := header.Get("Location")
	if status != 201 || !strings.Contains(answer, "v=0") || !strings.HasSuffix(location, ".a") || !strings.HasPrefix(location, b.url) {
		t.Fatalf("published through b: %d, %s, %.100s", status, location, answer)
	}
	if a.sessions.busyCount() != 1 || b.sessions.countLive() != 0 {
		t.Error("the publisher is not a's")
	}
	at := func(g *nodeUnderTest) string { return g.url + strings.TrimPrefix(location, b.url) }
	for name, g := range map[string]*nodeUnderTest{"a": a, "b": b} {
		if status, _, _ := request("GET", at(g), ""); status != 204 {
			t.Errorf("the publication's URL at %s: %d", name, status)
		}
	}
	if status, _, body := request("POST", b.url+"/whip/s", offerOf(t, api)); status != 409 || !strings.Contains(body, "already_publishing") {
		t.Errorf("a second publisher through b: %d %s", status, body)
	}
	if status, _, _ := request("DELETE", at(b), ""); status != 200 {
		t.Errorf("deleted at b: %d", status)
	}
	eventually(t, func() string {
		if a.sessions.busyCount() != 0 {
			return "the publication is still there"
		}
		return ""
	})
	if status, _, _ := request("GET", at(a), ""); status != 404 {
		t.Errorf("its URL afterwards: %d", status)
	}
}
