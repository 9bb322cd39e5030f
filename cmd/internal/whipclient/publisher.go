// Package whipclient publishes encoded video to a gateway by WHIP (RFC 9725) with Pion, as a browser would: for load tests and end-to-end tests; it encodes nothing.
package whipclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"
)

// Config says what is published where.
type Config struct {
	URL     string // of the gateway, http or https; a path is kept as a prefix
	Session string // empty: the gateway makes one up
	Token   string // sent as a bearer token when not empty
	Clip    *Clip  // played in a loop
	FPS     float64
	// IgnorePLI makes a sender of the kind that sends key frames only when its source has one. Otherwise a request jumps to
	// the clip's next key frame.
	IgnorePLI bool
	Impair    *Impairment // nil = the network as it is
	// ConnectTimeout bounds everything until media flows; 0 = 15 s.
	ConnectTimeout time.Duration
	HTTP           *http.Client // nil = http.DefaultClient
	Log            *slog.Logger // nil = silent
}

// Stats counts since New.
type Stats struct {
	State       string        // new, connecting, connected, disconnected, failed or closed
	ConnectedIn time.Duration // from Run to connected, 0 before
	Frames      uint64
	KeyFrames   uint64
	Late        uint64 // frames sent more than one interval after their time: this machine is too busy
	Packets     uint64
	Bytes       uint64 // of RTP payload
	PLI         uint64 // key frame requests received
	Lost        uint64 // packets that Impairment took out, repetitions included
	Reordered   uint64
}

// Publisher is one synthetic browser. Make it with New, then Run it once.
type Publisher struct {
	cfg      Config
	endpoint string
	timeline timeline

	pli       chan struct{} // capacity 1: a key frame is wanted
	connected chan struct{} // closed once connected

	mu       sync.Mutex
	stats    Stats
	location string
}

// New checks the configuration; it sends nothing.
func New(cfg Config) (*Publisher, error) {
	if cfg.Clip == nil {
		return nil, errors.New("a publisher needs a clip")
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("gateway URL %q: %w", cfg.URL, err)
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("gateway URL %q: must be http://HOST or https://HOST", cfg.URL)
	}
	if cfg.FPS == 0 {
		cfg.FPS = cfg.Clip.FPS
	}
	if cfg.FPS < 0 || cfg.FPS > 240 {
		return nil, fmt.Errorf("%g frames a second: 0 to 240 are allowed, 0 being the clip's own rate", cfg.FPS)
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 15 * time.Second
	}
	if cfg.HTTP == nil {
		cfg.HTTP = http.DefaultClient
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	endpoint := strings.TrimSuffix(cfg.URL, "/") + "/whip"
	if cfg.Session != "" {
		endpoint += "/" + url.PathEscape(cfg.Session)
	}
	return &Publisher{cfg: cfg, endpoint: endpoint, pli: make(chan struct{}, 1), connected: make(chan struct{}),
		stats: Stats{State: "new"}}, nil
}

// Connected is closed when media has begun to flow.
func (p *Publisher) Connected() <-chan struct{} { return p.connected }

// Location is the session URL that the gateway gave, empty before its answer.
func (p *Publisher) Location() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.location
}

// Stats is a copy of the counters.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *Publisher) count(add func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.stats)
}

// SentAt tells when the first and the last packet of the frame with this RTP timestamp were sent; ok is false when that
// was too long ago (or never).
func (p *Publisher) SentAt(rtpTimestamp uint32) (first, last time.Time, ok bool) {
	return p.timeline.find(rtpTimestamp)
}

// Run publishes until ctx ends, then deletes the session and returns nil. It returns an error when the gateway refuses
// (*HTTPError), when no connection comes about, or when it breaks for good. No goroutine is left then.
func (p *Publisher) Run(ctx context.Context) error {
	begun := time.Now()
	pc, track, sender, err := p.peerConnection()
	if err != nil {
		return err
	}
	failed := make(chan struct{})
	var once sync.Once
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		p.count(func(st *Stats) { st.State = s.String() })
		switch s {
		case webrtc.PeerConnectionStateConnected:
			p.count(func(st *Stats) {
				if st.ConnectedIn == 0 {
					st.ConnectedIn = time.Since(begun)
					close(p.connected)
				}
			})
		case webrtc.PeerConnectionStateFailed:
			once.Do(func() { close(failed) })
		}
	})
	var feedback sync.WaitGroup
	feedback.Go(func() { p.readFeedback(sender) })
	defer feedback.Wait()
	defer func() { _ = pc.GracefulClose() }() // on the way out: whatever it says, it is closed

	if err := p.signal(ctx, pc); err != nil {
		return leaving(ctx, err)
	}
	defer p.remove()
	select {
	case <-p.connected:
	case <-failed:
		return errors.New("the connection failed: no pair of addresses works between here and the gateway")
	case <-time.After(p.cfg.ConnectTimeout - time.Since(begun)):
		return fmt.Errorf("not connected within %v: the gateway answered, but no media path came about", p.cfg.ConnectTimeout)
	case <-ctx.Done():
		return nil
	}
	return p.play(ctx, track, failed)
}

// leaving: what fails because ctx has ended is no failure.
func leaving(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// signal is the WHIP exchange: every candidate is in the offer, so that no PATCH is needed.
func (p *Publisher) signal(ctx context.Context, pc *webrtc.PeerConnection) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer cancel()
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return fmt.Errorf("offer: %w", err)
	}
	select {
	case <-gathered:
	case <-ctx.Done():
		return fmt.Errorf("gathering candidates: %w", ctx.Err())
	}
	answer, location, err := p.post(ctx, pc.LocalDescription().SDP)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.location = location
	p.mu.Unlock()
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		p.remove()
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
