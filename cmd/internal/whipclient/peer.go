package whipclient

import (
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/nack"
	"github.com/pion/logging"
	"github.com/pion/webrtc/v4"
)

const (
	clockRate    = 90000
	payloadVideo = 96
	payloadRTX   = 97
	payloadOpus  = 111

	mtu       = 1200 // bytes of an RTP packet
	rtpHeader = 12   // of them
	// minKeyGap is how often a key frame is given on request: encoders honour one request per 300 ms.
	minKeyGap = 300 * time.Millisecond
	// burst is how many packets leave at once; a larger frame is spread over half its interval, as pacers do.
	burst = 10
	// repeatable is how many packets are kept for repetition: two seconds and more of 480p, one of 720p.
	repeatable = 256
)

// peer is a connection with what goes over it.
type peer struct {
	pc      *webrtc.PeerConnection
	streams []*stream
	video   *webrtc.RTPTransceiver
	mic     *webrtc.TrackLocalStaticRTP // nil without sound
	micSent *webrtc.RTPSender
}

// connection makes a peer with the video, a UDP socket of its own (a gateway with one UDP port tells publishers apart by
// address) and the feedback that browsers have.
func (p *Publisher) connection() (*peer, error) {
	api, err := p.api()
	if err != nil {
		return nil, err
	}
	c := &peer{}
	if c.pc, err = api.NewPeerConnection(webrtc.Configuration{}); err != nil {
		return nil, err
	}
	if err = p.addVideo(c); err == nil && len(p.cfg.Sound) > 0 {
		err = p.addSound(c)
	}
	if err != nil {
		return nil, errors.Join(err, c.pc.Close())
	}
	return c, nil
}

func (p *Publisher) api() (*webrtc.API, error) {
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	codecs := []webrtc.RTPCodecParameters{videoCodec(p.layers()[0].MimeType)}
	if len(p.cfg.Layers) == 0 {
		// Pion labels repetitions of a layer with its RID and not as repaired (RFC 8852 §3.3), so that they look like the
		// layer itself on another SSRC: layers are repeated on their own.
		codecs = append(codecs, webrtc.RTPCodecParameters{
			RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: clockRate, SDPFmtpLine: "apt=96"}, PayloadType: payloadRTX})
	}
	for _, codec := range codecs {
		if err := media.RegisterCodec(codec, webrtc.RTPCodecTypeVideo); err != nil {
			return nil, err
		}
	}
	if len(p.cfg.Sound) > 0 {
		if err := media.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: opus, PayloadType: payloadOpus}, webrtc.RTPCodecTypeAudio); err != nil {
			return nil, err
		}
	}
	if len(p.cfg.Layers) > 0 {
		if err := webrtc.ConfigureSimulcastExtensionHeaders(media); err != nil {
			return nil, err
		}
	}
	if p.cfg.Impair != nil {
		registry.Add(&impairFactory{p}) // first in, nearest to the wire: NACK repetitions suffer too
	}
	if err := webrtc.ConfigureNackWithOptions(media, registry, nil, nack.ResponderSize(repeatable)); err != nil {
		return nil, err
	}
	if err := webrtc.ConfigureRTCPReports(registry); err != nil {
		return nil, err
	}
	return webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(p.settings())), nil
}

func (p *Publisher) addVideo(c *peer) (err error) {
	for i, clip := range p.layers() {
		rid := ""
		if len(p.cfg.Layers) > 0 {
			rid = layerNames[i]
		}
		s, err := p.newStream(clip, rid)
		if err != nil {
			return err
		}
		c.streams = append(c.streams, s)
		if i > 0 {
			err = c.video.Sender().AddEncoding(s.track)
		} else {
			c.video, err = c.pc.AddTransceiverFromTrack(s.track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
		}
		if err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = c.streams
	return nil
}

// addSound: a microphone, and an ear for the agent.
func (p *Publisher) addSound(c *peer) error {
	mic, err := webrtc.NewTrackLocalStaticRTP(opus, "microphone", "sightline")
	if err != nil {
		return err
	}
	t, err := c.pc.AddTransceiverFromTrack(mic, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendrecv})
	if err != nil {
		return err
	}
	c.mic, c.micSent = mic, t.Sender()
	return nil
}

func (p *Publisher) settings() webrtc.SettingEngine {
	var s webrtc.SettingEngine
	s.LoggerFactory = &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6})
	s.SetIncludeLoopbackCandidate(true)
	if onLoopback(p.endpoint) || p.cfg.Relay != nil {
		// No other address could be told apart from a stranger's by a gateway that listens on loopback only; the relay does.
		s.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	}
	return s
}

func onLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// drain reads what nobody wants to know.
func drain(sender *webrtc.RTPSender) {
	buffer := make([]byte, 1500)
	for {
		if _, _, err := sender.Read(buffer); err != nil {
			return
		}
	}
}
