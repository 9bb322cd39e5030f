// Package coded holds what all video decoders share: the errors they answer with and the bounds of what they are given. It decodes
// nothing.
package coded

import (
	"errors"
	"fmt"
)

// Bounds of an encoded frame and of its picture: what a decoder may be asked to allocate for.
const (
	MaxFrameBytes = 4 << 20     // a browser's largest key frame at 4096×2176 is about a tenth of it
	MaxSide       = 4096        // pixels a side
	MaxPixels     = 4096 * 2176 // pixels a picture
)

// What Decode answers when it has no picture. ErrNoPicture and an empty frame leave the chain intact; after every other one the
// decoder takes no frame but a key frame (G10).
var (
	ErrClosed    = errors.New("decoder is closed")
	ErrRefused   = errors.New("frame refused before decoding")                       // its size, its picture's size or format, or no such header
	ErrNeedKey   = errors.New("frame refers to one that is damaged or missing")      // not decoded
	ErrDecode    = errors.New("decode")                                              // the library refused it; its own words follow
	ErrCorrupt   = errors.New("frame is damaged: the picture is not the sender's")   // the library made one all the same
	ErrNoPicture = errors.New("frame is not for showing (no picture, chain intact)") // an alt-ref frame for example
)

// ErrSize is the cause when a picture's size is out of bounds.
var ErrSize = errors.New("size out of bounds")

// CheckSize refuses pictures that are empty or larger than the bounds.
func CheckSize(w, h int) error {
	if w < 1 || h < 1 || w > MaxSide || h > MaxSide || w*h > MaxPixels {
		return fmt.Errorf("%w: %d×%d, allowed are 1 to %d a side and %d pixels", ErrSize, w, h, MaxSide, MaxPixels)
	}
	return nil
}

// CheckBytes refuses frames that are empty or too long.
func CheckBytes(n int) error {
	if n < 1 || n > MaxFrameBytes {
		return fmt.Errorf("%d bytes, must be 1 to %d", n, MaxFrameBytes)
	}
	return nil
}

// Bits reads big-endian bits. Reading past the end gives zeros and sets Short.
type Bits struct {
	data  []byte
	pos   int // bits
	Short bool
}

// NewBits reads b from its first bit on.
func NewBits(b []byte) *Bits { return &Bits{data: b} }

// Read takes n bits, at most 32.
func (b *Bits) Read(n int) (v uint32) {
	for range n {
		v <<= 1
		if b.pos >= len(b.data)*8 {
			b.Short = true
			continue
		}
		v |= uint32(b.data[b.pos>>3]>>(7-b.pos&7)) & 1
		b.pos++
	}
	return v
}

// Flag takes one bit.
func (b *Bits) Flag() bool { return b.Read(1) == 1 }

// Skip passes n bits over.
func (b *Bits) Skip(n int) {
	b.pos += n
	if b.pos > len(b.data)*8 {
		b.pos, b.Short = len(b.data)*8, true
	}
}

// UE takes an unsigned Exp-Golomb code (H.264 §9.1; AV1's uvlc is the same).
func (b *Bits) UE() uint32 {
	zeros := 0
	for !b.Flag() {
		if zeros++; b.Short || zeros > 31 {
			b.Short = true
			return 0
		}
	}
	return 1<<zeros - 1 + b.Read(zeros)
}

// SE takes a signed Exp-Golomb code.
func (b *Bits) SE() int32 {
	v := b.UE()
	if v&1 == 1 {
		return int32(v>>1) + 1
	}
	return -int32(v >> 1)
}
