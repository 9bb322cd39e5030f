package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

// sideband is a client of the realtime dialect on a call whose sound goes over WebRTC.
type sideband struct {
	t      *testing.T
	conn   *websocket.Conn
	events chan dialect.ServerEvent
	types  map[string]int // for the reading goroutine until events is closed
}

func attachSideband(t *testing.T, s *served, session string) *sideband {
	t.Helper()
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+"/v1/realtime?call_id="+session, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &sideband{t: t, conn: conn, events: make(chan dialect.ServerEvent, 4096), types: map[string]int{}}
	go func() {
		defer close(b.events)
		for {
			_, data, err := conn.ReadMessage()
			if err != nil {
				return
			}
			e, err := dialect.DecodeServer(data)
			if err != nil {
				t.Errorf("no event: %s", data)
				continue
			}
			if err := dialecttest.Server(data); err != nil && !strings.HasPrefix(e.EventType(), "sightline.") {
				t.Errorf("the official types do not know: %v\n%.400s", err, data)
			}
			b.types[e.EventType()]++
			b.events <- e
		}
	}()
	t.Cleanup(func() { _ = conn.Close() })
	return b
}

func (b *sideband) send(e dialect.ClientEvent) {
	b.t.Helper()
	data, err := dialect.Encode(e)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.WriteMessage(websocket.TextMessage, data); err != nil {
		b.t.Fatal(err)
	}
}

// awaits takes events up to one of a type that is right.
func awaits[E dialect.ServerEvent](b *sideband, right func(E) bool) E {
	b.t.Helper()
	late := time.After(40 * time.Second)
	var seen []string
	for {
		select {
		case e, open := <-b.events:
			if !open {
				b.t.Fatalf("the socket ended; before: %v", seen)
			}
			seen = append(seen, e.EventType())
			if x, ok := e.(E); ok && (right == nil || right(x)) {
				return x
			}
			if x, ok := e.(*dialect.Error); ok {
				b.t.Fatalf("error: %+v", x.Error)
			}
		case <-late:
			var want E
			b.t.Fatalf("no %T came; seen were %v", want, seen)
		}
	}
}

func TestE2ESidebandOfALiveCall(t *testing.T) {
	s := serve(t, "--pipeline", "local")
	caller := callAndTalk(t, s, "demo")
	b := attachSideband(t, s, "demo")
	if created := awaits[*dialect.SessionCreated](b, nil); created.Session.ID != "demo" {
		t.Errorf("session.created %+v", created.Session)
	}
	b.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Tools: []dialect.Tool{{Type: "function", Name: "lookup_order", Description: "Looks an order up.",
		Parameters: []byte(`{"type":"object","properties":{"order_number":{"type":"string"}}}`)}}}})
	awaits[*dialect.SessionUpdated](b, nil)

	// What the caller says is told; the tool of the pipeline runs here.
	at := caller.says("Please look up order four seven one one.")
	heard := awaits[*dialect.TranscriptionCompleted](b, nil)
	done := awaits[*dialect.ResponseDone](b, func(e *dialect.ResponseDone) bool {
		for _, item := range e.Response.Output {
			if item.Type == dialect.ItemCall {
				return true
			}
		}
		return false
	})
	call := done.Response.Output[len(done.Response.Output)-1]
	t.Logf("heard %q, called %s %s", heard.Transcript, call.Name, call.Arguments)
	b.send(&dialect.ItemCreate{Item: dialect.Item{Type: dialect.ItemCallOutput, CallID: call.CallID, Output: `{"status":"on the moon"}`}})
	b.send(&dialect.ResponseCreate{Response: &dialect.ResponseParams{Metadata: map[string]string{"why": "tool"}}})
	told := awaits[*dialect.ResponseDone](b, nil).Response
	if told.Metadata["why"] != "tool" || !strings.Contains(told.Output[0].Text(), "on the moon") {
		t.Errorf("response %+v", told)
	}
	awaits[*dialect.OutputBufferStopped](b, func(e *dialect.OutputBufferStopped) bool { return e.ResponseID == told.ID })
	if text := caller.heardWords(at, "on the moon"); !strings.Contains(text, "on the moon") {
		t.Errorf("the caller understood %q", text)
	}

	// It puts a question in, and has the pipeline answer.
	b.send(&dialect.ItemCreate{Item: dialect.Item{ID: "asked", Type: dialect.ItemMessage, Role: "user", Content: []dialect.Part{{Type: "input_text", Text: "My order number is 815. What was my order number?"}}}})
	awaits[*dialect.ItemDone](b, func(e *dialect.ItemDone) bool { return e.Item.ID == "asked" })
	b.send(&dialect.ResponseCreate{})
	if answer := awaits[*dialect.ResponseDone](b, nil).Response; len(answer.Output) == 0 || !strings.Contains(answer.Output[0].Text(), "8 1 5") {
		t.Errorf("response %+v", answer)
	}
	// And once more, to what stands last.
	b.send(&dialect.ResponseCreate{})
	if again := awaits[*dialect.ResponseDone](b, nil).Response; again.Status != "completed" || len(again.Output) == 0 {
		t.Errorf("response %+v", again)
	}
	b.send(&dialect.InputAudioAppend{EventID: "mic", Audio: "AAAA"})
	if e := awaits[*dialect.Error](b, nil).Error; e.EventID != "mic" {
		t.Errorf("error %+v", e)
	}
	_ = b.conn.Close()
	for range b.events { // until the reading goroutine has ended
	}
	if n := b.types["response.output_audio.delta"]; n > 0 {
		t.Errorf("%d pieces of sound came over the sideband", n)
	}
	if b.types["sightline.pipeline.committed"]+b.types["sightline.played"] == 0 {
		t.Errorf("no events of our own among %v", b.types)
	}
}
