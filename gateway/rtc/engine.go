package rtc

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/problem"
)

// Engine holds the sockets, the certificate and the settings that all peers share.
type Engine struct {
	cfg    Config
	policy policy
	log    *slog.Logger
	socks  *sockets
	api    *apiParts
	cert   webrtc.Certificate

	mu          sync.Mutex
	peers       map[*Peer]struct{} // guarded by mu
	unconnected int                // guarded by mu
	closed      bool               // guarded by mu

	stuck     atomic.Int64 // peers whose goroutines had not returned closeTimeout after their end
	overLimit atomic.Int64 // peers that a watchdog has ended
}

// New opens the sockets. Close frees them.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	for _, ip := range cfg.PublicIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("public address %q is not an IP address", ip)
		}
	}
	if cfg.UDPPort < 0 || cfg.UDPPort > 65535 || cfg.TCPPort < -1 || cfg.TCPPort > 65535 {
		return nil, fmt.Errorf("media ports are 0 to 65535 (TCP: -1 for none); got UDP %d, TCP %d", cfg.UDPPort, cfg.TCPPort)
	}
	e := &Engine{
		cfg: cfg, log: cfg.Log, peers: make(map[*Peer]struct{}),
		policy: policy{loopback: cfg.AllowLoopback, private: cfg.AllowPrivate},
	}
	if cfg.remote != nil {
		e.policy = *cfg.remote
	}
	cert, err := newCertificate()
	if err != nil {
		return nil, err
	}
	e.cert = *cert
	logs := logFactory{cfg.Log}
	if e.socks, err = openSockets(cfg, logs); err != nil {
		return nil, err
	}
	if e.api, err = newAPI(cfg, e.socks, e.policy, logs); err != nil {
		_ = e.socks.close()
		return nil, err
	}
	return e, nil
}

// Ports gives the ports that media comes in on; tcp is 0 when ICE-TCP is off.
func (e *Engine) Ports() (udp, tcp int) { return e.socks.udpPort, e.socks.tcpPort }

// EngineStats counts over all peers.
type EngineStats struct {
	Peers       int   `json:"peers"`
	Unconnected int   `json:"unconnected"`
	StuckCloses int64 `json:"stuck_closes"`

	FloodDrops uint64 `json:"flood_drops"` // packets of sources that send too many, of a second SSRC under one layer's id, and DTLS that no peer may send
	OverLimit  int64  `json:"over_limit"`  // peers closed for more SSRCs or addresses than allowed
}

// Stats gives a snapshot.
func (e *Engine) Stats() EngineStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return EngineStats{Peers: len(e.peers), Unconnected: e.unconnected, StuckCloses: e.stuck.Load(),
		FloodDrops: e.socks.flooded.Load(), OverLimit: e.overLimit.Load()}
}

// Close refuses further offers, closes every peer that is left, then the sockets. A second call does nothing.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	left := make([]*Peer, 0, len(e.peers))
	for p := range e.peers {
		left = append(left, p)
	}
	e.mu.Unlock()
	for _, p := range left {
		p.end()
	}
	for _, p := range left {
		<-p.done
	}
	return e.socks.close()
}

// Accept answers an offer. The peer outlives ctx, which bounds only the answering: when ctx ends before the answer
// is ready, the peer is gone. Errors are *problem.Error (invalid_argument, too_large, not_negotiable, overloaded,
// draining) or ctx's.
func (e *Engine) Accept(ctx context.Context, offer string, h Handlers) (*Peer, string, error) {
	plan, err := normaliseOffer(offer, e.policy)
	if err != nil {
		return nil, "", err
	}
	text, err := plan.sdp()
	if err != nil {
		return nil, "", err
	}
	p, err := e.newPeer(plan, h)
	if err != nil {
		return nil, "", err
	}
	answer, err := p.answer(ctx, plan, text)
	if err == nil {
		err = ctx.Err() // nobody waits for the answer any more
	}
	if err != nil {
		p.Close()
		return nil, "", err
	}
	return p, answer.text, nil
}

// admit counts a peer in, or says why not.
func (e *Engine) admit(p *Peer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return problem.New(problem.Draining, "the gateway is shutting down").WithRetryAfter(5 * time.Second)
	}
	if e.unconnected >= e.cfg.MaxUnconnected {
		return problem.New(problem.Overloaded, "%d publishers are connecting already; at most %d may do so at a time", e.unconnected, e.cfg.MaxUnconnected).
			WithRetryAfter(5 * time.Second)
	}
	e.unconnected++
	e.peers[p] = struct{}{}
	return nil
}

func (e *Engine) connected() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unconnected--
}

// forget counts a peer out; early when it never connected.
func (e *Engine) forget(p *Peer, early bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if early {
		e.unconnected--
	}
	delete(e.peers, p)
}
