package main

import (
	"math/rand/v2"
	"net"
	"sync"
)

// badNetwork is a publisher's UDP socket whose packets can be lost, reordered or cut off altogether, and that can vanish. What
// happens to the n-th RTP packet depends on the seed alone.
type badNetwork struct {
	net.PacketConn

	mu      sync.Mutex
	random  *rand.Rand
	loss    float64 // share of outgoing RTP packets, repetitions included, that never arrive
	reorder float64 // share that arrives after one to three later ones
	down    bool    // nothing goes either way
	held    []heldDatagram
	lost    int
	swapped int
}

type heldDatagram struct {
	data  []byte
	to    net.Addr
	after int // how many packets still pass it
}

func newBadNetwork(conn net.PacketConn, seed uint64) *badNetwork {
	return &badNetwork{PacketConn: conn, random: rand.New(rand.NewPCG(seed, seed))}
}

// impair sets the shares for what is sent from now on.
func (n *badNetwork) impair(loss, reorder float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.reorder = loss, reorder
}

// cut takes the network away, or gives it back.
func (n *badNetwork) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

func (n *badNetwork) counts() (lost, swapped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost, n.swapped
}

// isRTP tells media from STUN, DTLS (RFC 7983 §7) and RTCP (RFC 5761 §4).
func isRTP(b []byte) bool {
	return len(b) > 1 && b[0]>>6 == 2 && (b[1]&0x7f < 64 || b[1]&0x7f > 95)
}

// WriteTo implements net.PacketConn.
func (n *badNetwork) WriteTo(b []byte, to net.Addr) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return len(b), nil
	}
	if !isRTP(b) {
		return n.PacketConn.WriteTo(b, to)
	}
	if n.random.Float64() < n.loss {
		n.lost++
		return len(b), nil
	}
	if n.random.Float64() < n.reorder && len(n.held) < 3 {
		n.swapped++
		n.held = append(n.held, heldDatagram{append([]byte(nil), b...), to, 1 + n.random.IntN(3)})
		return len(b), nil
	}
	written, err := n.PacketConn.WriteTo(b, to)
	kept := n.held[:0]
	for _, h := range n.held {
		if h.after--; h.after > 0 {
			kept = append(kept, h)
			continue
		}
		_, _ = n.PacketConn.WriteTo(h.data, h.to) // lost, then; the socket's end shows elsewhere
	}
	n.held = kept
	return written, err
}

// ReadFrom implements net.PacketConn.
func (n *badNetwork) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		size, from, err := n.PacketConn.ReadFrom(b)
		n.mu.Lock()
		down := n.down
		n.mu.Unlock()
		if err != nil || !down {
			return size, from, err
		}
	}
}
