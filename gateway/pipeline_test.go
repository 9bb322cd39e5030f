package gateway

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/wire"
)

// legSocket is an agent that is a leg: a socket whose messages are read by one goroutine, so that tests can wait for some and
// look at others later.
type legSocket struct {
	*socket
	mu   sync.Mutex
	got  []map[string]any
	more chan struct{}
}

func (g *gatewayUnderTest) leg(session, agentID, want string) *legSocket {
	g.t.Helper()
	c, welcome := g.attach(session, agentID, `"want":`+want)
	l := &legSocket{socket: c, more: make(chan struct{}, 1), got: []map[string]any{welcome}}
	_ = c.conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(l.more)
		for {
			kind, data, err := c.conn.ReadMessage()
			if err != nil {
				return
			}
			if kind == websocket.BinaryMessage {
				if _, data, _, err = wire.DecodeBinary(data); err != nil {
					return
				}
			}
			var m map[string]any
			if json.Unmarshal(data, &m) != nil {
				return
			}
			l.mu.Lock()
			if n := len(l.got); m["type"] != "audio" || n == 0 || l.got[n-1]["type"] != "audio" { // of sound, one is enough
				l.got = append(l.got, m)
			}
			l.mu.Unlock()
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}()
	return l
}

// find waits for a message of the type that fits, and takes it and nothing else from the list.
func (l *legSocket) find(kind string, fits func(m map[string]any) bool) map[string]any {
	l.t.Helper()
	deadline := time.After(testTimeout)
	for {
		l.mu.Lock()
		for i, m := range l.got {
			if m["type"] == kind && (fits == nil || fits(m)) {
				l.got = append(l.got[:i], l.got[i+1:]...)
				l.mu.Unlock()
				return m
			}
		}
		all, _ := json.Marshal(l.got)
		l.mu.Unlock()
		select {
		case <-deadline:
			l.t.Fatalf("no %s came; there is %s", kind, all)
		case _, open := <-l.more:
			if !open {
				l.t.Fatalf("the socket closed before a %s came; there is %s", kind, all)
			}
		}
	}
}

// all is how many messages of the type have come and were not found.
func (l *legSocket) all(kind string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		if m["type"] == kind {
			n++
		}
	}
	return n
}

func (l *legSocket) sendf(format string, args ...any) {
	l.t.Helper()
	l.send(fmt.Sprintf(format, args...))
}

func (l *legSocket) register(name, kind string) {
	l.t.Helper()
	l.sendf(`{"type":"leg.register","op_id":"register-%s","name":%q,"kind":%q,"out_rate":-1,"in_rate":-1}`, name, name, kind)
	l.find("ack", byOp("register-"+name))
}

func byOp(id string) func(map[string]any) bool {
	return func(m map[string]any) bool { return m["op_id"] == id }
}

// commits answers leg.start with leg.ready and gives the epoch that is committed.
func (l *legSocket) commits() (epoch int, start, commit map[string]any) {
	l.t.Helper()
	start = l.find("leg.start", nil)
	epoch = int(start["epoch"].(float64))
	l.sendf(`{"type":"leg.ready","epoch":%d}`, epoch)
	return epoch, start, l.find("leg.commit", nil)
}

func itemText(entry map[string]any) string {
	item, _ := entry["item"].(map[string]any)
	content, _ := item["content"].([]any)
	var texts []string
	for _, p := range content {
		part, _ := p.(map[string]any)
		if text, ok := part["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "|")
}

func entryOf(kind string) func(map[string]any) bool {
	return func(m map[string]any) bool {
		item, _ := m["item"].(map[string]any)
		return item["type"] == kind
	}
}

func said(role, text string) func(map[string]any) bool {
	return func(m map[string]any) bool {
		item, _ := m["item"].(map[string]any)
		return item["role"] == role && itemText(m) == text
	}
}

func TestARemoteLegAnswersWhatIsTyped(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	g.do("POST", "/v1/sessions/demo/context", `{"op_id":"before","item":{"type":"message","role":"user","content":"my order is 4711"}}`)
	leg := g.leg("demo", "runtime", `{"context":true,"transcripts":true}`)
	leg.register("mine", "realtime")

	answer := make(chan string, 1)
	go func() {
		status, body, _ := g.do("POST", "/v1/sessions/demo/pipeline", `{"op_id":"switch-1","target":"realtime"}`)
		answer <- fmt.Sprint(status, " ", string(body))
	}()
	epoch, start, commit := leg.commits()
	if seed, _ := json.Marshal(start["seed"]); !strings.Contains(string(seed), "my order is 4711") {
		t.Errorf("the seed does not tell what was said: %s", seed)
	}
	if commit["respond"] != true {
		t.Errorf("commit %v: the caller waits for an answer", commit)
	}
	got := <-answer
	if !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"to":"mine"`) || !strings.Contains(got, `"mode":"realtime"`) || !strings.Contains(got, `"noop":false`) {
		t.Errorf("POST pipeline: %s", got)
	}
	leg.find("pipeline.committed", byOp("switch-1"))
	leg.find("context.entry", func(m map[string]any) bool {
		item, _ := m["item"].(map[string]any)
		return item["type"] == "pipeline_switch" && item["state"] == "committed"
	})

	leg.sendf(`{"type":"leg.text","epoch":%d,"item_id":"turn-1","delta":"It is "}`, epoch)
	leg.sendf(`{"type":"leg.text","epoch":%d,"item_id":"turn-1","delta":"on its way."}`, epoch)
	leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"turn-1","status":"completed"}`, epoch)
	entry := leg.find("context.entry", said("assistant", "It is on its way."))
	if entry["author"] != "leg:mine" || int(entry["epoch"].(float64)) != epoch || entry["item"].(map[string]any)["id"] != "turn-1" {
		t.Errorf("entry %v", entry)
	}

	leg.send(`{"type":"context.append","op_id":"typed","item":{"type":"message","id":"typed-1","role":"user","content":"and now?"}}`)
	asked := leg.find("leg.respond", nil)
	if asked["item"].(map[string]any)["id"] != "typed-1" {
		t.Errorf("leg.respond %v", asked)
	}

	status, body, _ := g.do("GET", "/v1/sessions/demo", "")
	if status != 200 || !strings.Contains(string(body), `"active_leg":"mine"`) || !strings.Contains(string(body), fmt.Sprintf(`"epoch":%d`, epoch)) {
		t.Errorf("session: %d %s", status, body)
	}
}

func TestSwitchesThatDoNotComeAboutLeaveTheOldLeg(t *testing.T) { // G6, G7
	g := startGateway(t, nil)
	g.createSession("demo")
	a, b := g.leg("demo", "a", `{"context":true}`), g.leg("demo", "b", `{}`)
	a.register("one", "cascade")
	b.register("two", "realtime")
	a.send(`{"type":"pipeline.switch","op_id":"s1","target":"one"}`)
	a.find("ack", byOp("s1"))
	epoch, _, _ := a.commits()
	a.find("pipeline.committed", byOp("s1"))

	post := func(body string) (int, string) {
		status, data, header := g.do("POST", "/v1/sessions/demo/pipeline", body)
		if status == 200 {
			return status, string(data)
		}
		code, _ := problemOf(t, header, data)
		return status, code
	}
	if status, code := post(`{"op_id":"s2","target":"nobody"}`); status != 404 || code != "not_found" {
		t.Errorf("unknown target: %d %s", status, code)
	}
	if status, body := post(`{"op_id":"s3","target":"cascade"}`); status != 200 || !strings.Contains(body, `"noop":true`) {
		t.Errorf("to what is active: %d %s", status, body)
	}
	for _, bad := range []string{`{"target":"two"}`, `{"op_id":"x","target":""}`, `{"op_id":"x","target":"two","at":"soon"}`, `{"op_id":"x","target":"two","max_wait_ms":-1}`, `{"op_id":"x","target":"two","prepare_timeout_ms":0}`} {
		if status, code := post(bad); status != 400 || code != "invalid_argument" {
			t.Errorf("%s: %d %s", bad, status, code)
		}
	}

	// A leg that fails, and one that is not ready in time.
	failing := make(chan string, 1)
	go func() {
		status, code := post(`{"op_id":"s4","target":"two"}`)
		failing <- fmt.Sprint(status, " ", code)
	}()
	start := b.find("leg.start", nil)
	if status, code := post(`{"op_id":"s5","target":"nobody"}`); status != 404 {
		t.Errorf("unknown target while one prepares: %d %s", status, code)
	}
	b.sendf(`{"type":"leg.failed","epoch":%d,"code":"no_model","message":"no model today"}`, int(start["epoch"].(float64)))
	if got := <-failing; got != "502 leg_failed" {
		t.Errorf("a leg that fails: %s", got)
	}
	aborted := a.find("pipeline.aborted", byOp("s4"))
	if !strings.Contains(fmt.Sprint(aborted["message"]), "no model today") {
		t.Errorf("aborted %v: the leg's own reason is missing", aborted)
	}
	go func() {
		status, code := post(`{"op_id":"s6","target":"two","prepare_timeout_ms":150}`)
		failing <- fmt.Sprint(status, " ", code)
	}()
	late := b.find("leg.start", nil)
	if got := <-failing; got != "504 prepare_timeout" {
		t.Errorf("a leg that is not ready: %s", got)
	}
	b.find("leg.stop", func(m map[string]any) bool { return m["reason"] == "aborted" && m["epoch"] == late["epoch"] })
	b.sendf(`{"type":"leg.ready","epoch":%d}`, int(late["epoch"].(float64))) // too late: nothing happens

	// The old leg has the floor all along.
	a.sendf(`{"type":"leg.text","epoch":%d,"item_id":"t1","delta":"Still me."}`, epoch)
	a.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"t1","status":"completed"}`, epoch)
	a.find("context.entry", said("assistant", "Still me."))
}

func TestG5LateWordsOfAnOldLegAreDropped(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	a, b := g.leg("demo", "a", `{"context":true}`), g.leg("demo", "b", `{}`)
	a.register("one", "cascade")
	b.register("two", "realtime")
	a.send(`{"type":"pipeline.switch","op_id":"s1","target":"one"}`)
	old, _, _ := a.commits()
	a.send(`{"type":"pipeline.switch","op_id":"s2","target":"two","at":"now"}`)
	epoch, _, _ := b.commits()
	a.find("leg.stop", func(m map[string]any) bool { return m["reason"] == "superseded" })
	a.sendf(`{"type":"leg.text","epoch":%d,"item_id":"late","delta":"Too late."}`, old)
	a.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"late","status":"completed"}`, old)
	b.sendf(`{"type":"leg.text","epoch":%d,"item_id":"new","delta":"In time."}`, epoch)
	b.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"new","status":"completed"}`, epoch)
	a.find("context.entry", said("assistant", "In time."))
	a.send(`{"type":"ping","id":"all read"}`)
	a.find("pong", nil)
	_, body, _ := g.do("GET", "/v1/sessions/demo/context", "")
	if strings.Contains(string(body), "Too late") {
		t.Errorf("the old leg's words are in the conversation: %s", body)
	}
}

func TestAHandoffGoesWithASwitch(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	leg := g.leg("demo", "a", `{"context":true}`)
	leg.register("one", "cascade")
	body := `{"op_id":"s1","target":"one","handoff":{"to_agent":"expert","reason":"asked for a person"}}`
	first := make(chan string, 1)
	go func() {
		_, data, _ := g.do("POST", "/v1/sessions/demo/pipeline", body)
		first <- string(data)
	}()
	leg.commits()
	handoff := leg.find("context.entry", entryOf("handoff"))
	committed := leg.find("context.entry", func(m map[string]any) bool {
		item, _ := m["item"].(map[string]any)
		return item["state"] == "committed"
	})
	item := handoff["item"].(map[string]any)
	if handoff["seq"].(float64)+1 != committed["seq"].(float64) || item["to_agent"] != "expert" || item["from_agent"] != "http" {
		t.Errorf("handoff %v, committed %v", handoff, committed)
	}
	answer := <-first
	if _, again, _ := g.do("POST", "/v1/sessions/demo/pipeline", body); string(again) != answer { // G3
		t.Errorf("the same op_id again: %s, first %s", again, answer)
	}
	if _, data, _ := g.do("POST", "/v1/sessions/demo/pipeline", `{"op_id":"s2","target":"one","handoff":{}}`); !strings.Contains(string(data), "handoff.to_agent") {
		t.Errorf("a handoff to nobody: %s", data)
	}
}

func TestG4ToolsBelongToTheSession(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	a, b := g.leg("demo", "a", `{"context":true}`), g.leg("demo", "b", `{}`)
	hands := g.leg("demo", "hands", `{}`)
	a.register("one", "cascade")
	b.register("two", "realtime")
	hands.send(`{"type":"tools.set","op_id":"t","tools":[{"name":"lookup","description":"finds","parameters":{"type":"object"}}]}`)
	hands.find("ack", byOp("t"))
	a.send(`{"type":"pipeline.switch","op_id":"s1","target":"one"}`)
	epoch, start, _ := a.commits()
	if tools, _ := json.Marshal(start["tools"]); !strings.Contains(string(tools), `"name":"lookup"`) {
		t.Errorf("the leg is offered %s", tools)
	}

	a.sendf(`{"type":"leg.tool_call","epoch":%d,"call_id":"call-1","name":"lookup","arguments":"{}"}`, epoch)
	call := hands.find("tool.call", nil)
	if call["call_id"] != "call-1" || call["deadline_ms"].(float64) < 1000 {
		t.Errorf("tool.call %v", call)
	}
	// The floor changes while the tool runs: it runs once, is recorded once, and the new leg is told.
	a.send(`{"type":"pipeline.switch","op_id":"s2","target":"two","at":"now"}`)
	after, _, _ := b.commits()
	hands.send(`{"type":"tool.result","op_id":"r1","call_id":"call-1","output":"found it"}`)
	hands.find("ack", byOp("r1"))
	result := b.find("leg.tool_result", nil)
	if result["call_id"] != "call-1" || result["output"] != "found it" || int(result["epoch"].(float64)) != after {
		t.Errorf("leg.tool_result %v", result)
	}
	a.find("context.entry", entryOf("function_call"))
	a.find("context.entry", entryOf("function_call_output"))
	hands.send(`{"type":"tool.result","call_id":"call-1","output":"again"}`)
	if e := hands.find("error", byOp("call-1")); e["code"] != "conflict" {
		t.Errorf("a second result: %v", e)
	}
	hands.send(`{"type":"tool.result","call_id":"call-9","output":"?"}`)
	if e := hands.find("error", byOp("call-9")); e["code"] != "not_found" {
		t.Errorf("a result of nothing: %v", e)
	}
	if n := hands.all("tool.call"); n != 0 {
		t.Errorf("the tool was called %d times more", n)
	}
}

func TestBadPipelineMessagesAreRefusedAndChangeNothing(t *testing.T) { // G12
	g := startGateway(t, nil)
	g.createSession("demo")
	c, _ := g.attach("demo", "a", `"want":{}`)
	for _, test := range []struct{ message, code, field string }{
		{`{"type":"tools.set","tools":[{"name":"no spaces"}]}`, "invalid_argument", "tools.name"},
		{`{"type":"tools.set","tools":[{"name":"x","parameters":[1]}]}`, "invalid_argument", "tools.parameters"},
		{`{"type":"tools.set","tools":7}`, "invalid_argument", "tools"},
		{`{"type":"tool.result","output":"x"}`, "invalid_argument", "call_id"},
		{`{"type":"tool.result","call_id":"c","output":{"a":1}}`, "invalid_argument", "output"},
		{`{"type":"pipeline.switch","target":"cascade"}`, "invalid_argument", "op_id"},
		{`{"type":"pipeline.switch","op_id":"o","target":"cascade"}`, "not_found", ""},
		{`{"type":"leg.register","op_id":"o","name":"a b","kind":"cascade"}`, "invalid_argument", "name"},
		{`{"type":"leg.register","op_id":"o","name":"cascade","kind":"cascade"}`, "invalid_argument", "name"},
		{`{"type":"leg.register","op_id":"o","name":"x","kind":"choir"}`, "invalid_argument", "kind"},
		{`{"type":"leg.register","op_id":"o","name":"x","kind":"cascade","in_rate":8000}`, "invalid_argument", "in_rate"},
		{`{"type":"leg.register","op_id":"o","name":"x","kind":"cascade","out_rate":96000}`, "invalid_argument", "out_rate"},
		{`{"type":"leg.register","op_id":"o","name":"x","kind":"cascade","seed":"grass"}`, "invalid_argument", "seed"},
		{`{"type":"leg.register","name":"x","kind":"cascade"}`, "invalid_argument", "op_id"},
		{`{"type":"leg.text","epoch":1,"item_id":"","delta":"x"}`, "invalid_argument", "item_id"},
		{`{"type":"leg.transcript","epoch":1,"item_id":"i","who":"nobody","text":"x"}`, "invalid_argument", "who"},
		{`{"type":"leg.turn_done","epoch":1,"item_id":"i","status":"finished"}`, "invalid_argument", "status"},
		{`{"type":"leg.dance"}`, "unknown_type", "type"},
		{`{"type":"say","op_id":"o"}`, "invalid_argument", "text"},
		{`{"type":"say","text":"hello"}`, "invalid_argument", "op_id"},
	} {
		c.send(test.message)
		m := c.expect("error")
		detail, _ := m["detail"].(map[string]any)
		if m["code"] != test.code || test.field != "" && detail["field"] != test.field {
			t.Errorf("%s: %v, want %s of %s", test.message, m, test.code, test.field)
		}
	}
	for _, test := range []struct {
		header  string
		payload []byte
		code    string
	}{
		{`{"type":"audio","epoch":1,"item_id":"i","rate":24000,"format":"mp3"}`, []byte{0, 0}, "invalid_argument"},
		{`{"type":"audio","epoch":1,"item_id":"i","rate":1,"format":"pcm_s16le"}`, []byte{0, 0}, "invalid_argument"},
		{`{"type":"audio","epoch":1,"item_id":"i","rate":24000,"format":"pcm_s16le"}`, []byte{0}, "invalid_argument"},
		{`{"type":"say","op_id":"o","rate":8000,"format":"pcm_s16le"}`, make([]byte, 2*8000*61), "too_large"},
		{`{"type":"image"}`, nil, "unknown_type"},
	} {
		message := binary.BigEndian.AppendUint32(nil, uint32(len(test.header)))
		message = append(append(message, test.header...), test.payload...)
		if err := c.conn.WriteMessage(websocket.BinaryMessage, message); err != nil {
			t.Fatal(err)
		}
		if m := c.expect("error"); m["code"] != test.code {
			t.Errorf("%s: %v, want %s", test.header, m, test.code)
		}
	}
	_, body, _ := g.do("GET", "/v1/sessions/demo", "")
	if !strings.Contains(string(body), `"seq":0`) {
		t.Errorf("something was written: %s", body)
	}
}

func TestALegThatLeavesIsDead(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	a, b := g.leg("demo", "a", `{}`), g.leg("demo", "b", `{}`)
	a.register("one", "cascade")
	b.register("two", "realtime")
	b.send(`{"type":"pipeline.switch","op_id":"s1","target":"one"}`)
	a.commits()
	b.find("pipeline.committed", byOp("s1"))
	a.send(`{"type":"bye"}`)
	epoch, start, _ := b.commits()
	if start["reason"] != "failover" {
		t.Errorf("leg.start %v, want reason failover", start)
	}
	m := b.find("pipeline.committed", func(m map[string]any) bool { return m["reason"] == "failover" })
	if m["to"] != "two" || int(m["epoch"].(float64)) != epoch {
		t.Errorf("pipeline.committed %v", m)
	}
}
