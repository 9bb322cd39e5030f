package dialect_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

func ptr[T any](v T) *T { return &v }

var place = dialect.Place{ResponseID: "resp_1", ItemID: "item_1"}

var fullSession = dialect.Session{
	Type: "realtime", Model: "gpt-realtime", Instructions: ptr(""), OutputModalities: []string{"audio"},
	Tools:      []dialect.Tool{{Type: "function", Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
	ToolChoice: json.RawMessage(`"auto"`), MaxOutputTokens: json.RawMessage(`"inf"`), Tracing: dialect.Null[json.RawMessage](),
	Audio: &dialect.Audio{
		Input: &dialect.AudioInput{Format: &dialect.Format{Type: "audio/pcm", Rate: 24000}, NoiseReduction: dialect.Null[dialect.NoiseReduction](),
			Transcription: dialect.Some(dialect.Transcription{Model: "whisper-1"}), TurnDetection: dialect.Some(dialect.TurnDetection{
				Type: "server_vad", Threshold: ptr(0.5), PrefixPaddingMs: ptr(dialect.Millis(300)), SilenceDurationMs: ptr(dialect.Millis(500)), CreateResponse: ptr(false), InterruptResponse: ptr(true)})},
		Output: &dialect.AudioOutput{Format: &dialect.Format{Type: "audio/pcm", Rate: 24000}, Voice: json.RawMessage(`"marin"`), Speed: 1},
	},
}

var items = []dialect.Item{
	{ID: "u", Type: "message", Role: "user", Content: []dialect.Part{{Type: "input_text", Text: "hi"}, {Type: "input_image", ImageURL: "data:image/jpeg;base64,AA==", Detail: "low"}}},
	{ID: "a", Type: "message", Role: "assistant", Status: "in_progress"},
	{ID: "s", Type: "message", Role: "system", Content: []dialect.Part{{Type: "input_text", Text: "x"}}},
	{ID: "c", Type: "function_call", CallID: "call", Name: "f"},
	{ID: "o", Type: "function_call_output", CallID: "call"},
}

var clientEvents = []dialect.ClientEvent{
	&dialect.SessionUpdate{EventID: "e", Session: fullSession},
	&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Tools: []dialect.Tool{}, Audio: &dialect.Audio{Input: &dialect.AudioInput{
		TurnDetection: dialect.Null[dialect.TurnDetection](), Transcription: dialect.Null[dialect.Transcription]()}}}},
	&dialect.InputAudioAppend{Audio: dialect.EncodePCM([]int16{1, -1})}, &dialect.InputAudioCommit{}, &dialect.InputAudioClear{EventID: "e"}, &dialect.OutputAudioClear{},
	&dialect.ItemCreate{EventID: "e", PreviousItemID: "root", Item: items[0]}, &dialect.ItemCreate{Item: items[2]}, &dialect.ItemCreate{Item: items[3]}, &dialect.ItemCreate{Item: items[4]},
	&dialect.ItemRetrieve{ItemID: "u"}, &dialect.ItemTruncate{ItemID: "a"}, &dialect.ItemDelete{ItemID: "a"},
	&dialect.ResponseCreate{}, &dialect.ResponseCreate{Response: &dialect.ResponseParams{OutputModalities: []string{"audio"}, Metadata: map[string]string{"k": "v"}, Instructions: "x"}},
	&dialect.ResponseCancel{ResponseID: "resp_1"},
}

var serverEvents = []dialect.ServerEvent{
	&dialect.SessionCreated{EventID: "e", Session: func() dialect.Session {
		s := fullSession
		s.ID, s.Object, s.ExpiresAt = "sess", "realtime.session", 1800000000
		return s
	}()},
	&dialect.SessionUpdated{EventID: "e", Session: fullSession},
	&dialect.ConversationCreated{EventID: "e", Conversation: dialect.Conversation{ID: "conv", Object: "realtime.conversation"}},
	&dialect.Error{EventID: "e", Error: dialect.ErrorDetail{Type: "invalid_request_error", Code: "c", Message: "m", EventID: "x"}},
	&dialect.RateLimits{EventID: "e", RateLimits: []dialect.RateLimit{{Name: "tokens", Limit: 5, Remaining: 3, ResetSeconds: 0.5}}},
	&dialect.InputAudioCommitted{EventID: "e", ItemID: "u"}, &dialect.InputAudioCleared{EventID: "e"},
	&dialect.SpeechStarted{EventID: "e", ItemID: "u"}, &dialect.SpeechStopped{EventID: "e", ItemID: "u", AudioEndMs: 1000}, &dialect.TimeoutTriggered{EventID: "e", ItemID: "u"},
	&dialect.ItemAdded{EventID: "e", PreviousItemID: ptr("p"), Item: items[1]}, &dialect.ItemDone{EventID: "e", Item: items[3]}, &dialect.ItemCreated{EventID: "e", Item: items[4]},
	&dialect.ItemRetrieved{EventID: "e", Item: items[0]}, &dialect.ItemTruncated{EventID: "e", ItemID: "a", AudioEndMs: 5}, &dialect.ItemDeleted{EventID: "e", ItemID: "a"},
	&dialect.TranscriptionDelta{EventID: "e", ItemID: "u", Delta: "d"},
	&dialect.TranscriptionCompleted{EventID: "e", ItemID: "u", Usage: dialect.Usage{Type: "duration", Seconds: ptr(1.5)}},
	&dialect.TranscriptionFailed{EventID: "e", ItemID: "u", Error: dialect.ErrorDetail{Type: "t", Message: "m"}},
	&dialect.ResponseCreated{EventID: "e", Response: dialect.Response{ID: "resp_1", Object: "realtime.response", Status: "in_progress", Output: []dialect.Item{}}},
	&dialect.ResponseDone{EventID: "e", Response: dialect.Response{ID: "resp_1", Object: "realtime.response", Status: "cancelled", Metadata: map[string]string{"k": "v"},
		StatusDetails: &dialect.StatusDetails{Type: "cancelled", Reason: "turn_detected"}, Output: items[:2], Usage: &dialect.Usage{TotalTokens: ptr(3)}}},
	&dialect.OutputItemAdded{EventID: "e", ResponseID: "resp_1", Item: items[1]}, &dialect.OutputItemDone{EventID: "e", ResponseID: "resp_1", Item: items[3]},
	&dialect.ContentPartAdded{EventID: "e", Place: place, Part: dialect.Part{Type: "audio"}}, &dialect.ContentPartDone{EventID: "e", Place: place, Part: dialect.Part{Type: "text", Text: "t"}},
	&dialect.OutputTextDelta{EventID: "e", Place: place}, &dialect.OutputTextDone{EventID: "e", Place: place},
	&dialect.OutputAudioDelta{EventID: "e", Place: place}, &dialect.OutputAudioDone{EventID: "e", Place: place},
	&dialect.OutputTranscriptDelta{EventID: "e", Place: place}, &dialect.OutputTranscriptDone{EventID: "e", Place: place},
	&dialect.ArgumentsDelta{EventID: "e", ResponseID: "r", ItemID: "i", CallID: "c"}, &dialect.ArgumentsDone{EventID: "e", ResponseID: "r", ItemID: "i", CallID: "c", Name: "f", Arguments: "{}"},
	&dialect.OutputBufferStarted{EventID: "e", ResponseID: "r"}, &dialect.OutputBufferStopped{EventID: "e", ResponseID: "r"}, &dialect.OutputBufferCleared{EventID: "e", ResponseID: "r"},
}

func TestClientEventsFitTheOfficialTypesAndComeBack(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range clientEvents {
		data := encode(t, e)
		seen[e.EventType()] = true
		if err := dialecttest.Client(data); err != nil {
			t.Errorf("%s\n%v", data, err)
		}
		if back, err := dialect.DecodeClient(data); err != nil || !reflect.DeepEqual(normal(t, back), normal(t, e)) {
			t.Errorf("%s came back as %s, %v", data, encode(t, back), err)
		}
	}
	if len(seen) != 11 {
		t.Errorf("%d types of client events tested, the dialect has 11", len(seen))
	}
}

func TestServerEventsFitTheOfficialTypesAndComeBack(t *testing.T) {
	for _, e := range serverEvents {
		data := encode(t, e)
		if err := dialecttest.Server(data); err != nil {
			t.Errorf("%s\n%v", data, err)
		}
		if back, err := dialect.DecodeServer(data); err != nil || !reflect.DeepEqual(normal(t, back), normal(t, e)) {
			t.Errorf("%s came back as %s, %v", data, encode(t, back), err)
		}
	}
}

func encode(t *testing.T, e dialect.Event) []byte {
	t.Helper()
	data, err := dialect.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func normal(t *testing.T, e dialect.Event) any {
	var v any
	if err := json.Unmarshal(encode(t, e), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemasAreStrictForClientsAndLaxForServers(t *testing.T) {
	for _, bad := range []string{`{"type":"response.create","modalities":["audio"]}`, `{"type":"session.update","session":{"modalities":["audio"]}}`,
		`{"type":"conversation.item.truncate","item_id":"a","content_index":0}`, `{"type":"conversation.item.create","item":{"type":"message","role":"developer","content":[]}}`,
		`{"type":"input_audio_buffer.append"}`, `{"type":"nonsense"}`, `{"type":"session.update","session":{"type":"realtime","temperature":1}}`} {
		if dialecttest.Client([]byte(bad)) == nil {
			t.Errorf("the client's schema takes %s", bad)
		}
	}
	if err := dialecttest.Server([]byte(`{"type":"input_audio_buffer.cleared","event_id":"e","more":1}`)); err != nil {
		t.Error(err)
	}
	if dialecttest.Server([]byte(`{"type":"input_audio_buffer.committed","event_id":"e"}`)) == nil {
		t.Error("the server's schema takes a committed without item_id")
	}
}

func TestBetaNamesAreRead(t *testing.T) {
	for beta, want := range map[string]dialect.ServerEvent{
		`{"type":"response.audio.delta","item_id":"i","delta":"AAA="}`:            &dialect.OutputAudioDelta{Place: dialect.Place{ItemID: "i"}, Delta: "AAA="},
		`{"type":"response.audio_transcript.delta","item_id":"i","delta":"x"}`:    &dialect.OutputTranscriptDelta{Place: dialect.Place{ItemID: "i"}, Delta: "x"},
		`{"type":"response.audio_transcript.done","item_id":"i"}`:                 &dialect.OutputTranscriptDone{Place: dialect.Place{ItemID: "i"}},
		`{"type":"response.audio.done","item_id":"i"}`:                            &dialect.OutputAudioDone{Place: dialect.Place{ItemID: "i"}},
		`{"type":"response.text.delta","item_id":"i","delta":"x"}`:                &dialect.OutputTextDelta{Place: dialect.Place{ItemID: "i"}, Delta: "x"},
		`{"type":"response.text.done","item_id":"i","text":"x"}`:                  &dialect.OutputTextDone{Place: dialect.Place{ItemID: "i"}, Text: "x"},
		`{"type":"conversation.item.created","item":{"id":"i","type":"message"}}`: &dialect.ItemCreated{Item: dialect.Item{ID: "i", Type: "message"}},
	} {
		if got, err := dialect.DecodeServer([]byte(beta)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", beta, got, err)
		}
	}
	var s dialect.Session
	beta := `{"modalities":["text","audio"],"voice":"alloy","input_audio_format":"pcm16","output_audio_format":"g711_ulaw","turn_detection":null,
		"input_audio_transcription":{"model":"whisper-1"},"max_response_output_tokens":"inf","temperature":0.8,"expires_at":7}`
	if err := json.Unmarshal([]byte(beta), &s); err != nil {
		t.Fatal(err)
	}
	got := string(encode(t, &dialect.SessionUpdate{Session: s}))
	want := `{"type":"session.update","session":{"type":"","expires_at":7,"output_modalities":["audio"],"max_output_tokens":"inf","audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"whisper-1"},"turn_detection":null},"output":{"format":{"type":"audio/pcmu"},"voice":"alloy"}}}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var i dialect.Item
	if err := json.Unmarshal([]byte(`{"type":"message","role":"assistant","content":[{"type":"text","text":"a"},{"type":"audio","transcript":"b"}]}`), &i); err != nil {
		t.Fatal(err)
	}
	if i.Content[0].Type != "output_text" || i.Content[1].Type != "output_audio" || i.Text() != "ab" {
		t.Errorf("%+v", i)
	}
}

func TestReadingIsLax(t *testing.T) {
	got, err := dialect.DecodeServer([]byte(`{"type":"conversation.item.added","event_id":7,"item":{"id":"i","type":"message","role":3,"content":"x"},"previous_item_id":"p","new":{}}`))
	added, ok := got.(*dialect.ItemAdded)
	if err != nil || !ok || added.Item.ID != "i" || added.PreviousItemID == nil || *added.PreviousItemID != "p" {
		t.Errorf("%+v, %v", got, err)
	}
	got, _ = dialect.DecodeServer([]byte(`{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":1250.75}`))
	if s, ok := got.(*dialect.SpeechStarted); !ok || s.AudioStartMs != 1250 {
		t.Errorf("%+v", got)
	}
	got, err = dialect.DecodeServer([]byte(`{"type":"x.y","event_id":"e","a":1}`))
	if u, ok := got.(dialect.Unknown); !ok || err != nil || u.Type != "x.y" || u.EventID != "e" || !strings.Contains(string(u.Raw), `"a":1`) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{``, `null`, `[]`, `"x"`, `{}`, `{"type":5}`, `{"type":"error"`, `{"type":""}`} {
		if e, err := dialect.DecodeServer([]byte(bad)); !errors.Is(err, dialect.ErrMalformed) {
			t.Errorf("%s: %v, %v", bad, e, err)
		}
	}
}

func TestAClientIsToldWhichFieldIsWrong(t *testing.T) {
	e, err := dialect.DecodeClient([]byte(`{"type":"conversation.item.truncate","event_id":"e7","item_id":5,"content_index":0,"audio_end_ms":9}`))
	var field *dialect.FieldError
	if !errors.As(err, &field) || field.EventID != "e7" || field.Param != "item_id" {
		t.Errorf("%v", err)
	}
	if tr, ok := e.(*dialect.ItemTruncate); !ok || tr.AudioEndMs != 9 {
		t.Errorf("the rest was not read: %+v", e)
	}
}

func TestMergeIsAPartialUpdate(t *testing.T) {
	s := fullSession
	s.ID = "sess"
	before := encode(t, &dialect.SessionUpdate{Session: fullSession})
	s.Merge(dialect.Session{Type: "realtime", Model: "other", Tools: []dialect.Tool{}, Audio: &dialect.Audio{Input: &dialect.AudioInput{TurnDetection: dialect.Null[dialect.TurnDetection]()}}})
	if s.ID != "sess" || s.Model != "gpt-realtime" || len(s.Tools) != 0 || !s.Audio.Input.TurnDetection.Null || s.Audio.Input.Format == nil || s.Audio.Output == nil {
		t.Errorf("%+v", s)
	}
	if after := encode(t, &dialect.SessionUpdate{Session: fullSession}); !slices.Equal(before, after) {
		t.Error("Merge changed what it shares with others")
	}
}

func TestPCM(t *testing.T) {
	pcm := []int16{0, 1, -1, 32767, -32768}
	if got, err := dialect.DecodePCM(dialect.EncodePCM(pcm)); err != nil || !slices.Equal(got, pcm) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := dialect.DecodePCM("AAA"); err != nil {
		t.Errorf("without padding: %v", err)
	}
	for _, bad := range []string{"AA==", "!", "A"} {
		if _, err := dialect.DecodePCM(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	event, scratch := dialect.AppendInput(nil, nil, pcm)
	if err := dialecttest.Client(event); err != nil {
		t.Error(err)
	}
	if allocs := testing.AllocsPerRun(100, func() { event, scratch = dialect.AppendInput(event[:0], scratch, pcm) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzDecode: whatever comes in, nothing breaks, and what was read can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, e := range serverEvents {
		data, _ := dialect.Encode(e)
		f.Add(data)
	}
	for _, e := range clientEvents {
		data, _ := dialect.Encode(e)
		f.Add(data)
	}
	f.Add([]byte(`{"type":"session.created","session":{"modalities":["text"],"turn_detection":5,"audio":{"input":{"transcription":[]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		again := func(e dialect.Event, decode func([]byte) (dialect.Event, error)) {
			out, err := dialect.Encode(e)
			if err != nil {
				t.Fatalf("%s is read but not written: %v", data, err)
			}
			back, err := decode(out)
			if err != nil {
				t.Fatalf("%s\nis written as\n%s: %v", data, out, err)
			}
			if twice, err := dialect.Encode(back); err != nil || string(twice) != string(out) {
				t.Fatalf("%s\nthen\n%s: %v", out, twice, err)
			}
		}
		if e, err := dialect.DecodeServer(data); err == nil {
			again(e, func(b []byte) (dialect.Event, error) { return dialect.DecodeServer(b) })
		}
		if e, err := dialect.DecodeClient(data); err == nil {
			again(e, func(b []byte) (dialect.Event, error) { return dialect.DecodeClient(b) })
		}
	})
}
