// Package faultnet is a bad network for tests: a UDP relay, such as a NAT is, between clients and a gateway of this machine; it is not part of the product.
package faultnet

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Faults are what happens to packets from now on. Chances are drawn per packet from a seeded generator.
type Faults struct {
	LossUp, LossDown float64       // share of packets that never arrive: from the clients, to them
	Duplicate        float64       // share that arrives twice
	Delay            time.Duration // each way
	Jitter           time.Duration // at most so much more, so that packets overtake each other
	Rate             int           // bits a second from a client, with a quarter of a second of queue; 0: any
	Down             bool          // nothing goes either way
}

// Counts are what was done.
type Counts struct {
	Up, Down, Lost, Duplicated, OverRate, Rebinds int
}

// Relay forwards between clients that send to Addr and one gateway. Each client has a socket of its own on the far side.
type Relay struct {
	near    *net.UDPConn
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	mu      sync.Mutex
	random  *rand.Rand
	gateway netip.AddrPort
	faults  Faults
	counts  Counts
	flows   map[netip.AddrPort]*flow
}

// flow is one client's way.
type flow struct {
	client netip.AddrPort
	far    *net.UDPConn
	free   time.Time // when the rate lets the next packet begin
}

// New opens a relay on a free loopback port. Answer tells it where the gateway is.
func New(seed uint64) (*Relay, error) {
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	r := &Relay{
		near: near, random: rand.New(rand.NewPCG(seed, seed)), flows: map[netip.AddrPort]*flow{},
	}
	_ = near.SetReadBuffer(4 << 20)
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.running.Go(r.fromClients)
	return r, nil
}

// Port is where clients send to.
func (r *Relay) Port() int { return r.near.LocalAddr().(*net.UDPAddr).Port }

// Set puts faults in force.
func (r *Relay) Set(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = f
}

// Counts tells what was done so far.
func (r *Relay) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Rebind gives every client another address on the far side, as a NAT does that has lost its table.
func (r *Relay) Rebind() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.flows {
		if err := r.open(f); err != nil {
			return err
		}
	}
	r.counts.Rebinds++
	return nil
}

// Close ends it; packets on their way are lost.
func (r *Relay) Close() {
	r.stop()
	_ = r.near.Close()
	r.mu.Lock()
	for _, f := range r.flows {
		_ = f.far.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// Answer makes a client's view of the gateway's answer (SDP or fragment): the relay's port is the only candidate. The gateway's
// own on 127.0.0.1 is where packets go from now on.
func (r *Relay) Answer(sdp string) string {
	candidate := "a=candidate:1 1 udp 2130706431 127.0.0.1 " + strconv.Itoa(r.Port()) + " typ host\r\n"
	var lines []string
	for line := range strings.Lines(sdp) {
		if strings.HasPrefix(line, "a=candidate:") {
			r.learn(strings.Fields(line))
			if !slices.Contains(lines, candidate) {
				lines = append(lines, candidate)
			}
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// learn takes the gateway's address from a candidate line (RFC 8839 §5.1).
func (r *Relay) learn(f []string) {
	if len(f) < 6 || f[2] != "udp" {
		return
	}
	at, err := netip.ParseAddrPort(f[4] + ":" + f[5])
	if err != nil || !at.Addr().IsLoopback() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gateway = at
}

// Offer takes a client's own candidates out, so that the gateway knows it by the relay's address alone.
func (r *Relay) Offer(sdp string) string {
	var b strings.Builder
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, "a=candidate:") && !strings.HasPrefix(line, "a=end-of-candidates") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (r *Relay) fromClients() {
	b := make([]byte, 2048)
	for {
		n, from, err := r.near.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		f := r.flows[from]
		if f == nil {
			f = &flow{client: from}
			if r.ctx.Err() != nil || r.open(f) != nil {
				r.mu.Unlock()
				continue
			}
			r.flows[from] = f
		}
		far := f.far
		to := r.gateway
		r.forward(b[:n], f, r.faults.LossUp, &r.counts.Up, func(data []byte) { _, _ = far.WriteToUDPAddrPort(data, to) })
		r.mu.Unlock()
	}
}

// open gives a flow a new far side; the caller holds mu.
func (r *Relay) open(f *flow) error {
	far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	_ = far.SetReadBuffer(1 << 20)
	if f.far != nil {
		_ = f.far.Close()
	}
	f.far = far
	r.running.Go(func() { r.fromGateway(f, far) })
	return nil
}

func (r *Relay) fromGateway(f *flow, far *net.UDPConn) {
	b := make([]byte, 2048)
	for {
		n, err := far.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.forward(b[:n], nil, r.faults.LossDown, &r.counts.Down, func(data []byte) { _, _ = r.near.WriteToUDPAddrPort(data, f.client) })
		r.mu.Unlock()
	}
}

// forward does to one packet what the faults say; the caller holds mu. A flow given has the rate to obey.
func (r *Relay) forward(data []byte, f *flow, loss float64, count *int, send func([]byte)) {
	*count++
	if r.faults.Down || r.random.Float64() < loss {
		r.counts.Lost++
		return
	}
	wait := r.faults.Delay
	if r.faults.Jitter > 0 {
		wait += time.Duration(r.random.Int64N(int64(r.faults.Jitter)))
	}
	if f != nil && r.faults.Rate > 0 {
		now := time.Now()
		if f.free.Before(now) {
			f.free = now
		}
		if f.free.Sub(now) > time.Second/4 {
			r.counts.OverRate++
			return
		}
		wait += f.free.Sub(now)
		f.free = f.free.Add(time.Duration(len(data)+28) * 8 * time.Second / time.Duration(r.faults.Rate)) // IPv4 and UDP headers
	}
	copies := 1
	if r.random.Float64() < r.faults.Duplicate {
		r.counts.Duplicated++
		copies++
	}
	data = append([]byte(nil), data...)
	for range copies {
		if wait == 0 {
			send(data)
			continue
		}
		time.AfterFunc(wait, func() {
			if r.ctx.Err() == nil {
				send(data)
			}
		})
	}
}
