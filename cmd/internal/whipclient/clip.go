package whipclient

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"sightline/frames/ivf"
)

// Frame is one encoded frame: of VP8, or an H264 access unit in Annex B.
type Frame struct {
	Data []byte
	Key  bool

	payloads [][]byte // its RTP payloads, made once for all publishers
}

// Clip is encoded video in memory. It is read only once it is made, so that any number of publishers share one.
type Clip struct {
	Name          string
	MimeType      string // webrtc.MimeTypeVP8 or MimeTypeH264
	Width, Height int    // pixels, of the first key frame; 0 for H264
	FPS           float64
	Frames        []Frame // the first is a key frame

	temporal []uint8 // the temporal layer of each frame, going round; nil without layers
}

// NewClip makes a clip of VP8 frames.
func NewClip(name string, fps float64, frames [][]byte) (*Clip, error) {
	c, err := newClip(name, webrtc.MimeTypeVP8, fps, frames)
	if err != nil {
		return nil, err
	}
	payloader := &codecs.VP8Payloader{EnablePictureID: true}
	for i := range c.Frames {
		f := &c.Frames[i]
		f.Key = isKey(f.Data)
		f.payloads = payloader.Payload(mtu-rtpHeader, f.Data)
	}
	first := c.Frames[0]
	if !first.Key || len(first.Data) < 10 {
		return nil, fmt.Errorf("%s does not start with a key frame: nobody could decode it", name)
	}
	// RFC 6386 §9.1: 14 bits each after the start code; the upper two are a scaling hint.
	c.Width, c.Height = int(first.Data[6])|int(first.Data[7]&0x3f)<<8, int(first.Data[8])|int(first.Data[9]&0x3f)<<8
	return c, nil
}

// temporalPatterns are the layers of frames as libvpx's encoders of two and three temporal layers go round.
var temporalPatterns = map[int][]uint8{2: {0, 1}, 3: {0, 2, 1, 2}}

// Temporal says that a clip of VP8 was coded in so many temporal layers, 2 or 3, the first frame being of the lowest: its
// packets then tell the layers (RFC 7741 §4.2).
func (c *Clip) Temporal(layers int) error {
	pattern := temporalPatterns[layers]
	if pattern == nil || c.MimeType != webrtc.MimeTypeVP8 {
		return fmt.Errorf("%s in %d temporal layers: 2 or 3 of VP8 are allowed", c.Name, layers)
	}
	c.temporal = pattern
	for i := range c.Frames {
		f := &c.Frames[i]
		f.payloads = nil
		const descriptor, most = 6, mtu - rtpHeader - 6
		for at := 0; at < len(f.Data); at += most {
			part := f.Data[at:min(at+most, len(f.Data))]
			payload := make([]byte, descriptor, descriptor+len(part))
			payload[0] = 0x80 // X
			if at == 0 {
				payload[0] |= 0x10 // S
			}
			payload[1], payload[2] = 0xe0, 0x80 // I, L, T; M: 15 bits of picture ID
			payload[5] = pattern[i%len(pattern)] << 6
			f.payloads = append(f.payloads, append(payload, part...))
		}
	}
	return nil
}

// NewH264Clip makes a clip of H264 access units in Annex B (ITU-T H.264 annex B); the first has SPS, PPS and an IDR picture.
func NewH264Clip(name string, fps float64, units [][]byte) (*Clip, error) {
	c, err := newClip(name, webrtc.MimeTypeH264, fps, units)
	if err != nil {
		return nil, err
	}
	payloader := &codecs.H264Payloader{}
	for i := range c.Frames {
		f := &c.Frames[i]
		f.Key = hasIDR(f.Data)
		f.payloads = payloader.Payload(mtu-rtpHeader, f.Data)
	}
	if !c.Frames[0].Key {
		return nil, fmt.Errorf("%s does not start with an IDR picture: nobody could decode it", name)
	}
	return c, nil
}

func newClip(name, mime string, fps float64, frames [][]byte) (*Clip, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("%s has no frames", name)
	}
	if fps <= 0 || fps > 240 {
		return nil, fmt.Errorf("%s has %g frames a second: 0 to 240 are allowed", name, fps)
	}
	c := &Clip{Name: name, MimeType: mime, FPS: fps, Frames: make([]Frame, len(frames))}
	for i, data := range frames {
		c.Frames[i].Data = data
	}
	return c, nil
}

// isKey: RFC 6386 §9.1, the lowest bit of the first byte is 0.
func isKey(data []byte) bool { return len(data) > 0 && data[0]&1 == 0 }

// hasIDR: a start code and a NAL unit of type 5 (ITU-T H.264 §7.4.1, table 7-1).
func hasIDR(unit []byte) bool {
	for i := 0; i+3 < len(unit); i++ {
		if unit[i] == 0 && unit[i+1] == 0 && unit[i+2] == 1 && unit[i+3]&0x1f == 5 {
			return true
		}
	}
	return false
}

// ReadIVF reads a clip of VP8 or H264 (Annex B) from an IVF file; its rate is the mean of the file's timestamps.
func ReadIVF(name string, r io.Reader) (*Clip, error) {
	header, frames, err := ivf.ReadAll(r)
	if err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && len(frames) > 0) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fps := 30.0
	if n := len(frames); n > 1 {
		if length := header.Time(frames[n-1].PTS - frames[0].PTS); length > 0 {
			fps = float64(n-1) / length.Seconds()
		}
	}
	data := make([][]byte, len(frames))
	for i, f := range frames {
		data[i] = f.Data
	}
	switch header.FourCC {
	case "VP80":
		return NewClip(name, fps, data)
	case "H264":
		return NewH264Clip(name, fps, data)
	}
	return nil, fmt.Errorf("%s holds %q: only VP8 (\"VP80\") and H264 can be published", name, header.FourCC)
}

// Duration is how long the clip plays at its own rate.
func (c *Clip) Duration() time.Duration {
	return time.Duration(float64(len(c.Frames)) / c.FPS * float64(time.Second))
}

// Bitrate is bits a second at the clip's own rate.
func (c *Clip) Bitrate() float64 {
	bytes := 0
	for _, f := range c.Frames {
		bytes += len(f.Data)
	}
	return float64(bytes) * 8 / c.Duration().Seconds()
}

// nextKey is the first key frame at or after index i, going round.
func (c *Clip) nextKey(i int) int {
	for range c.Frames {
		if i >= len(c.Frames) {
			i = 0
		}
		if c.Frames[i].Key {
			return i
		}
		i++
	}
	return 0
}
