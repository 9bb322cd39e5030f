package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	chatctx "sightline/context"
)

func read(t *testing.T, input string, o Options) (chatctx.Items, Report) {
	t.Helper()
	items, report, err := Read(Bytes([]byte(input)), o)
	if err != nil {
		t.Fatal(err)
	}
	return items, report
}

func TestErrorsNameLineColumnAndField(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		o     Options
		want  string
	}{
		"cut off":           {"[\n{\"role\":\"user\",\"content\":\"a\"},\n{\"role\":\"us", Options{}, "3:12: [1]: the input ends in the middle of a value"},
		"cut off list":      {"[\n{\"role\":\"user\",\"content\":\"a\"}", Options{}, "2:30: the input ends in the middle"},
		"no comma":          {"[{\"role\":\"user\",\"content\":\"a\"}\n {\"role\":\"user\"}]", Options{}, "2:2: [1]: no JSON here: expected comma"},
		"bad line":          {"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":'user'}\n", Options{}, "2:9: role: no JSON here: invalid character '\\''"},
		"trailing brace":    {"[{\"role\":\"user\",\"content\":\"a\"}]\n}", Options{}, "2:1: no JSON here"},
		"role of a number":  {"[{\"role\":\"user\",\"content\":\"a\"},\n {\"role\": \"user\", \"content\":\n  7}]", Options{Format: OpenAI}, "3:3: [1].content: content must be a string or a list of parts, got a number"},
		"no role":           {"[{\"role\":\"user\",\"content\":\"a\"},\n{\"content\":\"b\"}]", Options{}, "2:1: [1].role: a message needs a role"},
		"part":              {"{\"messages\":[{\"role\":\"user\",\"content\":[\n{\"type\":\"image_url\",\"image_url\":{\"url\":7}}]}]}", Options{}, "2:40: messages[0].content[0].image_url.url: url must be a string, got a number"},
		"arguments list":    {"[{\"role\":\"assistant\",\"tool_calls\":{\"id\":1}}]", Options{Format: OpenAI}, "1:35: [0].tool_calls: tool_calls must be a list, got an object"},
		"element":           {"[{\"role\":\"user\",\"content\":\"a\"},\n  7]", Options{}, "2:3: [1]: an element must be an object, got a number"},
		"scalar":            {"[1]", Options{}, "1:2: [0]: an element must be an object, got a number"},
		"not JSON by force": {"hello", Options{Format: OpenAI}, "1:1: no JSON here"},
		"unknown item":      {"{\"seq\":1,\"items\":[{\"type\":\"message\",\"id\":\"a\",\"role\":\"user\",\"content\":\"x\"},\n{\"type\":\"poem\",\"id\":\"b\"}]}", Options{}, `2:9: items[1].type: unknown item type "poem"`},
		"item's role":       {"[{\"type\":\"message\",\"id\":\"a\",\"role\":\"king\",\"content\":\"x\"}]", Options{Format: Items}, `1:36: [0].role: role "king"`},
		"item's image":      {"[{\"type\":\"message\",\"id\":\"a\",\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"ftp://x\",\"detail\":\"auto\"}]}]", Options{}, "content.url"},
		"handoff":           {"[{\"type\":\"handoff\",\"id\":\"a\"}]", Options{}, "to_agent"},
		"entries":           {"{\"seq\":2,\"op\":\"append\",\"item\":{\"type\":\"message\",\"id\":\"a\",\"role\":\"user\",\"content\":\"x\"}}\n{\"seq\":2,\"op\":\"remove\",\"item_id\":\"a\"}", Options{}, "2:8: seq: entry 2 follows entry 2"},
		"entry's op":        {"{\"seq\":1,\"op\":\"sing\"}", Options{}, `1:15: op: unknown op "sing"`},
		"empty":             {" \n", Options{}, "1:1: the input is empty"},
		"nothing":           {"{\"a\":1}", Options{}, "1:1: no conversation here"},
		"no speaker":        {"just some words\nand more\n", Options{}, `1:1: no conversation here: it is no JSON`},
		"two":               {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[]}", Options{}, "2:1: 2 conversations are here: choose one"},
		"third of two":      {"{\"messages\":[]}\n{\"messages\":[]}", Options{Conversation: 3}, "there is no conversation 3: choose 1 to 2"},
		"mixed":             {"{\"role\":\"user\",\"content\":\"a\"}\n{\"messages\":[]}", Options{}, "2:1: a whole conversation among single elements"},
		"gzip":              {"\x1f\x8b\x08\x00", Options{}, "1:1: this is gzip"},
		"UTF-16":            {"\xff\xfe[\x00", Options{}, "1:1: this is UTF-16"},
		"big element":       {"[{\"role\":\"user\",\"content\":\"" + strings.Repeat("a", 5000) + "\"}]", Options{MaxElement: 1000}, "more than 1000 bytes"},
		"big line":          {"User: " + strings.Repeat("a", 5000), Options{MaxElement: 1000}, "a line of more than 1000 bytes"},
		"own ancestor":      {`{"mapping":{"a":{"id":"a","parent":"b","message":null},"b":{"id":"b","parent":"a","message":null}},"current_node":"a"}`, Options{}, "its own ancestor"},
		"deep":              {strings.Repeat("[", 20000), Options{}, "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read(Bytes([]byte(c.input)), c.o)
			var bad *Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	if _, _, err := Read(Bytes([]byte("[]")), Options{Format: "yaml"}); err == nil || !strings.Contains(err.Error(), "allowed are") {
		t.Error(err)
	}
}

// TestTextsThatAreNoText: what JSON and UTF-8 cannot hold is replaced and told, NUL stays.
func TestTextsThatAreNoText(t *testing.T) {
	for name, c := range map[string]struct {
		content, want string
		lost          bool
	}{
		"NUL":             {`a\u0000b`, "a\x00b", false},
		"pair":            {`\ud83d\ude42`, "🙂", false},
		"high surrogate":  {`a\ud83d!`, "a\uFFFD!", true},
		"low surrogate":   {`\ude42`, "\uFFFD", true},
		"two high":        {`\ud83d\ud83d\ude42`, "\uFFFD🙂", true},
		"invalid UTF-8":   {"a\xffb", "a\uFFFDb", true},
		"escapes":         {`\"\\\/\b\f\n\r\té`, "\"\\/\b\f\n\r\té", false},
		"replacement too": {"\uFFFD", "\uFFFD", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{OpenAI, Transport, Anthropic, LiveKit, Responses, Items} {
				kind := ""
				if format == Items {
					kind = `"type":"message",`
				}
				items, report := read(t, `[{`+kind+`"role":"user","content":"`+c.content+`"}]`, Options{Format: format})
				if got := items[0].(*chatctx.Message).Content.Text(); got != c.want {
					t.Errorf("%s: got %q, want %q", format, got, c.want)
				}
				if report.Lossless() == c.lost {
					t.Errorf("%s: notes %v", format, report.Notes)
				}
			}
		})
	}
}

// TestToolsWordsAreNeverTheCallers, in whatever role and shape they come.
func TestToolsWordsAreNeverTheCallers(t *testing.T) {
	for format, inputs := range map[Format][]string{
		OpenAI: {`[{"role":"tool","content":"T"}]`, `[{"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"T"}]}]`,
			`[{"role":"function","name":"f","content":"T"}]`, `[{"role":"tool","tool_call_id":"","content":null}]`},
		Transport: {`[{"role":"user","tool_call_id":"x","content":"T"}]`, `[{"role":"tool","content":"T"}]`, `[{"role":"function","content":"T"}]`,
			`[{"role":"assistant","tool_call_id":"x","content":"T"}]`},
		Responses: {`[{"type":"function_call_output","call_id":"x","output":"T"}]`, `[{"role":"tool","content":"T"}]`},
		Realtime:  {`[{"type":"function_call_output","call_id":"x","output":"T"}]`, `[{"type":"message","role":"tool","content":[{"type":"input_text","text":"T"}]}]`},
		Anthropic: {`[{"role":"user","content":[{"type":"tool_result","content":"T"}]}]`, `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"T"}]}]}]`, `[{"role":"tool","content":"T"}]`},
		Gemini: {`[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"T"}}}]}]`, `[{"role":"function","parts":[{"text":"T"}]}]`,
			`[{"role":"user","parts":[{"function_response":{"name":"f","response":{"a":"T"}}}]}]`},
		LiveKit: {`[{"type":"function_call_output","call_id":"x","output":"T"}]`, `[{"type":"message","role":"tool","content":["T"]}]`},
		Text:    {"Tool: T", "[tool result] f -> T", "Tool result: T"},
		ChatGPT: {`{"mapping":{"a":{"id":"a","message":{"id":"m","author":{"role":"tool","name":"f"},"content":{"content_type":"text","parts":["T"]}}}}}`},
	} {
		for _, input := range inputs {
			items, _ := read(t, input, Options{Format: format})
			if len(items) != 1 || items[0].Kind() != chatctx.KindFunctionCallOutput {
				t.Errorf("%s %s: %v", format, input, items)
			}
		}
	}
}

// TestImagesOfToolsStayOut: an image in a tool's result would come back as the caller's.
func TestImagesOfToolsStayOut(t *testing.T) {
	items, report := read(t, `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"image","source":{"type":"url","url":"https://a/b.png"}}]}]}]`, Options{})
	if out := items[0].(*chatctx.FunctionCallOutput).Output; out != "https://a/b.png" || !report.Lossless() {
		t.Error(out, report.Notes)
	}
}

func TestRolesFromElsewhere(t *testing.T) {
	for role, want := range map[string]chatctx.Role{"user": "user", "model": "assistant", "AI": "assistant", "critic": "user", "System": "system", "": "user"} {
		items, report := read(t, `[{"role":"`+role+`","content":"x","message_id":"a"}]`, Options{Format: Transport})
		if got := items[0].(*chatctx.Message).Role; got != want {
			t.Errorf("%q became %s", role, got)
		}
		if told := len(report.Notes) == 1 && report.Notes[0].Kind == NoteRole; told != (role != "user") {
			t.Errorf("%q: %v", role, report.Notes)
		}
	}
}

func TestIDsAreKeptOrMappedAlwaysTheSame(t *testing.T) {
	input := `[{"role":"user","content":"a","message_id":"good-1"},{"role":"user","content":"b","message_id":"bad id/1"},
		{"role":"user","content":"c","message_id":"good-1"},{"role":"user","content":"d"},{"role":"user","content":"e","message_id":"` + strings.Repeat("x", 99) + `"}]`
	items, report := read(t, input, Options{FillIDs: true})
	again, _ := read(t, input, Options{FillIDs: true})
	seen := map[string]bool{}
	for i, item := range items {
		id := item.ItemID()
		if !chatctx.ValidID(id) || seen[id] || again[i].ItemID() != id {
			t.Errorf("item %d has the id %q", i, id)
		}
		seen[id] = true
	}
	if items[0].ItemID() != "good-1" || items[3].ItemID() != "item_1" {
		t.Error(items[0].ItemID(), items[3].ItemID())
	}
	if len(report.Notes) != 1 || report.Notes[0].Count != 3 || report.Notes[0].Line != 1 {
		t.Error(report.Notes)
	}
}

func TestNotesOfOneKindAreCountedNotRepeated(t *testing.T) {
	var b strings.Builder
	for range 10_000 {
		b.WriteString(`{"role":"user","content":"x","mood":"good"}` + "\n")
	}
	_, report := read(t, b.String(), Options{})
	if len(report.Notes) != 1 || report.Notes[0].Count != 10_000 || report.Notes[0].Line != 1 || report.Notes[0].Field != "mood" {
		t.Error(report.Notes)
	}
}

func TestSignsOfTwoFormatsAreTold(t *testing.T) {
	_, report := read(t, `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b"}}]},
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b"}}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}]`, Options{})
	if report.Format != OpenAI || len(report.Notes) == 0 {
		t.Fatal(report)
	}
	if n := report.Notes[len(report.Notes)-1]; report.Notes[0].Kind != NoteAmbiguous && n.Kind != NoteAmbiguous {
		t.Error(report.Notes)
	}
	_, report = read(t, `[{"role":"user","parts":[{"text":"x"}],"content":"y"}]`, Options{Format: OpenAI})
	if len(report.Notes) == 0 || report.Notes[0].Kind != NoteAmbiguous {
		t.Error("asked for another format than it looks like, and nothing is said:", report.Notes)
	}
}

// TestALogTakesWhatIsImported: every item is one that a log accepts.
func TestALogTakesWhatIsImported(t *testing.T) {
	dumps, _ := filepath.Glob("testdata/dumps/*")
	for _, dump := range dumps {
		data, err := os.ReadFile(dump)
		if err != nil {
			t.Fatal(err)
		}
		items, _, err := Read(Bytes(data), Options{Conversation: 1, FillIDs: true})
		if err != nil {
			t.Fatal(dump, err)
		}
		accepted(t, items)
	}
}

func accepted(t testing.TB, items chatctx.Items) {
	t.Helper()
	log, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		op := chatctx.Op{ID: uuid.NewString(), Kind: chatctx.OpAppend, Item: item}
		if _, err := log.Append(context.Background(), chatctx.Origin{Author: "a", At: time.Unix(1, 0)}, op); err != nil && !strings.Contains(err.Error(), "blob") {
			t.Errorf("%v: %v", item, err)
		}
	}
}

func TestLongTextsAndManyItems(t *testing.T) {
	long := strings.Repeat("word ", 2<<20) // 10 MB
	items, report := read(t, `[{"role":"user","content":"`+long+`"}]`, Options{})
	if items[0].(*chatctx.Message).Content.Text() != long || !report.Lossless() {
		t.Error("a long text has changed")
	}
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `{"type":"function_call","id":"same","call_id":"same","name":"f","arguments":"{}"}`+"\n")
		if i == 0 {
			b.WriteString(`{"type":"function_call_output","id":"same","call_id":"same","name":"f","output":"","is_error":false}` + "\n")
		}
	}
	items, report = read(t, b.String(), Options{})
	if len(items) != 100_001 || report.Items != 100_001 {
		t.Error(len(items), report.Items)
	}
}

// repeated is an input that is made while it is read: head, then one element again and again, then tail.
type repeated struct {
	head, element, tail string
	n                   int64
}

func (r repeated) size() int64 {
	return int64(len(r.head)) + r.n*int64(len(r.element)) + int64(len(r.tail))
}

func (r repeated) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		var from string
		switch inside := at - int64(len(r.head)); {
		case at >= r.size():
			return done, io.EOF
		case inside < 0:
			from = r.head[at:]
		case inside < r.n*int64(len(r.element)):
			from = r.element[inside%int64(len(r.element)):]
		default:
			from = r.tail[inside-r.n*int64(len(r.element)):]
		}
		done += copy(p[done:], from)
	}
	return done, nil
}

// TestMemoryFollowsTheElementNotTheFile: 96 MB of conversation in a list, in lines and in a request body.
func TestMemoryFollowsTheElementNotTheFile(t *testing.T) {
	message := `{"role":"user","content":"` + strings.Repeat("some words ", 400) + `"}`
	n := int64(96<<20) / int64(len(message))
	for name, in := range map[string]repeated{
		"list":  {"[" + message, "," + message, "]", n},
		"lines": {"", message + "\n", "", n},
		"body":  {`{"model":"m","messages":[` + message, "," + message, `],"temperature":1}`, n},
	} {
		t.Run(name, func(t *testing.T) {
			var peak uint64
			count := 0
			_, err := Stream(Input{in, in.size()}, Options{}, func(chatctx.Item, Place) error {
				if count++; count%2000 == 0 {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapInuse)
				}
				return nil
			})
			if err != nil || int64(count) < n {
				t.Fatal(count, err)
			}
			if peak > 48<<20 {
				t.Errorf("%d MB of heap for %d MB of input", peak>>20, in.size()>>20)
			}
		})
	}
}

func TestAnErrorOfTheTakerStopsTheReading(t *testing.T) {
	stop := errors.New("enough")
	n := 0
	_, err := Stream(Bytes([]byte(`[{"role":"user","content":"a"},{"role":"user","content":"b"}]`)), Options{}, func(chatctx.Item, Place) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Error(n, err)
	}
}

func TestLines(t *testing.T) {
	text := "a\nbc\n\nd"
	places := []*Place{{Offset: 6}, {Offset: 0}, {Offset: 3}, {Offset: 5}, {Offset: 7}}
	Lines(Bytes([]byte(text)), places)
	got := map[int64]string{}
	for _, p := range places {
		got[p.Offset] = p.String()
	}
	for off, want := range map[int64]string{0: "1:1", 3: "2:2", 5: "3:1", 6: "4:1", 7: "4:2"} {
		if got[off] != want {
			t.Errorf("byte %d is at %s, want %s", off, got[off], want)
		}
	}
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 5000)
	far := []*Place{{Offset: 100 * 4321}, {Offset: 100*1234 + 50}}
	Lines(Bytes([]byte(long)), far)
	if far[0].String() != "1235:51" || far[1].String() != "4322:1" {
		t.Error(far[0], far[1])
	}
}
