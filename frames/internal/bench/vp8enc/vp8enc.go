// Package vp8enc is the sender's side of benchmarks and tests: a VP8 encoder set as browsers set theirs, which makes a key frame when it is
// asked to. The product encodes no video.
package vp8enc

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo pkg-config: vpx
#include "vp8enc.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"sightline/frames/internal/yuv"
)

// Encoder makes VP8 frames of pictures of one size, at 30 a second. It belongs to one goroutine at a time.
type Encoder struct{ c *C.slbench_vp8 }

// Config says how.
type Config struct {
	Width, Height int
	Kbps          int
	Screen        bool // the settings for a shared screen
	Layers        int  // in time: 1 or 3
}

// New makes an encoder; Close frees it.
func New(cfg Config) (*Encoder, error) {
	screen := C.int(0)
	if cfg.Screen {
		screen = 1
	}
	c := C.slbench_vp8_new(C.int(cfg.Width), C.int(cfg.Height), C.int(cfg.Kbps), screen, C.int(max(cfg.Layers, 1)))
	if c == nil {
		return nil, errors.New("vp8enc: libvpx refuses this size, or layers are not 1 or 3")
	}
	return &Encoder{c}, nil
}

// Frame is one encoded picture.
type Frame struct {
	Data  []byte // empty: the encoder left the picture out
	Key   bool
	Layer int  // in time
	Sync  bool // refers to the base layer only
}

// Encode makes the next frame.
func (e *Encoder) Encode(p *yuv.Picture, key bool) (Frame, error) {
	force := C.int(0)
	if key {
		force = 1
	}
	var out *C.uint8_t
	var layer, sync C.int
	at := func(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
	n := C.slbench_vp8_encode(e.c, at(p.Y), at(p.U), at(p.V), C.int(p.YStride), C.int(p.CStride), force, &out, &layer, &sync)
	if n < 0 {
		return Frame{}, errors.New("vp8enc: libvpx: encoding failed")
	}
	f := Frame{Data: C.GoBytes(unsafe.Pointer(out), C.int(n)), Layer: int(layer), Sync: sync != 0}
	f.Key = n > 0 && f.Data[0]&1 == 0
	return f, nil
}

// Close frees the encoder. Closing again does nothing.
func (e *Encoder) Close() {
	C.slbench_vp8_free(e.c)
	e.c = nil
}
