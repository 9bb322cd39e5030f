package realtime

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"sightline/gateway/problem"
	"sightline/switcher/realtime/dialect"
)

// Bounds of a socket.
const (
	// MaxMessage is the longest message taken, in bytes: an input_audio_buffer.append of 15 MiB and what is around it.
	MaxMessage = 16 << 20
	maxQueued  = 8 << 20 // bytes that wait for the client before the leg does

	pingEvery        = 15 * time.Second
	silenceTimeout   = 60 * time.Second // no pong and no message for so long: gone
	writeTimeout     = 30 * time.Second
	closeTimeout     = 2 * time.Second
	handshakeTimeout = 10 * time.Second
	eventsPerSecond  = 500 // the rest waits in the socket
	eventsBurst      = 2000
)

// Upgrade makes the WebSocket; what is wrong has been answered when it fails. Of the subprotocols it selects realtime.
func Upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	u := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout, Subprotocols: []string{"realtime"}, WriteBufferSize: 16 << 10,
		CheckOrigin: func(*http.Request) bool { return true }, // the gateway's guard has checked it
		Error: func(w http.ResponseWriter, _ *http.Request, _ int, reason error) {
			problem.Write(w, problem.New(problem.InvalidArgument, "this is a WebSocket: %s", reason))
		},
	}
	return u.Upgrade(w, r, nil)
}

// CloseReason is the cause of a context that ends a call: the client is told it as the socket closes.
type CloseReason struct {
	Code int
	Text string
}

func (c *CloseReason) Error() string { return c.Text }

// Serve talks with the client until it leaves or ctx ends. It owns the socket, and returns after all its goroutines.
func (k *Call) Serve(ctx context.Context, conn *websocket.Conn, s Session) error {
	k.session = s
	ctx, cancel := context.WithCancelCause(ctx)
	var loops sync.WaitGroup
	loop := func(run func(context.Context) error) {
		loops.Go(func() { cancel(run(ctx)) })
	}
	wrote := make(chan struct{})
	snapshot := s.Log.Snapshot()
	k.do(ctx, func(c *core) {
		c.begin()
		c.watch(snapshot.Items)
	})
	loop(func(ctx context.Context) error { return k.follow(ctx, snapshot.Seq) })
	loop(k.wake)
	loop(func(ctx context.Context) error { return k.read(ctx, conn) })
	loop(func(ctx context.Context) error {
		defer close(wrote)
		return k.send.write(ctx, conn)
	})
	<-ctx.Done()
	closing := &CloseReason{websocket.CloseNormalClosure, ""}
	errors.As(context.Cause(ctx), &closing)
	_ = conn.NetConn().SetWriteDeadline(time.Now().Add(closeTimeout)) // a client that does not read is not waited for
	<-wrote
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(closing.Code, closing.Text), time.Now().Add(time.Second))
	_ = conn.Close()
	loops.Wait()
	return context.Cause(ctx)
}

// wake keeps the core's deadlines.
func (k *Call) wake(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.mu.Lock()
		at, due := k.core.deadline()
		k.mu.Unlock()
		if due {
			timer.Reset(max(time.Until(at), 0))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.alarm:
		case <-timer.C:
			k.do(ctx, func(c *core) { c.tick() })
		}
	}
}

// follow tells the client what others put into the conversation.
func (k *Call) follow(ctx context.Context, after uint64) error {
	cursor, err := k.session.Log.Follow(after)
	if err != nil {
		return err
	}
	for {
		e, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		k.do(ctx, func(c *core) { c.entry(e) })
	}
}

// read takes the client's events in, one after the other.
func (k *Call) read(ctx context.Context, conn *websocket.Conn) error {
	conn.SetReadLimit(MaxMessage)
	alive := func(string) error { return conn.SetReadDeadline(time.Now().Add(silenceTimeout)) }
	conn.SetPongHandler(alive)
	limiter := rate.NewLimiter(eventsPerSecond, eventsBurst)
	for {
		_ = alive("")
		_, data, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		e, err := dialect.DecodeClient(data)
		if err != nil {
			k.do(ctx, func(c *core) { c.malformed(err) })
			continue
		}
		if needsLeg(e) && !k.cfg.Watch {
			if _, err := k.ready(ctx); err != nil {
				if ctx.Err() != nil {
					return err
				}
				k.do(ctx, func(c *core) { c.refuse(eventIDOf(e), faultf("server_error", "", "%s", err)) })
				continue
			}
		}
		k.do(ctx, func(c *core) { c.client(e) })
	}
}

// needsLeg: the event is worth nothing without a pipeline.
func needsLeg(e dialect.ClientEvent) bool {
	switch e.(type) {
	case *dialect.InputAudioAppend, *dialect.InputAudioCommit, *dialect.ResponseCreate:
		return true
	}
	return false
}

func eventIDOf(e dialect.ClientEvent) string {
	switch e := e.(type) {
	case *dialect.InputAudioAppend:
		return e.EventID
	case *dialect.InputAudioCommit:
		return e.EventID
	case *dialect.ResponseCreate:
		return e.EventID
	}
	return ""
}

// sendQueue is what waits for the client, in order.
type sendQueue struct {
	wake chan struct{} // capacity 1
	more chan struct{} // capacity 1: there is room again

	mu    sync.Mutex
	queue [][]byte
	bytes int
}

func newSendQueue() *sendQueue {
	return &sendQueue{wake: make(chan struct{}, 1), more: make(chan struct{}, 1)}
}

func (q *sendQueue) put(data []byte) {
	q.mu.Lock()
	q.queue = append(q.queue, data)
	q.bytes += len(data)
	q.mu.Unlock()
	poke(q.wake)
}

func (q *sendQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > maxQueued
}

func (q *sendQueue) take() (data []byte, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil, false
	}
	data = q.queue[0]
	q.queue[0] = nil
	q.queue = q.queue[1:]
	q.bytes -= len(data)
	return data, q.bytes > 4*maxQueued
}

// write is the only writer of messages. A client that asks and does not read is let go.
func (q *sendQueue) write(ctx context.Context, conn *websocket.Conn) error {
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for {
		data, over := q.take()
		if over {
			return &CloseReason{websocket.CloseTryAgainLater, "the client does not read what it asked for"}
		}
		if data != nil {
			poke(q.more)
			_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if err := conn.WriteMessage(websocket.TextMessage, data); err != nil {
				return err
			}
			if ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.wake:
		case <-pings.C:
			if err := conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)); err != nil {
				return err
			}
		}
	}
}
