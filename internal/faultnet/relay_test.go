package faultnet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway answers every packet with itself, and tells whom it came from, until the test ends.
func gateway(t *testing.T) (candidate string, from chan netip.AddrPort) {
	t.Helper()
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	from = make(chan netip.AddrPort, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, maxPacket)
		for {
			n, client, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			from <- client
			_, _ = server.WriteToUDPAddrPort(buffer[:n], client)
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return fmt.Sprintf("a=candidate:1 1 udp 1 127.0.0.1 %d typ host\r\n", server.LocalAddr().(*net.UDPAddr).Port), from
}

// running runs a relay until the test ends.
func running(t *testing.T, cfg Config) *Relay {
	t.Helper()
	relay, err := New(cfg)
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
		if len(relay.flows) > 0 && relay.Rebind() == nil {
			t.Error("a relay that has ended opens sockets")
		}
	})
	return relay
}

// client sends to a relay.
type client struct {
	t *testing.T
	*net.UDPConn
}

func newClient(t *testing.T, relay *Relay) client {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(relay.at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	return client{t, conn}
}

func (c client) say(n int) {
	c.t.Helper()
	if _, err := c.Write(binary.BigEndian.AppendUint32(nil, uint32(n))); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) hear() int {
	c.t.Helper()
	buffer := make([]byte, maxPacket)
	n, err := c.Read(buffer)
	if err != nil {
		c.t.Fatal(err)
	}
	return int(binary.BigEndian.Uint32(buffer[:n]))
}

func TestPacketsGoThereAndBack(t *testing.T) {
	relay := running(t, Config{Faults: Faults{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond}})
	candidate, _ := gateway(t)
	if _, err := relay.Answer(candidate, true); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, relay)
	const packets = 50
	begun := time.Now()
	for i := range packets {
		c.say(i)
	}
	var came []int
	for range packets {
		came = append(came, c.hear())
	}
	if took := time.Since(begun); took < 10*time.Millisecond {
		t.Errorf("there and back in %v, with 5 ms of delay each way", took)
	}
	if slices.IsSorted(came) {
		t.Error("with jitter no packet was overtaken")
	}
	slices.Sort(came)
	if len(slices.Compact(came)) != packets {
		t.Errorf("%d different packets of %d came", len(came), packets)
	}
	if up, down := relay.Stats(); up != (Counts{Passed: packets}) || down != (Counts{Passed: packets}) {
		t.Errorf("up %+v, down %+v", up, down)
	}
}

func TestEachClientHasAnAddressUntilItIsRebound(t *testing.T) {
	relay := running(t, Config{})
	a, b := newClient(t, relay), newClient(t, relay)
	a.say(0) // nobody knows yet where to
	candidate, from := gateway(t)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if up, _ := relay.Stats(); up.Dropped == 1 {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal("a packet with nowhere to go is not counted")
		}
	}
	if _, err := relay.Answer(candidate, true); err != nil {
		t.Fatal(err)
	}
	turn := func(c client, n int) netip.AddrPort {
		t.Helper()
		c.say(n)
		if got := c.hear(); got != n {
			t.Fatalf("a client that said %d heard %d", n, got)
		}
		return <-from
	}
	first, second := turn(a, 1), turn(b, 2)
	if first == second || turn(a, 3) != first || turn(b, 4) != second {
		t.Errorf("%v and %v: each client wants an address that stays", first, second)
	}
	if err := relay.Rebind(); err != nil {
		t.Fatal(err)
	}
	if third := turn(a, 5); third == first || third == second || turn(b, 6) == second {
		t.Errorf("%v, and then %v: no new address", first, third)
	}
	if up, down := relay.Stats(); up != (Counts{Passed: 6, Dropped: 1}) || down != (Counts{Passed: 6}) {
		t.Errorf("up %+v, down %+v", up, down)
	}
}

func TestClientsAreBounded(t *testing.T) {
	relay := running(t, Config{})
	candidate, _ := gateway(t)
	if _, err := relay.Answer(candidate, true); err != nil {
		t.Fatal(err)
	}
	for port := range uint16(maxClients) {
		if relay.flowOf(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)) == nil {
			t.Fatalf("client %d has no room", port+1)
		}
	}
	if relay.flowOf(netip.MustParseAddrPort("127.0.0.1:65000")) != nil {
		t.Error("clients without end")
	}
}

func TestRefusesNonsense(t *testing.T) {
	for _, f := range []Faults{{LossUp: -0.1}, {LossDown: 1.1}, {Duplicate: 2}, {Delay: -1}, {Delay: time.Hour}, {Jitter: time.Hour}, {Rate: -1}} {
		if _, err := New(Config{Faults: f}); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	relay, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if relay.Run(t.Context()) == nil {
		t.Error("Run without Open is no error")
	}
}
