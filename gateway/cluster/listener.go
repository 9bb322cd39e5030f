package cluster

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// waiting is how many streams may wait for Accept; more are refused.
const waiting = 64

// listener gives the streams that are dialled to this node.
type listener struct {
	node *Node
	in   chan net.Conn
	once sync.Once
	done chan struct{}
}

func newListener(n *Node) *listener {
	return &listener{node: n, in: make(chan net.Conn, waiting), done: make(chan struct{})}
}

// dialled answers a node that wants a stream: an empty answer is a yes.
func (l *listener) dialled(msg *nats.Msg) {
	peer, id, ok := strings.Cut(string(msg.Data), " ")
	conn, err := l.node.cfg.Store.Conn(context.Background())
	if !ok || err != nil {
		_ = msg.Respond([]byte("the node cannot take it"))
		return
	}
	s, err := newStream(l.node, conn, peer, "tun."+id+".b", "tun."+id+".a")
	if err != nil {
		_ = msg.Respond([]byte(err.Error()))
		return
	}
	select {
	case <-l.done:
	case l.in <- s:
		_ = msg.Respond(nil)
		return
	default:
	}
	s.fail(net.ErrClosed)
	_ = msg.Respond([]byte("too many streams wait at the node"))
}

// pipe is a stream of this node to itself.
func (l *listener) pipe(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.in <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.in:
			_ = c.Close()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr(l.node.cfg.ID) }

// deadline is a point in time that can be moved.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{}
}

func newDeadline() *deadline { return &deadline{done: make(chan struct{})} }

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // it has passed, or is just passing
	}
	d.timer = nil
	passed := false
	select {
	case <-d.done:
		passed = true
	default:
	}
	if passed {
		d.done = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if wait := time.Until(t); wait > 0 {
		done := d.done
		d.timer = time.AfterFunc(wait, func() { close(done) })
		return
	}
	close(d.done)
}

// passed is closed when the point in time has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}
