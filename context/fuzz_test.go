package chatctx

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzUnmarshalItem: what is read is written and read again as the same; a refusal is an *Error with bounded texts.
func FuzzUnmarshalItem(f *testing.F) {
	for _, s := range []string{
		`{"type":"message","id":"m1","role":"user","content":"hi"}`,
		`{"type":"message","id":"m1","role":"assistant","content":[{"type":"text","text":"a\u2028<"},{"type":"image","url":"https://x","detail":"low","captured_at":"2026-01-02T03:04:05.678+01:00","width":3,"height":4}],"interrupted":true}`,
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c","output":"x","is_error":true}`,
		`{"type":"config_update","tools":[ {"a": "\ud800"} ]}`,
		`{"type":"summary","text":"t","covers":[1,2]}`,
		`{"type":"pipeline_switch","state":"started","epoch":18446744073709551615}`,
		`{"type":"handoff","to_agent":"b"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := UnmarshalItem(data)
		if err != nil {
			if item != nil {
				t.Fatalf("an item beside the error %v", err)
			}
			checkFuzzError(t, err)
			return
		}
		written := mustJSON(t, item)
		again, err := UnmarshalItem(written)
		if err != nil || item.validate() == nil && !reflect.DeepEqual(again, item) {
			t.Fatalf("%s\nread again: %#v, %v\nwant %#v", written, again, err, item)
		}
		if twice := mustJSON(t, again); !bytes.Equal(twice, written) {
			t.Fatalf("written %s\nthen %s", written, twice)
		}
		if item.validate() != nil {
			return
		}
		if err := checkTexts(item, len(written)); err != nil {
			t.Fatalf("an item of %d bytes is refused for a limit of as many: %v", len(written), err)
		}
		if len(written) > escapeOverhead*itemOverhead && checkTexts(item, len(written)/2) == nil {
			t.Fatalf("an item of %d bytes passes a limit of half", len(written))
		}
	})
}

func checkFuzzError(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok || e.Field == "" || len(e.Field) > 2*maxEcho || len(e.Detail) > 600 || !utf8.ValidString(e.Error()) {
		t.Fatalf("error %T: %v", err, err)
	}
}

// FuzzFromContextMessages: what is read goes out and comes in again as the same list.
func FuzzFromContextMessages(f *testing.F) {
	for _, s := range []string{
		`null`, `[]`, `[{}]`, `[null]`,
		`[{"role":"user","content":"x","message_id":"m","images":["http://a",{"image_url":{"url":"http://b","detail":"low"}}]}]`,
		`[{"role":"assistant","content":"","message_id":"m","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a":1}}}]}]`,
		`[{"role":"tool","content":{"a": [1]},"tool_call_id":"c"},{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments_json":"{}","call_id":"d"}]}]`,
		`[{"role":"assistant","content":"a"},{"role":"assistant","message_id":"z","tool_calls":[{},{}]}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		items, warnings, err := FromContextMessages(data)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		for _, w := range warnings {
			if len(w) > 300 || !strings.HasPrefix(w, "messages[") || !utf8.ValidString(w) {
				t.Fatalf("warning %q", w)
			}
		}
		out := ToContextMessages(items)
		if chat, _, err := NewFromContextMessages(data); err != nil || chat.check() != nil || chat.Len() != len(items) {
			t.Fatalf("as a ChatContext: %v, %v", err, chat.check())
		}
		if len(out) > len(items) || len(items) > len(data) {
			t.Fatalf("%d bytes became %d items and %d messages", len(data), len(items), len(out))
		}
		again, _, err := FromContextMessages(mustJSON(t, out))
		if err != nil {
			t.Fatalf("%s: %v", mustJSON(t, out), err)
		}
		if twice := ToContextMessages(again); !reflect.DeepEqual(twice, out) {
			t.Fatalf("went out as %s\nthen as %s", mustJSON(t, out), mustJSON(t, twice))
		}
	})
}

// FuzzParseDataURL: never more bytes than allowed, and what was taken apart can be put together again.
func FuzzParseDataURL(f *testing.F) {
	for _, s := range []string{
		"data:,", "data:,a%20b", "data:image/png;base64,YQ==", "data:IMAGE/png;charset=x;base64,Y Q", "data:a/b;base64,YQ", "http://x",
		"data:image/webp;base64," + base64.StdEncoding.EncodeToString(webpBytes),
		"data:image/png;base64," + base64.StdEncoding.EncodeToString(pngBytes(f, 2, 2)),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, u string) {
		const limit = 4096
		mime, data, err := ParseDataURL(u, limit)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		if len(data) > limit || len(data) > len(u) || mime == "" || len(mime) > maxMediaType {
			t.Fatalf("%q: %d bytes of type %q", u, len(data), mime)
		}
		mime2, data2, err := ParseDataURL(DataURL(mime, data), len(data))
		if err != nil || mime2 != mime || !bytes.Equal(data2, data) {
			t.Fatalf("%q: %s %q, then %s %q, %v", u, mime, data, mime2, data2, err)
		}
		if len(data) > 0 {
			if _, _, err := ParseDataURL(DataURL(mime, data), len(data)-1); err == nil {
				t.Fatalf("%d bytes pass a limit of one less", len(data))
			}
		}
		info, err := InspectImage(data)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		if info.Width < 1 || info.Height < 1 || info.Width*info.Height > maxImagePixels || !strings.HasPrefix(info.MIME, "image/") {
			t.Fatalf("%+v passed", info)
		}
	})
}
