package gateway

import (
	"bytes"
	"encoding/json"
	"testing"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// FuzzMessages reads bytes as each message that an agent can send, text or binary, up to where the session would be asked. What is wrong is the
// sender's fault and told as such, by a code of the list and never as an internal error; what is an operation can be written down and read again.
func FuzzMessages(f *testing.F) {
	for _, m := range []string{
		`{"type":"hello","agent_id":"a","resume_from":3,"want":{"context":true,"images":[{"source":"*","fps":1,"width":10,"fit":"cover"}],"audio":{"in":true,"rate":24000}}}`,
		`{"type":"context.append","op_id":"o","item":{"type":"message","role":"user","content":["x",{"type":"image_content","image":"data:image/png;base64,AAAA"}]}}`,
		`{"type":"context.append","op_id":"o","item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},"after_item_id":"i","remove":["a"]}`,
		`{"type":"context.update","op_id":"o","item_id":"i","base_seq":18446744073709551615,"changes":{"content":["y"],"extra":{"a":null}}}`,
		`{"type":"context.truncate","op_id":"o","max_items":-1,"max_tokens":1e3}`,
		`{"type":"handoff","op_id":"o","to_agent":"b","reason":"\ud800"}`,
		`{"type":"image.request","request_id":"r","source":"camera","max_age_ms":0,"wait_ms":5000,"quality":0,"format":"png"}`,
		`{"type":"want","images":[{"source":"camera","fps":0.1,"on_change":true,"max_gap_ms":1000}]}`,
		`{"type":"tool.result","call_id":"c","output":"x"}`,
	} {
		f.Add([]byte(m))
	}
	say, err := wire.EncodeBinary(map[string]any{"type": "say", "op_id": "o", "sample_rate": 24000}, make([]byte, 8))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(say)
	f.Add([]byte{0, 0, 0, 2, '{', '}', 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	cfg := Config{}.withDefaults()
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, header, payload, err := wire.DecodeBinary(data); err == nil && 4+len(header)+len(payload) != len(data) {
			t.Fatalf("header of %d and payload of %d bytes out of %d", len(header), len(payload), len(data))
		}
		if _, err := wire.TypeOf(data); err != nil {
			return
		}
		opID, requestID := idsOf(data)
		told := func(err error) {
			if err == nil {
				return
			}
			p := problem.From(err)
			if p.Code.Status() >= 500 || p.Detail == "" {
				t.Fatalf("%s: %q: %v", p.Code, p.Detail, err)
			}
			if _, err := json.Marshal(errorMessage(p, opID, requestID)); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []wire.Type{wire.TypeContextAppend, wire.TypeContextUpdate, wire.TypeContextRemove, wire.TypeContextTruncate, wire.TypeHandoff} {
			op, err := decodeOp(kind, data, "agent")
			told(err)
			if err == nil && op.Item != nil {
				again(t, op.Item)
			}
		}
		var hello wire.Hello
		if err := decode(data, &hello); err == nil {
			told(checkWant(hello.Want, cfg))
		} else {
			told(err)
		}
		var request wire.ImageRequest
		if err := decode(data, &request); err == nil {
			_, err = newImageRequest(request.Source, request.Encode, request.MaxAgeMS, request.WaitMS)
			told(err)
		} else {
			told(err)
		}
		for _, m := range []any{&wire.ToolsSet{}, &wire.ToolResult{}, &wire.PipelineSwitch{}, &wire.Say{}, &wire.LegRegister{}, &wire.LegText{}, &wire.LegTranscript{}, &wire.LegToolCall{}, &wire.LegTurnDone{}, &wire.Ping{}} {
			told(decode(data, m))
		}
	})
}

// again writes an item and reads what was written: it is the same from then on.
func again(t *testing.T, item chatctx.Item) {
	t.Helper()
	once, err := json.Marshal(item)
	if err != nil {
		t.Fatalf("%T: %v", item, err)
	}
	read, err := chatctx.UnmarshalItem(once)
	if err != nil {
		return // what an operation may not hold is refused by the log
	}
	if twice, err := json.Marshal(read); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s is written again as %s, %v", once, twice, err)
	}
}
