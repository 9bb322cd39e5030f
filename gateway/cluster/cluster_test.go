package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	chatctx "sightline/context"
	"sightline/context/jetstream"
)

const lease = 1200 * time.Millisecond

// startServer is a NATS server with JetStream, alone.
func startServer(t testing.TB) string {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, SyncAlways: true, MaxPayload: 4 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not get ready")
	}
	return srv.ClientURL()
}

// startNode runs a node until the test ends or stop is called.
func startNode(t testing.TB, url, id string) (n *Node, stop func()) {
	t.Helper()
	store, err := jetstream.Open(t.Context(), jetstream.Config{
		External: jetstream.External{URL: url, Replicas: 1, Lease: lease}, UnsafeSync: true, MaxStoreBytes: 64 << 20, Partitions: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err = New(Config{Store: store, ID: id, URL: "http://" + id, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-ended, store.Close()); err != nil {
			t.Errorf("node %s: %v", id, err)
		}
	}
	t.Cleanup(stop)
	return n, stop
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func sees(n *Node, id string) func() bool {
	return func() bool {
		for _, p := range n.Peers() {
			if p.ID == id {
				return true
			}
		}
		return false
	}
}

// TestNodesSeeEachOther: who starts is seen, who stops is gone, who drains is told apart, and nobody is sent to himself.
func TestNodesSeeEachOther(t *testing.T) {
	url := startServer(t)
	a, _ := startNode(t, url, "a")
	b, stopB := startNode(t, url, "b")
	until(t, "a to see b", sees(a, "b"))
	until(t, "b to see a", sees(b, "a"))
	if !a.First() || b.First() {
		t.Error("a is the first of the two, and no other")
	}
	if p, ok := b.Elsewhere(); !ok || p.ID != "a" || p.URL != "http://a" {
		t.Errorf("elsewhere of b: %+v, %v", p, ok)
	}
	a.SetDraining(true)
	until(t, "b to see that a drains", func() bool { _, ok := b.Elsewhere(); return !ok })
	a.SetDraining(false)
	until(t, "b to see that a serves again", func() bool { _, ok := b.Elsewhere(); return ok })
	stopB()
	until(t, "b to be dead for a", func() bool { return !a.Alive("b") })
	if !a.Alive("a") {
		t.Error("a is not alive for itself")
	}
}

// TestClaim: one owner, until he lets go, ends the session or dies; who has been replaced changes nothing any more.
func TestClaim(t *testing.T) {
	url := startServer(t)
	a, stopA := startNode(t, url, "a")
	b, _ := startNode(t, url, "b")
	until(t, "b to see a", sees(b, "a"))
	until(t, "a to see b", sees(a, "b"))
	ctx, now := t.Context(), time.Now()
	first, _, err := a.Claim(ctx, "s", now)
	if err != nil || first.Term != 1 || first.Node != "a" || first.Key == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	var elsewhere *OwnedElsewhere
	if _, _, err := b.Claim(ctx, "s", now); !errors.As(err, &elsewhere) || elsewhere.Node != "a" {
		t.Fatalf("b claims what a has: %v", err)
	}
	entry := func(seq uint64) chatctx.Entry {
		return chatctx.Entry{Seq: seq, OpID: fmt.Sprint(seq), Author: "x", At: chatctx.At(now), Op: chatctx.OpRemove, ItemID: "x"}
	}
	if err := a.Store().Append(ctx, first.Key, entry(1)); err != nil {
		t.Fatal(err)
	}
	if err := a.Yield(ctx, "s", first.Term, func(o *jetstream.Owned) { o.Node = "" }); err != nil {
		t.Fatal(err)
	}
	second, old, err := b.Claim(ctx, "s", now)
	if err != nil || second.Term != 2 || second.Key != first.Key || old.Term != 1 {
		t.Fatalf("%+v, %v", second, err)
	}
	if err := a.Yield(ctx, "s", first.Term, func(o *jetstream.Owned) { o.Deleted = true }); !errors.Is(err, jetstream.ErrFenced) {
		t.Errorf("who has been replaced changes the record: %v", err)
	}
	if err := b.Yield(ctx, "s", second.Term, func(o *jetstream.Owned) { o.Deleted, o.EndedAt = true, now }); err != nil {
		t.Fatal(err)
	}
	third, _, err := a.Claim(ctx, "s", now)
	if err != nil || third.Key == first.Key || third.Term != 3 {
		t.Fatalf("a deleted session's id begins anew: %+v, %v", third, err)
	}
	if ok, err := a.Owns(ctx, "s", third.Term); !ok || err != nil {
		t.Errorf("a owns it: %v, %v", ok, err)
	}
	stopA()
	until(t, "the dead node's session to be b's", func() bool {
		o, _, err := b.Claim(ctx, "s", now)
		return err == nil && o.Node == "b" && o.Key == third.Key
	})
	if ok, err := b.Owns(ctx, "s", third.Term); ok || err != nil {
		t.Errorf("the term is over: %v, %v", ok, err)
	}
}

// TestLapsed: a node that was silent for longer than its lease is told, once it can say something again.
func TestLapsed(t *testing.T) {
	n, _ := startNode(t, startServer(t), "a")
	told := make(chan struct{}, 1)
	n.Watch(func() int { return 3 }, func() {
		select {
		case told <- struct{}{}:
		default: // told already
		}
	})
	until(t, "the node to be known", func() bool { nodes, _ := n.Store().Nodes(t.Context()); return len(nodes) == 1 })
	until(t, "somebody to be told", func() bool { // a renewal that was under way takes the lapse back
		n.mu.Lock()
		n.renewed = time.Now().Add(-2 * lease)
		n.mu.Unlock()
		select {
		case <-told:
			return true
		default:
			return false
		}
	})
	until(t, "its sessions to be told", func() bool {
		nodes, _ := n.Store().Nodes(t.Context())
		return len(nodes) == 1 && nodes[0].Sessions == 3
	})
}

func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}()
	}
}

// TestStream: what is written arrives whole and in order, both ways at once, also more than the window; a deadline passes; the end
// is told.
func TestStream(t *testing.T) {
	url := startServer(t)
	a, _ := startNode(t, url, "a")
	b, _ := startNode(t, url, "b")
	go echo(b.Listener())
	for _, from := range []*Node{a, b} { // b: to itself
		until(t, "b to be there", func() bool { c, err := from.Dial(t.Context(), "b"); _ = closeIf(c); return err == nil })
		c, err := from.Dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 5*window)
		rng := rand.NewChaCha8([32]byte{1})
		_, _ = rng.Read(data)
		go func() {
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+rand.IntN(200_000))
				if _, err := c.Write(rest[:n]); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
				rest = rest[n:]
			}
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(c, got); err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
			t.Fatalf("what came back is not what was sent: %v", err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read past its deadline: %v", err)
		}
		_ = c.SetReadDeadline(time.Time{})
		if _, err := c.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(c, got[:4]); err != nil || !bytes.Equal(got[:n], []byte("more")) {
			t.Errorf("after the deadline was lifted: %q, %v", got[:n], err)
		}
		_ = c.Close()
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("Write after Close")
		}
	}
}

func closeIf(c net.Conn) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// TestG12StreamIsBounded: who does not read makes the other side wait, with no more than a window under way; and a node that dies
// ends its streams.
func TestG12StreamIsBounded(t *testing.T) {
	url := startServer(t)
	a, _ := startNode(t, url, "a")
	b, stopB := startNode(t, url, "b")
	until(t, "a to see b", sees(a, "b"))
	c, err := a.Dial(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Listener().Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second)) // room for a busy machine to fill the window
	n, err := c.Write(make([]byte, 3*window))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != window {
		t.Errorf("%d bytes written, %v; want the window of %d", n, err, window)
	}
	held := other.(*stream)
	held.mu.Lock()
	if len(held.in) > window {
		t.Errorf("%d bytes held", len(held.in))
	}
	held.mu.Unlock()
	_ = c.SetWriteDeadline(time.Time{})
	read := make(chan error, 1)
	go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
	stopB()
	select {
	case err := <-read:
		if err == nil {
			t.Error("Read from a dead node gives bytes")
		}
	case <-time.After(10 * time.Second):
		t.Error("a stream to a dead node goes on")
	}
	if _, err := a.Dial(t.Context(), "b"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial to a dead node: %v, want a refusal at once", err)
	}
}

// TestHTTPOverStreams: what the streams are for.
func TestHTTPOverStreams(t *testing.T) {
	url := startServer(t)
	a, _ := startNode(t, url, "a")
	b, _ := startNode(t, url, "b")
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}), ReadHeaderTimeout: time.Second}
	go func() { _ = web.Serve(b.Listener()) }()
	defer web.Close()
	until(t, "a to see b", sees(a, "b"))
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.Dial(ctx, "b") }}
	defer transport.CloseIdleConnections()
	for i := range 20 {
		body := bytes.Repeat([]byte{byte(i)}, i*50_000)
		res, err := (&http.Client{Transport: transport}).Post("http://b/", "text/plain", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(body), err)
		}
	}
}

// TestG13RunLeavesNothing behind.
func TestG13RunLeavesNothing(t *testing.T) {
	url := startServer(t)
	_, stop := startNode(t, url, "first") // the server's own goroutines of each stream
	stop()
	before := goleak.IgnoreCurrent()
	a, stopA := startNode(t, url, "a")
	b, stopB := startNode(t, url, "b")
	until(t, "a to see b", sees(a, "b"))
	if _, err := a.Dial(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Dial(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	stopA()
	stopB()
	goleak.VerifyNone(t, before)
}
