package whipclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

// layerNames are the RIDs of simulcast (RFC 8851) as browsers' code calls them, the smallest first.
var layerNames = [...]string{"q", "h", "f"}

// stream is one encoding on its way: the only one, or a layer of simulcast.
type stream struct {
	p        *Publisher
	clip     *Clip
	fps      float64
	rid      string // empty without simulcast
	track    *webrtc.TrackLocalStaticRTP
	timeline timeline
	pli      chan struct{} // capacity 1: a key frame is wanted

	packet  rtp.Packet // of the present moment: made once, sent again and again
	scratch [mtu]byte
	picture uint16 // of the VP8 descriptor, 15 bits (RFC 7741 §4.2)
	base    uint8  // TL0PICIDX of it: counts the frames of the lowest temporal layer
}

func (p *Publisher) newStream(clip *Clip, rid string) (*stream, error) {
	s := &stream{p: p, clip: clip, rid: rid, fps: p.cfg.FPS, pli: make(chan struct{}, 1)}
	if s.fps == 0 {
		s.fps = clip.FPS
	}
	var options []func(*webrtc.TrackLocalStaticRTP)
	if rid != "" {
		options = append(options, webrtc.WithRTPStreamID(rid))
	}
	var err error
	s.track, err = webrtc.NewTrackLocalStaticRTP(videoCodec(clip.MimeType).RTPCodecCapability, "camera", "sightline", options...)
	return s, err
}

// label puts the header extensions on that tell which layer this is (RFC 8852); it is called when the connection is made.
func (s *stream) label(mid string, ids []webrtc.RTPHeaderExtensionParameter) error {
	s.packet.Header = rtp.Header{Version: 2, SequenceNumber: uint16(rand.Uint32())}
	if s.rid == "" {
		return nil
	}
	for _, id := range ids {
		text := map[string]string{sdp.SDESMidURI: mid, sdp.SDESRTPStreamIDURI: s.rid}[id.URI]
		if text == "" {
			continue
		}
		if err := s.packet.SetExtension(uint8(id.ID), []byte(text)); err != nil {
			return fmt.Errorf("simulcast: %w", err)
		}
	}
	if len(s.packet.Extensions) < 2 {
		return errors.New("simulcast: the gateway has not taken the header extensions for it")
	}
	return nil
}

// play sends the clip in real time until ctx ends or the connection has failed.
func (s *stream) play(ctx context.Context, failed <-chan struct{}) error {
	interval := time.Duration(float64(time.Second) / s.fps)
	base := rand.Uint32()
	begun := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, lastKey := 0, time.Time{}
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * interval)
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		case <-failed:
			return errors.New("the connection to the gateway was lost")
		}
		now := time.Now()
		next = s.choose(next, now, lastKey)
		frame := &s.clip.Frames[next]
		if frame.Key {
			lastKey = now
		}
		s.packet.Timestamp = base + uint32(uint64(float64(n)*clockRate/s.fps))
		if err := s.send(next, interval); err != nil {
			if errors.Is(err, io.ErrClosedPipe) {
				return errors.New("the connection to the gateway was closed")
			}
			return err
		}
		s.p.count(func(st *Stats) {
			st.Frames++
			st.Packets += uint64(len(frame.payloads))
			st.Bytes += uint64(len(frame.Data))
			if frame.Key {
				st.KeyFrames++
			}
			if now.Sub(due) > interval {
				st.Late++
			}
		})
		next++
	}
}

// choose gives the frame to send: the next one, or the next key frame when one was asked for.
func (s *stream) choose(next int, now, lastKey time.Time) int {
	if next >= len(s.clip.Frames) {
		next = 0
	}
	if s.p.cfg.IgnorePLI || now.Sub(lastKey) < minKeyGap {
		return next
	}
	select {
	case <-s.pli:
		return s.clip.nextKey(next)
	default:
		return next
	}
}

// send sends frame i. Its payloads belong to all publishers, so what counts up in VP8's descriptor goes into a copy.
func (s *stream) send(i int, interval time.Duration) error {
	frame, first, vp8 := &s.clip.Frames[i], time.Now(), s.clip.MimeType == webrtc.MimeTypeVP8
	s.picture++
	if layers := s.clip.temporal; layers != nil && layers[i%len(layers)] == 0 {
		s.base++
	}
	bursts := (len(frame.payloads) + burst - 1) / burst
	for i, payload := range frame.payloads {
		if i > 0 && i%burst == 0 {
			time.Sleep(interval / 2 / time.Duration(bursts))
		}
		if vp8 {
			payload = s.scratch[:copy(s.scratch[:], payload)]
			binary.BigEndian.PutUint16(payload[2:], 0x8000|s.picture)
			if s.clip.temporal != nil {
				payload[4] = s.base
			}
		}
		s.packet.Payload, s.packet.Marker = payload, i == len(frame.payloads)-1
		if s.packet.Marker {
			s.timeline.add(s.packet.Timestamp, first, time.Now()) // before: the image may be back before this goroutine runs again
		}
		if err := s.track.WriteRTP(&s.packet); err != nil {
			return err
		}
		s.packet.SequenceNumber++
	}
	return nil
}

// readFeedback reads the gateway's RTCP until the connection closes; interceptors stall when nobody reads.
func (s *stream) readFeedback(sender *webrtc.RTPSender) {
	read := sender.ReadRTCP
	if s.rid != "" {
		read = func() ([]rtcp.Packet, interceptorAttributes, error) { return sender.ReadSimulcastRTCP(s.rid) }
	}
	for {
		packets, _, err := read()
		if err != nil {
			return
		}
		for _, packet := range packets {
			switch packet.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				s.p.count(func(st *Stats) { st.PLI++ })
				select {
				case s.pli <- struct{}{}:
				default: // one is pending already
				}
			}
		}
	}
}

// videoCodec is what is offered for a clip.
func videoCodec(mime string) webrtc.RTPCodecParameters {
	feedback := []webrtc.RTCPFeedback{{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}
	c := webrtc.RTPCodecCapability{MimeType: mime, ClockRate: clockRate, RTCPFeedback: feedback}
	if strings.EqualFold(mime, webrtc.MimeTypeH264) {
		c.SDPFmtpLine = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
	}
	return webrtc.RTPCodecParameters{RTPCodecCapability: c, PayloadType: payloadVideo}
}
