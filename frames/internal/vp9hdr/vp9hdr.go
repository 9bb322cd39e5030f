// Package vp9hdr reads the uncompressed header of a VP9 frame (VP9 bitstream specification §6.2, §7.2) and the index of a superframe
// (Annex B), so that sizes are known and bounded before any decoder sees the bytes. It decodes nothing.
package vp9hdr

import (
	"errors"
	"fmt"

	"sightline/frames/internal/coded"
)

// The ways a header can be wrong.
var (
	ErrShort   = errors.New("vp9 frame: too short for its header")
	ErrMarker  = errors.New("vp9 frame: frame marker is not 2")
	ErrProfile = errors.New("vp9 frame: profile must be 0 (4:2:0 with 8 bits)")
	ErrSync    = errors.New("vp9 frame: sync code is not 49 83 42")
	ErrIndex   = errors.New("vp9 superframe: index does not fit the frame")
)

// Header is what the first bytes say.
type Header struct {
	Key           bool
	IntraOnly     bool
	ShowExisting  bool // nothing is decoded, a picture kept before is shown
	Show          bool
	FullRange     bool // key frames only
	Space         int  // color_space; key frames only
	Refresh       byte // bit n: the frame is, or may be, kept as reference n; 0: no other frame refers to it
	Width, Height int  // pixels; 0: as a reference has it
}

// Parse reads the header of one frame, or of its first 18 bytes. A size out of bounds is an error.
func Parse(frame []byte) (h Header, err error) {
	b := coded.NewBits(frame[:min(len(frame), 24)])
	if b.Read(2) != 2 {
		if b.Short {
			return h, ErrShort
		}
		return h, ErrMarker
	}
	if b.Read(2) != 0 {
		return h, ErrProfile
	}
	if h.ShowExisting = b.Flag(); h.ShowExisting {
		h.Show, h.Refresh = true, 0xff // which frame is shown may depend on it: it is not left out
		return h, nil
	}
	h.Key, h.Refresh = !b.Flag(), 0xff // until an inter frame says less
	h.Show = b.Flag()
	resilient := b.Flag()
	if h.Key {
		if b.Read(24) != 0x498342 {
			return h, ErrSync
		}
		if h.Space = int(b.Read(3)); h.Space == 7 {
			return h, fmt.Errorf("%w: RGB", ErrProfile)
		}
		h.FullRange = b.Flag()
		return h, h.size(b)
	}
	if !h.Show {
		h.IntraOnly = b.Flag()
	}
	if !resilient {
		b.Skip(2)
	}
	if h.IntraOnly {
		if b.Read(24) != 0x498342 {
			return h, ErrSync
		}
		h.Refresh = byte(b.Read(8))
		return h, h.size(b)
	}
	if h.Refresh = byte(b.Read(8)); !resilient {
		h.Refresh = 0xff // its probabilities may be kept for others (refresh_frame_context)
	}
	b.Skip(3 * 4)
	for range 3 {
		if b.Flag() { // the size of this reference
			if b.Short {
				return h, ErrShort
			}
			return h, nil
		}
	}
	return h, h.size(b)
}

func (h *Header) size(b *coded.Bits) error {
	w, v := int(b.Read(16))+1, int(b.Read(16))+1
	if b.Short {
		return ErrShort
	}
	if err := coded.CheckSize(w, v); err != nil {
		return fmt.Errorf("vp9 frame: %w", err)
	}
	h.Width, h.Height = w, v
	return nil
}

// Check reads the header of every frame of a superframe and gives that of the first; its Refresh is that of all.
func Check(data []byte) (first Header, err error) {
	if len(data) == 0 {
		return first, ErrShort
	}
	sizes, n, err := index(data)
	if err != nil {
		return first, err
	}
	if n == 0 {
		return Parse(data)
	}
	refresh := byte(0)
	for i, size := range sizes[:n] {
		if size == 0 {
			continue // a frame left out
		}
		h, err := Parse(data[:size])
		if err != nil {
			return first, err
		}
		refresh |= h.Refresh
		if i == 0 {
			first = h
		}
		data = data[size:]
	}
	first.Refresh = refresh
	return first, nil
}

// Frames cuts a superframe into its frames; what is none is one frame. Those left out are not among them.
func Frames(data []byte) (frames [][]byte, err error) {
	if len(data) == 0 {
		return nil, ErrShort
	}
	sizes, n, err := index(data)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return [][]byte{data}, nil
	}
	for _, size := range sizes[:n] {
		if size > 0 {
			frames = append(frames, data[:size:size])
		}
		data = data[size:]
	}
	return frames, nil
}

// index gives the sizes of the frames in data; n is 0 when there is no index.
func index(data []byte) (sizes [8]int, n int, err error) {
	last := data[len(data)-1]
	if last&0xe0 != 0xc0 {
		return sizes, 0, nil
	}
	count, width := int(last&7)+1, int(last>>3&3)+1
	length := 2 + count*width
	if len(data) < length || data[len(data)-length] != last {
		return sizes, 0, nil // the last byte of an ordinary frame
	}
	entries, room := data[len(data)-length+1:], len(data)-length
	for i := range count {
		for k := range width {
			sizes[i] |= int(entries[i*width+k]) << (8 * k)
		}
		if room -= sizes[i]; room < 0 {
			return sizes, 0, ErrIndex
		}
	}
	if sizes[0] == 0 {
		return sizes, 0, ErrIndex
	}
	return sizes, count, nil
}
