package faketest

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

// conn is one socket.
type conn struct {
	p    *Provider
	ws   *websocket.Conn
	out  chan []byte
	done chan struct{}
	once sync.Once

	sounds atomic.Int64 // pieces sent
	wg     sync.WaitGroup

	mu      sync.Mutex
	number  int
	session dialect.Session
	items   []*item
	created int // item.create events

	written int // samples appended in all
	buffer  int // … since the last commit
	ear     vad

	answer *playing // the active one
	late   []func() // transcripts for after it
}

type item struct {
	dialect.Item
	samples int // of sound that was sent
}

func newConn(p *Provider, ws *websocket.Conn) *conn {
	return &conn{p: p, ws: ws, out: make(chan []byte, 256), done: make(chan struct{}), session: dialect.Session{Type: "realtime", ID: "sess_fake", Object: "realtime.session", Model: "fake",
		Audio: &dialect.Audio{Input: &dialect.AudioInput{TurnDetection: dialect.Some(dialect.TurnDetection{Type: "server_vad"})}}}}
}

func (c *conn) id(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return kind + "_" + strconv.Itoa(c.number)
}

// serve returns when the socket and all it started have ended.
func (c *conn) serve() {
	c.wg.Go(c.write)
	if d := c.p.script.ExpiresIn; d > 0 {
		c.session.ExpiresAt = time.Now().Add(d).Unix()
		c.wg.Go(func() { c.expire(d) })
	}
	if c.p.script.Conversation {
		c.emit(&dialect.ConversationCreated{EventID: c.id("event"), Conversation: dialect.Conversation{ID: "conv", Object: "realtime.conversation"}})
	} else {
		c.emit(&dialect.SessionCreated{EventID: c.id("event"), Session: c.session})
	}
	for {
		if d := c.p.script.SlowRead; d > 0 {
			time.Sleep(d)
		}
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			break
		}
		c.take(data)
	}
	c.once.Do(func() { close(c.done) })
	c.wg.Wait()
	_ = c.ws.Close()
}

func (c *conn) write() {
	for {
		select {
		case data := <-c.out:
			_ = c.ws.SetWriteDeadline(time.Now().Add(10 * time.Minute))
			if c.ws.WriteMessage(websocket.TextMessage, data) != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *conn) expire(d time.Duration) {
	select {
	case <-time.After(d):
		c.emit(&dialect.Error{EventID: c.id("event"), Error: dialect.ErrorDetail{Type: "invalid_request_error", Code: "session_expired", Message: "Your session hit the maximum duration of 60 minutes."}})
		c.close(websocket.CloseGoingAway, "Your session hit the maximum duration of 60 minutes.")
	case <-c.done:
	}
}

func (c *conn) close(code int, text string) {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
	_ = c.ws.SetReadDeadline(time.Now().Add(time.Second)) // for the other side's close
}

// take checks an event and does it.
func (c *conn) take(data []byte) {
	if err := dialecttest.Client(data); err != nil {
		c.p.violation("%.300s: %v", data, err)
	}
	e, err := dialect.DecodeClient(data)
	if err != nil {
		c.p.violation("%.300s: %v", data, err)
		return
	}
	if a, ok := e.(*dialect.InputAudioAppend); ok {
		c.append(a)
		return
	}
	c.p.mu.Lock()
	c.p.got = append(c.p.got, e)
	c.p.mu.Unlock()
	switch e := e.(type) {
	case *dialect.SessionUpdate:
		c.update(e)
	case *dialect.InputAudioCommit:
		c.commit(e)
	case *dialect.InputAudioClear:
		c.mu.Lock()
		c.buffer = 0
		c.mu.Unlock()
		c.emit(&dialect.InputAudioCleared{EventID: c.id("event")})
	case *dialect.ItemCreate:
		c.create(e)
	case *dialect.ItemTruncate:
		c.truncate(e)
	case *dialect.ItemDelete:
		c.remove(e)
	case *dialect.ResponseCreate:
		c.respond(e)
	case *dialect.ResponseCancel:
		c.cancel(e)
	default:
		c.p.violation("not scripted: %s", e.EventType())
	}
}

func (c *conn) update(e *dialect.SessionUpdate) {
	if e.Session.Type != "realtime" {
		c.p.violation("session.update without session.type")
	}
	if len(e.Session.OutputModalities) > 1 {
		c.p.violation("output_modalities %v: one only", e.Session.OutputModalities)
	}
	if a := e.Session.Audio; a != nil && a.Input != nil && a.Input.Format != nil && *a.Input.Format != (dialect.Format{Type: "audio/pcm", Rate: 24000}) {
		c.p.violation("input format %+v", *a.Input.Format)
	}
	c.mu.Lock()
	c.session.Merge(e.Session)
	s := c.session
	c.mu.Unlock()
	if !c.p.script.NoUpdated {
		c.emit(&dialect.SessionUpdated{EventID: c.id("event"), Session: s})
	}
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func (c *conn) create(e *dialect.ItemCreate) {
	s := &c.p.script
	c.created++
	if s.CloseOnItem != 0 {
		c.close(s.CloseOnItem, "Request contains an invalid argument.")
		return
	}
	if c.created == s.RefuseItem {
		c.fail("invalid_value", "the item is refused", e.EventID)
		return
	}
	it := e.Item
	if it.ID != "" && (!plain.MatchString(it.ID) || c.find(it.ID) != nil) {
		c.p.violation("item id %q is not 1 to 32 of [A-Za-z0-9_-], or taken", it.ID)
	}
	c.check(it)
	c.mu.Lock()
	last := ""
	if n := len(c.items); n > 0 {
		last = c.items[n-1].ID
	}
	c.mu.Unlock()
	if before := e.PreviousItemID; before != "" && before != "root" {
		if c.find(before) == nil {
			c.fail("item_create_invalid_previous_item_id", "no item "+before, e.EventID)
			return
		}
		last = before
	}
	if it.Type == dialect.ItemCallOutput && !c.called(it.CallID) {
		c.p.violation("call_id %q is not in the conversation, or answered", it.CallID)
		c.fail("invalid_tool_call_id", "Tool call ID '"+it.CallID+"' not found in conversation.", e.EventID)
		return
	}
	if it.ID == "" || s.OwnIDs {
		it.ID = c.id("item")
	}
	it.Object, it.Status = "realtime.item", dialect.StatusCompleted
	c.add(it, last)
	c.emit(&dialect.ItemDone{EventID: c.id("event"), PreviousItemID: &last, Item: it})
}

// add puts an item at the end and says so in the way of the script.
func (c *conn) add(it dialect.Item, before string) *item {
	kept := &item{Item: it}
	c.mu.Lock()
	c.items = append(c.items, kept)
	c.mu.Unlock()
	if c.p.script.CreatedToo || c.p.script.Beta {
		c.emit(&dialect.ItemCreated{EventID: c.id("event"), PreviousItemID: &before, Item: it})
	}
	if !c.p.script.Beta {
		c.emit(&dialect.ItemAdded{EventID: c.id("event"), PreviousItemID: &before, Item: it})
	}
	return kept
}

// check holds an item against what the types do not say.
func (c *conn) check(it dialect.Item) {
	if it.Type == dialect.ItemMessage && len(it.Content) == 0 {
		c.p.violation("a message without content")
	}
	for _, p := range it.Content {
		want := "input_"
		if it.Role == "assistant" {
			want = "output_"
		}
		switch {
		case !strings.HasPrefix(p.Type, want) || p.Type == "output_audio":
			c.p.violation("%s content in a message of role %s", p.Type, it.Role)
		case strings.HasSuffix(p.Type, "_text") && strings.TrimSpace(p.Text) == "":
			c.p.violation("an empty text")
		case p.Type == "input_image" && !strings.HasPrefix(p.ImageURL, "data:image/jpeg;base64,") && !strings.HasPrefix(p.ImageURL, "data:image/png;base64,"):
			c.p.violation("image_url %.30q", p.ImageURL)
		}
	}
	if it.Type == dialect.ItemCall && (it.CallID == "" || !plain.MatchString(it.CallID) || it.Name == "") {
		c.p.violation("call %+v", it)
	}
	if it.Type == dialect.ItemCall && c.has(it.CallID) {
		c.p.violation("call_id %q is taken", it.CallID)
	}
}

func (c *conn) conversation() []dialect.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]dialect.Item, len(c.items))
	for i, it := range c.items {
		all[i] = it.Item
	}
	return all
}

func (c *conn) find(id string) *item {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range c.items {
		if it.ID == id {
			return it
		}
	}
	return nil
}

// called: the call is in the conversation and has no output yet.
func (c *conn) called(callID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := 0
	for _, it := range c.items {
		if it.CallID == callID && it.Type == dialect.ItemCall {
			calls++
		} else if it.CallID == callID {
			calls--
		}
	}
	return calls > 0
}

func (c *conn) truncate(e *dialect.ItemTruncate) {
	it := c.find(e.ItemID)
	switch {
	case it == nil || it.Role != "assistant" || it.samples == 0:
		c.p.violation("truncate of %q, which is no sound of the assistant's", e.ItemID)
		c.fail("item_truncate_invalid_item_id", "no such item", e.EventID)
		return
	case e.AudioEndMs <= 0 || e.AudioEndMs > dialect.Millis(samples(it.samples).Milliseconds()):
		c.p.violation("audio_end_ms %d of %v", e.AudioEndMs, samples(it.samples))
		c.fail("item_truncate_invalid_audio_end_ms", "too long", e.EventID)
		return
	}
	c.mu.Lock()
	it.samples = int(e.AudioEndMs) * dialect.Rate / 1000
	it.Content = []dialect.Part{{Type: "output_audio"}}
	c.mu.Unlock()
	c.emit(&dialect.ItemTruncated{EventID: c.id("event"), ItemID: e.ItemID, ContentIndex: e.ContentIndex, AudioEndMs: e.AudioEndMs})
}

func (c *conn) remove(e *dialect.ItemDelete) {
	if c.find(e.ItemID) == nil {
		c.p.violation("delete of %q, which is not there", e.ItemID)
		c.fail("item_delete_invalid_item_id", "no such item", e.EventID)
		return
	}
	c.mu.Lock()
	for i, it := range c.items {
		if it.ID == e.ItemID {
			c.items = append(c.items[:i], c.items[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	c.emit(&dialect.ItemDeleted{EventID: c.id("event"), ItemID: e.ItemID})
}

// toBeta gives an event the name it had in the beta.
func toBeta(data []byte) []byte {
	for _, names := range [][2]string{{"response.output_audio_transcript.", "response.audio_transcript."}, {"response.output_audio.", "response.audio."}, {"response.output_text.", "response.text."}} {
		data = bytes.Replace(data, []byte(`{"type":"`+names[0]), []byte(`{"type":"`+names[1]), 1)
	}
	return data
}

func samples(n int) time.Duration { return time.Duration(n) * time.Second / dialect.Rate }
