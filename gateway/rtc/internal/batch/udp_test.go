package batch

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// TestEveryPacketComesWithItsSender: in order, over both families, more than fit into one read; what is too long is left out.
func TestEveryPacketComesWithItsSender(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn := listen(t, host)
		u, err := New(conn)
		if err != nil {
			t.Fatal(err)
		}
		sender := listen(t, host)
		from := sender.LocalAddr().(*net.UDPAddr).AddrPort()
		send := func(b []byte) {
			if _, err := sender.WriteToUDPAddrPort(b, conn.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
				t.Fatal(err)
			}
		}
		const many = 100 // and small, so that the kernel keeps them all
		for i := range many {
			send(bytes.Repeat([]byte{byte(i)}, 1+i*3))
			if i == many/2 {
				send(make([]byte, 5000))
				send(nil)
			}
		}
		b := make([]byte, 8192)
		for i := 0; i < many; i++ {
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			n, at, err := u.ReadFromUDPAddrPort(b)
			if err != nil {
				t.Fatalf("%s: packet %d: %v", host, i, err)
			}
			if n == 0 && i == many/2+1 { // an empty packet is one
				i--
				continue
			}
			if at != from || !bytes.Equal(b[:n], bytes.Repeat([]byte{byte(i)}, 1+i*3)) {
				t.Fatalf("%s: packet %d: %d bytes of %d from %v, want %d bytes from %v", host, i, n, b[0], at, 1+i*3, from)
			}
		}
		if n := testing.AllocsPerRun(20, func() { send(b[:100]); _, _, _ = u.ReadFromUDPAddrPort(b) }); n > 0 {
			t.Errorf("%s: %g allocations a packet", host, n)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, _, err := u.ReadFromUDPAddrPort(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: after the deadline: %v", host, err)
		}
		_ = conn.SetReadDeadline(time.Time{})
		ended := make(chan error)
		go func() { _, _, err := u.ReadFromUDPAddrPort(b); ended <- err }()
		_ = conn.Close()
		select {
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: closed: %v", host, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: closing does not end the read", host)
		}
	}
}

func listen(t *testing.T, host string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadBuffer(4 << 20)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
