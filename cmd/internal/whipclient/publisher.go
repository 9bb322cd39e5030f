// Package whipclient publishes encoded video and sound to a gateway by WHIP (RFC 9725) with Pion, as a browser would: for load tests and end-to-end tests; it encodes nothing.
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

	"sightline/internal/faultnet"
)

// Config says what is published where.
type Config struct {
	URL     string // of the gateway, http or https; a path is kept as a prefix
	Session string // empty: the gateway makes one up
	Source  string // empty: the session's publisher; else a side publisher of this source
	Token   string // sent as a bearer token when not empty
	Clip    *Clip  // played in a loop
	// Layers are sent instead of Clip, as simulcast: 2 or 3 of one codec, the smallest first.
	Layers []*Clip
	FPS    float64 // 0 = the clip's own
	Sound  Sound   // of the microphone, in a loop; nil = no microphone
	// IgnorePLI makes a sender of the kind that sends key frames only when its source has one. Otherwise a request jumps to
	// the clip's next key frame.
	IgnorePLI bool
	Impair    *Impairment // of the video's packets; nil = the network as it is
	// Relay leads everything but HTTP over a bad network; nil = over none.
	Relay *faultnet.Config
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

	SoundPackets uint64 // sent
	HeardPackets uint64 // of the agent's voice
	HeardMissing uint64 // of those, by their sequence numbers
}

// Publisher is one synthetic browser. Make it with New, then Run it once.
type Publisher struct {
	cfg       Config
	endpoint  string
	connected chan struct{} // closed once connected
	tasks     sync.WaitGroup

	mu       sync.Mutex
	stats    Stats
	location string
	streams  []*stream
	relay    *faultnet.Relay
}

// New checks the configuration; it sends nothing.
func New(cfg Config) (*Publisher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("gateway URL %q: %w", cfg.URL, err)
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("gateway URL %q: must be http://HOST or https://HOST", cfg.URL)
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
	if cfg.Source != "" {
		endpoint += "?source=" + url.QueryEscape(cfg.Source)
	}
	return &Publisher{cfg: cfg, endpoint: endpoint, connected: make(chan struct{}), stats: Stats{State: "new"}}, nil
}

func (c *Config) check() error {
	if c.Clip == nil && len(c.Layers) == 0 {
		return errors.New("a publisher needs a clip")
	}
	if len(c.Layers) == 1 || len(c.Layers) > len(layerNames) {
		return fmt.Errorf("%d layers of simulcast: 2 or 3 are allowed", len(c.Layers))
	}
	for _, l := range c.Layers {
		if l.MimeType != c.Layers[0].MimeType {
			return fmt.Errorf("layers of simulcast in %s and in %s: one codec is allowed", c.Layers[0].MimeType, l.MimeType)
		}
	}
	if c.FPS < 0 || c.FPS > 240 {
		return fmt.Errorf("%g frames a second: 0 to 240 are allowed, 0 being the clip's own rate", c.FPS)
	}
	if c.Relay != nil {
		_, err := faultnet.New(*c.Relay)
		return err
	}
	return nil
}

// layers are the encodings that are sent.
func (p *Publisher) layers() []*Clip {
	if len(p.cfg.Layers) > 0 {
		return p.cfg.Layers
	}
	return []*Clip{p.cfg.Clip}
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
	p.mu.Lock()
	streams := p.streams
	p.mu.Unlock()
	for _, s := range streams {
		if first, last, ok = s.timeline.find(rtpTimestamp); ok {
			return first, last, ok
		}
	}
	return first, last, false
}

// Relayed are the counts of Config.Relay: from here to the gateway, and back.
func (p *Publisher) Relayed() (up, down faultnet.Counts) {
	p.mu.Lock()
	relay := p.relay
	p.mu.Unlock()
	if relay == nil {
		return up, down
	}
	return relay.Stats()
}

// Run publishes until ctx ends, then deletes the session and returns nil. It returns an error when the gateway refuses
// (*HTTPError), when no connection comes about, or when it breaks for good. No goroutine is left then.
func (p *Publisher) Run(ctx context.Context) error {
	begun := time.Now()
	c, err := p.connection()
	if err != nil {
		return err
	}
	failed := make(chan struct{})
	var once sync.Once
	c.pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
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
	c.pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { p.listen(track) })
	relaying, stopRelay := context.WithCancel(context.WithoutCancel(ctx)) // what closing has to say passes it too
	defer p.tasks.Wait()
	defer stopRelay()
	defer func() { _ = c.pc.GracefulClose() }() // on the way out: whatever it says, it is closed
	for _, s := range c.streams {
		p.tasks.Go(func() { s.readFeedback(c.video.Sender()) })
	}
	if c.micSent != nil {
		p.tasks.Go(func() { drain(c.micSent) })
	}

	if err := p.signal(ctx, relaying, c.pc); err != nil {
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
	return p.send(ctx, c, failed)
}

// send sends every stream and the sound until ctx ends or one of them fails.
func (p *Publisher) send(ctx context.Context, c *peer, failed <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, len(c.streams)+1)
	senders := 0
	begin := func(send func() error) {
		senders++
		p.tasks.Go(func() { errs <- send() })
	}
	for _, s := range c.streams {
		if err := s.label(c.video.Mid(), c.video.Sender().GetParameters().HeaderExtensions); err != nil {
			return err
		}
	}
	for _, s := range c.streams {
		begin(func() error { return s.play(ctx, failed) })
	}
	if c.mic != nil {
		begin(func() error { return p.talk(ctx, c.mic) })
	}
	var first error
	for range senders {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
		stop()
	}
	return first
}

// leaving: what fails because ctx has ended is no failure.
func leaving(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// signal is the WHIP exchange: every candidate is in the offer, so that no PATCH is needed.
func (p *Publisher) signal(ctx, relaying context.Context, pc *webrtc.PeerConnection) error {
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
	sdp := pc.LocalDescription().SDP
	if p.cfg.Relay != nil {
		sdp = faultnet.Offer(sdp)
	}
	answer, location, err := p.post(ctx, sdp)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.location = location
	p.mu.Unlock()
	if p.cfg.Relay != nil {
		answer, err = p.detour(relaying, answer)
	}
	if err == nil {
		err = pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer})
	}
	if err != nil {
		p.remove()
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
