// Package h264hdr reads the parts of an H264 stream (ITU-T H.264 §7.3) that must be known before a decoder sees it: NAL units, parameter
// sets, the head of a slice. It decodes nothing.
package h264hdr

import (
	"bytes"
	"errors"
	"fmt"

	"sightline/frames/internal/coded"
)

// NAL unit types (§7.4.1, table 7-1) that matter here.
const (
	TypeSlice = 1
	TypeIDR   = 5
	TypeSEI   = 6
	TypeSPS   = 7
	TypePPS   = 8
	TypeAUD   = 9
)

// MaxSetBytes bounds one parameter set. Real ones have 10 to 60 bytes.
const MaxSetBytes = 1024

// The ways a unit can be wrong.
var (
	ErrShort  = errors.New("h264: unit ends within its header")
	ErrFormat = errors.New("h264: this kind of stream is not taken")
)

// Type is the type of a NAL unit of at least one byte.
func Type(nal []byte) int { return int(nal[0] & 0x1f) }

// SPS is what a sequence parameter set says of the pictures.
type SPS struct {
	ID, Profile   int
	Width, Height int  // pixels, after cropping
	FullRange     bool // of the VUI; false where there is none
	Matrix        int  // matrix_coefficients of the VUI; 2 (unspecified) where there is none
}

// unescape takes the emulation prevention bytes out (§7.4.1.1) of the first limit bytes.
func unescape(nal []byte, limit int) []byte {
	nal = nal[:min(len(nal), limit)]
	out := make([]byte, 0, len(nal))
	zeros := 0
	for _, b := range nal {
		if zeros >= 2 && b == 3 {
			zeros = 0
			continue
		}
		if zeros++; b != 0 {
			zeros = 0
		}
		out = append(out, b)
	}
	return out
}

// ParseSPS reads one NAL unit of type 7 and refuses what no decoder here takes: other profiles than constrained baseline, baseline, main and
// high, other samples than 4:2:0 with 8 bits, interlaced pictures, sizes out of bounds.
func ParseSPS(nal []byte) (SPS, error) {
	if len(nal) < 4 || len(nal) > MaxSetBytes || Type(nal) != TypeSPS {
		return SPS{}, fmt.Errorf("h264: sequence parameter set of %d bytes: must be of type 7 with 4 to %d", len(nal), MaxSetBytes)
	}
	b := coded.NewBits(unescape(nal[1:], MaxSetBytes))
	s := SPS{Profile: int(b.Read(8)), Matrix: 2}
	b.Skip(16) // constraint flags, level
	s.ID = int(b.UE())
	switch s.Profile {
	case 66, 77, 100:
	default:
		return s, fmt.Errorf("%w: profile %d, must be 66, 77 or 100 (baseline, main, high)", ErrFormat, s.Profile)
	}
	if s.Profile == 100 {
		if err := high(b); err != nil {
			return s, err
		}
	}
	b.UE() // log2_max_frame_num
	switch b.UE() {
	case 0:
		b.UE()
	case 1:
		b.Skip(1)
		b.SE()
		b.SE()
		n := b.UE()
		for range min(n, 256) {
			b.SE()
		}
	}
	refs := b.UE()
	b.Skip(1) // gaps allowed
	w, h := int64(b.UE())+1, int64(b.UE())+1
	frameOnly := b.Flag()
	if !frameOnly {
		b.Skip(1)
	}
	b.Skip(1) // direct_8x8
	var crop [4]int64
	if b.Flag() {
		for i := range crop {
			crop[i] = int64(b.UE())
		}
	}
	switch {
	case b.Short:
		return s, ErrShort
	case s.ID > 31 || refs > 16:
		return s, fmt.Errorf("h264: sequence parameter set %d with %d reference frames: at most 31 and 16 are allowed", s.ID, refs)
	case !frameOnly:
		return s, fmt.Errorf("%w: interlaced", ErrFormat)
	}
	if w*h > coded.MaxPixels/256 || w > coded.MaxSide/16 || h > coded.MaxSide/16 { // what is allocated, whatever is cropped
		return s, fmt.Errorf("h264: %w: %d×%d, allowed are 1 to %d a side and %d pixels", coded.ErrSize, w*16, h*16, coded.MaxSide, coded.MaxPixels)
	}
	s.Width, s.Height = int(w*16-2*(crop[0]+crop[1])), int(h*16-2*(crop[2]+crop[3]))
	if err := coded.CheckSize(s.Width, s.Height); err != nil {
		return s, fmt.Errorf("h264: %w", err)
	}
	if b.Flag() {
		s.vui(b)
	}
	return s, nil
}

// high reads what high profile adds (§7.3.2.1.1).
func high(b *coded.Bits) error {
	if chroma := b.UE(); chroma != 1 {
		return fmt.Errorf("%w: chroma format %d, must be 1 (4:2:0)", ErrFormat, chroma)
	}
	if luma, chroma := b.UE(), b.UE(); luma != 0 || chroma != 0 {
		return fmt.Errorf("%w: %d and %d bits a sample, must be 8", ErrFormat, luma+8, chroma+8)
	}
	b.Skip(1)
	if !b.Flag() {
		return nil
	}
	for i := range 8 {
		if !b.Flag() {
			continue
		}
		size, last, next := 16, int32(8), int32(8)
		if i >= 6 {
			size = 64
		}
		for range size {
			if next != 0 {
				next = (last + b.SE() + 256) & 255
			}
			if next != 0 {
				last = next
			}
		}
	}
	return nil
}

// vui reads as far as the colours (§E.1.1).
func (s *SPS) vui(b *coded.Bits) {
	if b.Flag() && b.Read(8) == 255 { // aspect ratio
		b.Skip(32)
	}
	if b.Flag() { // overscan
		b.Skip(1)
	}
	if !b.Flag() {
		return
	}
	b.Skip(3)
	full, matrix := b.Flag(), 2
	if b.Flag() {
		b.Skip(16)
		matrix = int(b.Read(8))
	}
	if !b.Short {
		s.FullRange, s.Matrix = full, matrix
	}
}

// ParsePPS reads which picture parameter set a NAL unit of type 8 is and to which sequence parameter set it belongs.
func ParsePPS(nal []byte) (id, sps int, err error) {
	if len(nal) < 2 || len(nal) > MaxSetBytes || Type(nal) != TypePPS {
		return 0, 0, fmt.Errorf("h264: picture parameter set of %d bytes: must be of type 8 with 2 to %d", len(nal), MaxSetBytes)
	}
	b := coded.NewBits(unescape(nal[1:], 16))
	id, sps = int(b.UE()), int(b.UE())
	if b.Short {
		return 0, 0, ErrShort
	}
	if id > 255 || sps > 31 {
		return 0, 0, fmt.Errorf("h264: picture parameter set %d of %d: at most 255 and 31 are allowed", id, sps)
	}
	return id, sps, nil
}

// Slice is what the head of a slice says.
type Slice struct {
	First         bool // it begins its picture
	Bidirectional bool // slice_type B: it may refer to pictures that are shown later
	PPS           int  // its picture parameter set
}

// ParseSlice reads the head of a NAL unit of type 1 or 5.
func ParseSlice(nal []byte) (s Slice, err error) {
	b := coded.NewBits(unescape(nal[min(1, len(nal)):], 24))
	s.First = b.UE() == 0
	kind := b.UE()
	s.Bidirectional, s.PPS = kind%5 == 1, int(b.UE())
	if b.Short || s.PPS > 255 || kind > 9 {
		return Slice{}, ErrShort
	}
	return s, nil
}

var startCode = []byte{0, 0, 1}

// NextNAL cuts the first NAL unit off an Annex B stream (§B.1), without its start code and the zeros behind it. The unit is empty where two
// start codes follow each other; nil when there is none left.
func NextNAL(b []byte) (nal, rest []byte) {
	i := bytes.Index(b, startCode)
	if i < 0 {
		return nil, nil
	}
	b = b[i+3:]
	end := bytes.Index(b, startCode)
	if end < 0 {
		end = len(b)
	}
	return bytes.TrimRight(b[:end:end], "\x00"), b[end:]
}
