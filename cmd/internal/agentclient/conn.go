package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/gateway/wire"
)

// Bounds of one connection.
const (
	dialTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	pingEvery    = 10 * time.Second
	silence      = 35 * time.Second // nothing at all received: the gateway is gone
	byeTimeout   = time.Second      // for the gateway to close after our bye
	maxMessage   = 64 << 20         // a PNG of 4096×4096 with its header
	outQueue     = 2*maxInFlight + 8
)

type dialer struct{ *websocket.Dialer }

func newDialer() dialer {
	return dialer{&websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: dialTimeout, Subprotocols: []string{wire.Subprotocol}}}
}

// conn is one WebSocket: attach reads it, writeLoop alone writes it.
type conn struct {
	ws   *websocket.Conn
	legs *legs
	out  chan outgoing // a sender waits for room, or for one of the two ends
	done chan struct{} // closed when the reader has ended
	gone chan struct{} // closed when the writer has ended
}

type outgoing struct {
	kind int // of the WebSocket message
	data []byte
}

// attach connects, says hello and reads until the connection ends. welcomed tells whether it got as far as that.
func (c *Client) attach(ctx context.Context) (welcomed bool, err error) {
	c.count(func(s *Stats) { s.Attempts++ })
	header := http.Header{}
	if c.cfg.Token != "" {
		header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	ws, answer, err := c.dialer.DialContext(ctx, c.target.String(), header)
	if err != nil {
		if answer != nil && answer.StatusCode != http.StatusSwitchingProtocols {
			return false, refusedUpgrade(answer)
		}
		return false, fmt.Errorf("connect to %s: %w", c.target.Host, err)
	}
	if ws.Subprotocol() != wire.Subprotocol {
		ws.Close()
		return false, fmt.Errorf("%s does not speak %s", c.target.Host, wire.Subprotocol)
	}
	k := &conn{ws: ws, out: make(chan outgoing, outQueue), done: make(chan struct{}), gone: make(chan struct{})}
	k.legs = c.newLegs(ctx, k)
	var writer sync.WaitGroup
	writer.Go(func() { k.writeLoop(ctx) })
	defer func() {
		c.mu.Lock()
		if c.conn == k {
			c.conn = nil
			c.signal()
		}
		c.mu.Unlock()
		close(k.done)
		ws.Close() // frees a writer that is stuck in a write
		writer.Wait()
		k.legs.end()
	}()
	return c.readLoop(k)
}

func (c *Client) readLoop(k *conn) (welcomed bool, err error) {
	k.ws.SetReadLimit(maxMessage)
	k.alive()
	k.ws.SetPongHandler(func(string) error { k.alive(); return nil })
	answerPing := k.ws.PingHandler()
	k.ws.SetPingHandler(func(data string) error { k.alive(); return answerPing(data) })
	k.send(c.hello())
	for {
		kind, message, err := k.ws.ReadMessage()
		if err != nil {
			return welcomed, c.explain(err)
		}
		k.alive()
		if kind == websocket.BinaryMessage {
			err = c.takeBinary(k, message)
		} else {
			err = c.takeText(k, message, &welcomed)
		}
		if err != nil {
			return welcomed, err
		}
	}
}

func (k *conn) alive() { _ = k.ws.SetReadDeadline(time.Now().Add(silence)) } // fails only on a closed socket

func (c *Client) hello() wire.Hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := wire.Hello{Type: wire.TypeHello, AgentID: c.cfg.AgentID, Want: c.cfg.Want}
	if c.resume {
		seq := c.chat.Seq()
		h.ResumeFrom, h.LogID = &seq, c.logID
	}
	return h
}

// writeLoop owns all writes but control answers. When ctx ends it says bye and gives the gateway a moment to close.
func (k *conn) writeLoop(ctx context.Context) {
	defer close(k.gone)
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case message := <-k.out:
			_ = k.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
			err = k.ws.WriteMessage(message.kind, message.data)
		case <-ping.C:
			err = k.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
		case <-ctx.Done():
			k.bye()
			return
		case <-k.done:
			return
		}
		if err != nil {
			k.ws.Close() // the reader ends with it
			return
		}
	}
}

func (k *conn) bye() {
	deadline := time.Now().Add(byeTimeout)
	_ = k.ws.SetWriteDeadline(deadline)
	_ = k.ws.SetReadDeadline(deadline)
	message, _ := json.Marshal(wire.Bye{Type: wire.TypeBye})
	if k.ws.WriteMessage(websocket.TextMessage, message) == nil {
		closing := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = k.ws.WriteControl(websocket.CloseMessage, closing, deadline) // leaving: an error changes nothing
	}
}

// send queues a message for the writer; it gives up when the connection has ended.
func (k *conn) send(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		panic("agentclient: a wire type does not marshal: " + err.Error())
	}
	k.queue(outgoing{websocket.TextMessage, data})
}

func (k *conn) queue(o outgoing) {
	select {
	case k.out <- o:
	case <-k.done:
	case <-k.gone:
	}
}

// sendBinary queues a binary message.
func (k *conn) sendBinary(header any, payload []byte) {
	data, err := wire.EncodeBinary(header, payload)
	if err != nil {
		panic("agentclient: a wire type does not marshal: " + err.Error())
	}
	k.queue(outgoing{websocket.BinaryMessage, data})
}

func (c *Client) takeText(k *conn, message []byte, welcomed *bool) error {
	kind, err := wire.TypeOf(message)
	if err != nil {
		return fmt.Errorf("gateway sent %.80q: %w", message, err)
	}
	if !*welcomed && kind != wire.TypeWelcome && kind != wire.TypeError && kind != wire.TypeBye {
		return fmt.Errorf("gateway sent %q before welcome", kind)
	}
	h := c.cfg.Handler
	if ok, err := k.legs.take(kind, message); ok {
		return err
	}
	switch kind {
	case wire.TypeWelcome:
		*welcomed = true
		return decode(message, func(w wire.Welcome) error { return c.welcome(k, w) })
	case wire.TypeContextEntry:
		return decode(message, func(e wire.ContextEntry) error { return c.apply(e.Entry) })
	case wire.TypeAck:
		return decode(message, func(a wire.Ack) error { c.acked(a); return nil })
	case wire.TypeError:
		return decode(message, func(e wire.Error) error { c.refused(e); return nil })
	case wire.TypeSource:
		return decode(message, func(s wire.Source) error { call1(h.Source, s); return nil })
	case wire.TypePipelineCommitted:
		return decode(message, func(m wire.PipelineCommitted) error { call1(h.Switched, m); return nil })
	case wire.TypePipelineAborted:
		return decode(message, func(m wire.PipelineAborted) error { call1(h.Aborted, m); return nil })
	case wire.TypeTranscript:
		return decode(message, func(m wire.Transcript) error { call1(h.Transcript, m); return nil })
	case wire.TypePlayed:
		return decode(message, func(m wire.Played) error { call1(h.Played, m); return nil })
	case wire.TypeToolCall:
		return decode(message, func(m wire.ToolCall) error { call1(h.ToolCall, m); return nil })
	case wire.TypeBye:
		return decode(message, func(b wire.Bye) error { call1(h.Bye, b); return nil })
	}
	return nil // what is not known is ignored: fields and messages may be added
}

func decode[T any](message []byte, take func(T) error) error {
	var m T
	if err := json.Unmarshal(message, &m); err != nil {
		return fmt.Errorf("gateway sent %.80q: %w", message, err)
	}
	return take(m)
}

func call1[T any](f func(T), value T) {
	if f != nil {
		f(value)
	}
}

func (c *Client) welcome(k *conn, w wire.Welcome) error {
	c.mu.Lock()
	c.stats.Attached++
	if w.Snapshot != nil {
		chat, err := chatctx.FromSnapshot(*w.Snapshot)
		if err != nil {
			c.mu.Unlock()
			return fmt.Errorf("gateway's snapshot: %w", err)
		}
		c.chat = chat
	} else if !w.Replayed && !c.cfg.Want.Context {
		c.chat = chatctx.New() // not following the conversation
	}
	c.resume, c.logID = c.cfg.Want.Context, w.LogID
	c.conn = k
	again := make([]any, len(c.ops))
	for i, op := range c.ops {
		again[i] = op.message
	}
	c.signal()
	c.mu.Unlock()
	for _, message := range again {
		k.send(message)
	}
	k.legs.register()
	call1(c.cfg.Handler.Attached, w)
	return nil
}

// apply folds an entry in; what does not follow the last one means that the stream is broken, and resuming mends it.
func (c *Client) apply(e chatctx.Entry) error {
	c.mu.Lock()
	if err := c.chat.Apply(e); err != nil {
		c.mu.Unlock()
		return fmt.Errorf("gateway's entries are not in sequence: %w", err)
	}
	c.stats.Entries++
	c.signal()
	c.mu.Unlock()
	call1(c.cfg.Handler.Entry, e)
	return nil
}

func (c *Client) takeBinary(k *conn, message []byte) error {
	received := time.Now()
	kind, header, payload, err := wire.DecodeBinary(message)
	if err != nil {
		return fmt.Errorf("gateway's binary message: %w", err)
	}
	if kind == wire.TypeAudio {
		h, err := legAudio(header)
		if err == nil {
			k.legs.hear(h, payload)
		}
		return err
	}
	if kind != wire.TypeImage {
		return nil
	}
	image := Image{Data: payload, ReceivedAt: received}
	if err := json.Unmarshal(header, &image.ImageHeader); err != nil {
		return fmt.Errorf("gateway's image header %.80q: %w", header, err)
	}
	c.count(func(s *Stats) { s.Images++; s.Superseded += image.Superseded })
	if image.RequestID != "" {
		c.answered(image)
		return nil
	}
	call1(c.cfg.Handler.Image, image)
	return nil
}

func (c *Client) count(add func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.stats)
}

// explain turns the close codes that have a meaning here into errors of this package.
func (c *Client) explain(err error) error {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code == wire.CloseReplaced {
		return ErrReplaced
	}
	return err
}
