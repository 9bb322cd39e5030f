package rtc

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/problem"
)

// Peer is one publisher's PeerConnection. Its methods may be called from any goroutine.
type Peer struct {
	engine   *Engine
	pc       *webrtc.PeerConnection
	handlers Handlers
	log      *slog.Logger
	ssrc     uint32 // our own, never 0: the sender of our feedback

	wake    chan struct{} // capacity 1: look at the connection's state again
	closing chan struct{}
	endOnce sync.Once
	done    chan struct{}

	signal chan struct{} // capacity 1, a lock that can be given up: one trickle or restart at a time
	sig    signalling    // guarded by mu, changed only by who holds signal too

	mu      sync.Mutex
	claimed map[string]bool // mids whose layer is handed on; guarded by mu
	tracks  []*InTrack      // guarded by mu; at most maxOfferSSRCs
	voice   *speaker        // guarded by mu; nil: the offer takes no sound
	wg      sync.WaitGroup  // our goroutines beside run; Add only by spawn
	ended   bool            // guarded by mu: spawn no more

	state atomic.Value // State
	asked asking

	feedback *feedback
	layers   *layerGuard
}

// signalling is the generation of ICE that is in force.
type signalling struct {
	plan     *offerPlan
	local    *answerPlan
	trickled int // candidates added since the last offer or restart
}

func (e *Engine) newPeer(plan *offerPlan, h Handlers) (*Peer, error) {
	p := &Peer{
		engine: e, handlers: h, log: cmp.Or(h.Log, e.log), ssrc: randomSSRC(),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		signal: make(chan struct{}, 1), sig: signalling{plan: plan}, claimed: make(map[string]bool),
	}
	p.state.Store(StateConnecting)
	if err := e.admit(p); err != nil {
		return nil, err
	}
	w := &watchdog{tooMuch: p.tooMuch, silent: e.cfg.disconnectedAfter / 2, layers: layerGuard{clashed: &e.socks.flooded}}
	p.layers = &w.layers
	p.feedback = newFeedback(p.ssrc)
	pc, err := e.api.forPeer(w, p.feedback).NewPeerConnection(webrtc.Configuration{Certificates: []webrtc.Certificate{e.cert}})
	if err != nil {
		e.forget(p, true)
		return nil, problem.New(problem.Internal, "the gateway could not make a peer connection").WithCause(err)
	}
	p.pc = pc
	pc.OnConnectionStateChange(func(webrtc.PeerConnectionState) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	})
	pc.SCTP().Transport().ICETransport().OnSelectedCandidatePairChange(w.pairChanged)
	pc.OnTrack(p.onTrack)
	pc.OnDataChannel(p.limitChannels())
	go p.run()
	return p, nil
}

// randomSSRC is never 0.
func randomSSRC() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:]) | 1
}

// limitChannels lets a few data channels stand, unread: clients that open one must not fail. On one, its page is told what to send.
func (p *Peer) limitChannels() func(*webrtc.DataChannel) {
	var n atomic.Int32
	return func(d *webrtc.DataChannel) {
		if n.Add(1) > maxDataChannels {
			_ = d.Close()
			return
		}
		if d.Label() == SenderChannel {
			p.listens(d)
		}
	}
}

// run is the peer's life: it reports states, bounds the time to connect, and ends the peer.
func (p *Peer) run() {
	connected := p.watch()
	p.teardown()
	p.engine.forget(p, !connected)
	p.setState(StateClosed)
	close(p.done)
}

// watch returns when the peer shall end, and whether it ever was connected.
func (p *Peer) watch() (connected bool) {
	limit := time.NewTimer(p.engine.cfg.ConnectTimeout)
	defer limit.Stop()
	for {
		select {
		case <-p.closing:
			return connected
		case <-limit.C:
			if !connected {
				p.setState(StateFailed)
				return false
			}
		case <-p.wake:
			switch p.pc.ConnectionState() {
			case webrtc.PeerConnectionStateConnected:
				if !connected {
					connected = true
					p.engine.connected()
				}
				p.setState(StateConnected)
			case webrtc.PeerConnectionStateDisconnected:
				p.setState(StateDisconnected)
			case webrtc.PeerConnectionStateConnecting:
				if connected { // an ICE restart
					p.setState(StateDisconnected)
				}
			case webrtc.PeerConnectionStateFailed:
				p.setState(StateFailed)
				return connected
			case webrtc.PeerConnectionStateClosed: // close_notify
				return connected
			}
		}
	}
}

func (p *Peer) setState(s State) {
	if p.state.Swap(s) != s && p.handlers.State != nil {
		p.handlers.State(s)
	}
}

// teardown closes the connection and waits for every goroutine, but not for ever: Pion's graceful close is known to
// hang (pion/interceptor#384).
func (p *Peer) teardown() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = p.pc.GracefulClose() // its errors are about sockets that the other side closed first
		p.wg.Wait()
	}()
	watchdog := time.NewTimer(closeTimeout)
	defer watchdog.Stop()
	select {
	case <-gone:
	case <-watchdog.C:
		p.engine.stuck.Add(1)
		p.log.Warn("a peer did not close in time, going on without it", "timeout", closeTimeout)
	}
}

// spawn runs f as one of the peer's goroutines; not after its end.
func (p *Peer) spawn(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.wg.Go(f)
	}
}

// tooMuch ends a peer that goes over a bound.
func (p *Peer) tooMuch(reason string, limit int) {
	p.endOnce.Do(func() {
		p.engine.overLimit.Add(1)
		p.log.Warn(reason, "limit", limit)
		close(p.closing)
	})
}

func (p *Peer) end() { p.endOnce.Do(func() { close(p.closing) }) }

// Done is closed when the peer is gone and its goroutines have returned (or would not within 5 s, which is counted).
func (p *Peer) Done() <-chan struct{} { return p.done }

// Close ends the peer and waits until it is gone, about 5 s at most. It may be called again and from several
// goroutines, but not from a handler.
func (p *Peer) Close() {
	p.end()
	<-p.done
}

// onTrack hands a track on, or drains it when it is sound of a section that has one already: every SSRC must be read, or the
// sender's bandwidth estimate collapses. It is called once for every SSRC, also for the same RID.
func (p *Peer) onTrack(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
	mid := ""
	if t := receiver.RTPTransceiver(); t != nil {
		mid = t.Mid()
	}
	p.mu.Lock()
	if only := p.sig.plan.sections; mid == "" && len(only) == 1 { // an SSRC that the offer does not tell, which Pion gives a section of its own
		mid = only[0].mid
	}
	s, _ := p.sig.plan.section(mid)
	first := !p.claimed[mid]
	p.claimed[mid] = true
	t := newInTrack(p.pc, track, receiver, p.ssrc)
	t.feedback = p.feedback
	t.MID, t.Source, t.wantsPLI, t.takesREMB = mid, s.source, s.pli, s.remb
	t.Screen = s.source == sourceScreen
	if t.Codec == codecH264 {
		t.parameterSets = spropParameterSets(s.codec.fmtp)
	}
	if len(p.tracks) < maxOfferSSRCs {
		p.tracks = append(p.tracks, t)
	}
	p.mu.Unlock()

	p.spawn(t.drainRTCP)
	if !first && t.Kind != "video" || p.handlers.Track == nil {
		p.spawn(t.Drain)
		return
	}
	p.handlers.Track(t)
}
