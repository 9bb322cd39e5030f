package realtime

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

func TestAnswerInOrder(t *testing.T) {
	b := newTable(t)
	b.turn("u1", "hello")
	b.says(text("a1", "Good day."), voice("a1", "Good day.", 500), done("a1", switcher.TurnCompleted))
	want := "input_audio_buffer.speech_started input_audio_buffer.speech_stopped input_audio_buffer.committed conversation.item.added conversation.item.done " +
		"conversation.item.input_audio_transcription.completed response.created response.output_item.added conversation.item.added response.content_part.added " +
		"response.output_audio_transcript.delta response.output_audio.delta response.output_audio.delta response.output_audio.done response.output_audio_transcript.done " +
		"response.content_part.done conversation.item.done response.output_item.done response.done"
	if got := strings.Join(b.types(), " "); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	if len(b.session) != 5 {
		t.Errorf("the session was given %d outputs of 5: %v", len(b.session), b.session)
	}
}

func TestG5NothingOfACancelledAnswer(t *testing.T) {
	b := newTable(t)
	b.turn("u1", "hello")
	b.says(text("a1", "Good day to"), voice("a1", "Good day", 500))
	b.session, b.leg = nil, nil
	b.client(`{"type":"response.cancel"}`)
	r := find[*dialect.ResponseDone](b.sent)
	if len(r) != 1 || r[0].Response.Status != "cancelled" || r[0].Response.StatusDetails.Reason != "client_cancelled" || r[0].Response.Output[0].Status != "incomplete" {
		t.Fatalf("response.done %+v", r)
	}
	if in := find[switcher.InterruptedIn](b.leg); len(in) != 1 || in[0].Item != "a1" {
		t.Errorf("the leg was told %v", b.leg)
	}
	b.types()
	b.session = nil
	b.says(text("a1", " you."), voice("a1", "to you", 500), done("a1", switcher.TurnCancelled))
	if got := b.types(); len(got) > 0 || len(b.session) > 0 {
		t.Errorf("after the end: sent %v, recorded %v", got, b.session)
	}
	b.client(`{"type":"response.cancel","event_id":"e"}`)
	if e := find[*dialect.Error](b.sent); len(e) != 1 || e[0].Error.Code != "response_cancel_not_active" || e[0].Error.EventID != "e" {
		t.Errorf("error %+v", e)
	}
}

func TestG5AnAnswerCancelledBeforeItsFirstWord(t *testing.T) {
	b := newTable(t)
	b.client(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}`)
	b.client(`{"type":"response.create"}`)
	b.client(`{"type":"response.cancel"}`)
	b.types()
	b.says(text("a1", "Good day."), done("a1", switcher.TurnCancelled))
	if got := b.types(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
	b.client(`{"type":"response.create"}`)
	b.says(text("a2", "Hello."), done("a2", switcher.TurnCompleted))
	if r := find[*dialect.ResponseDone](b.sent); len(r) != 1 || r[0].Response.Output[0].Text() != "Hello." {
		t.Errorf("the answer after it: %v", r)
	}
}

func TestSpeechInterruptsWhereTheClientWantsIt(t *testing.T) {
	for _, wants := range []bool{true, false} {
		b := newTable(t)
		b.client(fmt.Sprintf(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad","interrupt_response":%v}}}}}`, wants))
		b.turn("u1", "hello")
		b.says(text("a1", "Good day to"))
		b.c.begins(2 * time.Second)
		b.settle()
		r := find[*dialect.ResponseDone](b.sent)
		if wants && (len(r) != 1 || r[0].Response.StatusDetails.Reason != "turn_detected") || !wants && len(r) > 0 {
			t.Errorf("interrupt_response %v: %+v", wants, r)
		}
	}
}

func TestAnAnswerWaitsUntilItIsAskedFor(t *testing.T) {
	b := newTable(t)
	b.client(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad","create_response":false}}}}}`)
	b.turn("u1", "hello")
	b.types()
	b.session = nil
	b.says(text("a1", "Good day."), voice("a1", "Good day.", 100), done("a1", switcher.TurnCompleted))
	if got := b.types(); len(got) > 0 || len(b.session) > 0 {
		t.Fatalf("sent %v, recorded %v before anybody asked", got, b.session)
	}
	b.client(`{"type":"response.create","response":{"metadata":{"k":"v"}}}`)
	r := find[*dialect.ResponseDone](b.sent)
	if len(r) != 1 || r[0].Response.Output[0].Text() != "Good day." || r[0].Response.Metadata["k"] != "v" || len(b.session) != 3 {
		t.Fatalf("response %+v, recorded %v", r, b.session)
	}
	// What nobody asks for before the caller goes on is forgotten.
	b.turn("u2", "and?")
	b.says(text("a2", "Yes?"))
	b.leg, b.session = nil, nil
	b.turn("u3", "hello?")
	if in := find[switcher.InterruptedIn](b.leg); len(in) != 1 || in[0].Item != "a2" {
		t.Errorf("the leg was told %v", b.leg)
	}
	b.says(text("a2", " Well."), done("a2", switcher.TurnCancelled))
	if texts := find[switcher.TextOut](b.session); len(texts) > 0 {
		t.Errorf("recorded %v", texts)
	}
}

func TestG4CallsAreAnsweredOnce(t *testing.T) {
	b := newTable(t)
	b.client(`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}}`)
	b.turn("u1", "go")
	b.says(switcher.ToolCallOut{CallID: "c1", Name: "f", Arguments: `{"a":1}`}, switcher.ToolCallOut{CallID: "c2", Name: "f", Arguments: `{"a":2}`})
	if r := find[*dialect.ResponseDone](b.sent); len(r) > 0 {
		t.Fatal("the answer ended before it was known that no further call comes")
	}
	b.c.now = b.c.now.Add(callsTake)
	b.c.tick()
	b.settle()
	r := find[*dialect.ResponseDone](b.sent)
	if len(r) != 1 || len(r[0].Response.Output) != 2 || len(find[switcher.ToolCallOut](b.session)) != 2 {
		t.Fatalf("response %+v", r)
	}
	b.client(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c1","output":"one"}}`)
	b.client(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c2","output":"two"}}`)
	if len(b.results) > 0 || len(b.ops) > 0 {
		t.Errorf("before response.create: results %v, ops %v", b.results, b.ops)
	}
	b.types()
	b.client(`{"type":"conversation.item.create","event_id":"twice","item":{"type":"function_call_output","call_id":"c1","output":"three"}}`)
	b.client(`{"type":"conversation.item.create","event_id":"none","item":{"type":"function_call_output","call_id":"c9","output":"x"}}`)
	if e := find[*dialect.Error](b.sent); len(e) != 2 || e[0].Error.EventID != "twice" || e[1].Error.EventID != "none" {
		t.Errorf("errors %+v", e)
	}
	b.client(`{"type":"response.create"}`)
	if b.results["c1"] != "one" || b.results["c2"] != "two" || len(find[switcher.FloorIn](b.leg)) > 0 {
		t.Errorf("results %v, the leg was told %v", b.results, b.leg)
	}
	b.says(text("a1", "Done."), done("a1", switcher.TurnCompleted))
	if b.active != "" {
		t.Error("the answer to the results does not end")
	}
}

func TestG8TruncateKeepsWhatWasHeard(t *testing.T) {
	b := newTable(t)
	b.turn("u1", "tell me")
	b.says(text("a1", "One two three four."), voice("a1", "One two ", 1000), voice("a1", "three four.", 1000), done("a1", switcher.TurnCompleted))
	b.types()
	b.client(`{"type":"conversation.item.truncate","item_id":"a1","content_index":0,"audio_end_ms":1000}`)
	if got := b.types(); !slices.Equal(got, []string{"conversation.item.truncated"}) || len(b.ops) > 0 {
		t.Fatalf("sent %v, ops %v before the log has it", got, b.ops)
	}
	b.c.entry(chatctx.Entry{OpID: "rec:1", Op: chatctx.OpAppend, Item: &chatctx.Message{ID: "a1", Role: chatctx.RoleAssistant}})
	b.settle()
	if len(b.ops) != 1 || b.ops[0].Kind != chatctx.OpUpdate || b.ops[0].Changes.Content.Text() != "One two" || !*b.ops[0].Changes.Interrupted {
		t.Errorf("ops %+v", b.ops)
	}
	b.client(`{"type":"conversation.item.retrieve","item_id":"a1"}`)
	if r := find[*dialect.ItemRetrieved](b.sent); len(r) != 1 || r[0].Item.Text() != "One two" || r[0].Item.Status != "incomplete" {
		t.Errorf("retrieved %+v", r)
	}
	for name, bad := range map[string]string{
		"longer than it is": `{"type":"conversation.item.truncate","item_id":"a1","content_index":0,"audio_end_ms":5000}`,
		"of the user":       `{"type":"conversation.item.truncate","item_id":"u1","content_index":0,"audio_end_ms":10}`,
		"unknown":           `{"type":"conversation.item.truncate","item_id":"zz","content_index":0,"audio_end_ms":10}`,
	} {
		b.sent = nil
		b.client(bad)
		if e := find[*dialect.Error](b.sent); len(e) != 1 {
			t.Errorf("%s: %v", name, b.types())
		}
	}
}

func TestNothingUnderstoodIsNoAnswer(t *testing.T) {
	b := newTable(t)
	b.turn("u1", "")
	if got := b.types(); slices.Contains(got, "response.created") {
		t.Errorf("sent %v", got)
	}
	// Where the client has asked already, the answer is empty.
	b.c.begins(0)
	b.says(switcher.CallerSpeechOut{Item: "u2", Started: true})
	b.c.ends(time.Second)
	b.settle()
	b.client(`{"type":"response.create"}`)
	b.says(switcher.TranscriptOut{Item: "u2", Final: true})
	if r := find[*dialect.ResponseDone](b.sent); len(r) != 1 || len(r[0].Response.Output) != 0 || len(find[switcher.FloorIn](b.leg)) > 0 {
		t.Errorf("response %+v, the leg was told %v", r, b.leg)
	}
}

func TestASilentPipelineFailsTheAnswer(t *testing.T) {
	b := newTable(t)
	b.client(`{"type":"response.create"}`)
	at, ok := b.c.deadline()
	if !ok || at.Sub(b.c.now) != silentFor {
		t.Fatalf("deadline %v %v", at, ok)
	}
	b.c.now = at
	b.c.tick()
	b.settle()
	if r := find[*dialect.ResponseDone](b.sent); len(r) != 1 || r[0].Response.Status != "failed" || r[0].Response.StatusDetails.Error.Code != "pipeline_failed" {
		t.Errorf("response %+v", r)
	}
	b.client(`{"type":"response.create"}`)
	b.says(text("a1", "Half a"))
	b.c.legGone()
	b.settle()
	if r := find[*dialect.ResponseDone](b.sent); len(r) != 2 || r[1].Response.Status != "failed" || r[1].Response.Output[0].Status != "incomplete" {
		t.Errorf("response %+v", r)
	}
}

// TestG12RefusalsNameTheFieldAndChangeNothing: what is wrong is an error event, and nothing else happens.
func TestG12RefusalsNameTheFieldAndChangeNothing(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, bad := range []struct{ event, code, param string }{
		{`{"type":"session.update","event_id":"e","session":{}}`, "missing_required_parameter", "session.type"},
		{`{"type":"session.update","event_id":"e","session":{"type":"transcription"}}`, "invalid_value", "session.type"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","output_modalities":["text","audio"]}}`, "invalid_value", "session.output_modalities"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","tools":[{"type":"mcp"}]}}`, "invalid_value", "session.tools.type"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","tools":[{"type":"function","name":"a b"}]}}`, "invalid_value", "session.tools.name"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","tools":[{"type":"function","name":"a","parameters":3}]}}`, "invalid_value", "session.tools.parameters"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcm","rate":16000}}}}}`, "invalid_value", "session.audio.input.format.rate"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","audio":{"output":{"format":{"type":"audio/opus"}}}}}`, "invalid_value", "session.audio.output.format.type"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"psychic"}}}}}`, "invalid_value", "session.audio.input.turn_detection.type"},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","instructions":7}}`, "invalid_type", "session.instructions"},
		{`{"type":"input_audio_buffer.append","event_id":"e","audio":"!"}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.commit","event_id":"e"}`, "input_audio_buffer_commit_empty", ""},
		{`{"type":"output_audio_buffer.clear","event_id":"e"}`, "unsupported_event", "type"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"message","role":"wizard","content":[{"type":"input_text","text":"x"}]}}`, "invalid_value", "item.role"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"message","role":"user","content":[]}}`, "invalid_value", "item.content"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"}]}}`, "invalid_value", "item.content.type"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"message","role":"user","content":[{"type":"input_image","image_url":"http://x/y.png"}]}}`, "invalid_value", "item.content.image_url"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"id":"a b","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`, "invalid_value", "item.id"},
		{`{"type":"conversation.item.create","event_id":"e","previous_item_id":"zz","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`, "invalid_item_id", "previous_item_id"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"function_call_output","call_id":"c9","output":""}}`, "invalid_item_call_id", "item.call_id"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"function_call","name":"f"}}`, "invalid_value", "item.call_id"},
		{`{"type":"conversation.item.create","event_id":"e","item":{"type":"mcp_call"}}`, "invalid_value", "item.type"},
		{`{"type":"conversation.item.retrieve","event_id":"e","item_id":"zz"}`, "item_retrieve_invalid_item_id", "item_id"},
		{`{"type":"conversation.item.delete","event_id":"e","item_id":"zz"}`, "item_delete_invalid_item_id", "item_id"},
		{`{"type":"response.create","event_id":"e","response":{"conversation":"mine"}}`, "invalid_value", "response.conversation"},
		{`{"type":"response.create","event_id":"e","response":{"metadata":{"k":"` + long + `"}}}`, "invalid_value", "response.metadata"},
		{`{"type":"response.create","event_id":"e","response":{"input":[{"type":"item_reference","id":"zz"}]}}`, "invalid_item_id", "response.input"},
		{`{"type":"response.create","event_id":"e","response":{"tools":[{"type":"function","name":"unknown"}]}}`, "unsupported_value", "response.tools"},
		{`{"type":"response.cancel","event_id":"e"}`, "response_cancel_not_active", "response_id"},
		{`{"type":"teleport","event_id":"e"}`, "unknown_event", "type"},
		{`{"no":"type"}`, "invalid_json", ""},
		{`[1,2]`, "invalid_json", ""},
	} {
		b := newTable(t)
		before, _ := json.Marshal(b.c.session)
		b.client(bad.event)
		after, _ := json.Marshal(b.c.session)
		errs := find[*dialect.Error](b.sent)
		if len(errs) != 1 || len(b.sent) != 1 || errs[0].Error.Code != bad.code || errs[0].Error.Param != bad.param {
			t.Errorf("%.120s\nwas answered with %+v, want %s at %q", bad.event, errs, bad.code, bad.param)
			continue
		}
		if strings.Contains(bad.event, `"event_id"`) && errs[0].Error.EventID != "e" {
			t.Errorf("%.120s: the error names the event %q", bad.event, errs[0].Error.EventID)
		}
		if string(before) != string(after) || len(b.ops)+len(b.leg)+len(b.session) > 0 {
			t.Errorf("%.120s changed something", bad.event)
		}
	}
}

func TestG12TheLogRefusesAnItem(t *testing.T) {
	b := newTable(t)
	b.refuses = &chatctx.Error{Kind: chatctx.TooLarge, Detail: "too large", Field: "item"}
	b.client(`{"type":"conversation.item.create","event_id":"e","item":{"id":"m","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`)
	if e := find[*dialect.Error](b.sent); len(e) != 1 || e[0].Error.Code != "too_large" || len(b.sent) != 1 {
		t.Fatalf("sent %v", b.types())
	}
	b.refuses = nil
	b.client(`{"type":"conversation.item.create","item":{"id":"m","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`)
	if added := find[*dialect.ItemAdded](b.sent); len(added) != 1 {
		t.Errorf("the id was taken by what was refused: %v", b.types())
	}
}

func TestG12WhatNobodyAsksForIsBounded(t *testing.T) {
	b := newTable(t)
	b.client(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`)
	ten := `{"type":"input_audio_buffer.append","event_id":"e","audio":"` + dialect.EncodePCM(make([]int16, 10*dialect.Rate)) + `"}`
	for range int(maxBuffer / (10 * time.Second)) {
		b.client(ten)
	}
	b.types()
	b.client(ten)
	if e := find[*dialect.Error](b.sent); len(e) != 1 || e[0].Error.Code != "input_audio_buffer_full" {
		t.Errorf("sent %v", b.types())
	}
	b.client(`{"type":"input_audio_buffer.clear"}`)
	b.says(voice("a1", "la", 1000))
	for range int(maxHeld / time.Second) {
		b.says(voice("a1", "la", 1000))
	}
	if len(b.c.answers.held) > 0 || len(find[switcher.InterruptedIn](b.leg)) != 1 {
		t.Errorf("%d outputs are held, the leg was told %v", len(b.c.answers.held), b.leg)
	}
}

// A note of another Sightline's projection becomes the item that it tells of; any other system text stays a message.
func TestNotesBecomeTheItemsTheyTellOf(t *testing.T) {
	for text, want := range map[string]string{
		`⟦handoff: you, the agent "billing", have taken over this conversation from the agent "intake". Reason: "dispute".⟧`: "*chatctx.AgentHandoff",
		`⟦summary of the conversation before this point: "the caller greeted"⟧`:                                              "*chatctx.Summary",
		`be brief`: "*chatctx.Message",
	} {
		b := newTable(t)
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		b.client(`{"type":"conversation.item.create","item":{"id":"n","type":"message","role":"system","content":[{"type":"input_text","text":` + string(content) + `}]}}`)
		if len(b.ops) != 1 || fmt.Sprintf("%T", b.ops[0].Item) != want || b.ops[0].Item.ItemID() != "n" {
			t.Errorf("%s: the log was given %+v, want one %s", text, b.ops, want)
		}
	}
}

func TestOthersItemsAreTold(t *testing.T) {
	b := newTable(t)
	entry := func(op string, item chatctx.Item) chatctx.Entry {
		return chatctx.Entry{OpID: op, Op: chatctx.OpAppend, Item: item}
	}
	b.c.entry(entry("http-1", &chatctx.Message{ID: "m1", Role: chatctx.RoleUser, Content: chatctx.TextContent("typed")}))
	b.c.entry(entry("rec:1", &chatctx.Message{ID: "m2", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("said")}))
	b.c.entry(entry("rt:op_1", &chatctx.Message{ID: "m3", Role: chatctx.RoleUser, Content: chatctx.TextContent("ours")}))
	b.c.entry(entry("sw:1", &chatctx.PipelineSwitch{ID: "p"}))
	b.c.entry(chatctx.Entry{OpID: "http-2", Op: chatctx.OpRemove, ItemID: "m1"})
	b.settle()
	if got := b.types(); !slices.Equal(got, []string{"conversation.item.added", "conversation.item.done", "conversation.item.deleted"}) {
		t.Errorf("sent %v", got)
	}
}

// TestRandomTalk holds the order of answers, and the official types, whatever comes when.
func TestRandomTalk(t *testing.T) {
	clients := []string{
		`{"type":"response.create"}`, `{"type":"response.cancel"}`, `{"type":"input_audio_buffer.clear"}`, `{"type":"input_audio_buffer.commit"}`,
		`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}`,
		`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c3","output":"x"}}`,
		`{"type":"conversation.item.truncate","item_id":"a2","content_index":0,"audio_end_ms":50}`, `{"type":"conversation.item.delete","item_id":"a1"}`,
		`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"f"}]}}`,
		`{"type":"session.update","session":{"type":"realtime","tools":[],"output_modalities":["text"]}}`,
		`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"semantic_vad","create_response":false}}}}}`,
		`{"type":"response.create","response":{"conversation":"none","input":[],"output_modalities":["text"]}}`,
	}
	for seed := range uint64(40) {
		b := newTable(t)
		random := rand.New(rand.NewPCG(seed, 1))
		for range 120 {
			item := fmt.Sprintf("a%d", 1+random.IntN(4))
			switch random.IntN(12) {
			case 0, 1, 2:
				b.client(clients[random.IntN(len(clients))])
			case 3, 4:
				b.says(text(item, "word "))
			case 5:
				b.says(voice(item, "word ", 20))
			case 6, 7:
				b.says(done(item, []string{switcher.TurnCompleted, switcher.TurnCancelled, switcher.TurnFailed}[random.IntN(3)]))
			case 8:
				b.says(switcher.ToolCallOut{CallID: fmt.Sprintf("c%d", random.IntN(5)), Name: "f", Arguments: "{}"})
			case 9:
				b.turn(fmt.Sprintf("u%d", random.IntN(1000)), []string{"", "words"}[random.IntN(2)])
			case 10:
				b.c.begins(0)
				b.settle()
			default:
				b.c.now = b.c.now.Add(time.Duration(random.IntN(30)) * time.Second)
				b.c.tick()
				b.settle()
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// FuzzClient: whatever a client sends, one event a line, the answers are events of the official types.
func FuzzClient(f *testing.F) {
	f.Add(`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"f"}],"audio":{"input":{"turn_detection":null}}}}` + "\n" +
		`{"type":"input_audio_buffer.append","audio":"AAAA"}` + "\n" + `{"type":"input_audio_buffer.commit"}`)
	f.Add(`{"type":"conversation.item.create","previous_item_id":"root","item":{"id":"a","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}` + "\n" +
		`{"type":"conversation.item.create","previous_item_id":"a","item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}` + "\n" +
		`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c","output":""}}` + "\n" +
		`{"type":"response.create","response":{"input":[{"type":"item_reference","id":"a"}],"conversation":"none"}}` + "\n" + `{"type":"response.cancel"}`)
	f.Add(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcmu"}},"output":{"format":{"type":"audio/pcma"},"speed":2}}}}`)
	f.Fuzz(func(t *testing.T, events string) {
		b := newTable(t)
		for _, line := range strings.Split(events, "\n") {
			b.client(line)
			b.says(text("a1", "word"))
		}
	})
}
