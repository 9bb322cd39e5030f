// Package udprelay carries UDP between one client and one server as a bad network would, with loss, delay and jitter both ways; it looks into no packet.
package udprelay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what the network is like; each figure holds for each way.
type Config struct {
	Loss   float64       // share of packets that never arrive, 0–1
	Delay  time.Duration // of every packet, at most a minute
	Jitter time.Duration // up to so much more for each packet, by chance: later ones overtake
	Seed   uint64        // of chance; packets meet it in the order of their coming
}

// Counts are of one way.
type Counts struct {
	Passed  uint64 // handed on, or on their way
	Lost    uint64 // by Config.Loss
	Dropped uint64 // because maxHeld were on their way
}

// maxHeld bounds the packets on their way in one direction: a second of 40 Mbit/s.
const maxHeld = 4096

// maxPacket is the largest packet carried, in bytes: more than any path MTU of today.
const maxPacket = 2048

// Relay is one path. Make it with New, Open it, then Run it.
type Relay struct {
	cfg    Config
	near   *net.UDPConn // the client sends here
	far    *net.UDPConn // connected to the server
	client atomic.Pointer[netip.AddrPort]
	up     way
	down   way
}

// New checks the configuration; it opens nothing.
func New(cfg Config) (*Relay, error) {
	switch {
	case cfg.Loss < 0 || cfg.Loss > 1:
		return nil, fmt.Errorf("loss %g: 0 to 1 are allowed", cfg.Loss)
	case cfg.Delay < 0 || cfg.Delay > time.Minute || cfg.Jitter < 0 || cfg.Jitter > time.Minute:
		return nil, fmt.Errorf("delay %v, jitter %v: 0 to 1m are allowed", cfg.Delay, cfg.Jitter)
	}
	r := &Relay{cfg: cfg}
	for i, w := range []*way{&r.up, &r.down} {
		w.cfg, w.random, w.wake = cfg, rand.New(rand.NewPCG(cfg.Seed, uint64(i))), make(chan struct{}, 1)
	}
	return r, nil
}

// Open opens the sockets and tells where the client is to send; what comes there goes to the server. Run closes them.
func (r *Relay) Open(server netip.AddrPort) (netip.AddrPort, error) {
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("relay: %w", err)
	}
	far, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		near.Close()
		return netip.AddrPort{}, fmt.Errorf("relay to %v: %w", server, err)
	}
	r.near, r.far = near, far
	return near.LocalAddr().(*net.UDPAddr).AddrPort(), nil
}

// Run carries packets until ctx ends. No goroutine and no socket is left then.
func (r *Relay) Run(ctx context.Context) error {
	if r.near == nil {
		return errors.New("relay: Open comes before Run")
	}
	ctx, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { r.readNear(); stop() })
	tasks.Go(func() { r.readFar(); stop() })
	tasks.Go(func() { r.up.release(ctx, r.toServer) })
	tasks.Go(func() { r.down.release(ctx, r.toClient) })
	<-ctx.Done()
	err := errors.Join(r.near.Close(), r.far.Close())
	tasks.Wait()
	stop()
	return err
}

// Stats are the counts from the client to the server and back.
func (r *Relay) Stats() (up, down Counts) { return r.up.counts(), r.down.counts() }

func (r *Relay) readNear() {
	buffer := make([]byte, maxPacket)
	for {
		n, from, err := r.near.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if known := r.client.Load(); known == nil || *known != from {
			r.client.Store(&from) // the newest address is the client's: it may have changed
		}
		r.up.take(buffer[:n], time.Now(), r.toServer)
	}
}

func (r *Relay) readFar() {
	buffer := make([]byte, maxPacket)
	for {
		n, err := r.far.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP answer to an earlier packet: the server may come back
		}
		r.down.take(buffer[:n], time.Now(), r.toClient)
	}
}

// A packet that cannot be written is one more that the network has lost.
func (r *Relay) toServer(packet []byte) { _, _ = r.far.Write(packet) }

func (r *Relay) toClient(packet []byte) {
	if client := r.client.Load(); client != nil {
		_, _ = r.near.WriteToUDPAddrPort(packet, *client)
	}
}
