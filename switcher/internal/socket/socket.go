// Package socket is what stands between a leg's loop and its two sides, the provider's WebSocket and the session: queues with bounds, deadlines, pings, closes explained; it knows no provider's messages.
package socket

import (
	"context"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// MaxMessage is the longest message taken, in bytes; the sound of providers comes in far smaller ones.
const MaxMessage = 16 << 20

// Frame is one message of the provider.
type Frame struct {
	Data   []byte
	Binary bool
}

// Message is one on its way to the provider; Samples of sound are in it.
type Message struct {
	Data    []byte
	Binary  bool
	Samples int
}

// Times of a Socket.
type Times struct {
	Write time.Duration // of one message
	Pong  time.Duration // without anything from the provider; a third of it is between two pings
}

// Broken marks what the provider's close code may explain; see Closed.
type Broken struct{ Err error }

func (e *Broken) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Broken) Unwrap() error { return e.Err }

// Socket is an open connection with its reader and its writer.
type Socket struct {
	Frames <-chan Frame // the reader waits while nobody takes
	Send   *Queue[Message]
	Ended  <-chan error // of the reader and the writer; capacity for both

	conn *websocket.Conn
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Open starts the reader and the writer of a connection, until Close.
func Open(ctx context.Context, conn *websocket.Conn, t Times) *Socket {
	frames, ended := make(chan Frame), make(chan error, 2)
	ctx, stop := context.WithCancel(ctx)
	s := &Socket{Frames: frames, Send: NewQueue(func(m Message) int { return m.Samples }), Ended: ended, conn: conn, stop: stop}
	conn.SetReadLimit(MaxMessage)
	s.wg.Go(func() { ended <- s.read(ctx, frames, t) })
	s.wg.Go(func() { ended <- s.write(ctx, t) })
	return s
}

// Close says goodbye and returns when reader and writer have ended.
func (s *Socket) Close() {
	s.stop()
	// A last word is worth one second; a provider that does not read it is left all the same.
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = s.conn.Close()
	s.wg.Wait()
}

// read gives the provider's messages to the loop until the connection ends. Time during which the loop does not take counts for
// nothing: the deadline is set anew for every message.
func (s *Socket) read(ctx context.Context, frames chan<- Frame, t Times) error {
	alive := func(string) error { return s.conn.SetReadDeadline(time.Now().Add(t.Pong)) }
	s.conn.SetPongHandler(alive)
	ping := s.conn.PingHandler()
	s.conn.SetPingHandler(func(data string) error {
		_ = alive("")
		return ping(data)
	})
	for {
		_ = alive("")
		kind, data, err := s.conn.ReadMessage()
		if err != nil {
			return &Broken{err}
		}
		select {
		case frames <- Frame{data, kind == websocket.BinaryMessage}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write is the only writer of messages, and keeps the connection alive with pings.
func (s *Socket) write(ctx context.Context, t Times) error {
	always := make(chan struct{})
	close(always)
	pings := time.NewTicker(t.Pong / 3)
	defer pings.Stop()
	for {
		m, ok := s.Send.Take()
		if ok {
			kind := websocket.TextMessage
			if m.Binary {
				kind = websocket.BinaryMessage
			}
			_ = s.conn.SetWriteDeadline(time.Now().Add(t.Write))
			if err := s.conn.WriteMessage(kind, m.Data); err != nil {
				return unwritten(ctx, err)
			}
		}
		more := s.Send.wake
		if ok { // there may be more: a ping must not wait for the end of it
			more = always
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pings.C:
			if err := s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(t.Write)); err != nil {
				return unwritten(ctx, err)
			}
		case <-more:
		}
	}
}

// unwritten lets the reader tell why the connection ended, for a second: it has the close code.
func unwritten(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return &Broken{err}
}
