package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"sightline/context/jetstream"
	"sightline/gateway/cluster"
)

const testLease = 1200 * time.Millisecond

// natsServer is a NATS server with JetStream, alone, that can be stopped and started again.
type natsServer struct {
	t       *testing.T
	options server.Options
	running *server.Server
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	n := &natsServer{t: t, options: server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 4 << 20,
	}}
	n.start()
	n.options.Port = n.running.Addr().(*net.TCPAddr).Port
	t.Cleanup(n.stop)
	return n
}

func (n *natsServer) start() {
	n.t.Helper()
	options := n.options
	srv, err := server.NewServer(&options)
	if err != nil {
		n.t.Fatal(err)
	}
	srv.Start()
	if n.running = srv; !srv.ReadyForConnections(10 * time.Second) {
		n.t.Fatal("the NATS server does not get ready")
	}
}

func (n *natsServer) stop() {
	n.running.Shutdown()
	n.running.WaitForShutdown()
}

// nodeUnderTest is a gateway of a cluster.
type nodeUnderTest struct {
	*gatewayUnderTest
	node *cluster.Node
	stop func()
}

// startNode runs a gateway of the cluster on a NATS server until the test ends or stop is called.
func startNode(t *testing.T, url, id string, change func(*Config)) *nodeUnderTest {
	t.Helper()
	store, err := jetstream.Open(t.Context(), jetstream.Config{
		External: jetstream.External{URL: url, Replicas: 1, Lease: testLease}, UnsafeSync: true, MaxStoreBytes: 64 << 20, Partitions: 1, Timeout: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.New(cluster.Config{Store: store, ID: id, URL: "http://" + id + ".example", Lease: testLease})
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, func(c *Config) {
		c.Store, c.Directory, c.Health, c.Cluster = store, store, store.Health, node
		if change != nil {
			change(c)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	n := &nodeUnderTest{gatewayUnderTest: g, node: node}
	var once sync.Once
	n.stop = func() {
		once.Do(func() {
			err := g.stop()
			cancel()
			if err := errors.Join(err, <-ended, store.Close()); err != nil {
				t.Errorf("node %s: %v", id, err)
			}
		})
	}
	t.Cleanup(n.stop)
	return n
}

func twoNodes(t *testing.T, change func(*Config)) (a, b *nodeUnderTest) {
	url := startNATS(t).running.ClientURL()
	a, b = startNode(t, url, "a", change), startNode(t, url, "b", change)
	eventually(t, func() string {
		if len(a.node.Peers()) == 1 && len(b.node.Peers()) == 1 {
			return ""
		}
		return "the nodes do not see each other"
	})
	return a, b
}

func (g *gatewayUnderTest) say(session, op string) {
	g.t.Helper()
	if status, body, _ := g.do("POST", "/v1/sessions/"+session+"/context", fmt.Sprintf(`{"op_id":%q,"item":{"type":"message","role":"user","content":%q}}`, op, op)); status != 200 {
		g.t.Fatalf("append: %d %s", status, body)
	}
}

// TestAnyNodeServesASession: what a session on one node has is had through the other: state, conversation, appends, images' errors,
// its end; and the list has it once.
func TestAnyNodeServesASession(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	a.say("s", "through a")
	b.say("s", "through b")
	for name, g := range map[string]*nodeUnderTest{"a": a, "b": b} {
		_, body, _ := g.do("GET", "/v1/sessions/s/context", "")
		if !bytes.Contains(body, []byte("through a")) || !bytes.Contains(body, []byte("through b")) {
			t.Errorf("the conversation through %s: %s", name, body)
		}
		if status, body, _ := g.do("GET", "/v1/sessions/s", ""); status != 200 || !bytes.Contains(body, []byte(`"state":"connecting"`)) || !bytes.Contains(body, []byte(`"seq":2`)) {
			t.Errorf("the session through %s: %d %s", name, status, body)
		}
		if status, body, _ := g.do("POST", "/v1/sessions", `{"id":"s"}`); status != 200 || !bytes.Contains(body, []byte(`"seq":2`)) {
			t.Errorf("made again through %s: %d %s", name, status, body)
		}
		if status, body, header := g.do("GET", "/v1/sessions/s/image", ""); status != 404 {
			t.Errorf("an image through %s: %d", name, status)
		} else if _, detail := problemOf(t, header, body); !strings.Contains(detail, "no video yet") {
			t.Errorf("an image through %s: %s", name, detail)
		}
		if _, body, _ := g.do("GET", "/v1/sessions", ""); bytes.Count(body, []byte(`"id":"s"`)) != 1 || !bytes.Contains(body, []byte(`"state":"connecting"`)) {
			t.Errorf("the list of %s: %s", name, body)
		}
	}
	if a.sessions.countLive() != 1 || b.sessions.countLive() != 0 {
		t.Errorf("live: %d and %d, want it on a only", a.sessions.countLive(), b.sessions.countLive())
	}
	if status, body, _ := b.do("DELETE", "/v1/sessions/s", ""); status != 200 || !bytes.Contains(body, []byte(`"state":"ended"`)) {
		t.Errorf("deleted through b: %d %s", status, body)
	}
	eventually(t, func() string {
		if _, body, _ := b.do("GET", "/v1/sessions/s", ""); !bytes.Contains(body, []byte(`"state":"ended"`)) {
			return string(body)
		}
		return ""
	})
	b.createSession("s") // its id begins anew, wherever it is used
	if _, body, _ := a.do("GET", "/v1/sessions/s/context", ""); bytes.Contains(body, []byte("through")) {
		t.Errorf("the deleted conversation is back: %s", body)
	}
	if _, _, header := a.do("GET", "/v1/sessions/nobody", ""); header.Get("Content-Type") != "application/problem+json" {
		t.Error("an unknown session")
	}
}

// TestG1AnAgentOnAnotherNode gets every entry once and an answer to all it asks, while the session's node goes away (drained) and
// this one takes over: the agent's socket stays.
func TestG1AnAgentOnAnotherNode(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	a.say("s", "before")
	c, w := b.attach("s", "far", `"resume_from":0,"want":{"context":true}`)
	if w["session"] != "s" || w["replayed"] != true {
		t.Fatalf("welcome: %v", w)
	}
	if e := c.expect("context.entry"); e["seq"] != 1.0 {
		t.Fatalf("%v", e)
	}
	c.send(`{"type":"context.append","op_id":"one","item":{"type":"message","role":"user","content":"from b"}}`)
	seen := map[string]bool{}
	for range 2 {
		m := c.next()
		seen[m["type"].(string)] = m["seq"] == 2.0
	}
	if !seen["ack"] || !seen["context.entry"] {
		t.Errorf("an append through the other node: %v", seen)
	}
	a.say("s", "third")
	if e := c.expect("context.entry"); e["seq"] != 3.0 || e["op_id"] != "third" {
		t.Errorf("%v", e)
	}
	a.stop() // a says where to go; b goes on itself
	c.send(`{"type":"context.append","op_id":"two","item":{"type":"message","role":"user","content":"from b again"}}`)
	seen = map[string]bool{}
	for range 2 {
		m := c.next()
		seen[m["type"].(string)] = m["seq"] == 4.0
	}
	if !seen["ack"] || !seen["context.entry"] {
		t.Errorf("after the take-over: %v", seen)
	}
	if b.sessions.countLive() != 1 {
		t.Error("b has not taken the session over")
	}
	if _, body, _ := b.do("GET", "/metrics", ""); !bytes.Contains(body, []byte("\nsightline_relayed_agents 1\n")) || !bytes.Contains(body, []byte("\nsightline_relays_moved_total 1\n")) {
		t.Error("the relay and its move are not counted")
	}
	if _, body, _ := b.do("GET", "/v1/sessions/s/context", ""); bytes.Count(body, []byte("from b again")) != 1 {
		t.Errorf("the conversation: %s", body)
	}
	b.do("DELETE", "/v1/sessions/s", "")
	if code := c.expectClose(); code != 4004 {
		t.Errorf("close code %d when the session is deleted", code)
	}
}

// TestRelayRefusals: what a session's node refuses is refused by the other in the same words.
func TestRelayRefusals(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	if _, res, err := b.tryDial("nobody"); err == nil || res.StatusCode != 404 {
		t.Errorf("an unknown session: %v, %v", res, err)
	}
	c := b.dial("s")
	c.send(`{"type":"context.append"}`)
	if code := c.expectClose(); code != 4000 {
		t.Errorf("close code %d for a first message that is no hello", code)
	}
	one, _ := b.attach("s", "same", `"want":{}`)
	two, _ := a.attach("s", "same", `"want":{}`)
	if code := one.expectClose(); code != 4009 {
		t.Errorf("close code %d when another of the same id attaches", code)
	}
	two.send(`{"type":"bye"}`)
	two.expectClose()
}

// TestG2TheOwnerThatSleptIsFenced: a node that was away past its lease ends the session that another has claimed, and tells its
// agents to go there; nothing of it is written any more.
func TestG2TheOwnerThatSleptIsFenced(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	a.say("s", "one")
	c, _ := a.attach("s", "near", `"want":{"context":true}`)
	store := b.node.Store()
	o, err := store.SessionOwner(t.Context(), "s")
	if err != nil || o.Node != "a" {
		t.Fatal(o, err)
	}
	o.Node, o.Term = "", o.Term+1 // as when a's lease has ended
	if _, err := store.ReplaceSession(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	b.say("s", "two")
	status, body, _ := a.do("POST", "/v1/sessions/s/context", `{"op_id":"three","item":{"type":"message","role":"user","content":"from the old owner"}}`)
	if status != 503 || !bytes.Contains(body, []byte("engine_unavailable")) {
		t.Errorf("the old owner answers %d %s", status, body)
	}
	for {
		m := c.next()
		if m["type"] == "bye" {
			if m["resume_at"] != "http://b.example" {
				t.Errorf("bye: %v", m)
			}
			break
		}
	}
	if code := c.expectClose(); code != 1001 {
		t.Errorf("close code %d", code)
	}
	eventually(t, func() string {
		_, body, _ := a.do("GET", "/v1/sessions/s/context", "")
		if !bytes.Contains(body, []byte(`"two"`)) || bytes.Contains(body, []byte("from the old owner")) {
			return string(body)
		}
		return ""
	})
}

// TestDrain: no new session, running ones go on; it can be undone; at its end agents are told where to go.
func TestDrain(t *testing.T) {
	a, b := twoNodes(t, func(c *Config) { c.DrainTimeout = time.Minute })
	a.createSession("s")
	c, _ := a.attach("s", "near", `"want":{"context":true}`)
	drained := make(chan error, 1)
	drain := func() { drained <- a.Drain(t.Context()) }
	go drain()
	eventually(t, func() string {
		if status, _, _ := a.do("GET", "/readyz", ""); status != 503 {
			return "a is still ready"
		}
		return ""
	})
	if status, body, _ := a.do("POST", "/v1/sessions", `{"id":"new"}`); status != 503 || !bytes.Contains(body, []byte(`"draining"`)) {
		t.Errorf("a new session: %d %s", status, body)
	}
	a.say("s", "still here")
	c.expect("context.entry")
	if status, body, _ := a.do("GET", "/debug/drain", ""); status != 200 || !bytes.Contains(body, []byte(`"draining":true`)) {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := a.do("DELETE", "/debug/drain", ""); status != 200 {
		t.Errorf("undone: %d", status)
	}
	if err := <-drained; !errors.Is(err, ErrDrainUndone) {
		t.Errorf("Drain: %v, want ErrDrainUndone", err)
	}
	if status, _, _ := a.do("GET", "/readyz", ""); status != 200 {
		t.Errorf("readyz %d after the drain was undone", status)
	}
	a.createSession("new")
	a.do("DELETE", "/v1/sessions/new", "")
	go drain()
	c.send(`{"type":"bye"}`) // the last one leaves
	c.expectClose()
	if err := <-drained; err != nil {
		t.Errorf("Drain: %v", err)
	}
	c, _ = a.attach("s", "near", `"want":{"context":true}`)
	stopped := make(chan struct{})
	go func() { a.stop(); close(stopped) }()
	if bye := c.expect("bye"); bye["resume_at"] != "http://b.example" {
		t.Errorf("bye: %v", bye)
	}
	if code := c.expectClose(); code != 1001 {
		t.Errorf("close code %d", code)
	}
	<-stopped
	b.say("s", "goes on")
	if _, body, _ := b.do("GET", "/v1/sessions/s/context", ""); !bytes.Contains(body, []byte("still here")) || !bytes.Contains(body, []byte("goes on")) {
		t.Errorf("the conversation on b: %s", body)
	}
}

// TestSweepOfACluster: a session that nobody owns ends after the grace and is deleted after the retention, by one node.
func TestSweepOfACluster(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("s")
	a.say("s", "one")
	c, _ := a.attach("s", "near", `"want":{"context":true}`)
	a.stop()
	c.expectClose()
	eventually(t, func() string {
		if !b.node.First() {
			return "b is not the first, though it is alone"
		}
		return ""
	})
	now := time.Now()
	state := func() string {
		_, body, _ := b.do("GET", "/v1/sessions/s", "")
		return string(body)
	}
	b.sessions.sweep(now)
	if s := state(); !strings.Contains(s, `"state":"stalled"`) {
		t.Errorf("within the grace: %s", s)
	}
	b.sessions.sweep(now.Add(DefaultSessionGrace + time.Second))
	if s := state(); !strings.Contains(s, `"state":"ended"`) {
		t.Errorf("after the grace: %s", s)
	}
	o, err := b.node.Store().SessionOwner(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	b.sessions.sweep(now.Add(2 * (DefaultRetention + DefaultSessionGrace)))
	if status, body, _ := b.do("GET", "/v1/sessions/s", ""); status != 404 {
		t.Errorf("after the retention: %d %s", status, body)
	}
	if head, err := b.node.Store().Head(t.Context(), o.Key); err != nil || head != 0 {
		t.Errorf("the conversation is still there: %d, %v", head, err)
	}
}

// TestAnOutageOfTheStoreRestartsNothing: liveness stays, readiness goes; agents stay attached, what they ask for is refused in time;
// when the store is back, so is all.
func TestAnOutageOfTheStoreRestartsNothing(t *testing.T) {
	nats := startNATS(t)
	g := startNode(t, nats.running.ClientURL(), "a", nil)
	g.createSession("s")
	c, _ := g.attach("s", "near", `"want":{"context":true}`)
	g.say("s", "before")
	c.expect("context.entry")
	nats.stop()
	ready := func(want int) {
		t.Helper()
		eventually(t, func() string {
			if status, body, _ := g.do("GET", "/readyz", ""); status != want {
				return fmt.Sprint("readyz ", status, " ", string(body))
			}
			return ""
		})
	}
	ready(503)
	if status, _, _ := g.do("GET", "/healthz", ""); status != 200 {
		t.Errorf("healthz %d during the outage", status)
	}
	began := time.Now()
	status, body, _ := g.do("POST", "/v1/sessions/s/context", `{"op_id":"during","item":{"type":"message","role":"user","content":"during"}}`)
	if took := time.Since(began); status != 503 || !bytes.Contains(body, []byte("engine_unavailable")) || took > 12*time.Second {
		t.Errorf("an append during the outage: %d %s after %v", status, body, took)
	}
	if status, body, _ := g.do("GET", "/v1/sessions/s/context", ""); status != 200 || !bytes.Contains(body, []byte("before")) {
		t.Errorf("reading a live session during the outage: %d %s", status, body)
	}
	c.send(`{"type":"ping","id":"still here"}`)
	c.expect("pong")
	nats.start()
	ready(200)
	eventually(t, func() string {
		status, body, _ := g.do("POST", "/v1/sessions/s/context", `{"op_id":"during","item":{"type":"message","role":"user","content":"during"}}`)
		if status != 200 {
			return string(body)
		}
		return ""
	})
	if e := c.expect("context.entry"); e["seq"] != 2.0 || e["op_id"] != "during" {
		t.Errorf("after the outage: %v", e)
	}
}
