// Package openh264 decodes H264 frames (Annex B, one access unit each; constrained baseline to high, 4:2:0 with 8 bits, no interlace) with
// openh264: one C call per frame. It assembles nothing, conceals nothing and starts nothing.
package openh264

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo pkg-config: openh264
#cgo noescape slh264_decode
#cgo nocallback slh264_decode
#include "openh264.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/h264hdr"
	"sightline/frames/internal/yuv"
)

// Decoder is one H264 decoder. It belongs to one goroutine at a time.
type Decoder struct {
	c             *C.slh264_decoder
	sound         bool           // the last frames form a whole chain from a key frame on
	colours       [32]yuv.Colour // of the sequence parameter sets
	colour        yuv.Colour     // of the one in use
	clean         []byte         // scratch: a frame without the units that the decoder must not see
	width, height int            // of the last picture
}

// New makes a decoder. It owns C memory until Close.
func New() (*Decoder, error) {
	c := C.slh264_new()
	if c == nil {
		return nil, errors.New("h264: openh264 could not make a decoder")
	}
	return &Decoder{c: c}, nil
}

// Decode decodes one access unit. The picture's planes are the decoder's memory: valid until the next Decode or Close.
func (d *Decoder) Decode(frame []byte) (yuv.Picture, error) {
	pic, err := d.decode(frame)
	if err != nil {
		return yuv.Picture{}, fmt.Errorf("h264: %w", err)
	}
	return pic, nil
}

func (d *Decoder) decode(frame []byte) (yuv.Picture, error) {
	if d.c == nil {
		return yuv.Picture{}, coded.ErrClosed
	}
	key, frame, err := d.check(frame)
	if err != nil {
		d.sound = d.sound && len(frame) == 0
		return yuv.Picture{}, fmt.Errorf("%w: %w", coded.ErrRefused, err)
	}
	if !key && !d.sound {
		return yuv.Picture{}, coded.ErrNeedKey
	}
	var out C.slh264_picture
	rc := C.slh264_decode(d.c, (*C.uint8_t)(unsafe.Pointer(&frame[0])), C.size_t(len(frame)), &out)
	if d.sound = rc == C.SLH264_OK; d.sound {
		return d.picture(&out), nil
	}
	d.renew()
	if rc == C.SLH264_NO_PICTURE { // one that is whole shows itself at once
		return yuv.Picture{}, fmt.Errorf("%w: openh264 made no picture", coded.ErrDecode)
	}
	return yuv.Picture{}, fmt.Errorf("%w: openh264: state 0x%x", coded.ErrDecode, int(out.state))
}

// renew starts over: after an error openh264 refuses the next key frame, sound as it may be.
func (d *Decoder) renew() {
	if c := C.slh264_new(); c != nil {
		C.slh264_free(d.c)
		d.c = c
	}
}

// check refuses what openh264 must not see: parameter sets of another kind or size, frames without a slice. It gives the frame without
// units of other types. The frame it returns beside an error is the caller's.
func (d *Decoder) check(frame []byte) (key bool, clean []byte, err error) {
	if err := coded.CheckBytes(len(frame)); err != nil {
		return false, frame, err
	}
	slices, other := 0, false
	for nal, rest := h264hdr.NextNAL(frame); nal != nil; nal, rest = h264hdr.NextNAL(rest) {
		if len(nal) == 0 {
			other = true
			continue
		}
		switch h264hdr.Type(nal) {
		case h264hdr.TypeSPS:
			s, err := h264hdr.ParseSPS(nal)
			if err != nil {
				return false, frame, err
			}
			d.colour = yuv.Colour{Matrix: yuv.MatrixOf(s.Matrix), FullRange: s.FullRange}
			d.colours[s.ID] = d.colour
		case h264hdr.TypePPS:
			_, sps, err := h264hdr.ParsePPS(nal)
			if err != nil {
				return false, frame, err
			}
			d.colour = d.colours[sps]
		case h264hdr.TypeIDR:
			key = true
			slices++
		case h264hdr.TypeSlice:
			slices++
		default:
			other = true
		}
	}
	if slices == 0 {
		return false, frame, errors.New("no slice in it")
	}
	if other {
		return key, d.strip(frame), nil
	}
	return key, frame, nil
}

func (d *Decoder) strip(frame []byte) []byte {
	d.clean = d.clean[:0]
	for nal, rest := h264hdr.NextNAL(frame); nal != nil; nal, rest = h264hdr.NextNAL(rest) {
		if len(nal) == 0 {
			continue
		}
		switch h264hdr.Type(nal) {
		case h264hdr.TypeSPS, h264hdr.TypePPS, h264hdr.TypeIDR, h264hdr.TypeSlice:
			d.clean = append(append(d.clean, 0, 0, 0, 1), nal...)
		}
	}
	return d.clean
}

func (d *Decoder) picture(out *C.slh264_picture) yuv.Picture {
	p := yuv.Picture{
		Width: int(out.w), Height: int(out.h), YStride: int(out.ystride), CStride: int(out.cstride),
		FullRange: d.colour.FullRange, Matrix: d.colour.Matrix,
	}
	cw, ch := p.ChromaSize()
	p.Y = unsafe.Slice((*byte)(unsafe.Pointer(out.y)), p.YStride*(p.Height-1)+p.Width)
	p.U = unsafe.Slice((*byte)(unsafe.Pointer(out.u)), p.CStride*(ch-1)+cw)
	p.V = unsafe.Slice((*byte)(unsafe.Pointer(out.v)), p.CStride*(ch-1)+cw)
	d.width, d.height = p.Width, p.Height
	return p
}

// Bytes estimates the C memory the decoder holds: openh264 keeps about four pictures with a border of 32 pixels, and 1.5 MiB of its own.
func (d *Decoder) Bytes() int64 {
	if d.c == nil || d.width == 0 {
		return 0
	}
	w, h := int64(d.width+15)&^15+64, int64(d.height+15)&^15+64
	return 4*w*h*3/2 + 3<<19
}

// Close frees the decoder and every picture it gave. Closing again does nothing.
func (d *Decoder) Close() error {
	if d.c != nil {
		C.slh264_free(d.c)
		d.c, d.clean = nil, nil
	}
	return nil
}
