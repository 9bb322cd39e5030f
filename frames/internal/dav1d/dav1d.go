// Package dav1d decodes AV1 temporal units (OBUs with size fields; main profile, 4:2:0 with 8 bits) with dav1d: one C call per unit. It
// assembles nothing and starts nothing.
package dav1d

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo pkg-config: dav1d
#cgo noescape sldav1d_decode
#cgo nocallback sldav1d_decode
#include "dav1d.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"sightline/frames/internal/av1hdr"
	"sightline/frames/internal/coded"
	"sightline/frames/internal/yuv"
)

// Decoder is one AV1 decoder. It belongs to one goroutine at a time.
type Decoder struct {
	c             *C.sldav1d_decoder
	sound         bool // the last frames form a whole chain from a key frame on
	width, height int  // of the last picture
}

// New makes a decoder. It owns C memory until Close.
func New() (*Decoder, error) {
	c := C.sldav1d_new(coded.MaxPixels)
	if c == nil {
		return nil, errors.New("av1: dav1d could not make a decoder")
	}
	return &Decoder{c: c}, nil
}

// Decode decodes one temporal unit. The picture's planes are the decoder's memory: valid until the next Decode or Close.
func (d *Decoder) Decode(frame []byte) (yuv.Picture, error) {
	pic, err := d.decode(frame)
	if err != nil {
		return yuv.Picture{}, fmt.Errorf("av1: %w", err)
	}
	return pic, nil
}

func (d *Decoder) decode(frame []byte) (yuv.Picture, error) {
	if d.c == nil {
		return yuv.Picture{}, coded.ErrClosed
	}
	key, err := check(frame)
	if err != nil {
		d.sound = d.sound && len(frame) == 0
		return yuv.Picture{}, fmt.Errorf("%w: %w", coded.ErrRefused, err)
	}
	if !key && !d.sound {
		return yuv.Picture{}, coded.ErrNeedKey
	}
	var out C.sldav1d_picture
	rc := C.sldav1d_decode(d.c, (*C.uint8_t)(unsafe.Pointer(&frame[0])), C.size_t(len(frame)), &out)
	d.sound = rc == C.SLDAV1D_OK || rc == C.SLDAV1D_NO_PICTURE
	switch rc {
	case C.SLDAV1D_OK:
		return d.picture(&out), nil
	case C.SLDAV1D_NO_PICTURE:
		return yuv.Picture{}, coded.ErrNoPicture
	case C.SLDAV1D_FORMAT:
		return yuv.Picture{}, fmt.Errorf("%w: picture is not 4:2:0 with 8 bits", coded.ErrDecode)
	}
	return yuv.Picture{}, fmt.Errorf("%w: dav1d: %w", coded.ErrDecode, syscall.Errno(out.error))
}

// check refuses what dav1d must not see: no OBUs, a sequence of another kind or size. A key frame is one with its sequence header.
func check(frame []byte) (key bool, err error) {
	if err := coded.CheckBytes(len(frame)); err != nil {
		return false, err
	}
	sequence, frames := false, 0
	for rest := frame; len(rest) > 0; {
		var o av1hdr.OBU
		if o, rest, err = av1hdr.ParseOBU(rest); err != nil {
			return false, err
		}
		if !o.Sized {
			return false, errors.New("an OBU has no size field")
		}
		switch o.Type {
		case av1hdr.TypeSequence:
			if _, err := av1hdr.ParseSequence(o.Payload); err != nil {
				return false, err
			}
			sequence = true
		case av1hdr.TypeFrame, av1hdr.TypeHeader:
			key = key || frames == 0 && sequence && av1hdr.ShownKey(o.Payload)
			frames++
		}
	}
	if frames == 0 {
		return false, errors.New("no frame in it")
	}
	return key, nil
}

func (d *Decoder) picture(out *C.sldav1d_picture) yuv.Picture {
	p := yuv.Picture{
		Width: int(out.w), Height: int(out.h), YStride: int(out.ystride), CStride: int(out.cstride),
		FullRange: out.full_range != 0, Matrix: yuv.MatrixOf(int(out.matrix)),
	}
	cw, ch := p.ChromaSize()
	p.Y = unsafe.Slice((*byte)(unsafe.Pointer(out.y)), p.YStride*(p.Height-1)+p.Width)
	p.U = unsafe.Slice((*byte)(unsafe.Pointer(out.u)), p.CStride*(ch-1)+cw)
	p.V = unsafe.Slice((*byte)(unsafe.Pointer(out.v)), p.CStride*(ch-1)+cw)
	d.width, d.height = p.Width, p.Height
	return p
}

// Bytes estimates the C memory the decoder holds: dav1d keeps eight references and the picture shown, and 3 MiB of its own.
func (d *Decoder) Bytes() int64 {
	if d.c == nil || d.width == 0 {
		return 0
	}
	w, h := int64(d.width+127)&^127, int64(d.height+127)&^127
	return 9*w*h*3/2 + 3<<20
}

// Close frees the decoder and every picture it gave. Closing again does nothing.
func (d *Decoder) Close() error {
	if d.c != nil {
		C.sldav1d_free(d.c)
		d.c = nil
	}
	return nil
}
