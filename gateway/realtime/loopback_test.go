package realtime_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sightline/switcher/cascade/pcm"
	"sightline/switcher/realtime/dialect"
)

func resampler(from int) *pcm.Resampler { return pcm.NewResampler(from, dialect.Rate) }

func TestTypedAndAnswered(t *testing.T) {
	c := connect(t, serve(t, pipeline(engines(t).Cascade())))
	created := next[*dialect.SessionCreated](c, nil)
	if s := created.Session; s.ID == "" || s.Object != "realtime.session" || s.Model != "local" || s.Audio.Output.Format.Rate != 24000 {
		t.Errorf("session.created %+v", s)
	}
	c.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Instructions: ptr("Be brief.")}})
	if s := next[*dialect.SessionUpdated](c, nil).Session; *s.Instructions != "Be brief." || s.Audio == nil || s.Tools == nil {
		t.Errorf("session.updated is not the whole session: %+v", s)
	}
	c.says("u1", "My order number is 4711.")
	if added := next[*dialect.ItemDone](c, nil); added.Item.ID != "u1" {
		t.Errorf("item.done %+v", added)
	}
	r := c.asks(&dialect.ResponseParams{Metadata: map[string]string{"topic": "order"}})
	t.Log(c.types())
	if r.Status != "completed" || r.Metadata["topic"] != "order" || len(r.Output) != 1 {
		t.Fatalf("response %+v", r)
	}
	answer := r.Output[0]
	if !strings.Contains(answer.Text(), "4711") && !strings.Contains(answer.Text(), "4 7 1 1") {
		t.Errorf("answered %q", answer.Text())
	}
	if d := c.sound(answer.ID); d < 500*time.Millisecond {
		t.Errorf("%s of sound", d)
	}
	c.send(&dialect.ItemRetrieve{ItemID: answer.ID})
	if got := next[*dialect.ItemRetrieved](c, nil).Item; got.Status != "completed" || got.Text() != answer.Text() {
		t.Errorf("retrieved %+v", got)
	}
}

func TestSpokenAndAnswered(t *testing.T) {
	e := engines(t)
	c := connect(t, serve(t, pipeline(e.Cascade())))
	c.speaks(e, "My order number is four seven one one.")
	started := next[*dialect.SpeechStarted](c, nil)
	stopped := next[*dialect.SpeechStopped](c, nil)
	committed := next[*dialect.InputAudioCommitted](c, nil)
	if started.ItemID != committed.ItemID || stopped.ItemID != committed.ItemID || stopped.AudioEndMs <= started.AudioStartMs {
		t.Errorf("%+v %+v %+v", started, stopped, committed)
	}
	heard := next[*dialect.TranscriptionCompleted](c, nil)
	r := next[*dialect.ResponseDone](c, nil).Response
	t.Log(c.types())
	t.Logf("heard %q at %d..%d ms, answered %q", heard.Transcript, started.AudioStartMs, stopped.AudioEndMs, r.Output[0].Text())
	if !strings.Contains(heard.Transcript, "four seven one one") {
		t.Errorf("heard %q", heard.Transcript)
	}
	c.speaks(e, "What was my order number?")
	r = next[*dialect.ResponseDone](c, nil).Response
	if r.Status != "completed" || !strings.Contains(r.Output[0].Text(), "4 7 1 1") {
		t.Errorf("answered %+v", r)
	}
}

var lookup = dialect.Tool{Type: "function", Name: "lookup_order", Description: "Looks an order up.", Parameters: json.RawMessage(`{"type":"object","properties":{"order_number":{"type":"string"}},"required":["order_number"]}`)}

func TestG4ToolLoop(t *testing.T) {
	c := connect(t, serve(t, pipeline(engines(t).Cascade())))
	c.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Tools: []dialect.Tool{lookup}}})
	c.says("u1", "Please look up order 4711.")
	r := c.asks(nil)
	t.Log(c.types())
	var call *dialect.Item
	for i := range r.Output {
		if r.Output[i].Type == dialect.ItemCall {
			call = &r.Output[i]
		}
	}
	if call == nil || call.Name != "lookup_order" || call.Status != "completed" {
		t.Fatalf("no call in %+v", r)
	}
	c.send(&dialect.ItemCreate{Item: dialect.Item{Type: dialect.ItemCallOutput, CallID: call.CallID, Output: `{"status":"shipped","eta":"Friday"}`}})
	next[*dialect.ItemDone](c, func(e *dialect.ItemDone) bool { return e.Item.Type == dialect.ItemCallOutput })
	r = c.asks(nil)
	if r.Status != "completed" || len(r.Output) != 1 || !strings.Contains(r.Output[0].Text(), "shipped") {
		t.Errorf("answered %+v", r)
	}
	if n := len(all[*dialect.ArgumentsDone](c)); n != 1 {
		t.Errorf("%d calls", n)
	}
	c.send(&dialect.ItemCreate{EventID: "again", Item: dialect.Item{Type: dialect.ItemCallOutput, CallID: call.CallID, Output: `{}`}})
	if e := next[*dialect.Error](c, nil).Error; e.EventID != "again" {
		t.Errorf("a second output: %+v", e)
	}
}
