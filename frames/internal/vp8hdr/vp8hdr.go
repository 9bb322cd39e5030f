// Package vp8hdr reads the frame tag and key frame header of a VP8 frame (RFC 6386 §9.1), so that sizes are known and bounded before any
// decoder sees the bytes. It decodes nothing.
package vp8hdr

import (
	"errors"
	"fmt"

	"sightline/frames/internal/coded"
)

// The ways a header can be wrong.
var (
	ErrShort     = errors.New("vp8 frame: too short for its header: 3 bytes at least, 10 for a key frame")
	ErrStartCode = errors.New("vp8 key frame: start code is not 9d 01 2a")
	ErrVersion   = errors.New("vp8 frame: version must be 0 to 3")
	ErrTruncated = errors.New("vp8 frame: first partition is longer than the frame")
)

// Header is what the first 3 (inter frame) or 10 (key frame) bytes say.
type Header struct {
	Key            bool
	Version        int  // 0 to 3: which filters the decoder uses
	Show           bool // false: decode it, but there is nothing to see (alt-ref)
	FirstPartBytes int  // length of the first partition, which follows the header
	Width, Height  int  // pixels; key frames only
	HScale, VScale int  // upscaling wish 0 to 3, which WebRTC ignores; key frames only
}

// Bytes is the length of the header itself.
func (h Header) Bytes() int {
	if h.Key {
		return 10
	}
	return 3
}

// Parse reads the header of one complete frame, or of its first 10 bytes.
func Parse(frame []byte) (Header, error) {
	if len(frame) < 3 {
		return Header{}, ErrShort
	}
	tag := uint32(frame[0]) | uint32(frame[1])<<8 | uint32(frame[2])<<16
	h := Header{
		Key:            tag&1 == 0,
		Version:        int(tag >> 1 & 7),
		Show:           tag>>4&1 == 1,
		FirstPartBytes: int(tag >> 5),
	}
	if h.Version > 3 {
		return h, ErrVersion
	}
	if !h.Key {
		return h, nil
	}
	if len(frame) < 10 {
		return h, ErrShort
	}
	if frame[3] != 0x9d || frame[4] != 0x01 || frame[5] != 0x2a {
		return h, ErrStartCode
	}
	w := int(frame[6]) | int(frame[7])<<8
	v := int(frame[8]) | int(frame[9])<<8
	h.Width, h.HScale = w&0x3fff, w>>14
	h.Height, h.VScale = v&0x3fff, v>>14
	return h, nil
}

// CheckSize refuses key frames whose picture is empty or larger than the bounds; inter frames have no size and pass.
func (h Header) CheckSize() error {
	if !h.Key {
		return nil
	}
	if err := coded.CheckSize(h.Width, h.Height); err != nil {
		return fmt.Errorf("vp8 key frame: %w", err)
	}
	return nil
}

// CheckComplete refuses a frame that cannot hold its own first partition: cut short, or no VP8 at all.
func (h Header) CheckComplete(frameBytes int) error {
	if h.FirstPartBytes > frameBytes-h.Bytes() {
		return ErrTruncated
	}
	return nil
}
