package gateway

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/gateway/problem"
)

// onePixel is a PNG of one grey pixel.
const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="

func TestFetchContextHistory(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("h")
	session, err := g.Session(t.Context(), "h")
	if err != nil {
		t.Fatal(err)
	}
	for n, item := range []string{
		`{"type":"message","id":"s","role":"system","content":"be kind"}`,
		`{"type":"message","id":"u","role":"user","content":[{"type":"text","text":"look"},{"type":"image","url":"` + onePixel + `"}]}`,
		`{"type":"message","id":"a","role":"assistant","content":"I see"}`,
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`,
		`{"type":"function_call_output","id":"o","call_id":"c","name":"f","output":"done"}`,
		`{"type":"handoff","to_agent":"billing"}`,
	} {
		if status, body, _ := g.do("POST", "/v1/sessions/h/context", `{"op_id":"`+string(rune('a'+n))+`","item":`+item+`}`); status != 200 {
			t.Fatalf("%s: %d %s", item, status, body)
		}
	}
	all, err := session.FetchContextHistory(t.Context(), HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := g.do("GET", "/v1/sessions/h/context?format=transport", "")
	var answer struct{ Context []chatctx.ContextMessage }
	if err := json.Unmarshal(body, &answer); err != nil || !reflect.DeepEqual(answer.Context, all) || len(all) != 4 {
		t.Errorf("over HTTP %+v, %v\nin Go %+v", answer.Context, err, all)
	}
	if all[2].ToolCalls[0].CallID != "c" || all[3].ToolCallID != "c" || !strings.HasPrefix(all[1].Images[0].URL, chatctx.BlobPrefix) {
		t.Errorf("history %+v", all)
	}
	ids := func(o HistoryOptions) string {
		t.Helper()
		history, err := session.FetchContextHistory(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range history {
			ids = append(ids, m.MessageID)
		}
		return strings.Join(ids, " ")
	}
	for _, c := range []struct {
		o    HistoryOptions
		want string
	}{
		{HistoryOptions{LastN: 2}, "a o"},
		{HistoryOptions{ExcludeFunctionCalls: true, LastN: 2}, "u a"},
		{HistoryOptions{ExcludeSystemMessages: true}, "u a o"},
	} {
		if got := ids(c.o); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
	inline, err := session.FetchContextHistory(t.Context(), HistoryOptions{Inline: true})
	if err != nil || inline[1].Images[0].URL != onePixel {
		t.Errorf("inline: %v, %.80s", err, inline[1].Images[0].URL)
	}
	_, err = session.FetchContextHistory(t.Context(), HistoryOptions{LastN: -1})
	var p *problem.Error
	if !errors.As(err, &p) || p.Code != problem.InvalidArgument || p.Field != "last_n" {
		t.Errorf("last_n -1: %v", err)
	}
}
