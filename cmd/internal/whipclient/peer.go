package whipclient

import (
	"net"
	"net/url"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/logging"
	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
)

const (
	clockRate  = 90000
	payloadVP8 = 96
	payloadRTX = 97
)

// peerConnection makes a connection with one sendonly VP8 track, a UDP socket of its own (a gateway with one UDP port
// tells publishers apart by address) and the feedback that browsers have.
func (p *Publisher) peerConnection() (*webrtc.PeerConnection, *webrtc.TrackLocalStaticRTP, *webrtc.RTPSender, error) {
	vp8 := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: clockRate, RTCPFeedback: []webrtc.RTCPFeedback{
		{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}}
	media := &webrtc.MediaEngine{}
	for _, codec := range []webrtc.RTPCodecParameters{
		{RTPCodecCapability: vp8, PayloadType: payloadVP8},
		{RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: clockRate, SDPFmtpLine: "apt=96"}, PayloadType: payloadRTX},
	} {
		if err := media.RegisterCodec(codec, webrtc.RTPCodecTypeVideo); err != nil {
			return nil, nil, nil, err
		}
	}
	registry := &interceptor.Registry{}
	if p.cfg.Impair != nil {
		registry.Add(&impairFactory{p}) // first in, nearest to the wire: NACK repetitions suffer too
	}
	if err := webrtc.ConfigureNack(media, registry); err != nil {
		return nil, nil, nil, err
	}
	if err := webrtc.ConfigureRTCPReports(registry); err != nil {
		return nil, nil, nil, err
	}
	api := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(p.settings()))
	pc, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return nil, nil, nil, err
	}
	track, err := webrtc.NewTrackLocalStaticRTP(vp8, "camera", "sightline")
	if err != nil {
		_ = pc.Close()
		return nil, nil, nil, err
	}
	transceiver, err := pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
	if err != nil {
		_ = pc.Close()
		return nil, nil, nil, err
	}
	return pc, track, transceiver.Sender(), nil
}

func (p *Publisher) settings() webrtc.SettingEngine {
	var s webrtc.SettingEngine
	s.LoggerFactory = &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6})
	s.SetIncludeLoopbackCandidate(true)
	if onLoopback(p.endpoint) {
		// No other address could be told apart from a stranger's by a gateway that listens on loopback only.
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

// readFeedback reads the gateway's RTCP until the connection closes; interceptors stall when nobody reads.
func (p *Publisher) readFeedback(sender *webrtc.RTPSender) {
	for {
		packets, _, err := sender.ReadRTCP()
		if err != nil {
			return
		}
		for _, packet := range packets {
			switch packet.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				p.count(func(s *Stats) { s.PLI++ })
				select {
				case p.pli <- struct{}{}:
				default: // one is pending already
				}
			}
		}
	}
}
