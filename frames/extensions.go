package frames

import (
	"encoding/binary"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/yuv"
)

// Extensions are the ids that RTP header extensions (RFC 8285) were negotiated under; 0: not negotiated.
type Extensions struct {
	AbsCaptureTime uint8 // http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time
	ColorSpace     uint8 // http://www.webrtc.org/experiments/rtp-hdrext/color-space
	Dependency     uint8 // https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension; of AV1
	ContentType    uint8 // http://www.webrtc.org/experiments/rtp-hdrext/video-content-type
}

// saying is what the headers of a stream have said so far. A sender says it with the last packet of each key frame, so that one without
// takes it back.
type saying struct {
	ids   Extensions
	keyed bool   // a key frame came,
	keyTS uint32 // the newest of this timestamp

	colour   yuv.Colour
	colourTS uint32 // of the frame that it holds from
	screen   bool   // the content is a screen
}

// read takes in the headers of one packet with payload; key: a key frame begins in it.
func (s *saying) read(p *rtp.Packet, key bool, clock *captureClock, at time.Time) {
	if key && (!s.keyed || int32(p.Timestamp-s.keyTS) > 0) {
		s.keyed, s.keyTS = true, p.Timestamp
	}
	if v := s.value(p, s.ids.AbsCaptureTime); len(v) >= 8 {
		var ahead int64
		if len(v) >= 16 {
			ahead = int64(binary.BigEndian.Uint64(v[8:]))
		}
		clock.stamp(p.Timestamp, binary.BigEndian.Uint64(v), ahead, at)
	}
	last := p.Marker && s.keyed && p.Timestamp == s.keyTS
	if v := s.value(p, s.ids.ColorSpace); len(v) >= 4 {
		s.colour, s.colourTS = colourOf(v), p.Timestamp
	} else if last && (s.colourTS != p.Timestamp) {
		s.colour = yuv.Colour{}
	}
	if v := s.value(p, s.ids.ContentType); len(v) == 1 {
		s.screen = v[0]&1 == 1
	} else if last {
		s.screen = false
	}
}

func (s *saying) value(p *rtp.Packet, id uint8) []byte {
	if id == 0 || !p.Extension {
		return nil
	}
	return p.GetExtension(id)
}

// colourFor is what was said for a frame: one from before it was said is not meant.
func (s *saying) colourFor(ts uint32) yuv.Colour {
	if int32(ts-s.colourTS) < 0 {
		return yuv.Colour{}
	}
	return s.colour
}

// colourOf reads primaries, transfer, matrix and range with chroma siting, a byte each, the first three as in ITU-T H.273. What may follow
// is of HDR.
func colourOf(v []byte) yuv.Colour {
	const full = 2 // of: not known, limited, full, said by the matrix
	return yuv.Colour{Matrix: yuv.MatrixOf(int(v[2])), FullRange: v[3]>>4&3 == full}
}

// Report takes a sender report of the track's sender that arrived at the given time.
func (t *Track) Report(r SenderReport, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.asm.clock.report(r, at)
	}
}
