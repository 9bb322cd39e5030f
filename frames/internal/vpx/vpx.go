// Package vpx decodes VP8 and VP9 frames with libvpx: one C call and no Go allocation per frame. It assembles nothing, gates nothing and
// starts nothing; what a broken chain means is its caller's business, that a frame belongs to one is told by coded.ErrCorrupt.
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

	"sightline/frames/internal/coded"
	"sightline/frames/internal/vp8hdr"
	"sightline/frames/internal/vp9hdr"
	"sightline/frames/internal/yuv"
)

// Decoder is one VP8 or VP9 decoder. It belongs to one goroutine at a time.
type Decoder struct {
	c             *C.slvpx_decoder
	vp9           bool
	colour        yuv.Colour // of VP9's last key frame; libvpx itself takes those behind an intra-only frame for BT.601
	sound         bool       // the last frames form a whole chain from a key frame on
	width, height int        // of the last picture
}

// NewVP8 makes a decoder. It owns C memory until Close.
func NewVP8() (*Decoder, error) { return newDecoder(false) }

// NewVP9 makes a decoder for profile 0. It owns C memory until Close.
func NewVP9() (*Decoder, error) { return newDecoder(true) }

func newDecoder(vp9 bool) (*Decoder, error) {
	kind := C.int(0)
	if vp9 {
		kind = 1
	}
	c := C.slvpx_new(kind)
	if c == nil {
		return nil, errors.New("vpx: libvpx could not make a decoder: out of memory")
	}
	return &Decoder{c: c, vp9: vp9}, nil
}

func (d *Decoder) name() string {
	if d.vp9 {
		return "vp9"
	}
	return "vp8"
}

// Decode decodes one frame. The picture's planes are the decoder's memory: valid until the next Decode or Close.
func (d *Decoder) Decode(frame []byte) (yuv.Picture, error) {
	pic, err := d.decode(frame)
	if err != nil {
		return yuv.Picture{}, fmt.Errorf("%s: %w", d.name(), err)
	}
	return pic, nil
}

func (d *Decoder) decode(frame []byte) (yuv.Picture, error) {
	if d.c == nil {
		return yuv.Picture{}, coded.ErrClosed
	}
	key, err := d.check(frame)
	if err != nil {
		d.sound = d.sound && len(frame) == 0
		return yuv.Picture{}, fmt.Errorf("%w: %w", coded.ErrRefused, err)
	}
	if !key && !d.sound {
		return yuv.Picture{}, coded.ErrNeedKey
	}
	var out C.slvpx_picture
	rc := C.slvpx_decode(d.c, (*C.uint8_t)(unsafe.Pointer(&frame[0])), C.size_t(len(frame)), &out)
	d.sound = rc == C.SLVPX_OK || rc == C.SLVPX_NO_PICTURE
	switch rc {
	case C.SLVPX_OK:
		return d.picture(&out), nil
	case C.SLVPX_NO_PICTURE:
		return yuv.Picture{}, coded.ErrNoPicture
	case C.SLVPX_CORRUPT:
		return yuv.Picture{}, coded.ErrCorrupt
	case C.SLVPX_FORMAT:
		return yuv.Picture{}, fmt.Errorf("%w: picture is not 4:2:0 with 8 bits", coded.ErrDecode)
	}
	text := C.GoString(C.vpx_codec_err_to_string(C.vpx_codec_err_t(out.vpx_error)))
	return yuv.Picture{}, fmt.Errorf("%w: libvpx: %s", coded.ErrDecode, text)
}

// check refuses what libvpx must not see: a header of 10 bytes can claim a picture that costs a second and a gigabyte.
func (d *Decoder) check(frame []byte) (key bool, err error) {
	if err := coded.CheckBytes(len(frame)); err != nil {
		return false, err
	}
	if d.vp9 {
		h, err := vp9hdr.Check(frame)
		if err == nil && h.Key {
			d.colour = yuv.Colour{Matrix: matrix(h.Space), FullRange: h.FullRange}
		}
		return h.Key, err
	}
	h, err := vp8hdr.Parse(frame)
	if err == nil {
		err = h.CheckSize()
	}
	return h.Key, err
}

func (d *Decoder) picture(out *C.slvpx_picture) yuv.Picture {
	p := yuv.Picture{
		Width: int(out.w), Height: int(out.h),
		YStride: int(out.ystride), CStride: int(out.cstride),
		Matrix: d.colour.Matrix, FullRange: d.colour.FullRange, // VP8 has no more than a reserved bit (RFC 6386 §9.2)
	}
	ch := (p.Height + 1) / 2
	p.Y = unsafe.Slice((*byte)(unsafe.Pointer(out.y)), p.YStride*(p.Height-1)+p.Width)
	p.U = unsafe.Slice((*byte)(unsafe.Pointer(out.u)), p.CStride*(ch-1)+(p.Width+1)/2)
	p.V = unsafe.Slice((*byte)(unsafe.Pointer(out.v)), p.CStride*(ch-1)+(p.Width+1)/2)
	d.width, d.height = p.Width, p.Height
	return p
}

// matrix is that of a VP9 color_space (VP9 bitstream specification §7.2.2).
func matrix(space int) yuv.Matrix {
	switch space {
	case 1, 3: // BT.601, SMPTE 170M
		return yuv.BT601
	case 2:
		return yuv.BT709
	case 4:
		return yuv.SMPTE240
	case 5:
		return yuv.BT2020
	}
	return yuv.MatrixUnknown
}

// Bytes is the C memory the decoder holds: VP9's pictures are counted; of VP8 libvpx keeps four with a border of 32 pixels and tells
// nothing itself.
func (d *Decoder) Bytes() int64 {
	if d.c == nil || d.width == 0 {
		return 0
	}
	if d.vp9 {
		return int64(d.c.held)
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
