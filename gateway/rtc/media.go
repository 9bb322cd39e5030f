package rtc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/report"
	"github.com/pion/logging"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

// Header extensions beyond those for simulcast and transport-cc.
const (
	captureTimeURI = "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"
	dependencyURI  = "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
	contentTypeURI = "http://www.webrtc.org/experiments/rtp-hdrext/video-content-type"
	colorSpaceURI  = "http://www.webrtc.org/experiments/rtp-hdrext/color-space"
)

// apiParts are what all PeerConnections are made of.
type apiParts struct {
	media    *webrtc.MediaEngine // Pion copies it for each
	reports  interceptor.Factory // of what we send
	settings webrtc.SettingEngine
}

// forPeer adds a peer's own hooks.
func (a *apiParts) forPeer(w *watchdog, f *feedback) *webrtc.API {
	chain := &interceptor.Registry{}
	chain.Add(f)
	chain.Add(a.reports)
	return webrtc.NewAPI(webrtc.WithMediaEngine(a.media), webrtc.WithInterceptorRegistry(chain), webrtc.WithSettingEngine(w.settings(a.settings)))
}

func newAPI(cfg Config, s *sockets, p policy, logs logging.LoggerFactory) (*apiParts, error) {
	media := &webrtc.MediaEngine{}
	if err := registerCodecs(media); err != nil {
		return nil, fmt.Errorf("register codecs: %w", err)
	}
	if err := registerExtensions(media); err != nil {
		return nil, fmt.Errorf("register header extensions: %w", err)
	}
	reports, err := report.NewSenderInterceptor(report.WithSenderLoggerFactory(logs))
	if err != nil {
		return nil, fmt.Errorf("make sender reports: %w", err)
	}
	settings, err := newSettings(cfg, s, p, logs)
	if err != nil {
		return nil, err
	}
	return &apiParts{media, reports, settings}, nil
}

func registerCodecs(m *webrtc.MediaEngine) error {
	feedback := []webrtc.RTCPFeedback{
		{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"},
	}
	for _, v := range []struct {
		mime, fmtp string
		pt         webrtc.PayloadType
	}{
		{webrtc.MimeTypeVP8, "", 96},
		{webrtc.MimeTypeH264, h264Registered, 102},
		{webrtc.MimeTypeVP9, "profile-id=0", 98},
		{webrtc.MimeTypeAV1, "profile=0", 45},
	} {
		c := webrtc.RTPCodecCapability{MimeType: v.mime, ClockRate: 90000, SDPFmtpLine: v.fmtp, RTCPFeedback: feedback}
		if err := m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: c, PayloadType: v.pt}, webrtc.RTPCodecTypeVideo); err != nil {
			return err
		}
		rtx := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: 90000, SDPFmtpLine: fmt.Sprintf("apt=%d", v.pt)}
		if err := m.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: rtx, PayloadType: v.pt + 1}, webrtc.RTPCodecTypeVideo); err != nil {
			return err
		}
	}
	err := m.RegisterCodec(webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{
			MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1",
		},
		PayloadType: 111,
	}, webrtc.RTPCodecTypeAudio)
	if err != nil {
		return err
	}
	for _, uri := range []string{captureTimeURI, contentTypeURI, colorSpaceURI, dependencyURI} {
		if err := m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: uri}, webrtc.RTPCodecTypeVideo); err != nil {
			return err
		}
	}
	return m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: captureTimeURI}, webrtc.RTPCodecTypeAudio)
}

// registerExtensions: what simulcast and transport-wide congestion control need.
func registerExtensions(m *webrtc.MediaEngine) error {
	if err := webrtc.ConfigureSimulcastExtensionHeaders(m); err != nil {
		return err
	}
	mid := webrtc.RTPHeaderExtensionCapability{URI: sdp.SDESMidURI}
	if err := m.RegisterHeaderExtension(mid, webrtc.RTPCodecTypeAudio); err != nil { // video has it from simulcast
		return err
	}
	for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeVideo, webrtc.RTPCodecTypeAudio} {
		m.RegisterFeedback(webrtc.RTCPFeedback{Type: webrtc.TypeRTCPFBTransportCC}, kind)
		if err := m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: sdp.TransportCCURI}, kind); err != nil {
			return err
		}
	}
	return nil
}

func newSettings(cfg Config, s *sockets, p policy, logs logging.LoggerFactory) (webrtc.SettingEngine, error) {
	var e webrtc.SettingEngine
	e.LoggerFactory = logs
	e.SetICEUDPMux(s.udp)
	networks := []webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6}
	if s.tcp != nil {
		e.SetICETCPMux(s.tcp)
		networks = append(networks, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6)
	}
	e.SetNetworkTypes(networks)
	e.SetIncludeLoopbackCandidate(cfg.AllowLoopback)
	e.SetIPFilter(func(ip net.IP) bool {
		a, ok := netip.AddrFromSlice(ip)
		return ok && slices.Contains(s.addrs, a.Unmap())
	})
	e.SetRemoteIPFilter(p.allowsIP)
	e.DisableActiveTCP(true)
	e.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	e.SetICETimeouts(cfg.disconnectedAfter, cfg.failedAfter, min(iceKeepalive, cfg.disconnectedAfter/2))
	e.SetReceiveMTU(receiveMTU)
	e.SetSRTPReplayProtectionWindow(srtpReplayWindow)
	e.SetSCTPMaxReceiveBufferSize(maxDataMessage * 2)
	e.SetSCTPMaxMessageSize(maxDataMessage)
	return e, nil
}

// newCertificate: one for all peers; a fresh key per process is enough, the fingerprint goes by HTTPS.
func newCertificate() (*webrtc.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the DTLS key: %w", err)
	}
	c, err := webrtc.GenerateCertificate(key)
	if err != nil {
		return nil, fmt.Errorf("make the DTLS certificate: %w", err)
	}
	return c, nil
}
