package realtime_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/switcher/cascade"
	"sightline/switcher/realtime/dialect"
)

func TestTheClientFindsTheTurns(t *testing.T) {
	e := engines(t)
	c := connect(t, serve(t, pipeline(e.Cascade())))
	c.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", OutputModalities: []string{"text"}, Audio: &dialect.Audio{Input: &dialect.AudioInput{TurnDetection: dialect.Null[dialect.TurnDetection]()}}}})
	c.speaks(e, "My order number is four seven one one.")
	c.send(&dialect.InputAudioCommit{})
	committed := next[*dialect.InputAudioCommitted](c, nil)
	heard := next[*dialect.TranscriptionCompleted](c, nil)
	if heard.ItemID != committed.ItemID || !strings.Contains(heard.Transcript, "order number") {
		t.Errorf("heard %+v", heard)
	}
	if n := len(all[*dialect.ResponseCreated](c)); n > 0 {
		t.Errorf("%d answers before one was asked for", n)
	}
	r := c.asks(nil)
	if r.Status != "completed" || len(r.Output) != 1 || r.Output[0].Content[0].Type != "output_text" || !strings.Contains(r.Output[0].Text(), "order number") {
		t.Errorf("answer %+v", r)
	}
	if n := len(all[*dialect.OutputAudioDelta](c)); n > 0 {
		t.Errorf("%d pieces of sound in a session of text", n)
	}
	if n := len(all[*dialect.SpeechStarted](c)); n > 0 {
		t.Error("turns were found though the client does that")
	}
	c.send(&dialect.InputAudioCommit{EventID: "empty"})
	if e := next[*dialect.Error](c, nil).Error; e.Code != "input_audio_buffer_commit_empty" || e.EventID != "empty" {
		t.Errorf("error %+v", e)
	}
}

// seeing is a model that says what it was shown.
type seeing struct{}

func (seeing) Name() string { return "seeing" }

func (seeing) Answer(ctx context.Context, r cascade.Request, yield func(cascade.Delta) error) (cascade.Finish, error) {
	var texts []string
	images := 0
	for _, item := range r.Items {
		if m, ok := item.(*chatctx.Message); ok {
			texts = append(texts, m.Content.Text())
			images += len(m.Content.Images())
		}
	}
	b, err := json.Marshal(map[string]any{"instructions": r.Instructions, "texts": texts, "images": images, "tools": len(r.Tools)})
	if err != nil {
		return cascade.Finish{}, err
	}
	return cascade.Finish{Reason: "stop"}, yield(cascade.Delta{Text: string(b)})
}

// told is what the model was asked with.
func told(t *testing.T, r dialect.Response) (seen struct {
	Instructions  string
	Texts         []string
	Images, Tools int
}) {
	t.Helper()
	if len(r.Output) != 1 {
		t.Fatalf("answer %+v", r)
	}
	if err := json.Unmarshal([]byte(r.Output[0].Text()), &seen); err != nil {
		t.Fatalf("answer %q: %v", r.Output[0].Text(), err)
	}
	return seen
}

func TestWhatTheModelIsAskedWith(t *testing.T) {
	c := connect(t, serve(t, pipeline(cascade.Config{Models: []cascade.Model{seeing{}}})))
	c.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Instructions: ptr("Be brief."), OutputModalities: []string{"text"}}})
	jpeg, err := os.ReadFile("testdata/dot.jpg")
	if err != nil {
		t.Fatal(err)
	}
	c.says("m1", "first")
	c.says("m3", "third")
	c.send(&dialect.ItemCreate{PreviousItemID: "m1", Item: dialect.Item{ID: "m2", Type: "message", Role: "user", Content: []dialect.Part{
		{Type: "input_text", Text: "second"}, {Type: "input_image", ImageURL: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(jpeg), Detail: "low"}}}})
	if done := next[*dialect.ItemDone](c, func(e *dialect.ItemDone) bool { return e.Item.ID == "m2" }); *done.PreviousItemID != "m1" {
		t.Errorf("m2 stands after %v", *done.PreviousItemID)
	}
	if got := told(t, c.asks(nil)); strings.Join(got.Texts, " ") != "first second third" || got.Images != 1 || got.Instructions != "Be brief." || got.Tools != 0 {
		t.Errorf("asked with %+v", got)
	}
	c.send(&dialect.ItemDelete{ItemID: "m1"})
	next[*dialect.ItemDeleted](c, nil)
	c.send(&dialect.SessionUpdate{Session: dialect.Session{Type: "realtime", Instructions: ptr("Be long."), Tools: []dialect.Tool{lookup}}})
	if got := told(t, c.asks(nil)); got.Texts[0] != "second" || got.Instructions != "Be long." || got.Tools != 1 || len(got.Texts) != 3 {
		t.Errorf("after changes asked with %+v", got)
	}
	c.send(&dialect.ItemCreate{Item: dialect.Item{ID: "s1", Type: "message", Role: "system", Content: []dialect.Part{{Type: "input_text", Text: "Rhyme."}}}})
	if got := told(t, c.asks(nil)); !strings.Contains(got.Instructions, "Be long.") || !strings.Contains(got.Instructions, "Rhyme.") {
		t.Errorf("with a system message asked with %+v", got)
	}
	// One answer of its own kind; the next is as before.
	c.raw(`{"type":"response.create","response":{"conversation":"none","instructions":"Sum up.","tool_choice":"none","input":[
		{"type":"item_reference","id":"m3"},{"type":"message","role":"user","content":[{"type":"input_text","text":"apart"}]}]}}`)
	r := next[*dialect.ResponseDone](c, nil).Response
	if got := told(t, r); strings.Join(got.Texts, " ") != "third apart" || got.Instructions != "Sum up." || got.Tools != 0 {
		t.Errorf("apart asked with %+v", got)
	}
	for _, added := range all[*dialect.ItemAdded](c) {
		if added.Item.ID == r.Output[0].ID {
			t.Error("an answer apart from the conversation is in it")
		}
	}
	if got := told(t, c.asks(nil)); got.Texts[0] != "second" || len(got.Texts) != 5 || !strings.HasPrefix(got.Instructions, "Be long.") || got.Tools != 1 {
		t.Errorf("afterwards asked with %+v", got)
	}
}

func TestG12ASocketLivesOnAfterWhatIsWrong(t *testing.T) {
	c := connect(t, serve(t, pipeline(cascade.Config{Models: []cascade.Model{seeing{}}})))
	for _, bad := range []string{"", "no json", "[]", `{"type":7}`, `{"type":"x"}`, `{"type":"conversation.item.create"}`, `{"type":"response.create","response":{"metadata":7}}`} {
		c.raw(bad)
		next[*dialect.Error](c, nil)
	}
	c.says("m1", "still there?")
	if r := c.asks(&dialect.ResponseParams{OutputModalities: []string{"text"}}); r.Status != "completed" {
		t.Errorf("answer %+v", r)
	}
}

func TestG13CallsEndWithTheLoopback(t *testing.T) { // TestMain looks for what is left
	c := connect(t, serve(t, pipeline(engines(t).Cascade())))
	c.says("m1", "What is the time?")
	c.send(&dialect.ResponseCreate{})
	next[*dialect.ResponseCreated](c, nil)
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
}
