package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDecodePolicyOfASource: set over HTTP, seen in the session, kept by the source's next track; what is wrong is told with what is allowed.
func TestDecodePolicyOfASource(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	if status, body, _ := g.do("PATCH", "/v1/sessions/demo/sources/camera", `{"policy":"full"}`); status != 404 || !strings.Contains(string(body), "no video yet") {
		t.Errorf("before the first source: %d %s", status, body)
	}
	publishClip(t, g, "demo")
	if status, _, _ := g.do("GET", "/v1/sessions/demo/image?wait_ms=20000&max_age_ms=60000", ""); status != 200 {
		t.Fatalf("no image: %d", status)
	}
	var d sourceDetail
	patch := func(body string) (int, string) {
		status, data, _ := g.do("PATCH", "/v1/sessions/demo/sources/camera", body)
		d = sourceDetail{}
		if status == 200 {
			if err := json.Unmarshal(data, &d); err != nil {
				t.Fatal(err)
			}
		}
		return status, string(data)
	}
	for _, p := range []string{"full", "keyframe", "temporal", "auto"} {
		if status, body := patch(`{"policy":"` + p + `"}`); status != 200 || d.Policy != p || d.Name != "camera" || d.InEffect == "" || d.PolicyReason == "" {
			t.Errorf("%s: %d %s", p, status, body)
		}
		if status, body, _ := g.do("GET", "/v1/sessions/demo/image?wait_ms=20000", ""); status != 200 {
			t.Errorf("%s: no image: %d %.200s", p, status, body)
		}
	}
	for body, says := range map[string]string{
		`{"policy":"idle"}`: "must be auto, keyframe, temporal or full",
		`{"policy":""}`:     "must be auto, keyframe, temporal or full",
		`{}`:                "policy is missing",
		`{"policy":1}`:      "policy",
		`{`:                 "",
	} {
		if status, data := patch(body); status != 400 || !strings.Contains(data, says) {
			t.Errorf("%s: %d %s, want 400 and %q", body, status, data, says)
		}
	}
	if status, body, _ := g.do("PATCH", "/v1/sessions/demo/sources/screen", `{"policy":"full"}`); status != 404 || !strings.Contains(string(body), "there is camera") {
		t.Errorf("another source: %d %s", status, body)
	}
	if status, _, h := g.do("GET", "/v1/sessions/demo/sources/camera", ""); status != 405 || h.Get("Allow") != "PATCH, OPTIONS" {
		t.Errorf("GET: %d, allowed %s", status, h.Get("Allow"))
	}
	if status, _, _ := g.do("PATCH", "/v1/sessions/other/sources/camera", `{"policy":"full"}`); status != 404 {
		t.Errorf("another session: %d", status)
	}
}
