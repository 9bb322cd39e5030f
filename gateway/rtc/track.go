package rtc

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

const (
	slabBytes     = 32 << 10 // packets are cut from slabs: one allocation for about 27 of them
	maxBadInARow  = 1000     // unreadable packets in a row after which a track is given up
	packetsInSlab = 32

	usualExtensions = 4 // in a packet's header; more cost an allocation
)

// InTrack is one incoming track. Its reader owns it: ReadRTP or Drain from one goroutine, the rest from any.
type InTrack struct {
	Kind      string // "video", "audio"
	Codec     string // "VP8", "opus"
	Source    string // "camera", "screen", "microphone", "screen_audio"; empty when wrapped
	MID       string
	RID       string // simulcast layer, else empty
	SSRC      uint32
	ClockRate uint32

	PayloadType uint8
	Extensions  Extensions
	Screen      bool // signalling says that it is one

	pc       *webrtc.PeerConnection
	track    *webrtc.TrackRemote
	receiver *webrtc.RTPReceiver
	own      uint32 // sender SSRC of our feedback
	wantsPLI bool

	takesREMB bool
	feedback  *feedback // nil when wrapped: Pion's own then

	dependencyID uint8 // of the header extension, 0: not negotiated

	parameterSets string // of H264: sprop-parameter-sets as the sender's SDP has them (RFC 6184 §8.1)

	slab    []byte       // only ReadRTP
	headers []rtp.Packet // only ReadRTP

	slabBefore    []byte       // before the latest packet, for Reuse; nil: it was given back
	headersBefore []rtp.Packet // likewise

	reports atomic.Pointer[func(SenderReport)]

	packets, bytes, bad, plis atomic.Uint64
}

// Extensions are the ids that header extensions which say something of the picture were negotiated under; 0: not negotiated.
type Extensions struct{ AbsCaptureTime, ColorSpace, ContentType uint8 }

// SenderReport is what an RTCP sender report says of its sender's clocks, and how far away that is.
type SenderReport struct {
	SSRC uint32
	NTP  uint64 // seconds since 1900, 32.32 bits
	RTP  uint32
	RTT  time.Duration // by the latest of ICE's own checks; 0: none was answered yet
}

func newInTrack(pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver, own uint32) *InTrack {
	codec := track.Codec()
	_, name, _ := strings.Cut(codec.MimeType, "/")
	t := &InTrack{
		Kind: track.Kind().String(), Codec: name, RID: track.RID(),
		SSRC: uint32(track.SSRC()), ClockRate: codec.ClockRate, PayloadType: uint8(track.PayloadType()),
		pc: pc, track: track, receiver: receiver, own: own, wantsPLI: true,
	}
	for _, e := range receiver.GetParameters().HeaderExtensions {
		switch e.URI {
		case captureTimeURI:
			t.Extensions.AbsCaptureTime = uint8(e.ID)
		case contentTypeURI:
			t.Extensions.ContentType = uint8(e.ID)
		case colorSpaceURI:
			t.Extensions.ColorSpace = uint8(e.ID)
		case dependencyURI:
			t.dependencyID = uint8(e.ID)
		}
	}
	t.parameterSets = spropParameterSets(codec.SDPFmtpLine)
	return t
}

// Wrap lets a track of a PeerConnection that somebody else made be read like one of ours. It drains the receiver's
// RTCP until the track ends. The other program must not read either.
func Wrap(pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) *InTrack {
	t := newInTrack(pc, track, receiver, randomSSRC())
	if tr := receiver.RTPTransceiver(); tr != nil {
		t.MID = tr.Mid()
	}
	go t.drainRTCP()
	return t
}

// ReadRTP blocks for the next packet; the caller may keep it. Duplicates (resent packets) and packets out of order
// come as they arrive; unreadable ones are counted and left out. It ends with io.EOF when the track is over.
func (t *InTrack) ReadRTP() (*rtp.Packet, error) {
	for {
		if len(t.slab) < receiveMTU {
			t.slab = make([]byte, slabBytes)
		}
		n, err := t.read(t.slab[:receiveMTU])
		if err != nil {
			return nil, err
		}
		raw := t.slab[:n:n]
		if len(t.headers) == 0 {
			t.headers = newHeaders()
		}
		p := &t.headers[0]
		t.slabBefore, t.headersBefore = t.slab, t.headers
		t.slab, t.headers = t.slab[n:], t.headers[1:]
		if p.Unmarshal(raw) == nil {
			return p, nil
		}
		t.bad.Add(1)
	}
}

// Reuse gives the latest packet of ReadRTP back: its memory is the next one's.
func (t *InTrack) Reuse() {
	if t.slabBefore != nil {
		t.slab, t.headers = t.slabBefore, t.headersBefore
		t.slabBefore, t.headersBefore = nil, nil
	}
}

// newHeaders makes packets with room for their header extensions.
func newHeaders() []rtp.Packet {
	headers, room := make([]rtp.Packet, packetsInSlab), make([]rtp.Extension, packetsInSlab*usualExtensions)
	for i := range headers {
		headers[i].Extensions = room[i*usualExtensions : i*usualExtensions : (i+1)*usualExtensions]
	}
	return headers
}

// read gives one raw packet. Only a run of errors without a packet between them ends the track: one that the
// interceptors cannot parse or of an unknown payload type is that packet's fault.
func (t *InTrack) read(b []byte) (int, error) {
	for range maxBadInARow {
		n, attributes, err := t.track.Read(b)
		if err == nil {
			if rtx, ok := attributes.Get(webrtc.AttributeRtxSsrc).(uint32); ok && t.feedback != nil && n >= 4 {
				t.feedback.healed(t.SSRC, rtx, binary.BigEndian.Uint16(b[2:]))
			}
			t.packets.Add(1)
			t.bytes.Add(uint64(n))
			return n, nil
		}
		if isEnd(err) {
			return 0, io.EOF
		}
		t.bad.Add(1)
	}
	return 0, io.EOF
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed)
}

// Drain reads the track to its end and throws it away; for tracks that nobody wants yet.
func (t *InTrack) Drain() {
	b := make([]byte, receiveMTU)
	for {
		if _, err := t.read(b); err != nil {
			return
		}
	}
}

// drainRTCP must run: interceptors do their work in the reads.
func (t *InTrack) drainRTCP() {
	b := make([]byte, receiveMTU)
	for bad := 0; bad < maxBadInARow; {
		var n int
		var err error
		if t.RID != "" {
			n, _, err = t.receiver.ReadSimulcast(b, t.RID)
		} else {
			n, _, err = t.receiver.Read(b)
		}
		switch {
		case err == nil:
			bad = 0
			t.report(b[:n])
		case isEnd(err):
			return
		default:
			bad++
		}
	}
}

// OnReport hands on the track's sender reports from now on; f is called from the goroutine that reads RTCP and must not wait.
func (t *InTrack) OnReport(f func(SenderReport)) { t.reports.Store(&f) }

// report looks for the sender's reports in one RTCP datagram.
func (t *InTrack) report(datagram []byte) {
	f := t.reports.Load()
	if f == nil {
		return
	}
	packets, err := rtcp.Unmarshal(datagram)
	if err != nil {
		return
	}
	for _, p := range packets {
		if r, ok := p.(*rtcp.SenderReport); ok && r.SSRC == t.SSRC {
			(*f)(SenderReport{SSRC: r.SSRC, NTP: r.NTPTime, RTP: r.RTPTime, RTT: t.roundTrip()})
		}
	}
}

func (t *InTrack) roundTrip() time.Duration {
	s, ok := t.pc.SCTP().Transport().ICETransport().GetSelectedCandidatePairStats()
	if !ok {
		return 0
	}
	return time.Duration(s.CurrentRoundTripTime * float64(time.Second))
}

// RequestKeyFrame sends one PLI, unless the sender did not agree to answer any (FFmpeg). Pacing is the caller's business.
func (t *InTrack) RequestKeyFrame() {
	if !t.wantsPLI || t.Kind != "video" {
		return
	}
	t.plis.Add(1)
	_ = t.pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{SenderSSRC: t.own, MediaSSRC: t.SSRC}}) // fails only when the peer is gone
}

// AnswersPLI says whether the sender agreed to send key frames on request.
func (t *InTrack) AnswersPLI() bool { return t.wantsPLI }

// DependencyID is the id of the dependency descriptor among the packets' header extensions; 0: not negotiated.
func (t *InTrack) DependencyID() uint8 { return t.dependencyID }

// ParameterSets are those of H264 that the sender's SDP tells, as it tells them; empty where it does not.
func (t *InTrack) ParameterSets() string { return t.parameterSets }

// TrackStats counts one track since its start.
type TrackStats struct {
	Kind, Codec, Source, MID, RID string
	SSRC                          uint32
	Packets, Bytes                uint64 // RTP, resent ones too
	Unreadable                    uint64 // no RTP, or of an unknown payload type
	PLIs                          uint64 // sent
}

// Stats gives a snapshot.
func (t *InTrack) Stats() TrackStats {
	return TrackStats{
		Kind: t.Kind, Codec: t.Codec, Source: t.Source, MID: t.MID, RID: t.RID, SSRC: t.SSRC,
		Packets: t.packets.Load(), Bytes: t.bytes.Load(), Unreadable: t.bad.Load(), PLIs: t.plis.Load(),
	}
}
