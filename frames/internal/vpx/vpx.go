// Package vpx decodes VP8 frames with libvpx: one C call and no Go allocation per frame. It assembles nothing, gates nothing and
// starts nothing; what a broken chain means is its caller's business, that a frame belongs to one is told by ErrCorrupt.
package vpx

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo pkg-config: vpx
#cgo noescape slvpx_decode
#cgo nocallback slvpx_decode
#include "vpx.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"sightline/frames/internal/vp8hdr"
	"sightline/frames/internal/yuv"
)

// MaxFrameBytes bounds one encoded frame. A browser's largest key frame at 4096×2176 is about a tenth of it.
const MaxFrameBytes = 4 << 20

// What Decode answers when it has no picture. ErrNoPicture and an empty frame leave the chain intact; after every other one the
// decoder takes no frame but a key frame (G10).
var (
	ErrClosed    = errors.New("vp8: decoder is closed")
	ErrRefused   = errors.New("vp8: frame refused before decoding")                       // its size, its picture's size, or no VP8 header
	ErrNeedKey   = errors.New("vp8: frame refers to one that is damaged or missing")      // not decoded
	ErrDecode    = errors.New("vp8: decode")                                              // libvpx refused it; its own words follow
	ErrCorrupt   = errors.New("vp8: frame is damaged: the picture is not the sender's")   // libvpx made one all the same
	ErrNoPicture = errors.New("vp8: frame is not for showing (no picture, chain intact)") // alt-ref frame
)

// Decoder is one VP8 decoder. It belongs to one goroutine at a time.
type Decoder struct {
	c             *C.slvpx_decoder
	sound         bool // the last frames form a whole chain from a key frame on
	width, height int  // of the last picture
}

// NewVP8 makes a decoder. It owns C memory until Close.
func NewVP8() (*Decoder, error) {
	c := C.slvpx_new()
	if c == nil {
		return nil, errors.New("vp8: libvpx could not make a decoder: out of memory")
	}
	return &Decoder{c: c}, nil
}

// Decode decodes one frame. The picture's planes are the decoder's memory: valid until the next Decode or Close.
func (d *Decoder) Decode(frame []byte) (yuv.Picture, error) {
	if d.c == nil {
		return yuv.Picture{}, ErrClosed
	}
	key, err := check(frame)
	if err != nil {
		d.sound = d.sound && len(frame) == 0
		return yuv.Picture{}, err
	}
	if !key && !d.sound {
		return yuv.Picture{}, ErrNeedKey
	}
	var out C.slvpx_picture
	rc := C.slvpx_decode(d.c, (*C.uint8_t)(unsafe.Pointer(&frame[0])), C.size_t(len(frame)), &out)
	d.sound = rc == C.SLVPX_OK || rc == C.SLVPX_NO_PICTURE
	switch rc {
	case C.SLVPX_OK:
		return d.picture(&out), nil
	case C.SLVPX_NO_PICTURE:
		return yuv.Picture{}, ErrNoPicture
	case C.SLVPX_CORRUPT:
		return yuv.Picture{}, ErrCorrupt
	case C.SLVPX_FORMAT:
		return yuv.Picture{}, fmt.Errorf("%w: picture is not 4:2:0 with 8 bits", ErrDecode)
	}
	text := C.GoString(C.vpx_codec_err_to_string(C.vpx_codec_err_t(out.vpx_error)))
	return yuv.Picture{}, fmt.Errorf("%w: libvpx: %s", ErrDecode, text)
}

// check refuses what libvpx must not see: a header of 10 bytes can claim a picture that costs a second and a gigabyte.
func check(frame []byte) (key bool, err error) {
	if len(frame) == 0 || len(frame) > MaxFrameBytes {
		return false, fmt.Errorf("%w: %d bytes, must be 1 to %d", ErrRefused, len(frame), MaxFrameBytes)
	}
	h, err := vp8hdr.Parse(frame)
	if err == nil {
		err = h.CheckSize()
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return h.Key, nil
}

func (d *Decoder) picture(out *C.slvpx_picture) yuv.Picture {
	p := yuv.Picture{
		Width: int(out.w), Height: int(out.h),
		YStride: int(out.ystride), CStride: int(out.cstride),
		FullRange: out.full_range != 0,
	}
	ch := (p.Height + 1) / 2
	p.Y = unsafe.Slice((*byte)(unsafe.Pointer(out.y)), p.YStride*(p.Height-1)+p.Width)
	p.U = unsafe.Slice((*byte)(unsafe.Pointer(out.u)), p.CStride*(ch-1)+(p.Width+1)/2)
	p.V = unsafe.Slice((*byte)(unsafe.Pointer(out.v)), p.CStride*(ch-1)+(p.Width+1)/2)
	d.width, d.height = p.Width, p.Height
	return p
}

// Bytes estimates the C memory the decoder holds: libvpx keeps four pictures with a border of 32 pixels and tells nothing itself.
func (d *Decoder) Bytes() int64 {
	if d.c == nil || d.width == 0 {
		return 0
	}
	w, h := int64(d.width+15)&^15+64, int64(d.height+15)&^15+64
	return 4 * w * h * 3 / 2
}

// Close frees the decoder and every picture it gave. Closing again does nothing.
func (d *Decoder) Close() error {
	if d.c != nil {
		C.slvpx_free(d.c)
		d.c = nil
	}
	return nil
}
