package udprelay

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every packet until the test ends.
func echo(t *testing.T) *net.UDPConn {
	t.Helper()
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, maxPacket)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(buffer[:n], from)
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return server
}

func TestPacketsGoThereAndBack(t *testing.T) {
	relay, err := New(Config{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	near, err := relay.Open(echo(t).LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	client, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(near))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const packets = 50
	begun := time.Now()
	for i := range packets {
		if _, err := client.Write(binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
	var came []uint32
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
	buffer := make([]byte, maxPacket)
	for range packets {
		n, err := client.Read(buffer)
		if err != nil {
			t.Fatalf("%d of %d came: %v", len(came), packets, err)
		}
		came = append(came, binary.BigEndian.Uint32(buffer[:n]))
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
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if up, down := relay.Stats(); up.Passed != packets || down.Passed != packets || up.Lost+down.Lost != 0 {
		t.Errorf("up %+v, down %+v", up, down)
	}
}

func TestLossIsTheWantedShareAndTheSameForASeed(t *testing.T) {
	lost := func(seed uint64) (lost []int) {
		relay, err := New(Config{Loss: 0.05, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20000 {
			before := relay.up.counts().Lost
			relay.up.take([]byte{1}, time.Time{}, func([]byte) {})
			if relay.up.counts().Lost > before {
				lost = append(lost, i)
			}
		}
		return lost
	}
	first := lost(7)
	if len(first) < 900 || len(first) > 1100 {
		t.Errorf("%d of 20000 were lost, want about 1000", len(first))
	}
	if !slices.Equal(first, lost(7)) || slices.Equal(first, lost(8)) {
		t.Error("the seed does not decide which are lost")
	}
}

func TestDelayIsExactAndTheQueueBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay, err := New(Config{Delay: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var at []time.Duration
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			relay.up.release(ctx, func([]byte) { at = append(at, time.Since(begun)) })
		}()
		for range 3 {
			relay.up.take([]byte{1}, time.Now(), nil)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop()
		<-done
		if !slices.Equal(at, []time.Duration{100e6, 110e6, 120e6}) {
			t.Errorf("sent at %v", at)
		}
		for range maxHeld + 5 {
			relay.up.take([]byte{1}, time.Now(), nil)
		}
		if c := relay.up.counts(); c.Dropped != 5 {
			t.Errorf("%+v, want 5 dropped", c)
		}
	})
}

func TestRefusesNonsense(t *testing.T) {
	for _, cfg := range []Config{{Loss: -0.1}, {Loss: 1.1}, {Delay: -1}, {Delay: time.Hour}, {Jitter: time.Hour}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
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
