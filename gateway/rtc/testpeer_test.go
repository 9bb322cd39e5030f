package rtc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

// waitTime bounds a test's waiting for a condition; generous, the machine may be busy.
const waitTime = 30 * time.Second

// waitFor polls until ok or fails the test with what it waited for.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTime); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for: %s", waitTime, what)
		}
	}
}

func onlyLoopback(_ string, a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") }

// newEngine serves 127.0.0.1 alone.
func newEngine(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	cfg := Config{AllowLoopback: true, AllowPrivate: true, TCPPort: -1, KeepAddress: onlyLoopback, Log: slog.New(testLog{t.Context(), t})}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e
}

// testLog shows warnings in the test's own log, as long as the test runs.
type testLog struct {
	ctx context.Context
	t   *testing.T
}

func (l testLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && l.ctx.Err() == nil
}
func (l testLog) Handle(_ context.Context, r slog.Record) error {
	if l.ctx.Err() == nil {
		l.t.Logf("%s %s", r.Level, r.Message)
	}
	return nil
}
func (l testLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l testLog) WithGroup(string) slog.Handler      { return l }

// publisher is a real Pion client.
type publisher struct {
	t       *testing.T
	pc      *webrtc.PeerConnection
	socket  net.PacketConn // its only one
	tracks  []*webrtc.TrackLocalStaticRTP
	plis    atomic.Int32
	heard   chan *rtp.Packet        // with hears: what the gateway sends
	reports chan *rtcp.SenderReport // of that
	pliSSRC atomic.Uint32
	remb    atomic.Pointer[rtcp.ReceiverEstimatedMaximumBitrate] // the latest
}

type publisherOptions struct {
	audio, screen, simulcast, tcp bool
	hears                         bool   // audio both ways
	firefox                       bool   // payload types as Firefox numbers them
	bare                          bool   // no interceptors: Pion's NACK responder refuses payloads over 1460 bytes
	none                          bool   // no track: the caller adds its own
	twins                         bool   // each packet also goes out under a second SSRC, as the same layer
	turn                          string // address of a TURN server, the only way
}

func newPublisher(t *testing.T, o publisherOptions) *publisher {
	t.Helper()
	var s webrtc.SettingEngine
	s.LoggerFactory = logFactory{slog.New(slog.DiscardHandler)}
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIPFilter(func(ip net.IP) bool { return ip.Equal(net.IPv4(127, 0, 0, 1)) })
	s.SetICETimeouts(2*time.Second, 30*time.Second, 500*time.Millisecond)
	p := &publisher{t: t}
	var cfg webrtc.Configuration
	switch {
	case o.tcp:
		s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeTCP4})
	case o.turn != "":
		cfg.ICEServers = []webrtc.ICEServer{{URLs: []string{"turn:" + o.turn}, Username: "caller", Credential: "secret"}}
		cfg.ICETransportPolicy = webrtc.ICETransportPolicyRelay
	default:
		socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.socket = socket
		s.SetICEUDPMux(ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: socket, Logger: s.LoggerFactory.NewLogger("mux")}))
		t.Cleanup(func() { _ = socket.Close() })
	}
	media := &webrtc.MediaEngine{}
	register := media.RegisterDefaultCodecs
	if o.firefox {
		register = func() error { return registerAsFirefox(media) }
	}
	if err := register(); err != nil {
		t.Fatal(err)
	}
	chain := &interceptor.Registry{}
	if !o.bare {
		if err := webrtc.RegisterDefaultInterceptors(media, chain); err != nil {
			t.Fatal(err)
		}
	}
	if o.twins {
		chain.Add(twins{})
	}
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s), webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(chain)).
		NewPeerConnection(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.pc = pc
	t.Cleanup(func() { _ = pc.GracefulClose() })
	if o.audio {
		p.add(webrtc.MimeTypeOpus, "microphone", webrtc.RTPTransceiverDirectionSendonly)
	}
	if o.hears {
		p.hear()
	}
	if o.simulcast {
		p.addSimulcast("q", "f")
	} else if !o.none {
		p.add(webrtc.MimeTypeVP8, "camera", webrtc.RTPTransceiverDirectionSendonly)
	}
	if o.screen {
		p.add(webrtc.MimeTypeVP8, "screen", webrtc.RTPTransceiverDirectionSendonly)
	}
	return p
}

func (p *publisher) track(mime, id string, options ...func(*webrtc.TrackLocalStaticRTP)) *webrtc.TrackLocalStaticRTP {
	p.t.Helper()
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: mime}, id, "stream", options...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.tracks = append(p.tracks, track)
	return track
}

func (p *publisher) add(mime, id string, direction webrtc.RTPTransceiverDirection) {
	p.t.Helper()
	tr, err := p.pc.AddTransceiverFromTrack(p.track(mime, id), webrtc.RTPTransceiverInit{Direction: direction})
	if err != nil {
		p.t.Fatal(err)
	}
	go p.readRTCP(tr.Sender())
}

func registerAsFirefox(m *webrtc.MediaEngine) error {
	return errors.Join(
		m.RegisterCodec(webrtc.RTPCodecParameters{
			RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "maxplaybackrate=48000;stereo=1;useinbandfec=1"},
			PayloadType:        109,
		}, webrtc.RTPCodecTypeAudio),
		m.RegisterCodec(webrtc.RTPCodecParameters{
			RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90000, SDPFmtpLine: "max-fs=12288;max-fr=60"}, PayloadType: 120,
		}, webrtc.RTPCodecTypeVideo))
}

// hear adds a microphone whose section takes sound too.
func (p *publisher) hear() {
	p.t.Helper()
	p.heard, p.reports = make(chan *rtp.Packet, 1000), make(chan *rtcp.SenderReport, 100)
	p.add(webrtc.MimeTypeOpus, "microphone", webrtc.RTPTransceiverDirectionSendrecv)
	p.pc.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		go func() {
			for {
				packets, _, err := receiver.ReadRTCP()
				if err != nil {
					return
				}
				for _, packet := range packets {
					if sr, ok := packet.(*rtcp.SenderReport); ok {
						p.reports <- sr
					}
				}
			}
		}()
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			p.heard <- packet
		}
	})
}

func (p *publisher) addSimulcast(rids ...string) {
	p.t.Helper()
	var sender *webrtc.RTPSender
	for _, rid := range rids {
		track := p.track(webrtc.MimeTypeVP8, "camera", webrtc.WithRTPStreamID(rid))
		if sender == nil {
			tr, err := p.pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
			if err != nil {
				p.t.Fatal(err)
			}
			sender = tr.Sender()
		} else if err := sender.AddEncoding(track); err != nil {
			p.t.Fatal(err)
		}
	}
	go p.readRTCP(sender)
}

func (p *publisher) readRTCP(s *webrtc.RTPSender) {
	for {
		packets, _, err := s.ReadRTCP()
		if err != nil {
			return
		}
		for _, packet := range packets {
			if pli, ok := packet.(*rtcp.PictureLossIndication); ok {
				p.pliSSRC.Store(pli.SenderSSRC)
				p.plis.Add(1)
			}
			if remb, ok := packet.(*rtcp.ReceiverEstimatedMaximumBitrate); ok {
				p.remb.Store(remb)
			}
		}
	}
}

// offer is complete with candidates; clients that trickle send stripCandidates of it.
func (p *publisher) offer(options *webrtc.OfferOptions) string {
	p.t.Helper()
	o, err := p.pc.CreateOffer(options)
	if err != nil {
		p.t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(p.pc)
	if err := p.pc.SetLocalDescription(o); err != nil {
		p.t.Fatal(err)
	}
	<-gathered
	return p.pc.LocalDescription().SDP
}

func (p *publisher) accept(answer string) {
	p.t.Helper()
	if err := p.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		p.t.Fatalf("the client refuses the answer: %v\n%s", err, answer)
	}
}

// send writes numbered packets to every track until the test ends or stop is called.
func (p *publisher) send() (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for seq := uint16(0); ; seq++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for i, track := range p.tracks {
				packet := &rtp.Packet{
					Header:  rtp.Header{Version: 2, SequenceNumber: seq, Timestamp: uint32(seq) * 450, Marker: true},
					Payload: append([]byte{0x10, byte(i)}, make([]byte, 1000)...),
				}
				if track.RID() != "" {
					p.mark(packet, track.RID())
				}
				_ = track.WriteRTP(packet)
			}
		}
	})
	stop = func() { cancel(); wg.Wait() }
	p.t.Cleanup(stop)
	return stop
}

// mark puts MID and RID into a simulcast packet, as browsers do.
func (p *publisher) mark(packet *rtp.Packet, rid string) {
	for _, e := range p.pc.GetSenders()[0].GetParameters().HeaderExtensions {
		switch e.URI {
		case sdp.SDESMidURI:
			_ = packet.SetExtension(uint8(e.ID), []byte(p.pc.GetTransceivers()[0].Mid()))
		case sdp.SDESRTPStreamIDURI:
			_ = packet.SetExtension(uint8(e.ID), []byte(rid))
		}
	}
}

func stripCandidates(offer string) string {
	var b strings.Builder
	for line := range strings.Lines(offer) {
		if !strings.HasPrefix(line, "a=candidate") && !strings.HasPrefix(line, "a=end-of-candidates") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// asFragment is what a client would PATCH of its own description.
func asFragment(offer string) string {
	b := &strings.Builder{}
	for line := range strings.Lines(offer) {
		if strings.HasPrefix(line, "m=") && strings.Contains(b.String(), "m=") {
			break
		}
		for _, prefix := range []string{"m=", "a=mid:", "a=ice-ufrag:", "a=ice-pwd:", "a=candidate:", "a=end-of-candidates"} {
			if strings.HasPrefix(line, prefix) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// sink reads what a peer hands on.
type sink struct {
	mu     sync.Mutex
	tracks []*InTrack
	states []State
	got    map[string]int // packets by source
	ended  atomic.Int32   // tracks read to their end
}

func (s *sink) handlers() Handlers {
	s.got = make(map[string]int)
	return Handlers{
		Track: func(t *InTrack) {
			s.mu.Lock()
			s.tracks = append(s.tracks, t)
			s.mu.Unlock()
			go func() {
				for {
					if _, err := t.ReadRTP(); err != nil {
						s.ended.Add(1)
						return
					}
					s.mu.Lock()
					s.got[t.Source]++
					s.mu.Unlock()
				}
			}()
		},
		State: func(st State) {
			s.mu.Lock()
			s.states = append(s.states, st)
			s.mu.Unlock()
		},
	}
}

func (s *sink) count(source string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[source]
}

func (s *sink) saw(want State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.states, want)
}

// publish connects p and waits for packets of every source.
func publish(t *testing.T, e *Engine, p *publisher, sources ...string) (*Peer, *sink) {
	t.Helper()
	s := &sink{}
	peer, answer, err := e.Accept(t.Context(), p.offer(nil), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	p.accept(answer)
	p.send()
	for _, source := range sources {
		waitFor(t, "packets of "+source, func() bool { return s.count(source) > 10 })
	}
	return peer, s
}
