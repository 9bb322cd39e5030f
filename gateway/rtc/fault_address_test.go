package rtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/turn/v5"
	"github.com/pion/webrtc/v4"

	"sightline/internal/faultnet"
)

// TestFaultAddressChange: a NAT gives the publisher another address in mid-call. The gateway follows, in both directions.
func TestFaultAddressChange(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(c *Config) { c.disconnectedAfter, c.failedAfter = 2*time.Second, 2*time.Second })
	relay := newRelay(t)
	p, s := newPublisher(t, publisherOptions{}), &sink{}
	peer, answer, err := e.Accept(t.Context(), faultnet.Offer(p.offer(nil)), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if answer, err = relay.Answer(answer, true); err != nil {
		t.Fatal(err)
	}
	p.accept(answer)
	p.send()
	waitFor(t, "packets", func() bool { return s.count("camera") > 20 })
	for n := range 2 {
		plis := p.plis.Load()
		_, before := relay.Stats()
		if err := relay.Rebind(); err != nil {
			t.Fatal(err)
		}
		packets := s.count("camera")
		waitFor(t, "packets from the new address", func() bool { return s.count("camera") > packets+20 })
		waitFor(t, "feedback to the new address", func() bool {
			s.tracks[0].RequestKeyFrame()
			return p.plis.Load() > plis+5
		})
		if st := peer.Stats(); st.State == StateFailed || st.State == StateClosed {
			_, now := relay.Stats()
			t.Fatalf("after %d changes of address the peer is %s (%d packets down)", n+1, st.State, now.Passed-before.Passed)
		}
	}
	<-time.After(5 * time.Second) // in which a peer that sends to the old address would have failed
	before := s.count("camera")
	waitFor(t, "packets later on", func() bool { return s.count("camera") > before+20 })
	if st := peer.Stats(); st.State != StateConnected || len(s.tracks) != 1 {
		t.Errorf("%s with %d tracks: %v", st.State, len(s.tracks), s.states)
	}
}

// newRelay is a network without faults, for now; it ends with the test.
func newRelay(t *testing.T) *faultnet.Relay {
	t.Helper()
	relay, err := faultnet.New(faultnet.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return relay
}

// TestFaultTURN: a publisher that reaches us through a TURN server only (RFC 8656).
func TestFaultTURN(t *testing.T) {
	t.Parallel()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := turn.NewServer(turn.ServerConfig{
		Realm: "sightline", LoggerFactory: logFactory{newEngine(t, nil).log},
		AuthHandler: func(a *turn.RequestAttributes) (string, []byte, bool) {
			return a.Username, turn.GenerateAuthKey(a.Username, a.Realm, "secret"), a.Username == "caller"
		},
		PacketConnConfigs: []turn.PacketConnConfig{{
			PacketConn:            socket,
			RelayAddressGenerator: &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := newEngine(t, nil)
	p, s := newPublisher(t, publisherOptions{turn: socket.LocalAddr().String()}), &sink{}
	offer := p.offer(nil)
	if strings.Contains(offer, "typ host") || !strings.Contains(offer, "typ relay") {
		t.Fatalf("the offer is not of a client behind TURN:\n%s", offer)
	}
	peer, answer, err := e.Accept(t.Context(), offer, s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	p.accept(answer)
	p.send()
	waitFor(t, "packets through TURN", func() bool { return s.count("camera") > 50 })
	if st := peer.Stats(); st.RemoteCandidate != "relay" {
		t.Errorf("the remote candidate is %q", st.RemoteCandidate)
	}
}

// TestFaultForbiddenCandidates: none of these addresses becomes a candidate that is checked, however it is given.
func TestFaultForbiddenCandidates(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.remote = &policy{} })
	var lines strings.Builder
	for _, at := range []string{"127.0.0.1", "169.254.169.254", "169.254.1.1", "100.100.100.200", "168.63.129.16", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"10.0.0.1", "::1", "fe80::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fd00:ec2::254", "metadata.google.internal", "x.local"} {
		fmt.Fprintf(&lines, "a=candidate:1 1 udp 2130706431 %s 80 typ host\r\na=candidate:2 1 tcp 2130706431 %s 80 typ host tcptype passive\r\n", at, at)
	}
	peer, _, err := e.Accept(t.Context(), minimal+lines.String(), Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	ufrag, pwd := peer.ICE()
	if err := peer.Trickle(t.Context(), "a=ice-ufrag:"+ufrag+"\r\na=ice-pwd:"+pwd+"\r\n"+lines.String()); err != nil {
		t.Fatal(err)
	}
	// One that is allowed is added after them: when it is there, they would be, too.
	if err := peer.Trickle(t.Context(), "a=ice-ufrag:"+ufrag+"\r\na=ice-pwd:"+pwd+"\r\na=candidate:1 1 udp 1 192.0.2.7 9 typ host\r\n"); err != nil {
		t.Fatal(err)
	}
	var remote []string
	waitFor(t, "the candidate that is allowed", func() bool {
		remote = nil
		for _, stat := range peer.pc.GetStats() {
			if c, ok := stat.(webrtc.ICECandidateStats); ok && c.Type == webrtc.StatsTypeRemoteCandidate {
				remote = append(remote, c.IP)
			}
		}
		return len(remote) > 0
	})
	if len(remote) != 1 || remote[0] != "192.0.2.7" {
		t.Errorf("remote candidates %v, want the allowed one only", remote)
	}
}

// TestFaultOutOfDescriptors: the listener for ICE-TCP outlives errors that pass.
func TestFaultOutOfDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	poor := &poorListener{Listener: ln}
	poor.failures.Store(3)
	bounded := &boundedListener{Listener: poor, addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := bounded.Accept()
	if err != nil {
		t.Fatalf("after %d errors: %v", 3-poor.failures.Load(), err)
	}
	_ = conn.Close()
	_ = ln.Close()
	if _, err := bounded.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// poorListener has no descriptors left, for a while.
type poorListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *poorListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestFaultTCPFlood: what an ICE-TCP peer sends beyond its rate waits at its end of the connection.
func TestFaultTCPFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		closed := make(chan struct{})
		c := &guardedTCP{Conn: ours, closed: closed, done: sync.OnceFunc(func() { close(closed) })}
		go func() {
			piece := make([]byte, 64<<10)
			for {
				if _, err := theirs.Write(piece); err != nil {
					return
				}
			}
		}()
		begun, got := time.Now(), 0
		for b := make([]byte, 64<<10); got < 3*maxTCPBytes; {
			n, err := c.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if took := time.Since(begun); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("%d bytes were read in %v of the bubble's time, want %d a second", got, took, maxTCPBytes)
		}
		ended := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 1)); ended <- err }() // waits for the next second
		synctest.Wait()
		_ = c.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read that waits when its connection is closed: %v", err)
		}
		_ = theirs.Close()
	})
}
