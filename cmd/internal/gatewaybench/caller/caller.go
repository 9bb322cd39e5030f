// Package caller is a benchmark's caller with sound: a Pion peer that sends coded speech on the clock and notes every packet that comes; it decodes nothing and judges nothing.
package caller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/logging"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// Config says whom to call, and with what.
type Config struct {
	URL     string // of the gateway, on this machine
	Session string
	Loop    Speech // is sent again and again; nil: Silence, and what Say is given
	Silence Speech // its last payload stands for silence
}

// Packet is one that the caller received.
type Packet struct {
	At        time.Time
	Seq       uint16
	Timestamp uint32 // 48 kHz
	Marker    bool   // sound begins again after a pause
	Size      int    // bytes of payload
}

// Caller is one call. Make it with New, then Run it.
type Caller struct {
	cfg       Config
	connected chan struct{}

	mu      sync.Mutex
	sent    []time.Time // of each packet since the call began
	late    int         // of them, sent more than half a frame after their time
	saying  Speech      // of Say, not sent yet
	packets []Packet
}

// New makes a caller; nothing is sent.
func New(cfg Config) (*Caller, error) {
	if len(cfg.Silence) == 0 && len(cfg.Loop) == 0 {
		return nil, errors.New("a caller needs sound")
	}
	return &Caller{cfg: cfg, connected: make(chan struct{})}, nil
}

// Connected is closed when sound can flow.
func (c *Caller) Connected() <-chan struct{} { return c.connected }

// Say sends speech once, behind what is being said; it gives the number of its first packet: see SentAt.
func (c *Caller) Say(s Speech) (first int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = len(c.sent) + len(c.saying)
	c.saying = append(c.saying, s...)
	return first
}

// SentAt is when packet number n, from 0, was sent; ok is false when it was not yet.
func (c *Caller) SentAt(n int) (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n < 0 || n >= len(c.sent) {
		return at, false
	}
	return c.sent[n], true
}

// Sent counts the packets sent, and those of them that were late: this machine was too busy then.
func (c *Caller) Sent() (packets, late int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sent), c.late
}

// Packets are those received since from.
func (c *Caller) Packets(from time.Time) []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.packets, from, func(p Packet, at time.Time) int { return p.At.Compare(at) })
	return slices.Clone(c.packets[i:])
}

const connectTimeout = 20 * time.Second

// Run calls, and talks until ctx ends, which is no failure; it then hangs up. No goroutine is left when it returns.
func (c *Caller) Run(ctx context.Context) error {
	pc, mic, sender, err := c.peer()
	if err != nil {
		return err
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer func() { _ = pc.GracefulClose() }()
	tasks.Go(func() { readRTCP(sender) })
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { tasks.Go(func() { c.listen(track) }) })
	var once sync.Once
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			once.Do(func() { close(c.connected) })
		}
	})
	where, err := c.signal(ctx, pc)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer hangUp(where)
	select {
	case <-c.connected:
	case <-time.After(connectTimeout):
		return fmt.Errorf("session %s: not connected within %s", c.cfg.Session, connectTimeout)
	case <-ctx.Done():
		return nil
	}
	return c.talk(ctx, mic)
}

func (c *Caller) peer() (*webrtc.PeerConnection, *webrtc.TrackLocalStaticRTP, *webrtc.RTPSender, error) {
	opus := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1"}
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	if err := media.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: opus, PayloadType: 111}, webrtc.RTPCodecTypeAudio); err != nil {
		return nil, nil, nil, err
	}
	if err := webrtc.ConfigureRTCPReports(registry); err != nil {
		return nil, nil, nil, err
	}
	var s webrtc.SettingEngine
	s.LoggerFactory = &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	pc, err := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return nil, nil, nil, err
	}
	mic, err := webrtc.NewTrackLocalStaticRTP(opus, "microphone", "caller")
	if err == nil {
		var tr *webrtc.RTPTransceiver
		if tr, err = pc.AddTransceiverFromTrack(mic, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendrecv}); err == nil {
			return pc, mic, tr.Sender(), nil
		}
	}
	return nil, nil, nil, errors.Join(err, pc.Close())
}

func readRTCP(s *webrtc.RTPSender) {
	b := make([]byte, 1500)
	for {
		if _, _, err := s.Read(b); err != nil {
			return
		}
	}
}

// signal is the WHIP exchange; where is the URL to hang up at.
func (c *Caller) signal(ctx context.Context, pc *webrtc.PeerConnection) (where string, err error) {
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return "", err
	}
	<-gathered
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL+"/whip/"+c.cfg.Session, strings.NewReader(pc.LocalDescription().SDP))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/sdp")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("WHIP: %s: %.200s", response.Status, answer)
	}
	at, err := response.Location()
	if err != nil {
		return "", err
	}
	return at.String(), pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)})
}

func hangUp(where string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, where, nil)
	if err != nil {
		return
	}
	if response, err := http.DefaultClient.Do(request); err == nil { // the gateway notices our going anyway
		response.Body.Close()
	}
}

func (c *Caller) listen(track *webrtc.TrackRemote) {
	for {
		p, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		now := time.Now()
		c.mu.Lock()
		c.packets = append(c.packets, Packet{now, p.SequenceNumber, p.Timestamp, p.Marker, len(p.Payload)})
		c.mu.Unlock()
	}
}

// talk sends one packet each FrameTime.
func (c *Caller) talk(ctx context.Context, mic *webrtc.TrackLocalStaticRTP) error {
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		packet := &rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: 111, SequenceNumber: uint16(n), Timestamp: uint32(n) * 960, Marker: n == 0}, Payload: c.next(n, due)}
		if err := mic.WriteRTP(packet); err != nil {
			return fmt.Errorf("session %s: %w", c.cfg.Session, err)
		}
		due = due.Add(FrameTime)
		timer.Reset(time.Until(due))
	}
}

// next is the payload of packet n, which is due and counts as sent.
func (c *Caller) next(n int, due time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.sent = append(c.sent, now)
	if now.Sub(due) > FrameTime/2 {
		c.late++
	}
	if len(c.cfg.Loop) > 0 {
		return c.cfg.Loop[n%len(c.cfg.Loop)]
	}
	if len(c.saying) > 0 {
		p := c.saying[0]
		c.saying = c.saying[1:]
		return p
	}
	return c.cfg.Silence[len(c.cfg.Silence)-1]
}
