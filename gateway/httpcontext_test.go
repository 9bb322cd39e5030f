package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	chatctx "sightline/context"
	"sightline/context/fetch"
	"sightline/context/project"
)

func TestContextOverHTTP(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	for n, item := range []string{
		`{"type":"message","role":"system","content":"be brief"}`,
		`{"type":"message","role":"user","content":"hello"}`,
		`{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c1","name":"look","output":"a cat","is_error":false}`,
	} {
		status, body, _ := g.do("POST", "/v1/sessions/s/context", fmt.Sprintf(`{"op_id":"op%d","item":%s}`, n, item))
		if status != 200 || !bytes.Contains(body, fmt.Appendf(nil, `"seq":%d`, n+1)) {
			t.Fatalf("append %s: %d %s", item, status, body)
		}
	}
	get := func(query string) map[string]any {
		status, body, _ := g.do("GET", "/v1/sessions/s/context"+query, "")
		var m map[string]any
		if err := json.Unmarshal(body, &m); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", query, status, body)
		}
		return m
	}
	m := get("")
	if m["session"] != "s" || m["seq"] != 4.0 || m["format"] != "items" || len(m["context"].([]any)) != 4 {
		t.Errorf("items: %v", m)
	}
	if items := get("?from_seq=3")["context"].([]any); len(items) != 2 {
		t.Errorf("from_seq is inclusive: %v", items)
	}
	if items := get("?from_seq=99")["context"].([]any); len(items) != 0 {
		t.Errorf("from_seq past the end: %v", items)
	}
	if items := get("?max_items=2")["context"].([]any); len(items) != 2 {
		t.Errorf("max_items=2: %v", items)
	}
	if text := get("?format=text")["context"].(string); !strings.Contains(text, "User: hello\n") || !strings.Contains(text, "[tool result] look -> a cat") {
		t.Errorf("text: %s", text)
	}
	if list := get("?format=transport")["context"].([]any); len(list) != 4 || list[2].(map[string]any)["tool_calls"] == nil {
		t.Errorf("transport: %v", list)
	}
	g.do("DELETE", "/v1/sessions/s", "")
	if m := get(""); m["seq"] != 4.0 {
		t.Errorf("an ended session's context stays readable: %v", m)
	}
	if status, body, h := g.do("POST", "/v1/sessions/s/context", `{"op_id":"z","item":{"type":"message","role":"user","content":"x"}}`); status != 404 {
		code, _ := problemOf(t, h, body)
		t.Errorf("append to an ended session: %d %s", status, code)
	}
}

func TestImagesInTheContextAreStoredOnceAndServed(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 7, 5))); err != nil {
		t.Fatal(err)
	}
	url := "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(file.Bytes()) // a lie: it is a PNG
	status, body, _ := g.do("POST", "/v1/sessions/s/context", `{"op_id":"1","item":{"type":"message","role":"user","content":[{"type":"image","url":"`+url+`"}]}}`)
	if status != 200 || !bytes.Contains(body, []byte("warnings")) {
		t.Fatalf("append: %d %s", status, body)
	}
	_, body, _ = g.do("GET", "/v1/sessions/s/context", "")
	var m struct {
		Context chatctx.Items
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	img := m.Context[0].(*chatctx.Message).Content.Images()[0]
	sha, ok := strings.CutPrefix(img.URL, chatctx.BlobPrefix)
	if !ok || img.Width != 7 || img.Height != 5 {
		t.Fatalf("stored as %+v", img)
	}
	status, data, h := g.do("GET", "/v1/sessions/s/blobs/"+sha, "")
	if status != 200 || !bytes.Equal(data, file.Bytes()) || h.Get("Content-Type") != "image/png" {
		t.Errorf("blob: %d %s, %d bytes", status, h.Get("Content-Type"), len(data))
	}
	_, body, _ = g.do("GET", "/v1/sessions/s/context?inline=true", "")
	if !bytes.Contains(body, []byte("data:image/png;base64,")) {
		t.Errorf("inline: %s", body)
	}
}

// TestContextInProvidersFormats holds each format against the provider's rules as package project knows them from the outside.
func TestContextInProvidersFormats(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2500, 10))); err != nil {
		t.Fatal(err)
	}
	for n, item := range []string{
		`{"type":"message","role":"system","content":"be brief"}`,
		`{"type":"message","role":"assistant","content":"hello"}`,
		`{"type":"message","role":"user","content":[{"type":"text","text":"look"},{"type":"image","url":"` + chatctx.DataURL("image/png", file.Bytes()) + `"}]}`,
		`{"type":"function_call","call_id":"c1","name":"look","arguments":"no json"}`,
		`{"type":"message","role":"user","content":"well?"}`,
		`{"type":"function_call_output","call_id":"c1","name":"look","output":"a cat"}`,
		`{"type":"function_call_output","call_id":"orphan","name":"x","output":"y"}`,
		`{"type":"handoff","from_agent":"a","to_agent":"b","reason":"asked"}`,
	} {
		if status, body, _ := g.do("POST", "/v1/sessions/s/context", fmt.Sprintf(`{"op_id":"op%d","item":%s}`, n, item)); status != 200 {
			t.Fatalf("append %s: %d %s", item, status, body)
		}
	}
	for _, format := range []project.Format{project.FormatOpenAIChat, project.FormatOpenAIResponses, project.FormatOpenAIRealtime, project.FormatAnthropic, project.FormatGemini} {
		status, body, _ := g.do("GET", "/v1/sessions/s/context?for_agent=b&format="+string(format), "")
		var answer struct {
			Context json.RawMessage
			Losses  []project.Loss
		}
		if err := json.Unmarshal(body, &answer); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", format, status, body)
		}
		for _, p := range project.Validate(format, answer.Context) {
			if !p.Some { // what only some servers refuse is chosen by project.Options
				t.Errorf("%s: the provider would refuse this: %v", format, p)
			}
		}
		if !bytes.Contains(answer.Context, []byte("data:image/jpeg")) && !bytes.Contains(answer.Context, []byte("image/jpeg")) {
			t.Errorf("%s: the image was not made smaller and sent", format)
		}
		if len(answer.Losses) == 0 {
			t.Errorf("%s: the orphan is not reported", format)
		}
	}
}

// TestImagesAreFetchedOnlyWhereAllowed: by default nothing is, and what cannot be had stays a reference with a warning.
func TestImagesAreFetchedOnlyWhereAllowed(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 9, 6))); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/cat.png" {
			_, _ = w.Write(file.Bytes())
		}
	}))
	defer site.Close()
	_, portText, _ := net.SplitHostPort(site.Listener.Addr().String())
	port, _ := strconv.Atoi(portText)
	message := func(op, path string) string {
		return fmt.Sprintf(`{"op_id":%q,"item":{"type":"message","role":"user","content":[{"type":"image","url":"%s%s"}]}}`, op, site.URL, path)
	}

	closed := startGateway(t, nil)
	closed.createSession("s")
	if status, body, _ := closed.do("POST", "/v1/sessions/s/context", message("1", "/cat.png")); status != 200 || asked.Load() != 0 {
		t.Errorf("not allowed: %d %s, fetched %d times", status, body, asked.Load())
	}

	open := startGateway(t, func(c *Config) {
		c.Fetch = fetch.New(fetch.Config{AllowHTTP: true, Ports: []int{port}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	})
	open.createSession("s")
	if status, body, _ := open.do("POST", "/v1/sessions/s/context", message("1", "/cat.png")); status != 200 || bytes.Contains(body, []byte("warnings")) {
		t.Errorf("allowed: %d %s", status, body)
	}
	if status, body, _ := open.do("POST", "/v1/sessions/s/context", message("2", "/none")); status != 200 || !bytes.Contains(body, []byte("kept as a reference")) {
		t.Errorf("no image there: %d %s", status, body)
	}
	_, body, _ := open.do("GET", "/v1/sessions/s/context", "")
	if !bytes.Contains(body, []byte(`"width":9`)) || !bytes.Contains(body, []byte(chatctx.BlobPrefix)) || !bytes.Contains(body, []byte(site.URL+"/none")) {
		t.Errorf("context: %s", body)
	}
}
