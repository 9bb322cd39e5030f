package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"

	"sightline/gateway/wire"
)

// TestE2EAgentThatStopsReadingDelaysNobody: 10 s without reading; the others get their images as before. Then the slow one
// gets its missing entries, each once, and the newest image with the number of those it replaced, over the same socket.
func TestE2EAgentThatStopsReadingDelaysNobody(t *testing.T) {
	s := serve(t)
	s.open("slow")
	c := s.publish("slow", readFootage(t, faceClip), cameraOptions{})
	healthy := []*witness{s.attach("slow", "healthy-1", 5), s.attach("slow", "healthy-2", 5)}
	for _, w := range healthy {
		w.awaitImages(20*time.Second, "images before anybody is slow", 1, nil)
		w.forget()
	}
	after := time.NewTimer(6 * time.Second)
	<-after.C // what is normal on this machine now
	before := [2]smoothness{smoothnessOf(t, c, healthy[0]), smoothnessOf(t, c, healthy[1])}

	conn := dialSlowly(t, s, "slow", wire.Hello{
		Type: wire.TypeHello, AgentID: "slow", ResumeFrom: new(uint64),
		Want: wire.Want{Context: true, Images: []wire.WantImage{{Source: "*", FPS: 15}}},
	})
	readUntil(t, conn, func(kind wire.Type, _ []byte) bool { return kind == wire.TypeImage })
	for _, w := range healthy {
		w.forget()
	}
	const entries = 100
	for n := range entries { // over ten seconds in which the slow one reads nothing
		if _, err := healthy[0].Append(t.Context(), fmt.Sprintf("op-%d", n), &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(fmt.Sprintf("entry %d", n))}); err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
	during := [2]smoothness{smoothnessOf(t, c, healthy[0]), smoothnessOf(t, c, healthy[1])}
	for i := range healthy {
		t.Logf("healthy agent %d: before %v; beside the slow one %v", i+1, before[i], during[i])
		if during[i].p99 > before[i].p99+100*time.Millisecond || during[i].gap > before[i].gap+300*time.Millisecond {
			t.Errorf("healthy agent %d: %v beside the slow one, %v without", i+1, during[i], before[i])
		}
	}

	resumed := time.Now()
	var seqs []uint64
	var newest wire.ImageHeader
	readUntil(t, conn, func(kind wire.Type, data []byte) bool {
		switch kind {
		case wire.TypeContextEntry:
			seqs = append(seqs, decodeAs[wire.ContextEntry](t, data).Seq)
		case wire.TypeImage:
			header := decodeAs[wire.ImageHeader](t, data)
			if header.Seq <= newest.Seq {
				t.Errorf("image %d after image %d", header.Seq, newest.Seq)
			}
			newest = header
		case wire.TypeBye, wire.TypeError:
			t.Errorf("the gateway said %s", data)
		}
		return len(seqs) >= entries && newest.Superseded > 0
	})
	t.Logf("after 10 s without reading: %d entries, then an image taken %v before reading began again, in place of %d others",
		len(seqs), resumed.Sub(newest.CapturedAt.Time).Round(time.Millisecond), newest.Superseded)
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Fatalf("entry %d has seq %d, want each once and in order: %v", i+1, seq, seqs)
		}
	}
	if newest.CapturedAt.Before(resumed.Add(-500 * time.Millisecond)) {
		t.Errorf("the image is from %v before reading began again: not the newest", resumed.Sub(newest.CapturedAt.Time))
	}
	if newest.Superseded < 50 {
		t.Errorf("%d images superseded in 10 s at 15 a second: the socket was hardly full", newest.Superseded)
	}
	if err := conn.WriteJSON(wire.Ping{Type: wire.TypePing, ID: "still here"}); err != nil {
		t.Fatal(err)
	}
	readUntil(t, conn, func(kind wire.Type, _ []byte) bool { return kind == wire.TypePong })
}

// smoothness is what an agent feels: from the last packet of a frame to its image, and the longest wait for the next image.
type smoothness struct {
	images   int
	p99, gap time.Duration
}

func (s smoothness) String() string {
	return fmt.Sprintf("%d images, p99 %v, longest gap %v", s.images, s.p99.Round(time.Millisecond), s.gap.Round(time.Millisecond))
}

func smoothnessOf(t *testing.T, c *camera, w *witness) smoothness {
	t.Helper()
	images, _, _ := w.seen()
	if len(images) < 10 {
		t.Fatalf("only %d images", len(images))
	}
	s := smoothness{images: len(images)}
	var latencies []time.Duration
	for n, i := range images {
		latencies = append(latencies, i.ReceivedAt.Sub(c.mustKnow(t, i).last))
		if n > 0 {
			s.gap = max(s.gap, i.ReceivedAt.Sub(images[n-1].ReceivedAt))
		}
	}
	slices.Sort(latencies)
	s.p99 = latencies[len(latencies)*99/100]
	return s
}

// dialSlowly opens an agent socket whose receive buffer is as small as the kernel allows.
func dialSlowly(t *testing.T, s *served, session string, hello wire.Hello) *websocket.Conn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		if err != nil {
			return err
		}
		return failed
	}}
	conn := dialSocket(t, s, session, &websocket.Dialer{NetDialContext: dialer.DialContext, Subprotocols: []string{wire.Subprotocol}})
	if err := conn.WriteJSON(hello); err != nil {
		t.Fatal(err)
	}
	return conn
}

func dialSocket(t *testing.T, s *served, session string, dialer *websocket.Dialer) *websocket.Conn {
	t.Helper()
	conn, answer, err := dialer.DialContext(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+"/v1/agent?session="+session, nil)
	if err != nil {
		t.Fatalf("attach to %s: %v (%v)", session, err, answer)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// readUntil reads messages until enough says so; data is the JSON of a text message or the header of a binary one.
func readUntil(t *testing.T, conn *websocket.Conn, enough func(kind wire.Type, data []byte) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_ = conn.SetReadDeadline(deadline)
		binary, data, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("read from the gateway: %v", err)
		}
		var kind wire.Type
		if binary == websocket.BinaryMessage {
			kind, data, _, err = wire.DecodeBinary(data)
		} else {
			kind, err = wire.TypeOf(data)
		}
		if err != nil {
			t.Fatalf("the gateway sent %.80q: %v", data, err)
		}
		if enough(kind, data) {
			return
		}
	}
}

func decodeAs[T any](t *testing.T, data []byte) T {
	t.Helper()
	var message T
	if err := json.Unmarshal(data, &message); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return message
}

// TestE2EEveryEntryOnceOver20CutConnections: the agent's TCP connection is reset twenty times, in the middle of messages, while
// entries and images flow and the agent itself writes; every entry reaches it once and in order, and so do its own.
func TestE2EEveryEntryOnceOver20CutConnections(t *testing.T) {
	s := serve(t)
	s.open("cut")
	s.publish("cut", readFootage(t, faceClip), cameraOptions{})
	const cuts = 20
	proxy := newScissors(t, strings.TrimPrefix(s.URL, "http://"), cuts, 11)
	cut := (&served{t: t, URL: proxy.url}).attach("cut", "cut", 10)
	writer := s.attach("cut", "writer", 0)
	await(t, 20*time.Second, "both agents are attached", func() (bool, string) {
		return writer.Connected() && cut.Stats().Attached > 0, fmt.Sprint(cut.Stats())
	})
	appendAs := func(w *witness, name string, n int) error {
		text := fmt.Sprintf("%s %d", name, n)
		_, err := w.Append(t.Context(), fmt.Sprintf("op-%s-%d", name, n), &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(text)})
		return err
	}
	var writers sync.WaitGroup
	counts := map[string]int{}
	var mu sync.Mutex
	for name, w := range map[string]*witness{"writer": writer, "cut": cut} {
		writers.Go(func() {
			for n := 0; proxy.left() > 0 || n < 20; n++ {
				if err := appendAs(w, name, n); err != nil {
					t.Errorf("append %s %d: %v", name, n, err)
					return
				}
				mu.Lock()
				counts[name]++
				mu.Unlock()
				<-time.After(20 * time.Millisecond) // within the gateway's limit of operations a second
			}
		})
	}
	await(t, 90*time.Second, "twenty connections are cut", func() (bool, string) { return proxy.left() == 0, fmt.Sprintf("%d to go", proxy.left()) })
	writers.Wait()
	head := s.session("cut").Seq
	want := uint64(counts["writer"] + counts["cut"])
	if head != want {
		t.Errorf("the conversation has %d entries, %d were appended", head, want)
	}
	images, _, _ := cut.seen()
	for n := 1; n < len(images); n++ {
		if images[n].Seq <= images[n-1].Seq {
			t.Errorf("image %d comes after image %d", images[n].Seq, images[n-1].Seq)
		}
	}
	cut.forget()
	cut.awaitImages(20*time.Second, "images after the last cut", 3, nil)
	await(t, 20*time.Second, "every entry has come", func() (bool, string) {
		_, entries, _ := cut.seen()
		return uint64(len(entries)) >= head, fmt.Sprintf("%d of %d", len(entries), head)
	})
	_, entries, _ := cut.seen()
	texts := map[string]bool{}
	for i, e := range entries {
		message, ok := e.Item.(*chatctx.Message)
		if e.Seq != uint64(i+1) || !ok || texts[message.Content.Text()] {
			t.Fatalf("entry %d is seq %d, %v: want each once and in order", i+1, e.Seq, e.Item)
		}
		texts[message.Content.Text()] = true
	}
	stats := cut.Stats()
	t.Logf("%d entries (%d by the agent that was cut off), %d connections, %d images", len(entries), counts["cut"], stats.Attached, stats.Images)
	if stats.Attached < 5 || stats.Attempts < cuts+1 {
		t.Errorf("%d connections of %d attempts: the cuts did not hit", stats.Attached, stats.Attempts)
	}
	cut.mu.Lock()
	defer cut.mu.Unlock()
	if len(cut.detached) < cuts {
		t.Errorf("the agent lost its connection %d times, want at least %d", len(cut.detached), cuts)
	}
}

// scissors is a TCP proxy that resets each connection after some bytes have come from the gateway, a number of times.
type scissors struct {
	url     string
	target  string
	mu      sync.Mutex
	cuts    int // still to be made
	random  *rand.Rand
	running sync.WaitGroup
}

func newScissors(t *testing.T, target string, cuts int, seed uint64) *scissors {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &scissors{url: (&url.URL{Scheme: "http", Host: listener.Addr().String()}).String(), target: target, cuts: cuts, random: rand.New(rand.NewPCG(seed, seed))}
	ctx, cancel := context.WithCancel(context.Background())
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.carry(ctx, conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { cancel(); listener.Close(); p.running.Wait() })
	return p
}

func (p *scissors) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// next is how many bytes from the gateway the next connection carries: within the handshake, in a replay, between images.
func (p *scissors) next() (limit int64, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts == 0 {
		return 0, false
	}
	return 100 + p.random.Int64N(400_000), true
}

func (p *scissors) carry(ctx context.Context, client *net.TCPConn) {
	defer client.Close()
	gateway, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer gateway.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); gateway.Close() })
	defer stop()
	limit, cut := p.next()
	p.running.Go(func() { pump(gateway, client, -1) })
	if !cut {
		limit = -1
	}
	if pump(client, gateway, limit) {
		_ = client.SetLinger(0) // a reset, not an end
		p.mu.Lock()
		p.cuts--
		p.mu.Unlock()
	}
}

// pump copies up to limit bytes, -1 = all; true: the limit was reached. It closes to when from has ended.
func pump(to, from net.Conn, limit int64) bool {
	buffer := make([]byte, 16<<10)
	for limit != 0 {
		size := int64(len(buffer))
		if limit > 0 {
			size = min(size, limit)
		}
		n, err := from.Read(buffer[:size])
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
			if limit > 0 {
				limit -= int64(n)
			}
		}
		if err != nil {
			break
		}
	}
	if limit != 0 {
		to.Close()
	}
	return limit == 0
}
