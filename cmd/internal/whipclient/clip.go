package whipclient

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sightline/frames/ivf"
)

// Frame is one encoded VP8 frame.
type Frame struct {
	Data []byte
	Key  bool
}

// Clip is encoded video in memory. It is read only once it is made, so that any number of publishers share one.
type Clip struct {
	Name          string
	Width, Height int // pixels, of the first key frame
	FPS           float64
	Frames        []Frame // the first is a key frame
}

// NewClip makes a clip of VP8 frames.
func NewClip(name string, fps float64, frames [][]byte) (*Clip, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("%s has no frames", name)
	}
	if fps <= 0 || fps > 240 {
		return nil, fmt.Errorf("%s has %g frames a second: 0 to 240 are allowed", name, fps)
	}
	c := &Clip{Name: name, FPS: fps, Frames: make([]Frame, len(frames))}
	for i, data := range frames {
		c.Frames[i] = Frame{Data: data, Key: isKey(data)}
	}
	if !c.Frames[0].Key || len(frames[0]) < 10 {
		return nil, fmt.Errorf("%s does not start with a key frame: nobody could decode it", name)
	}
	// RFC 6386 §9.1: 14 bits each after the start code; the upper two are a scaling hint.
	first := frames[0]
	c.Width, c.Height = int(first[6])|int(first[7]&0x3f)<<8, int(first[8])|int(first[9]&0x3f)<<8
	return c, nil
}

// isKey: RFC 6386 §9.1, the lowest bit of the first byte is 0.
func isKey(data []byte) bool { return len(data) > 0 && data[0]&1 == 0 }

// ReadIVF reads a clip of VP8 from an IVF file; its rate is the mean of the file's timestamps.
func ReadIVF(name string, r io.Reader) (*Clip, error) {
	header, frames, err := ivf.ReadAll(r)
	if err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && len(frames) > 0) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if header.FourCC != "VP80" {
		return nil, fmt.Errorf("%s holds %q: only VP8 (\"VP80\") can be published", name, header.FourCC)
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
	return NewClip(name, fps, data)
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
