package chatctx

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestItemJSON: each kind, full and bare, reads and writes exactly the shape of the protocol, keys in its order.
func TestItemJSON(t *testing.T) {
	at := At(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))
	blob := BlobPrefix + strings.Repeat("ab", 32)
	for _, c := range []struct {
		json string
		item Item
	}{
		{`{"type":"message","id":"m1","role":"user","content":[{"type":"text","text":"hi"}]}`,
			&Message{ID: "m1", Role: RoleUser, Content: TextContent("hi")}},
		{`{"type":"message","id":"m1","role":"developer","content":[]}`,
			&Message{ID: "m1", Role: RoleDeveloper, Content: Content{}}},
		{`{"type":"message","id":"m1","role":"assistant","content":[{"type":"text","text":"a"},{"type":"image","url":"` + blob + `","detail":"high","source":"camera","captured_at":"2026-01-02T03:04:05.678Z","width":640,"height":480},{"type":"image","url":"https://x/y.png","detail":"auto"}],"agent_id":"bill","interrupted":true,"text_generated":"a b"}`,
			&Message{ID: "m1", Role: RoleAssistant, Content: Content{Text{"a"},
				ImageContent{URL: blob, Detail: "high", Source: "camera", CapturedAt: at, Width: 640, Height: 480},
				ImageContent{URL: "https://x/y.png", Detail: "auto"}}, AgentID: "bill", Interrupted: true, TextGenerated: "a b"}},
		{`{"type":"function_call","id":"f1","call_id":"c1","name":"look","arguments":"{\"a\": 1}"}`,
			&FunctionCall{ID: "f1", CallID: "c1", Name: "look", Arguments: `{"a": 1}`}},
		{`{"type":"function_call","id":"f1","call_id":"c1","name":"look","arguments":"","agent_id":"bill"}`,
			&FunctionCall{ID: "f1", CallID: "c1", Name: "look", AgentID: "bill"}},
		{`{"type":"function_call_output","id":"o1","call_id":"c1","name":"look","output":"found","is_error":false}`,
			&FunctionCallOutput{ID: "o1", CallID: "c1", Name: "look", Output: "found"}},
		{`{"type":"function_call_output","id":"o1","call_id":"c1","name":"","output":"","is_error":true}`,
			&FunctionCallOutput{ID: "o1", CallID: "c1", IsError: true}},
		{`{"type":"handoff","id":"h1","from_agent":"a","to_agent":"b","reason":"billing"}`,
			&AgentHandoff{ID: "h1", FromAgent: "a", ToAgent: "b", Reason: "billing"}},
		{`{"type":"handoff","id":"h1","from_agent":"","to_agent":"b","reason":"","summary":"so far"}`,
			&AgentHandoff{ID: "h1", ToAgent: "b", Summary: "so far"}},
		{`{"type":"config_update","id":"u1","instructions":"be brief"}`,
			&ConfigUpdate{ID: "u1", Instructions: "be brief"}},
		{`{"type":"config_update","id":"u1","tools":[{"name":"f","parameters":{}}]}`,
			&ConfigUpdate{ID: "u1", Tools: json.RawMessage(`[{"name":"f","parameters":{}}]`)}},
		{`{"type":"summary","id":"s1","text":"they met","covers":[1,7]}`,
			&Summary{ID: "s1", Text: "they met", Covers: [2]uint64{1, 7}}},
		{`{"type":"pipeline_switch","id":"p1","state":"aborted","from":"cascade","to":"realtime","epoch":2,"reason":"prepare_timeout","op_id":"sw1"}`,
			&PipelineSwitch{ID: "p1", State: "aborted", From: "cascade", To: "realtime", Epoch: 2, Reason: "prepare_timeout", OpID: "sw1"}},
	} {
		t.Run(string(c.item.Kind())+"/"+c.item.ItemID(), func(t *testing.T) {
			if got := string(mustJSON(t, c.item)); got != c.json {
				t.Errorf("written %s\nwant    %s", got, c.json)
			}
			got, err := UnmarshalItem([]byte(c.json))
			if err != nil || !reflect.DeepEqual(got, c.item) {
				t.Errorf("read %#v, %v\nwant %#v", got, err, c.item)
			}
			if err := c.item.validate(); err != nil {
				t.Errorf("not valid: %v", err)
			}
			renamed := c.item.withID("new")
			if renamed.ItemID() != "new" || c.item.ItemID() == "new" || renamed.Kind() != c.item.Kind() {
				t.Errorf("withID: %v of %v", renamed, c.item)
			}
			var items Items
			if err := json.Unmarshal([]byte("["+c.json+"]"), &items); err != nil || !reflect.DeepEqual(items, Items{c.item}) {
				t.Errorf("as a list: %v, %v", items, err)
			}
		})
	}
}

func TestItemJSONLenient(t *testing.T) {
	for input, want := range map[string]Item{
		`{"type":"message","role":"user","content":"hi"}`:                                          &Message{Role: RoleUser, Content: TextContent("hi")},
		`{"type":"message","role":"user","content":""}`:                                            &Message{Role: RoleUser, Content: TextContent("")},
		` {"future":{"x":[1]},"content":[{"type":"text","text":"hi","more":1}],"type":"message"} `: &Message{Content: TextContent("hi")},
		`{"type":"message","content":[{"type":"image","url":"http://x"}]}`:                         &Message{Content: Content{ImageContent{URL: "http://x", Detail: "auto"}}},
		`{"type":"config_update","instructions":"x","tools":null}`:                                 &ConfigUpdate{Instructions: "x"},
		`{"type":"config_update","tools":[ {"a": "<b>"} ]}`:                                        &ConfigUpdate{Tools: json.RawMessage(`[{"a":"\u003cb\u003e"}]`)},
		`{"type":"function_call","call_id":"c","name":null}`:                                       &FunctionCall{CallID: "c"},
	} {
		if got, err := UnmarshalItem([]byte(input)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", input, got, err, want)
		}
	}
	if got := string(mustJSON(t, Items(nil))) + string(mustJSON(t, Content(nil))) + string(mustJSON(t, New().Snapshot())); got != `[][]{"seq":0,"items":[]}` {
		t.Errorf("empty lists are written as %s", got)
	}
}

func TestItemJSONRefusals(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, c := range []struct{ input, field, says string }{
		{`5`, "item.type", "an item is an object"},
		{`null`, "item.type", "an item is an object"},
		{`[]`, "item.type", "an item is an object"},
		{``, "item.type", "an item is an object"},
		{`{"type":"message"`, "item.type", "an item is an object"},
		{`{}`, "item.type", "an item is an object"},
		{`{"type":7}`, "item.type", "an item is an object"},
		{`{"type":"msg"}`, "item.type", `unknown item type "msg": allowed are message, function_call, function_call_output, handoff, config_update, summary, pipeline_switch`},
		{`{"type":"` + long + `"}`, "item.type", "unknown item type"},
		{`{"type":"message","id":7}`, "id", "id must be a string, got a JSON number"},
		{`{"type":"message","role":{}}`, "role", "role must be a string, got a JSON object"},
		{`{"type":"message","interrupted":"yes"}`, "interrupted", "interrupted must be true or false, got a JSON string"},
		{`{"type":"message","content":5}`, "content", "content must be a string or a list of parts"},
		{`{"type":"message","content":null}`, "content", "content must be a string or a list of parts"},
		{`{"type":"message","content":{}}`, "content", "content must be a string or a list of parts"},
		{`{"type":"message","content":["x"]}`, "content.type", `a content part is an object with type "text" or "image"`},
		{`{"type":"message","content":[null]}`, "content.type", `a content part is an object`},
		{`{"type":"message","content":[{"text":"x"}]}`, "content.type", `a content part is an object`},
		{`{"type":"message","content":[{"type":"video"}]}`, "content.type", `unknown content part "video": allowed are "text" and "image"`},
		{`{"type":"message","content":[{"type":"` + long + `"}]}`, "content.type", "unknown content part"},
		{`{"type":"message","content":[{"type":"text","text":5}]}`, "content.text", "content.text must be a string, got a JSON number"},
		{`{"type":"message","content":[{"type":"image","url":5}]}`, "content.url", "content.url must be a string"},
		{`{"type":"message","content":[{"type":"image"}]}`, "content.url", "an image's url is a data: URL, an http(s) URL or sightline:blob/"},
		{`{"type":"message","content":[{"type":"image","url":"sightline:blob/ABC"}]}`, "content.url", "64 lower-case hex digits"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","detail":"` + long + `"}]}`, "content.detail", `allowed are "auto", "low" and "high"`},
		{`{"type":"message","content":[{"type":"image","url":"http://x","width":"1"}]}`, "content.width", "content.width must be a whole number"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","width":1.5}]}`, "content.width", "content.width must be a whole number"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","width":-1}]}`, "content.width", "not negative"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","height":-1}]}`, "content.height", "not negative"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","captured_at":"noon"}]}`, "content.captured_at", "is no RFC 3339 time"},
		{`{"type":"message","content":[{"type":"image","url":"http://x","captured_at":"` + long + `"}]}`, "content.captured_at", "is no RFC 3339 time"},
		{`{"type":"function_call","arguments":{}}`, "arguments", "arguments must be a string, got a JSON object"},
		{`{"type":"function_call_output","is_error":1}`, "is_error", "is_error must be true or false"},
		{`{"type":"handoff","to_agent":[]}`, "to_agent", "to_agent must be a string, got a JSON array"},
		{`{"type":"config_update","instructions":[]}`, "instructions", "must be a string"},
		{`{"type":"summary","covers":7}`, "covers", "covers must be a list"},
		{`{"type":"summary","covers":["a","b"]}`, "covers", "covers must be a whole number"},
		{`{"type":"pipeline_switch","epoch":-1}`, "epoch", "epoch must be a whole number, not negative, got a JSON number -1"},
	} {
		item, err := UnmarshalItem([]byte(c.input))
		if item != nil {
			t.Errorf("%.100s: an item beside an error", c.input)
		}
		wantError(t, err, InvalidArgument, c.field)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.100s: %q does not say %q", c.input, err, c.says)
		}
	}
	var items Items
	wantError(t, json.Unmarshal([]byte(`{}`), &items), InvalidArgument, "items")
	wantError(t, json.Unmarshal([]byte(`[{"type":"x"}]`), &items), InvalidArgument, "item.type")
}

func TestChangesJSON(t *testing.T) {
	var c Changes
	if err := json.Unmarshal([]byte(`{"content":"x","output":"","is_error":false,"interrupted":true,"agent_id":"a"}`), &c); err != nil {
		t.Fatal(err)
	}
	want := Changes{Content: new(TextContent("x")), Output: new(""), IsError: new(false), Interrupted: new(true), AgentID: new("a")}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read %+v", c)
	}
	for input, field := range map[string]string{
		`5`:                          "changes",
		`null`:                       "changes",
		`[]`:                         "changes",
		`{"role":"user"}`:            "changes.role",
		`{"id":"x"}`:                 "changes.id",
		`{"zeta":1,"alpha":1}`:       "changes.alpha", // always the same of several
		`{"output":null}`:            "changes.output",
		`{"content":null}`:           "changes.content",
		`{"output":5}`:               "changes.output",
		`{"is_error":"no"}`:          "changes.is_error",
		`{"interrupted":0}`:          "changes.interrupted",
		`{"agent_id":{}}`:            "changes.agent_id",
		`{"content":7}`:              "changes.content",
		`{"content":[{"type":"x"}]}`: "changes.content.type",
		`{"content":[{"type":"text","text":{}}]}`: "changes.content.text",
	} {
		before := Changes{Output: new("kept")}
		c := before
		wantError(t, json.Unmarshal([]byte(input), &c), InvalidArgument, field)
		if !reflect.DeepEqual(c, before) {
			t.Errorf("%s: a refusal changed the value to %+v", input, c)
		}
	}
}

func TestEntryJSON(t *testing.T) {
	at := At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	for _, c := range []struct {
		json  string
		entry Entry
	}{
		{`{"seq":1,"op_id":"o","author":"caller","at":"2026-01-02T03:04:05.006Z","epoch":0,"op":"append","item":{"type":"summary","id":"s","text":"t","covers":[1,1]}}`,
			Entry{Seq: 1, OpID: "o", Author: "caller", At: at, Op: OpAppend, Item: &Summary{ID: "s", Text: "t", Covers: [2]uint64{1, 1}}}},
		{`{"seq":2,"op_id":"o","author":"leg:x","at":"2026-01-02T03:04:05.006Z","epoch":3,"op":"update","item":{"type":"message","id":"m","role":"user","content":[]},"item_id":"m"}`,
			Entry{Seq: 2, OpID: "o", Author: "leg:x", At: at, Epoch: 3, Op: OpUpdate, ItemID: "m", Item: &Message{ID: "m", Role: RoleUser, Content: Content{}}}},
		{`{"seq":3,"op_id":"o","author":"a","at":"2026-01-02T03:04:05.006Z","epoch":0,"op":"remove","item_id":"m"}`,
			Entry{Seq: 3, OpID: "o", Author: "a", At: at, Op: OpRemove, ItemID: "m"}},
		{`{"seq":4,"op_id":"o","author":"a","at":"2026-01-02T03:04:05.006Z","epoch":0,"op":"truncate","removed":["a","b"]}`,
			Entry{Seq: 4, OpID: "o", Author: "a", At: at, Op: OpTruncate, Removed: []string{"a", "b"}}},
		{`{"seq":5,"op_id":"o","author":"a","at":"2026-01-02T03:04:05.006Z","epoch":0,"op":"append","item":{"type":"summary","id":"s","text":"t","covers":[1,2]},"after_item_id":"b","removed":["a","b"]}`,
			Entry{Seq: 5, OpID: "o", Author: "a", At: at, Op: OpAppend, Item: &Summary{ID: "s", Text: "t", Covers: [2]uint64{1, 2}}, After: "b", Removed: []string{"a", "b"}}},
	} {
		if got := string(mustJSON(t, c.entry)); got != c.json {
			t.Errorf("written %s\nwant    %s", got, c.json)
		}
		var got Entry
		if err := json.Unmarshal([]byte(c.json), &got); err != nil || !reflect.DeepEqual(got, c.entry) {
			t.Errorf("read %+v, %v\nwant %+v", got, err, c.entry)
		}
	}
	var e Entry
	if err := json.Unmarshal([]byte(`{"seq":3,"op":"remove","item":null,"type":"context.entry"}`), &e); err != nil || e.Item != nil {
		t.Errorf("an entry with a null item: %+v, %v", e, err)
	}
	wantError(t, json.Unmarshal([]byte(`{"seq":3,"op":"append","item":{"type":"x"}}`), &e), InvalidArgument, "item.type")
}

func TestTimeJSON(t *testing.T) {
	for input, want := range map[string]string{
		`"2026-01-02T03:04:05.678Z"`:       `"2026-01-02T03:04:05.678Z"`,
		`"2026-01-02T03:04:05Z"`:           `"2026-01-02T03:04:05.000Z"`,
		`"2026-01-02T03:04:05.6789999Z"`:   `"2026-01-02T03:04:05.678Z"`,
		`"2026-01-02T03:04:05.678+02:00"`:  `"2026-01-02T01:04:05.678Z"`,
		`"2026-12-31T23:59:59.9999-00:01"`: `"2027-01-01T00:00:59.999Z"`,
		`"0001-01-01T00:00:00Z"`:           `"0001-01-01T00:00:00.000Z"`,
		`"9999-12-31T23:59:59.999Z"`:       `"9999-12-31T23:59:59.999Z"`,
	} {
		var got Time
		if err := json.Unmarshal([]byte(input), &got); err != nil || string(mustJSON(t, got)) != want {
			t.Errorf("%s: %s, %v; want %s", input, mustJSON(t, got), err, want)
		}
	}
	for _, input := range []string{`"noon"`, `""`, `5`, `{}`, `"2026-01-02"`, `"2026-13-02T03:04:05Z"`, `"0000-12-31T00:00:00Z"`, `"0001-01-01T00:00:00+01:00"`, `"9999-12-31T23:59:59-01:00"`} {
		got := origin.At
		v := Time{got}
		wantError(t, json.Unmarshal([]byte(input), &v), InvalidArgument, "")
		if !v.Equal(got) {
			t.Errorf("%s: a refusal changed the time", input)
		}
	}
	zone := time.FixedZone("x", 3600)
	if got := At(time.Date(2026, 1, 2, 3, 4, 5, 678999999, zone)); string(mustJSON(t, got)) != `"2026-01-02T02:04:05.678Z"` || got != At(got.Time) {
		t.Errorf("At: %s", mustJSON(t, got))
	}
	if now := At(time.Now()); now != At(now.Time) {
		t.Errorf("At keeps the monotonic clock: %v", now)
	}
}

// TestTimesFromTheLog: the entry has the time it was given, in UTC, to the millisecond.
func TestTimesFromTheLog(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	from := Origin{Author: "a", Epoch: 9, At: time.Date(2026, 1, 2, 3, 4, 5, 678999999, time.FixedZone("x", -3600))}
	if _, err := log.Append(t.Context(), from, say("m", RoleUser, "x")); err != nil {
		t.Fatal(err)
	}
	cursor, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := cursor.Next(t.Context())
	if err != nil || e.Author != "a" || e.Epoch != 9 || string(mustJSON(t, e.At)) != `"2026-01-02T04:04:05.678Z"` {
		t.Errorf("entry %+v, %v", e, err)
	}
}

func TestValidID(t *testing.T) {
	for _, id := range []string{"a", "Z", "0", "-", "_", "a-B_9", strings.Repeat("x", 64)} {
		if !ValidID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, id := range []string{"", " ", "a b", "a/b", "a.b", "ä", "a\n", strings.Repeat("x", 65)} {
		if ValidID(id) {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestContentText(t *testing.T) {
	image := ImageContent{URL: "http://x", Detail: "auto"}
	for want, c := range map[string]Content{
		"":     nil,
		"a":    TextContent("a"),
		"a\nb": {Text{"a"}, image, Text{"b"}},
	} {
		if c.Text() != want {
			t.Errorf("%v: %q, want %q", c, c.Text(), want)
		}
	}
	if got := (Content{image}).Text(); got != "" {
		t.Errorf("an image's text is %q", got)
	}
}

// TestItemsAreText: what encoding/json would replace without a word is refused, with the field.
func TestItemsAreText(t *testing.T) {
	for _, c := range []struct{ item, field string }{
		{`{"type":"message","role":"user","content":"\ud83d"}`, "content"},
		{`{"type":"message","role":"user","content":[{"type":"text","text":"a\udE00b"}]}`, "content"},
		{`{"type":"message","role":"user","content":"\ud83d\ud83d\ude42"}`, "content"},
		{`{"type":"message","role":"user","content":"\ud83dA"}`, "content"},
		{"{\"type\":\"message\",\"role\":\"user\",\"content\":\"\xff\"}", "content"},
		{`{"type":"function_call","name":"f","call_id":"c","arguments":"\uDFFF"}`, "arguments"},
		{`{"type":"message","\ud800":1}`, "item"},
	} {
		_, err := UnmarshalItem([]byte(c.item))
		wantError(t, err, InvalidArgument, c.field)
	}
	var changes Changes
	wantError(t, json.Unmarshal([]byte(`{"output":"\ud800"}`), &changes), InvalidArgument, "changes.output")
	for _, text := range []string{`\ud83d\ude42`, `\\ud83d`, `\u0000`, `\\\ud83d\uDE42`, `a\u00e9`, `🙂`, `\uFFFD`} {
		item, err := UnmarshalItem([]byte(`{"type":"message","role":"user","content":"` + text + `"}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var want string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &want); err != nil || item.(*Message).Content[0] != (Text{Text: want}) {
			t.Errorf("%s came to %v, %v", text, item.(*Message).Content, err)
		}
	}
}
