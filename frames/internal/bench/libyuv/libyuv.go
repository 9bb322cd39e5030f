//go:build bench

// Package libyuv is what the fast path is measured against: libyuv scales, SIMD in place takes the range to full, libjpeg-turbo encodes
// the raw planes; state and buffers kept, one call a picture. Bench only.
package libyuv

/*
#cgo CFLAGS: -O3 -Wall -Wextra
#cgo LDFLAGS: -lyuv -ljpeg
#cgo noescape bl_encode
#cgo nocallback bl_encode
#cgo noescape bl_planes
#cgo nocallback bl_planes
#include "usual.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"sightline/frames/internal/yuv"
)

// Encoder makes w×h JPEGs.
type Encoder struct {
	c    *C.bl_encoder
	w, h int
}

// New makes an encoder of w×h images, even sides; nothing frees it.
func New(w, h, quality int) (*Encoder, error) {
	c := C.bl_new(C.int(w), C.int(h), C.int(quality))
	if c == nil || w%16 != 0 || h%16 != 0 {
		return nil, errors.New("libyuv: sides must be multiples of 16")
	}
	return &Encoder{c, w, h}, nil
}

func ptr(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// Encode makes one JPEG, copied out as jpegfast does.
func (e *Encoder) Encode(p *yuv.Picture) ([]byte, error) {
	var n C.size_t
	full := C.int(0)
	if p.FullRange {
		full = 1
	}
	b := C.bl_encode(e.c, ptr(p.Y), ptr(p.U), ptr(p.V), C.int(p.Width), C.int(p.Height), C.int(p.YStride), C.int(p.CStride), full, &n)
	if b == nil {
		return nil, errors.New("libyuv: could not encode")
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(b)), int(n))...), nil
}

// Planes are the scaled ones of the picture encoded last, full range.
func (e *Encoder) Planes() *yuv.Picture {
	p := yuv.New(e.w, e.h)
	p.FullRange = true
	C.bl_planes(e.c, ptr(p.Y), ptr(p.U), ptr(p.V))
	return p
}
