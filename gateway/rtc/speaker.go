package rtc

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// ErrNotSending is what a peer's speaker answers while nobody would hear it: before the peer is connected, while it is
// disconnected, and after its end.
var ErrNotSending = errors.New("the publisher is not connected: nobody would hear this packet")

// speaker is the one track that we send: raw RTP, made elsewhere, with the SSRC and payload type of this connection.
type speaker struct {
	connected func() bool
	ssrc      atomic.Uint32 // 0: not bound

	mu     sync.Mutex
	stream webrtc.TrackLocalWriter // guarded by mu; nil: not bound
	header rtp.Header              // guarded by mu; SSRC and PayloadType are those negotiated

	told           atomic.Pointer[func(lost float64)] // each report
	packets, bytes atomic.Uint64
	lost           atomic.Uint32 // of 256, by the newest report
	jitter         atomic.Uint32 // ticks of 1/48000 s, by the newest report
}

// Speaker gives where packets of Opus go that the publisher shall hear; ok is false when its offer takes no sound.
//
// write sets SSRC and payload type itself and keeps nothing of the packet; sequence numbers and timestamps (48 kHz) are
// the caller's. It never waits for the network. ErrNotSending means that the packet went nowhere. It may be called from
// any goroutine, also after the peer's end.
func (p *Peer) Speaker() (write func(*rtp.Packet) error, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.voice == nil {
		return nil, false
	}
	return p.voice.write, true
}

// SpeakerReports has lost told of each report of the publisher about what it hears: the share of our packets, 0 to 1, that
// did not arrive. It must not wait.
func (p *Peer) SpeakerReports(lost func(float64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.voice != nil {
		p.voice.told.Store(&lost)
	}
}

func (s *speaker) write(packet *rtp.Packet) error {
	if !s.connected() {
		return ErrNotSending
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		return ErrNotSending
	}
	ssrc, pt := s.header.SSRC, s.header.PayloadType
	s.header = packet.Header
	s.header.SSRC, s.header.PayloadType = ssrc, pt
	n, err := s.stream.WriteRTP(&s.header, packet.Payload)
	s.header.SSRC, s.header.PayloadType = ssrc, pt
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotSending, err)
	case n == 0: // Pion's word for "no keys yet"
		return ErrNotSending
	}
	s.packets.Add(1)
	s.bytes.Add(uint64(len(packet.Payload)))
	return nil
}

// Bind is called by Pion when the answer is in force.
func (s *speaker) Bind(c webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	for _, codec := range c.CodecParameters() {
		if strings.EqualFold(codec.MimeType, webrtc.MimeTypeOpus) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stream, s.header.SSRC, s.header.PayloadType = c.WriteStream(), uint32(c.SSRC()), uint8(codec.PayloadType)
			s.ssrc.Store(uint32(c.SSRC()))
			return codec, nil
		}
	}
	return webrtc.RTPCodecParameters{}, webrtc.ErrUnsupportedCodec
}

// Unbind is called by Pion at the end.
func (s *speaker) Unbind(webrtc.TrackLocalContext) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
	return nil
}

// ID and the rest describe the track in the answer, where pages see it.
func (s *speaker) ID() string { return "agent" }

// RID is empty: one layer.
func (s *speaker) RID() string { return "" }

// StreamID names the media stream.
func (s *speaker) StreamID() string { return "sightline" }

// Kind is audio.
func (s *speaker) Kind() webrtc.RTPCodecType { return webrtc.RTPCodecTypeAudio }

// speak makes the section mid, which takes sound, carry ours; once in the peer's life, before the answer.
func (p *Peer) speak(mid string) error {
	p.mu.Lock()
	done := p.voice != nil
	p.mu.Unlock()
	if mid == "" || done {
		return nil
	}
	voice := &speaker{connected: func() bool { return p.state.Load() == StateConnected }}
	// Pion takes the first section that we may send in; the plan leaves one.
	sender, err := p.pc.AddTrack(voice)
	if err != nil {
		return err
	}
	for _, t := range p.pc.GetTransceivers() {
		if t.Sender() == sender && t.Mid() != mid {
			return fmt.Errorf("the track is in section %q, not %q", t.Mid(), clip(mid))
		}
	}
	p.mu.Lock()
	p.voice = voice
	p.mu.Unlock()
	p.spawn(func() { voice.readReports(sender) })
	return nil
}

// readReports must run: interceptors do their work in the reads.
func (s *speaker) readReports(sender *webrtc.RTPSender) {
	b := make([]byte, receiveMTU)
	for bad := 0; bad < maxBadInARow; {
		n, _, err := sender.Read(b)
		switch {
		case err == nil:
			bad = 0
			s.note(b[:n])
		case isEnd(err):
			return
		default:
			bad++
		}
	}
}

// note keeps what the publisher says about our stream.
func (s *speaker) note(raw []byte) {
	packets, err := rtcp.Unmarshal(raw)
	if err != nil {
		return
	}
	for _, packet := range packets {
		var reports []rtcp.ReceptionReport
		switch r := packet.(type) {
		case *rtcp.ReceiverReport:
			reports = r.Reports
		case *rtcp.SenderReport:
			reports = r.Reports
		}
		for _, r := range reports {
			if r.SSRC == s.ssrc.Load() {
				s.lost.Store(uint32(r.FractionLost))
				if tell := s.told.Load(); tell != nil {
					(*tell)(float64(r.FractionLost) / 256)
				}
				s.jitter.Store(r.Jitter)
			}
		}
	}
}

// SpeakerStats counts what a peer was sent.
type SpeakerStats struct {
	Open           bool          // its offer takes sound
	SSRC           uint32        // 0 before the answer is in force
	Packets, Bytes uint64        // RTP, bytes of payload
	Lost           float64       // share that did not arrive, 0 to 1, by the publisher's newest report
	Jitter         time.Duration // by the same
}

func (s *speaker) stats() SpeakerStats {
	return SpeakerStats{
		Open: true, SSRC: s.ssrc.Load(), Packets: s.packets.Load(), Bytes: s.bytes.Load(),
		Lost: float64(s.lost.Load()) / 256, Jitter: time.Duration(s.jitter.Load()) * time.Second / 48000,
	}
}
