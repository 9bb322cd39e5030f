package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"net/http"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/cascade"
)

func user(text string) chatctx.Item {
	return &chatctx.Message{ID: "u", Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func photo(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 32, 24)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mustModel(t *testing.T, c *Client) *Model {
	t.Helper()
	m, err := c.Model(ModelConfig{Model: "some-model", MaxTokens: 200})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnswers: what servers send, and what a cascade gets of it.
func TestAnswers(t *testing.T) {
	call := func(body string) string {
		return `data: {"choices":[{"delta":{"tool_calls":[` + body + `]}}]}` + "\n\n"
	}
	for name, c := range map[string]struct {
		reply http.HandlerFunc
		want  string // text, calls and finish, or the error's code
	}{
		"plain":               {sse(text("Hel"), text("lo."), end("stop"), done), "Hello. [] stop"},
		"without [DONE]":      {sse(text("Hello."), end("stop")), "Hello. [] stop"},
		"with comments":       {sse(": keep-alive\n\n", text("A"), ":\n", ": ping\n\n", text("B"), end("stop"), done), "AB [] stop"},
		"crlf, no space":      {sse(strings.ReplaceAll(strings.ReplaceAll(text("A")+end("stop"), "data: ", "data:"), "\n", "\r\n")), "A [] stop"},
		"one line break":      {sse(strings.ReplaceAll(text("A")+text("B")+end("stop"), "\n\n", "\n")), "AB [] stop"},
		"event fields":        {sse("event: message\nid: 7\nretry: 5\n"+text("A"), end("stop"), done), "A [] stop"},
		"end without a break": {sse(text("A"), strings.TrimSpace(end("stop"))), "A [] stop"},
		"null content":        {sse(`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`+"\n\n", text("A"), end("stop"), done), "A [] stop"},
		"usage":               {sse(text("A"), end("stop"), `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}`+"\n\n", done), "A [] stop 11/3"},
		"other choices":       {sse(`data: {"choices":[{"index":1,"delta":{"content":"X"}},{"index":0,"delta":{"content":"A"}}]}`+"\n\n", end("stop")), "A [] stop"},
		"length":              {sse(text("A"), end("length"), done), "A [] length"},
		"filter":              {sse(end("content_filter"), done), " [] filter"},
		"refusal":             {sse(`data: {"choices":[{"index":0,"delta":{"refusal":"I will not."}}]}`+"\n\n", end("stop"), done), "I will not. [] stop"},
		"parts":               {sse(`data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"A"}]}}]}`+"\n\n", end("stop")), "A [] stop"},
		"not streamed":        {whole("application/json; charset=utf-8", `{"choices":[{"index":0,"message":{"content":"All.","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"x":1}}}]},"finish_reason":"tool_calls"}]}`), `All. [a f {"x":1}] tool_calls`},
		"thinking aloud":      {sse(text("<thi"), text("nk>I should say hello."), text(" Yes.</th"), text("ink>\n\nHello."), end("stop")), "Hello. [] stop"},
		"not thinking":        {sse(text("<th"), text("ings> are."), end("stop")), "<things> are. [] stop"},
		"a call in pieces":    {sse(call(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`), call(`{"index":0,"function":{"arguments":"{\"x\""}}`), call(`{"index":0,"function":{"arguments":":1}"}}`), end("tool_calls"), done), ` [a f {"x":1}] tool_calls`},
		"two calls, mixed":    {sse(call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}`), call(`{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"}"}}`), end("tool_calls")), " [a f {} b g {}] tool_calls"},
		"calls without index": {sse(call(`{"id":"a","function":{"name":"f","arguments":"{}"}}`), call(`{"id":"b","function":{"name":"f","arguments":"{}"}}`), end("tool_calls")), " [a f {} b f {}] tool_calls"},
		"all index 0":         {sse(call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), call(`{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}`), end("stop")), " [a f {} b g {}] stop"},
		"arguments as object": {sse(call(`{"index":0,"function":{"name":"f","arguments":{"x":[1,2]}}}`), end("tool_calls")), ` [ f {"x":[1,2]}] tool_calls`},
		"no arguments, no id": {sse(call(`{"index":0,"function":{"name":"f"}}`), end("tool_calls")), " [ f {}] tool_calls"},
		"the name again":      {sse(call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), call(`{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}`), end("tool_calls")), " [a f {}] tool_calls"},
		"an error in between": {sse(text("A"), `data: {"error":{"message":"out of memory","type":"server_error","code":500}}`+"\n\n"), "overloaded true"},
		"an error as text":    {sse(`data: {"error":"model is loading"}` + "\n\n"), "overloaded true"},
		"cut off":             {cutOff("text/event-stream", text("Half of")), "unreachable true"},
		"cut off cleanly":     {sse(text("Half of")), "unreachable true"},
		"cut off in a call":   {cutOff("text/event-stream", call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`)), "unreachable true"},
		"no JSON":             {sse("data: <html>\n\n"), "overloaded true"},
		"an endless line":     {sse("data: ", strings.Repeat("x", maxLine+1)), "invalid false"},
		"an endless answer":   {sse(text(strings.Repeat("x", maxText+1)), end("stop")), "invalid false"},
		"a page":              {whole("text/html", "<html>hello</html>"), "unreachable true"},
		"400":                 {status(400, `{"error":{"message":"bad thing","type":"invalid_request_error"}}`), "invalid false"},
		"401":                 {status(401, `{"error":{"message":"Incorrect API key provided: `+testKey+`"}}`), "auth false"},
		"404":                 {status(404, `{"detail":"Not Found"}`), "invalid false"},
		"429":                 {status(429, `{"error":{"message":"slow down"}}`, "Retry-After", "3"), "rate_limited true 3s"},
		"429 in ms":           {status(429, ``, "Retry-After-Ms", "250"), "rate_limited true 250ms"},
		"no money":            {status(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), "rate_limited false"},
		"500":                 {status(500, `oh`), "overloaded true"},
		"503 loading":         {status(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), "overloaded true"},
		"moved":               {status(302, ``, "Location", "http://elsewhere.example/"), "invalid false"},
	} {
		t.Run(name, func(t *testing.T) {
			f, cl := newFake(t, c.reply)
			said, calls, fin, err := ask(t.Context(), mustModel(t, cl), cascade.Request{At: time.Now(), Instructions: "Be brief.", Items: chatctx.Items{user("hello")}})
			got := said + " ["
			for i, k := range calls {
				got += strings.TrimPrefix(fmt.Sprintf(" %s %s %s", k.ID, k.Name, k.Arguments), map[bool]string{true: " "}[i == 0])
			}
			got += "] " + fin.Reason
			if fin.TokensIn > 0 {
				got += fmt.Sprintf(" %d/%d", fin.TokensIn, fin.TokensOut)
			}
			var e *cascade.EngineError
			if errors.As(err, &e) {
				got = fmt.Sprint(e.Code, " ", e.Retryable)
				if e.After > 0 {
					got += " " + e.After.String()
				}
				if strings.Contains(err.Error(), testKey) {
					t.Errorf("the key is in the error: %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got  %q (%v)\nwant %q", got, err, c.want)
			}
			if n := len(f.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestRequests holds a full request against the official types, and says what is in it.
func TestRequests(t *testing.T) {
	photo := photo(t)
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	items := chatctx.Items{
		user("Where is my order?"),
		&chatctx.FunctionCall{ID: "c", CallID: "c", Name: "lookup", Arguments: `{"id":456}`},
		&chatctx.FunctionCallOutput{ID: "o", CallID: "c", Name: "lookup", Output: "shipped"},
		&chatctx.AgentHandoff{ID: "h", ToAgent: "billing", Reason: "money"},
		&chatctx.Message{ID: "i", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.ImageContent{URL: chatctx.BlobPrefix + strings.Repeat("ab", 32), Detail: "low"}}},
		&chatctx.FunctionCall{ID: "r", CallID: "r", Name: "slow", Arguments: `{}`},
		user("What does the sign say?"),
	}
	before := fmt.Sprintf("%v", items)
	request := cascade.Request{At: at, Instructions: "Be brief.", Items: items, Running: map[string]bool{"r": true},
		Tools:  []switcher.Tool{{Name: "lookup", Description: "Looks up.", Parameters: []byte(`{"type":"object","properties":{"id":{"type":"integer"}}}`)}, {Name: "bare"}, {Name: "no good name"}},
		Sights: []switcher.Sight{{Source: "camera", State: "live", JPEG: photo, CapturedAt: at.Add(-300 * time.Millisecond)}, {Source: "screen", State: "ended"}},
		Image:  func(context.Context, string) (string, []byte, error) { return "image/jpeg", photo, nil }}
	f, c := newFake(t, sse(text("Stop."), end("stop"), done))
	if _, _, _, err := ask(t.Context(), mustModel(t, c), request); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%v", items) != before {
		t.Error("the request's items were changed")
	}
	body := f.requests()[0]
	got := fmt.Sprint(body)
	for _, want := range []string{"model:some-model", "max_tokens:200", "include_usage:true", "stream:true", "name:lookup", "name:bare", "running", "shipped", "camera", "0.3 s"} {
		if !strings.Contains(got, want) {
			t.Errorf("the request does not hold %q", want)
		}
	}
	if strings.Contains(got, "no good name") {
		t.Error("a tool is offered whose name is refused")
	}
	messages := body["messages"].([]any)
	if role := messages[0].(map[string]any)["role"]; role != "system" {
		t.Errorf("first message: %v", role)
	}
	for _, m := range messages[1:] {
		if role := m.(map[string]any)["role"]; role == "system" || role == "developer" {
			t.Error("an instruction stands among the messages, which some servers' templates refuse")
		}
	}
	last := messages[len(messages)-1].(map[string]any)
	if n := strings.Count(fmt.Sprint(last), "data:image/jpeg;base64,"); last["role"] != "user" || n != 1 {
		t.Errorf("the last message is the %v's, with %d images", last["role"], n)
	}
	if n := strings.Count(got, "data:image/jpeg;base64,"); n != 2 {
		t.Errorf("%d images", n)
	}
}

// TestRefusalsAreLearnt: a server that refuses a part is asked without it, then and later.
func TestRefusalsAreLearnt(t *testing.T) {
	photo := photo(t)
	request := cascade.Request{At: time.Now(), Items: chatctx.Items{user("look")}, Tools: []switcher.Tool{{Name: "f"}},
		Sights: []switcher.Sight{{Source: "camera", JPEG: photo, CapturedAt: time.Now()}}}
	for name, c := range map[string]struct {
		refusal http.HandlerFunc
		without string
	}{
		"stream_options": {status(400, `{"error":{"message":"Unrecognized request argument: stream_options"}}`), "stream_options"},
		"images":         {status(500, `{"error":{"message":"image input is not supported - hint: you may need to provide the mmproj"}}`), "image_url"},
		"tools":          {status(400, `{"error":{"message":"does not support tools"}}`), "parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			f, cl := newFake(t, c.refusal, sse(text("Ok."), end("stop"), done))
			m := mustModel(t, cl)
			for range 2 {
				if said, _, _, err := ask(t.Context(), m, request); err != nil || said != "Ok." {
					t.Fatalf("%q, %v", said, err)
				}
			}
			all := f.requests()
			if len(all) != 3 {
				t.Fatalf("%d requests, want 3", len(all))
			}
			for i, body := range all {
				if has := strings.Contains(fmt.Sprint(body), c.without); has != (i == 0) {
					t.Errorf("request %d has %s: %t", i, c.without, has)
				}
			}
		})
	}
}

// TestAnAnswerEndsWithItsContext, and with yield; the connection is given up.
func TestAnAnswerEndsWithItsContext(t *testing.T) {
	gone := make(chan struct{}, 2)
	_, c := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		sse(text("One."))(w, r)
		<-r.Context().Done()
		gone <- struct{}{}
	})
	m := mustModel(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Answer(ctx, cascade.Request{Items: chatctx.Items{user("hi")}}, func(cascade.Delta) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	<-gone
	enough := errors.New("enough")
	_, err = m.Answer(t.Context(), cascade.Request{Items: chatctx.Items{user("hi")}}, func(cascade.Delta) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("yield failed: %v", err)
	}
	<-gone
}

// TestRequestsAreLimited: more than are allowed wait, and leave the queue with their contexts.
func TestRequestsAreLimited(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	_, c := newFakeWith(t, Config{Key: testKey, MaxInFlight: 1}, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		sse(text("Ok."), end("stop"))(w, r)
	})
	m := mustModel(t, c)
	first := make(chan error, 1)
	go func() {
		_, _, _, err := ask(context.Background(), m, cascade.Request{Items: chatctx.Items{user("1")}})
		first <- err
	}()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := ask(ctx, m, cascade.Request{Items: chatctx.Items{user("2")}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	go func() { <-arrived }()
	if _, _, _, err := ask(t.Context(), m, cascade.Request{Items: chatctx.Items{user("3")}}); err != nil {
		t.Errorf("the slot is not free again: %v", err)
	}
}
