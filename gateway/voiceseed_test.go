package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTheSeedOfALegCanBeRead(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	const path = "/v1/sessions/demo/pipeline/seed"
	if status, body, _ := g.do("GET", path, ""); status != 404 || !strings.Contains(string(body), "no pipeline yet") {
		t.Errorf("before anybody spoke: %d %s", status, body)
	}
	g.do("POST", "/v1/sessions/demo/context", `{"op_id":"before","item":{"type":"message","id":"m1","role":"user","content":"my order is 4711"}}`)
	leg := g.leg("demo", "runtime", `{"context":true}`)
	leg.register("mine", "cascade")
	leg.send(`{"type":"pipeline.switch","op_id":"s","target":"mine"}`)
	epoch, start, _ := leg.commits()

	for _, query := range []string{"", fmt.Sprintf("?epoch=%d", epoch)} {
		status, body, _ := g.do("GET", path+query, "")
		if status != 200 {
			t.Fatalf("GET %s: %d %s", query, status, body)
		}
		if err := schemasFor(t).sent("seed", body); err != nil {
			t.Error(err)
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		told := start["seed"].(map[string]any)
		if got["epoch"] != float64(epoch) || got["mode"] != told["mode"] || got["instructions"] != told["instructions"] || fmt.Sprint(got["items"]) != fmt.Sprint(told["items"]) {
			t.Errorf("the leg was told %v, HTTP says %s", told, body)
		}
		if !strings.Contains(string(body), "4711") {
			t.Errorf("the seed does not have what was said: %s", body)
		}
	}
	for query, want := range map[string]int{"?epoch=99": 404, "?epoch=0": 400, "?epoch=-1": 400, "?epoch=x": 400} {
		if status, body, _ := g.do("GET", path+query, ""); status != want {
			t.Errorf("GET %s: %d %s, want %d", query, status, body, want)
		}
	}
	if status, _, _ := g.do("GET", "/v1/sessions/none/pipeline/seed", ""); status != 404 {
		t.Errorf("of no session: %d", status)
	}
}
