package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
)

func dialSubject(node string) string { return "rpc." + node + ".dial" }

// Kinds of a stream's messages: the first byte. The others are 8 bytes of a number, big-endian, and the data.
const (
	kindData   = 'd' // the number counts messages from 0
	kindCredit = 'c' // the number is how many bytes have been read so far; also says that somebody is there
	kindClose  = 'x'
	headerSize = 9
)

// Bounds of a stream.
const (
	window      = 1 << 20 // bytes on their way or unread
	chunk       = 128 << 10
	creditEvery = window / 8
	dialTimeout = 3 * time.Second
	aliveEvery  = 5 * time.Second
	silentAfter = 20 * time.Second
)

// stream is a net.Conn over core NATS messages between two nodes.
type stream struct {
	node    *Node
	peer    string
	conn    *nats.Conn
	out     string // the subject that the other side listens to
	sub     *nats.Subscription
	readBy  *deadline
	writeBy *deadline
	over    chan struct{} // closed when it has failed or was closed
	keeper  sync.WaitGroup

	mu       sync.Mutex
	in       []byte
	eof      bool // the other side has closed
	err      error
	next     uint64 // number of the next message in
	heard    time.Time
	read     uint64 // bytes taken by Read
	told     uint64 // of these, what the other side knows of
	sent     uint64 // bytes
	taken    uint64 // of these, what the other side has read
	number   uint64 // of the next message out
	readable chan struct{}
	writable chan struct{}
}

func newStream(n *Node, conn *nats.Conn, peer, in, out string) (*stream, error) {
	s := &stream{
		node: n, peer: peer, conn: conn, out: out, heard: time.Now(), readBy: newDeadline(), writeBy: newDeadline(),
		over: make(chan struct{}), readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
	}
	var err error
	s.mu.Lock() // take may be called at once
	s.sub, err = conn.Subscribe(in, s.take)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.streams[s] = struct{}{}
	n.mu.Unlock()
	s.keeper.Go(s.keep)
	return s, nil
}

// Dial opens a stream to a node, which accepts it from its Listener. A node that is not there refuses at once.
func (n *Node) Dial(ctx context.Context, node string) (net.Conn, error) {
	if node == n.cfg.ID {
		return n.inbound.pipe(ctx)
	}
	conn, err := n.cfg.Store.Conn(ctx)
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	s, err := newStream(n, conn, node, "tun."+id+".a", "tun."+id+".b")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	answer, err := conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: dialSubject(node), Data: []byte(n.cfg.ID + " " + id)})
	if err == nil && len(answer.Data) > 0 {
		err = errors.New(string(answer.Data))
	}
	if err != nil {
		s.fail(err)
		return nil, &net.OpError{Op: "dial", Net: "cluster", Addr: addr(node), Err: err}
	}
	return s, nil
}

// take gets the messages of the other side, one after the other. It never waits.
func (s *stream) take(msg *nats.Msg) {
	if len(msg.Data) < headerSize {
		return
	}
	number, data := binary.BigEndian.Uint64(msg.Data[1:]), msg.Data[headerSize:]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	switch msg.Data[0] {
	case kindData:
		if number != s.next || len(s.in)+len(data) > window {
			s.failLocked(errors.New("bytes between the nodes were lost"))
			return
		}
		s.next++
		s.in = append(s.in, data...)
		poke(s.readable)
	case kindCredit:
		if number > s.taken && number <= s.sent {
			s.taken = number
			poke(s.writable)
		}
	case kindClose:
		if number != s.next {
			s.failLocked(errors.New("bytes between the nodes were lost"))
			return
		}
		s.eof = true
		poke(s.readable)
		poke(s.writable)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *stream) post(kind byte, number uint64, data []byte) error {
	b := make([]byte, headerSize, headerSize+len(data))
	b[0] = kind
	binary.BigEndian.PutUint64(b[1:], number)
	return s.conn.Publish(s.out, append(b, data...))
}

// Read implements net.Conn.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		if n := copy(p, s.in); n > 0 {
			if s.in = s.in[n:]; len(s.in) == 0 {
				s.in = nil
			}
			s.read += uint64(n)
			read, due := s.read, s.read-s.told >= creditEvery
			if due {
				s.told = read
			}
			s.mu.Unlock()
			if due {
				_ = s.post(kindCredit, read, nil) // said again by keep
			}
			return n, nil
		}
		err := s.err
		if err == nil && s.eof {
			err = io.EOF
		}
		s.mu.Unlock()
		if err != nil || len(p) == 0 {
			return 0, err
		}
		select {
		case <-s.readable:
		case <-s.over:
		case <-s.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// Write implements net.Conn; it waits while the other side does not read. Of several writers at once each writes its pieces whole.
func (s *stream) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n, err := s.write(p)
		if written += n; err != nil {
			return written, err
		}
		if p = p[n:]; n > 0 {
			continue
		}
		select {
		case <-s.writable:
		case <-s.over:
		case <-s.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		}
	}
	return written, nil
}

// write sends what there is room for.
func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.writeBy.passed():
		return 0, os.ErrDeadlineExceeded
	default:
	}
	switch {
	case s.err != nil:
		return 0, s.err
	case s.eof:
		return 0, io.ErrClosedPipe
	}
	n = min(len(p), chunk, int(window-(s.sent-s.taken)))
	if n == 0 {
		return 0, nil
	}
	if err := s.post(kindData, s.number, p[:n]); err != nil { // into the client's buffer; the socket is not waited for
		s.failLocked(err)
		return 0, err
	}
	s.number++
	s.sent += uint64(n)
	return n, nil
}

// keep says now and then that this side is there, and ends the stream when the other does not.
func (s *stream) keep() {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		read, silent := s.read, time.Since(s.heard) > silentAfter
		s.told = read
		s.mu.Unlock()
		if silent {
			s.fail(errors.New("the other node is silent"))
			return
		}
		_ = s.post(kindCredit, read, nil)
	}
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *stream) failLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	close(s.over)
	_ = s.sub.Unsubscribe()
}

// Close implements net.Conn; what was written before reaches the other side.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_ = s.post(kindClose, s.number, nil)
		s.failLocked(net.ErrClosed)
	}
	return nil
}

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return addr(s.node.cfg.ID) }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return addr(s.peer) }

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(t time.Time) error {
	s.readBy.set(t)
	s.writeBy.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.readBy.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.writeBy.set(t)
	return nil
}

// addr is a node as an address.
type addr string

// Network implements net.Addr.
func (addr) Network() string { return "cluster" }

// String implements net.Addr.
func (a addr) String() string { return "node-" + string(a) + ":0" }
