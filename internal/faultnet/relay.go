// Package faultnet is a bad network for tests and load tests: a UDP relay, such as a NAT is, between clients of this machine and one gateway; it looks into no packet and is no part of the server.
package faultnet

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

// Config says what the network is like at first.
type Config struct {
	Faults
	Seed uint64 // of chance; the packets of one way meet it in the order of their coming
}

const (
	maxHeld    = 4096    // packets on their way in one direction: a second of 40 Mbit/s
	maxPacket  = 2048    // bytes of a packet: more than any path MTU of today
	maxClients = 64      // addresses that clients send from; packets of further ones are dropped
	readBuffer = 4 << 20 // bytes that a socket may keep for us, if the system allows so many: bursts are not ours to lose
)

// Relay forwards between clients and one gateway; each client has a socket of its own on the far side. Make it with New, Open it,
// then Run it. Answer tells it where the gateway is.
type Relay struct {
	near     *net.UDPConn // the clients send here
	at       netip.AddrPort
	up, down way
	readers  sync.WaitGroup // of the far sides; it grows under mu, while ended is false

	mu      sync.Mutex
	ended   bool
	gateway netip.AddrPort
	flows   map[netip.AddrPort]*flow // at most maxClients
}

// flow is one client.
type flow struct {
	client netip.AddrPort
	far    atomic.Pointer[net.UDPConn] // connected to the gateway; Rebind puts another one here
	free   time.Time                   // when the rate lets the next packet begin; of Relay.up
}

// New checks the configuration; it opens nothing.
func New(cfg Config) (*Relay, error) {
	r := &Relay{flows: map[netip.AddrPort]*flow{}}
	r.up.send, r.down.send = r.toGateway, r.toClient
	for i, w := range []*way{&r.up, &r.down} {
		w.random, w.wake = rand.New(rand.NewPCG(cfg.Seed, uint64(i))), make(chan struct{}, 1)
	}
	if err := r.Set(cfg.Faults); err != nil {
		return nil, err
	}
	return r, nil
}

// Open opens the port of loopback that clients are to send to. Run closes it.
func (r *Relay) Open() error {
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	_ = near.SetReadBuffer(readBuffer)
	r.near, r.at = near, near.LocalAddr().(*net.UDPAddr).AddrPort()
	return nil
}

// Run carries packets until ctx ends; those on their way then are lost. No goroutine and no socket is left.
func (r *Relay) Run(ctx context.Context) error {
	if r.near == nil {
		return errors.New("relay: Open comes before Run")
	}
	var tasks sync.WaitGroup
	tasks.Go(r.readNear)
	tasks.Go(func() { r.up.release(ctx) })
	tasks.Go(func() { r.down.release(ctx) })
	<-ctx.Done()
	err := r.close()
	tasks.Wait()
	r.readers.Wait()
	return err
}

func (r *Relay) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	err := r.near.Close()
	for _, f := range r.flows {
		err = errors.Join(err, f.far.Load().Close())
	}
	return err
}

// Set puts faults in force for the packets that come from now on. It errs as New does.
func (r *Relay) Set(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	r.up.set(f.up())
	r.down.set(f.back())
	return nil
}

// Stats are the counts from the clients to the gateway and back.
func (r *Relay) Stats() (up, down Counts) { return r.up.counts(), r.down.counts() }

// Rebind gives every client another address on the far side, as a NAT does that has lost its table.
func (r *Relay) Rebind() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.flows {
		if err := r.open(f); err != nil {
			return err
		}
	}
	return nil
}

// open gives a flow a new far side. The caller holds mu.
func (r *Relay) open(f *flow) error {
	if r.ended {
		return errors.New("relay: it has ended")
	}
	far, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.gateway))
	if err != nil {
		return fmt.Errorf("relay to %v: %w", r.gateway, err)
	}
	_ = far.SetReadBuffer(readBuffer)
	if old := f.far.Swap(far); old != nil {
		_ = old.Close()
	}
	r.readers.Go(func() { r.readFar(f, far) })
	return nil
}

// flowOf is the flow of a client, nil when there is no room for one or nowhere to send to.
func (r *Relay) flowOf(client netip.AddrPort) *flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flows[client]
	if f != nil || len(r.flows) >= maxClients || !r.gateway.IsValid() {
		return f
	}
	f = &flow{client: client}
	if r.open(f) != nil {
		return nil
	}
	r.flows[client] = f
	return f
}

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
		if f := r.flowOf(from); f != nil {
			r.up.take(f, buffer[:n], time.Now())
		} else {
			r.up.drop()
		}
	}
}

func (r *Relay) readFar(f *flow, far *net.UDPConn) {
	buffer := make([]byte, maxPacket)
	for {
		n, err := far.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP answer to an earlier packet: the gateway may come back
		}
		r.down.take(f, buffer[:n], time.Now())
	}
}

// A packet that cannot be written is one more that the network has lost.
func (r *Relay) toGateway(f *flow, packet []byte) { _, _ = f.far.Load().Write(packet) }

func (r *Relay) toClient(f *flow, packet []byte) {
	_, _ = r.near.WriteToUDPAddrPort(packet, f.client)
}
