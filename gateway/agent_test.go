package gateway

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestAttachNeedsALiveSession(t *testing.T) {
	g := startGateway(t, nil)
	for path, want := range map[string]int{"nosuch": 404, "": 400} {
		_, res, err := g.tryDial(path)
		if err == nil || res == nil || res.StatusCode != want {
			t.Errorf("session %q: %v %v, want status %d before the upgrade", path, res, err, want)
		}
	}
	g.createSession("s")
	c := g.dial("s")
	if got := c.conn.Subprotocol(); got != "sightline.agent.v1" {
		t.Errorf("subprotocol %q", got)
	}
}

func TestHelloAndItsRefusals(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	for name, c := range map[string]struct {
		first string
		field string // of the error before the close; "" = no error message
		code  int
	}{
		"not json":        {`hello`, "", 4000},
		"no object":       {`[1]`, "", 4000},
		"other type":      {`{"type":"context.append","op_id":"1"}`, "", 4000},
		"no agent id":     {`{"type":"hello"}`, "agent_id", 4000},
		"bad agent id":    {`{"type":"hello","agent_id":"a b"}`, "agent_id", 4000},
		"the caller's":    {`{"type":"hello","agent_id":"caller"}`, "agent_id", 4000},
		"the gateway's":   {`{"type":"hello","agent_id":"system"}`, "agent_id", 4000},
		"fps 0":           {`{"type":"hello","agent_id":"a","want":{"images":[{"source":"*","fps":0}]}}`, "want.images.fps", 4000},
		"fps huge":        {`{"type":"hello","agent_id":"a","want":{"images":[{"source":"*","fps":1e9}]}}`, "want.images.fps", 4000},
		"width 5000":      {`{"type":"hello","agent_id":"a","want":{"images":[{"source":"*","fps":1,"width":5000}]}}`, "want.images.width", 4000},
		"fit unknown":     {`{"type":"hello","agent_id":"a","want":{"images":[{"source":"*","fps":1,"fit":"fill"}]}}`, "want.images.fit", 4000},
		"audio rate":      {`{"type":"hello","agent_id":"a","want":{"audio":{"in":true,"rate":8000}}}`, "want.audio.rate", 4000},
		"want a string":   {`{"type":"hello","agent_id":"a","want":"all"}`, "want", 4000},
		"resume negative": {`{"type":"hello","agent_id":"a","resume_from":-1}`, "resume_from", 4000},
		"invalid utf-8":   {"{\"type\":\"hello\",\"agent_id\":\"\xff\"}", "", 1007},
	} {
		t.Run(name, func(t *testing.T) {
			s := g.dial("s")
			s.t = t
			s.send(c.first)
			if c.field != "" {
				m := s.expect("error")
				detail, _ := m["detail"].(map[string]any)
				if m["code"] != "invalid_argument" || detail["field"] != c.field {
					t.Errorf("error %v, want invalid_argument for %s", m, c.field)
				}
			}
			if got := s.expectClose(); got != c.code {
				t.Errorf("closed with %d, want %d", got, c.code)
			}
		})
	}
}

func TestWelcomeSnapshotReplayAndAhead(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	a, w := g.attach("s", "a", `"want":{"context":true}`)
	if w["seq"] != 0.0 || w["replayed"] != false || w["snapshot"] == nil || w["session"] != "s" || w["agent_id"] != "a" {
		t.Fatalf("welcome %v", w)
	}
	limits := w["limits"].(map[string]any)
	for _, name := range []string{"max_message_bytes", "max_item_bytes", "max_image_bytes", "ops_per_second", "max_image_fps"} {
		if n, _ := limits[name].(float64); n <= 0 {
			t.Errorf("limit %s is %v", name, limits[name])
		}
	}
	for n := 1; n <= 3; n++ {
		a.send(fmt.Sprintf(`{"type":"context.append","op_id":"op%d","item":{"type":"message","role":"user","content":"m%d"}}`, n, n))
		a.expectAckAndEntry(t, n)
	}
	b, w := g.attach("s", "b", `"resume_from":1,"want":{"context":true}`)
	if w["replayed"] != true || w["snapshot"] != nil || w["seq"] != 3.0 {
		t.Fatalf("welcome with resume_from %v", w)
	}
	for n := 2; n <= 3; n++ {
		if e := b.expect("context.entry"); e["seq"] != float64(n) {
			t.Fatalf("replayed %v, want seq %d", e, n)
		}
	}
	_, w = g.attach("s", "c", `"resume_from":99,"want":{"context":true}`)
	if w["replayed"] != false || len(w["snapshot"].(map[string]any)["items"].([]any)) != 3 {
		t.Fatalf("a client ahead of the log: %v, want a snapshot", w)
	}
	_, w = g.attach("s", "e", `"resume_from":3,"log_id":"another","want":{"context":true}`)
	if w["replayed"] != false || w["snapshot"] == nil {
		t.Fatalf("resume of another log: %v, want a snapshot", w)
	}
	_, w = g.attach("s", "f", fmt.Sprintf(`"resume_from":3,"log_id":%q,"want":{"context":true}`, w["log_id"]))
	if w["replayed"] != true || w["snapshot"] != nil {
		t.Fatalf("resume of the same log: %v, want a replay", w)
	}
	_, w = g.attach("s", "d", `"want":{}`)
	if w["snapshot"] != nil || w["replayed"] != false {
		t.Fatalf("context not wanted: %v", w)
	}
}

// expectAckAndEntry takes both in either order.
func (c *socket) expectAckAndEntry(t *testing.T, seq int) {
	t.Helper()
	seen := map[string]bool{}
	for range 2 {
		m := c.next()
		seen[m["type"].(string)] = true
		if m["seq"] != float64(seq) {
			t.Fatalf("%v, want seq %d", m, seq)
		}
	}
	if !seen["ack"] || !seen["context.entry"] {
		t.Fatalf("got %v", seen)
	}
}

func TestG3ADuplicateOpGetsTheFirstAnswer(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	a, _ := g.attach("s", "a", `"want":{}`)
	b, _ := g.attach("s", "b", `"want":{}`)
	const op = `{"type":"context.append","op_id":"x","item":{"type":"message","role":"user","content":"once"}}`
	a.send(op)
	first := a.expect("ack")
	b.send(op)
	second := b.expect("ack")
	if first["duplicate"] != false || second["duplicate"] != true || first["seq"] != second["seq"] || first["item_id"] != second["item_id"] {
		t.Errorf("first %v, second %v", first, second)
	}
	if _, body, _ := g.do("GET", "/v1/sessions/s/context", ""); strings.Count(string(body), "once") != 1 {
		t.Errorf("context %s", body)
	}
}

func TestBadMessagesGetAnErrorAndChangeNothing(t *testing.T) { // G12
	g := startGateway(t, nil)
	g.createSession("s")
	c, _ := g.attach("s", "a", `"want":{}`)
	for name, m := range map[string]struct{ text, code string }{
		"unknown type":     {`{"type":"fly","op_id":"1"}`, "unknown_type"},
		"no type":          {`{"op_id":"1"}`, "unknown_type"},
		"type a number":    {`{"type":5,"op_id":"1"}`, "unknown_type"},
		"no op id":         {`{"type":"context.append","item":{"type":"message","role":"user","content":"x"}}`, "invalid_argument"},
		"no item":          {`{"type":"context.append","op_id":"1"}`, "invalid_argument"},
		"unknown item":     {`{"type":"context.append","op_id":"1","item":{"type":"poem"}}`, "invalid_argument"},
		"unknown role":     {`{"type":"context.append","op_id":"1","item":{"type":"message","role":"tool","content":"x"}}`, "invalid_argument"},
		"content missing":  {`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user"}}`, "invalid_argument"},
		"no image":         {`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user","content":[{"type":"image","url":"data:image/png;base64,AAAA"}]}}`, "invalid_image"},
		"switch item":      {`{"type":"context.append","op_id":"1","item":{"type":"pipeline_switch","state":"started"}}`, "invalid_argument"},
		"update of none":   {`{"type":"context.update","op_id":"1","item_id":"zz","changes":{"content":"x"}}`, "not_found"},
		"update nothing":   {`{"type":"context.update","op_id":"1","item_id":"zz"}`, "invalid_argument"},
		"update role":      {`{"type":"context.update","op_id":"1","item_id":"zz","changes":{"role":"user"}}`, "invalid_argument"},
		"remove of none":   {`{"type":"context.remove","op_id":"1","item_id":"zz"}`, "not_found"},
		"truncate to 0":    {`{"type":"context.truncate","op_id":"1","max_items":0}`, "invalid_argument"},
		"truncate nothing": {`{"type":"context.truncate","op_id":"1"}`, "invalid_argument"},
		"op id a number":   {`{"type":"context.append","op_id":7,"item":{}}`, "invalid_argument"},
		"image no id":      {`{"type":"image.request"}`, "invalid_argument"},
		"image no source":  {`{"type":"image.request","request_id":"1","source":"camera"}`, "not_found"},
		"image quality":    {`{"type":"image.request","request_id":"1","quality":101}`, "invalid_argument"},
		"want impossible":  {`{"type":"want","want":{"images":[{"source":"*","fps":-1}]}}`, "invalid_argument"},
		"second hello":     {`{"type":"hello","agent_id":"b"}`, "invalid_argument"},
		"handoff to none":  {`{"type":"handoff","op_id":"1"}`, "invalid_argument"},
		"item too large":   {`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user","content":"` + strings.Repeat("x", 300<<10) + `"}}`, "too_large"},
	} {
		c.send(m.text)
		got := c.expect("error")
		if got["code"] != m.code || got["message"] == "" {
			t.Errorf("%s: %v, want %s", name, got, m.code)
		}
		if strings.Contains(m.text, `"op_id":"1"`) && got["op_id"] != "1" || strings.Contains(m.text, `"request_id":"1"`) && got["request_id"] != "1" {
			t.Errorf("%s: the error is not addressed: %v", name, got)
		}
	}
	c.send(`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user","content":"fine"}}`)
	if ack := c.expect("ack"); ack["seq"] != 1.0 || ack["duplicate"] != false {
		t.Errorf("after all the errors: %v, want seq 1 and the op_id still unused", ack)
	}
}

func TestProtocolErrorsCloseOnlyTheirSocket(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	neighbour, _ := g.attach("s", "neighbour", `"want":{}`)
	for name, c := range map[string]struct {
		kind int
		data []byte
		code int
	}{
		"malformed json":    {websocket.TextMessage, []byte(`{"type":"ping"`), 4000},
		"json array":        {websocket.TextMessage, []byte(`["ping"]`), 4000},
		"invalid utf-8":     {websocket.TextMessage, []byte("{\"type\":\"ping\",\"id\":\"\xc3\"}"), 1007},
		"binary too short":  {websocket.BinaryMessage, []byte{0, 0}, 4000},
		"header too long":   {websocket.BinaryMessage, []byte{0xff, 0xff, 0xff, 0xff, '{', '}'}, 4000},
		"header no json":    {websocket.BinaryMessage, []byte{0, 0, 0, 2, 'a', 'b'}, 4000},
		"header no type":    {websocket.BinaryMessage, []byte{0, 0, 0, 2, '{', '}'}, 4000},
		"over the limit":    {websocket.TextMessage, make([]byte, DefaultMaxMessageBytes+1), 1009},
		"a hundred million": {websocket.BinaryMessage, make([]byte, 100<<20), 1009},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := g.attach("s", "a", `"want":{}`)
			s.t = t
			_ = s.conn.WriteMessage(c.kind, c.data) // a huge one may be cut off while it is written
			if got := s.expectClose(); got != c.code {
				t.Errorf("closed with %d, want %d", got, c.code)
			}
		})
	}
	neighbour.send(`{"type":"ping","id":"7"}`)
	if m := neighbour.expect("pong"); m["id"] != "7" {
		t.Errorf("neighbour got %v", m)
	}
}

func TestSameAgentIDReplacesTheOlderSocket(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	old, _ := g.attach("s", "a", `"want":{}`)
	fresh, _ := g.attach("s", "a", `"want":{}`)
	if got := old.expectClose(); got != 4009 {
		t.Errorf("old socket closed with %d, want 4009", got)
	}
	fresh.send(`{"type":"ping","id":"1"}`)
	fresh.expect("pong")
	eventually(t, func() string {
		if _, body, _ := g.do("GET", "/v1/sessions/s", ""); strings.Count(string(body), `"agent_id":"a"`) != 1 {
			return string(body)
		}
		return ""
	})
}

// TestG1ResumeGivesEveryEntryOnce cuts the TCP connection of an agent again and again while another writes.
func TestG1ResumeGivesEveryEntryOnce(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.OpsPerSecond = 10000 })
	g.createSession("s")
	const entries = 400
	var writer sync.WaitGroup
	w, _ := g.attach("s", "writer", `"want":{}`)
	writer.Go(func() {
		for n := 1; n <= entries; n++ {
			w.send(fmt.Sprintf(`{"type":"context.append","op_id":"op%d","item":{"type":"message","role":"user","content":"%d"}}`, n, n))
			w.expect("ack")
		}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	last := 0
	for last < entries {
		r, _ := g.attach("s", "reader", fmt.Sprintf(`"resume_from":%d,"want":{"context":true}`, last))
		for stop := last + 1 + rng.IntN(60); last < min(stop, entries); {
			e := r.expect("context.entry")
			if e["seq"] != float64(last+1) {
				t.Fatalf("got seq %v after %d", e["seq"], last)
			}
			last++
		}
		_ = r.conn.NetConn().Close() // no close frame: the network is gone
	}
	writer.Wait()
}

func TestRateLimitAnswersAndKeepsTheSocket(t *testing.T) {
	g := startGateway(t, func(c *Config) { c.OpsPerSecond = 5 })
	g.createSession("s")
	c, _ := g.attach("s", "a", `"want":{}`)
	limited := 0
	for n := range 50 {
		c.send(fmt.Sprintf(`{"type":"ping","id":"%d"}`, n))
		if m := c.next(); m["type"] == "error" {
			if detail := m["detail"].(map[string]any); m["code"] != "rate_limited" || detail["retry_after_ms"].(float64) <= 0 {
				t.Fatalf("error %v", m)
			}
			limited++
		}
	}
	if limited < 30 || limited > 45 { // 10 are the burst, 5 a second come back
		t.Errorf("%d of 50 messages at once were limited", limited)
	}
	c.send(`{"type":"bye"}`)
	c.expectClose()
}

func TestG13DrainTellsAgentsAndLeavesNothing(t *testing.T) {
	g := startGateway(t, nil)
	var sockets []*socket
	for n := range 5 {
		g.createSession(fmt.Sprintf("s%d", n))
		c, _ := g.attach(fmt.Sprintf("s%d", n), "a", `"want":{"context":true,"images":[{"source":"*","fps":1}]}`)
		sockets = append(sockets, c)
	}
	done := make(chan error, 1)
	go func() { done <- g.stop() }()
	for _, c := range sockets {
		if m := c.expect("bye"); m["reason"] == "" {
			t.Errorf("bye %v", m)
		}
		if got := c.expectClose(); got != 1001 {
			t.Errorf("closed with %d, want 1001", got)
		}
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(testTimeout):
		t.Fatal("Run did not return")
	}
	eventually(t, leaked)
}

func TestAppendAfterAnItem(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	c, _ := g.attach("s", "a", `"want":{"context":true}`)
	for n, m := range []string{
		`"op_id":"1","item":{"type":"message","id":"first","role":"user","content":"1"}`,
		`"op_id":"2","item":{"type":"message","id":"last","role":"user","content":"2"}`,
		`"op_id":"3","after_item_id":"first","base_seq":2,"item":{"type":"message","id":"between","role":"user","content":"3"}`,
	} {
		c.send(`{"type":"context.append",` + m + `}`)
		c.expectAckAndEntry(t, n+1)
	}
	c.send(`{"type":"context.append","op_id":"4","after_item_id":"nobody","item":{"type":"message","role":"user","content":"4"}}`)
	if m := c.expect("error"); m["code"] != "not_found" {
		t.Errorf("after an unknown item: %v", m)
	}
	_, body, _ := g.do("GET", "/v1/sessions/s/context", "")
	if first, between, last := strings.Index(string(body), `"first"`), strings.Index(string(body), `"between"`), strings.Index(string(body), `"last"`); !(first < between && between < last) {
		t.Errorf("order: %s", body)
	}
}

func TestASummaryTakesThePlaceOfWhatItStandsFor(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("s")
	c, _ := g.attach("s", "a", `"want":{"context":true}`)
	for i, id := range []string{"m1", "m2", "m3"} {
		c.send(`{"type":"context.append","op_id":"` + id + `","item":{"type":"message","id":"` + id + `","role":"user","content":"x"}}`)
		c.expectAckAndEntry(t, i+1)
	}
	c.send(`{"type":"context.append","op_id":"s1","base_seq":3,"after_item_id":"m2","remove":["m1","m2"],"item":{"type":"summary","id":"s1","text":"x twice","covers":[1,2]}}`)
	c.expectAckAndEntry(t, 4)
	c.send(`{"type":"context.truncate","op_id":"t1","remove":["m3","m9"]}`)
	if e := c.expect("error"); e["code"] != "not_found" {
		t.Errorf("removing what is not there: %v", e)
	}
	c.send(`{"type":"context.truncate","op_id":"t2","remove":["m3"],"base_seq":4}`)
	c.expectAckAndEntry(t, 5)
	_, body, _ := g.do("GET", "/v1/sessions/s/context", "")
	if !strings.Contains(string(body), `"context":[{"type":"summary","id":"s1"`) || strings.Contains(string(body), `"m3"`) {
		t.Errorf("conversation %s", body)
	}
}
