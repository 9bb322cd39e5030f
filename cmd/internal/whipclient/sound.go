package whipclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// interceptorAttributes are what Pion gives beside packets.
type interceptorAttributes = interceptor.Attributes

// Sound is Opus, one payload for each 20 ms. It is read only, so that any number of publishers share one.
type Sound [][]byte

const (
	soundFrame   = 20 * time.Millisecond
	soundSamples = 960 // of 48 kHz, the RTP clock of Opus (RFC 7587 §4.1)
	maxSound     = 64 << 20
)

var opus = webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1"}

// ReadOggOpus reads the packets of an Ogg Opus file (RFC 7845); each has to hold 20 ms.
func ReadOggOpus(name string, r io.Reader) (Sound, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSound))
	if err != nil {
		return nil, err
	}
	packets, err := oggPackets(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(packets) < 3 || !bytes.HasPrefix(packets[0], []byte("OpusHead")) || !bytes.HasPrefix(packets[1], []byte("OpusTags")) {
		return nil, fmt.Errorf("%s is no Ogg Opus file with sound", name)
	}
	sound := Sound(packets[2:])
	for i, p := range sound {
		if len(p) == 0 || len(p) > mtu-rtpHeader || opusFrame(p) != soundFrame {
			return nil, fmt.Errorf("%s: packet %d does not hold 20 ms in %d bytes at most: code it anew, with ffmpeg by -c:a libopus -frame_duration 20", name, i, mtu-rtpHeader)
		}
	}
	return sound, nil
}

// opusFrame is how long a packet with one frame is, 0 for one with several (RFC 6716 §3.1).
func opusFrame(p []byte) time.Duration {
	if p[0]&3 != 0 {
		return 0
	}
	switch config := p[0] >> 3; {
	case config < 12: // SILK
		return []time.Duration{10, 20, 40, 60}[config%4] * time.Millisecond
	case config < 16: // hybrid
		return []time.Duration{10, 20}[config%2] * time.Millisecond
	default: // CELT: 2.5 to 20 ms
		return 2500 * time.Microsecond << (config % 4)
	}
}

// oggPackets puts the packets of the pages together (RFC 3533 §6).
func oggPackets(data []byte) (packets [][]byte, err error) {
	var packet []byte
	for len(data) > 0 {
		if len(data) < 27 || string(data[:4]) != "OggS" {
			return nil, errors.New("no page of Ogg where one has to be")
		}
		lacing := int(data[26])
		if len(data) < 27+lacing {
			return nil, io.ErrUnexpectedEOF
		}
		table, body := data[27:27+lacing], data[27+lacing:]
		for _, n := range table {
			if len(body) < int(n) {
				return nil, io.ErrUnexpectedEOF
			}
			packet = append(packet, body[:n]...)
			body = body[n:]
			if n < 255 {
				packets = append(packets, packet)
				packet = nil
			}
		}
		data = body
	}
	return packets, nil
}

// talk sends the sound on the clock until ctx ends; a place in it is drawn, so that publishers do not speak in chorus.
func (p *Publisher) talk(ctx context.Context, mic *webrtc.TrackLocalStaticRTP) error {
	packet := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: uint16(rand.Uint32()), Timestamp: rand.Uint32(), Marker: true}}
	at, due := rand.IntN(len(p.cfg.Sound)), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		packet.Payload = p.cfg.Sound[at]
		if err := mic.WriteRTP(packet); err != nil {
			if errors.Is(err, io.ErrClosedPipe) {
				return errors.New("the connection to the gateway was closed")
			}
			return err
		}
		p.count(func(s *Stats) { s.SoundPackets++ })
		packet.SequenceNumber++
		packet.Timestamp += soundSamples
		packet.Marker = false
		at = (at + 1) % len(p.cfg.Sound)
		due = due.Add(soundFrame)
		timer.Reset(time.Until(due))
	}
}

// listen counts what the agent says. Sequence numbers tell what is missing.
func (p *Publisher) listen(track *webrtc.TrackRemote) {
	buffer := make([]byte, 1500)
	last, began := uint16(0), false
	for {
		n, _, err := track.Read(buffer)
		if err != nil {
			return
		}
		if n < rtpHeader {
			continue
		}
		seq := binary.BigEndian.Uint16(buffer[2:])
		gap := int16(seq - last)
		p.count(func(s *Stats) {
			s.HeardPackets++
			if began && gap > 1 {
				s.HeardMissing += uint64(gap - 1)
			}
		})
		if !began || gap > 0 {
			last, began = seq, true
		}
	}
}
