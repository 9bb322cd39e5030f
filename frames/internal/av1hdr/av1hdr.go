// Package av1hdr reads the parts of an AV1 stream (AV1 bitstream specification §5) that must be known before a decoder sees it: OBU headers,
// the sequence header, the type of a frame. It decodes nothing.
package av1hdr

import (
	"errors"
	"fmt"

	"sightline/frames/internal/coded"
)

// OBU types (§6.2.2).
const (
	TypeSequence  = 1
	TypeDelimiter = 2
	TypeHeader    = 3 // frame header
	TypeTiles     = 4
	TypeFrame     = 6
	TypeRedundant = 7
)

// The ways a stream can be wrong.
var (
	ErrShort  = errors.New("av1: unit ends within its header")
	ErrOBU    = errors.New("av1: no OBU")
	ErrFormat = errors.New("av1: this kind of stream is not taken")
)

// OBU is one unit taken apart.
type OBU struct {
	Type     int
	Temporal int
	Spatial  int
	Sized    bool // it has its size field
	Payload  []byte
}

// ParseOBU reads one whole OBU, with or without its size field; with one, what follows the unit is rest.
func ParseOBU(b []byte) (o OBU, rest []byte, err error) {
	if len(b) == 0 {
		return o, nil, ErrShort
	}
	if b[0]&0x80 != 0 {
		return o, nil, ErrOBU
	}
	o.Type = int(b[0] >> 3 & 15)
	ext := b[0]&4 != 0
	o.Sized = b[0]&2 != 0
	b = b[1:]
	if ext {
		if len(b) == 0 {
			return o, nil, ErrShort
		}
		o.Temporal, o.Spatial = int(b[0]>>5), int(b[0]>>3&3)
		b = b[1:]
	}
	if !o.Sized {
		o.Payload = b
		return o, nil, nil
	}
	n, b, err := Leb128(b)
	if err != nil {
		return o, nil, err
	}
	if n > len(b) {
		return o, nil, ErrShort
	}
	o.Payload = b[:n:n]
	return o, b[n:], nil
}

// Leb128 reads a number of at most 32 bits (§4.10.5).
func Leb128(b []byte) (n int, rest []byte, err error) {
	for i := range min(len(b), 8) {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 == 0 {
			if n > 1<<32-1 {
				return 0, nil, ErrOBU
			}
			return n, b[i+1:], nil
		}
	}
	return 0, nil, ErrShort
}

// AppendOBU appends the unit with a size field.
func AppendOBU(dst []byte, o OBU) []byte {
	if o.Temporal != 0 || o.Spatial != 0 {
		dst = append(dst, byte(o.Type<<3|6), byte(o.Temporal<<5|o.Spatial<<3))
	} else {
		dst = append(dst, byte(o.Type<<3|2))
	}
	n := len(o.Payload)
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(append(dst, byte(n)), o.Payload...)
}

// Sequence is what a sequence header says of the pictures.
type Sequence struct {
	Width, Height int // pixels, the most that a frame may have
	FullRange     bool
	Matrix        int // matrix_coefficients; 2: unspecified
}

// ParseSequence reads the payload of a sequence header OBU (§5.5) and refuses what is not taken: other samples than 4:2:0 with 8 bits, still
// pictures, sizes out of bounds.
func ParseSequence(payload []byte) (Sequence, error) {
	b := coded.NewBits(payload)
	s := Sequence{Matrix: 2}
	profile := b.Read(3)
	b.Skip(1)
	if profile != 0 {
		return s, fmt.Errorf("%w: profile %d, must be 0", ErrFormat, profile)
	}
	if b.Flag() {
		return s, fmt.Errorf("%w: still picture", ErrFormat)
	}
	operatingPoints(b)
	wbits, hbits := int(b.Read(4))+1, int(b.Read(4))+1
	s.Width, s.Height = int(b.Read(wbits))+1, int(b.Read(hbits))+1
	tools(b)
	deep, mono := b.Flag(), b.Flag()
	primaries, transfer := uint32(2), uint32(2)
	if b.Flag() {
		primaries, transfer, s.Matrix = b.Read(8), b.Read(8), int(b.Read(8))
	}
	switch {
	case b.Short:
		return s, ErrShort
	case deep:
		return s, fmt.Errorf("%w: more than 8 bits a sample", ErrFormat)
	case mono:
		return s, fmt.Errorf("%w: monochrome", ErrFormat)
	case primaries == 1 && transfer == 13 && s.Matrix == 0:
		return s, fmt.Errorf("%w: RGB", ErrFormat)
	}
	s.FullRange = b.Flag()
	if b.Short {
		return s, ErrShort
	}
	if err := coded.CheckSize(s.Width, s.Height); err != nil {
		return s, fmt.Errorf("av1: %w", err)
	}
	return s, nil
}

// operatingPoints passes over timing and operating points.
func operatingPoints(b *coded.Bits) {
	model, delayBits := false, 0
	if b.Flag() { // timing_info
		b.Skip(64)
		if b.Flag() {
			b.UE()
		}
		if model = b.Flag(); model {
			delayBits = int(b.Read(5)) + 1
			b.Skip(32 + 5 + 5)
		}
	}
	display := b.Flag()
	for range b.Read(5) + 1 {
		b.Skip(12)
		if b.Read(5) > 7 {
			b.Skip(1)
		}
		if model && b.Flag() {
			b.Skip(2*delayBits + 1)
		}
		if display && b.Flag() {
			b.Skip(4)
		}
	}
}

// tools passes over the coding tools.
func tools(b *coded.Bits) {
	if b.Flag() { // frame ids
		b.Skip(4 + 3)
	}
	b.Skip(3 + 4)
	order := b.Flag()
	if order {
		b.Skip(2)
	}
	screen := uint32(2) // chosen by frame
	if !b.Flag() {
		screen = b.Read(1)
	}
	if screen > 0 && !b.Flag() {
		b.Skip(1)
	}
	if order {
		b.Skip(3)
	}
	b.Skip(3)
}

// ShownKey reports whether the payload of a frame or frame header OBU begins a key frame that is shown (§5.9.2; no reduced still picture).
func ShownKey(payload []byte) bool {
	return len(payload) > 0 && payload[0]&0xf0 == 0x10 // show_existing_frame 0, frame_type 00, show_frame 1
}
