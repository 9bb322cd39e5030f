package rtc

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"sightline/gateway/rtc/internal/batch"
)

// What one source may send. More is thrown away before anything is done with it, so that a flood costs its sender's call and
// no other one's; an honest sender is far below.
const (
	maxSourcePackets = 8000     // UDP packets a second of one address and port; 4K at 60 frames a second is 4000
	maxSourceChecks  = 2000     // STUN messages a second of one IP address, behind which many peers may be: each sends one or two
	maxTCPBytes      = 12 << 20 // bytes a second of one ICE-TCP connection; the rest waits at its sender

	gateSlots = 4096
)

// floodGate counts packets by source and lets through so many a second. Sources that share a slot share its count; the hash is
// seeded, so nobody can choose with whom. One goroutine uses it.
type floodGate struct {
	limit  uint32
	seed   maphash.Seed
	second int64 // the one that is counted
	counts [gateSlots]uint32
}

func newFloodGate(limit uint32) *floodGate { return &floodGate{limit: limit, seed: maphash.MakeSeed()} }

// passes counts a packet of a source (an address, with or without its port).
func (g *floodGate) passes(source netip.AddrPort, now time.Time) bool {
	if second := now.Unix(); second != g.second {
		g.second = second
		clear(g.counts[:])
	}
	n := &g.counts[maphash.Comparable(g.seed, source)%gateSlots]
	if *n >= g.limit {
		return false
	}
	*n++
	return true
}

// guardedUDP is a media socket behind two gates and a filter. Only the mux's one reader reads it.
type guardedUDP struct {
	*net.UDPConn
	batch           *batch.UDP // reads it
	packets, checks *floodGate
	dropped         *atomic.Uint64 // of all sockets together
}

// ReadFromAddrPort implements ice.AddrPortReaderWriter. An error of the socket that is not its end (a network that is down, no
// memory) must not end it: the mux would close the port for good.
func (c *guardedUDP) ReadFromAddrPort(b []byte) (int, netip.AddrPort, error) {
	for pause := time.Millisecond; ; {
		n, from, err := c.batch.ReadFromUDPAddrPort(b)
		if err != nil {
			var timeout net.Error
			if errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout() {
				return n, from, err
			}
			time.Sleep(pause)
			pause = min(2*pause, 100*time.Millisecond)
			continue
		}
		if c.wants(b[:n], from, time.Now()) {
			return n, from, nil
		}
		c.dropped.Add(1)
	}
}

func (c *guardedUDP) wants(b []byte, from netip.AddrPort, now time.Time) bool {
	if !c.packets.passes(from, now) || len(b) == 0 {
		return false
	}
	switch first := b[0]; { // RFC 7983 §7
	case first < 4:
		return c.checks.passes(netip.AddrPortFrom(from.Addr(), 0), now)
	case first >= 20 && first < 64:
		return harmlessDTLS(b)
	}
	return true
}

// harmlessDTLS says whether every record of a datagram (RFC 6347 §4.1) is one that a peer may send. Pion ends a connection for
// an unencrypted record that is not: anybody who can write a publisher's address on a datagram could end its call with it.
// Unencrypted alerts are among them; whoever means one gives up, which is seen all the same.
func harmlessDTLS(b []byte) bool {
	const header = 13
	for len(b) > 0 {
		if len(b) < header {
			return false
		}
		kind, epoch, size := b[0], binary.BigEndian.Uint16(b[3:]), int(binary.BigEndian.Uint16(b[11:]))
		if len(b) < header+size {
			return false
		}
		encrypted := epoch > 0
		switch kind {
		case 20: // change_cipher_spec
			if !encrypted && (size != 1 || b[header] != 1) {
				return false
			}
		case 22: // handshake
		case 21, 23: // alert, application_data
			if !encrypted {
				return false
			}
		default:
			return false
		}
		b = b[header+size:]
	}
	return true
}

// WriteToAddrPort implements ice.AddrPortReaderWriter.
func (c *guardedUDP) WriteToAddrPort(b []byte, to netip.AddrPort) (int, error) {
	return c.WriteToUDPAddrPort(b, to)
}

// guardedTCP is an ICE-TCP connection that is read at most at a rate: what is too much waits at its sender.
type guardedTCP struct {
	net.Conn
	closed chan struct{}
	done   func() // once

	second time.Time // whose bytes are counted; only the mux's reader
	bytes  int
}

// Read implements net.Conn.
func (c *guardedTCP) Read(b []byte) (int, error) {
	now := time.Now()
	if left := time.Second - now.Sub(c.second); c.bytes >= maxTCPBytes && left > 0 {
		pause := time.NewTimer(left)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-c.closed:
			return 0, net.ErrClosed
		}
		now = time.Now()
	}
	if now.Sub(c.second) >= time.Second {
		c.second, c.bytes = now, 0
	}
	n, err := c.Conn.Read(b)
	c.bytes += n
	return n, err
}

// Close implements net.Conn.
func (c *guardedTCP) Close() error {
	c.done()
	return c.Conn.Close()
}
