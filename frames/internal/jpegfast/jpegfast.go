// Package jpegfast turns a decoded picture into a JPEG in one C call: scale, range, matrix and libjpeg-turbo's raw data path, row by row
// in cache. The returned bytes are the only Go allocation. It decodes nothing and reads no JPEG.
package jpegfast

/*
#cgo CFLAGS: -O3 -Wall -Wextra
#cgo LDFLAGS: -ljpeg -lm
#cgo noescape sl_encode
#cgo nocallback sl_encode
#cgo noescape sl_scale
#cgo nocallback sl_scale
#include "encode.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"sightline/frames/internal/yuv"
)

// ErrClosed is what a closed Encoder answers.
var ErrClosed = errors.New("jpeg: encoder is closed")

// Options says which image of a picture is wanted.
type Options struct {
	Width, Height int  // 1 to MaxSide; both 0: the picture's own size
	Fit           Fit  // how another aspect gets into that size
	Upscale       bool // Contain only: allow an image larger than the picture
	Quality       int  // libjpeg's scale, 0 to 100; 0 is taken as 1
	Optimize      bool // Huffman tables made for this image: twice the CPU, 8–18 % fewer bytes
	Sharp         bool // luma scaled by four taps an axis instead of two: for text

	OfWidth, OfHeight int // the picture is one of this size that was scaled down: it is placed as that would be; both 0: its own size
}

// Luma is what a picture's luma looks like, in video range (black 16, white 235), from at most 128 of its rows.
type Luma struct{ Mean, Variance float64 }

// Black reports a picture that shows nothing: a camera that is covered, muted or sends black.
func (l Luma) Black() bool { return l.Mean <= 18 && l.Variance < 2 }

// Encoder holds the compressor, the tap tables and the buffers. It belongs to one goroutine at a time.
type Encoder struct {
	c    *C.sl_encoder
	luma Luma
}

// kind is that of the inner loops: plain C, or SIMD that this machine may have. They agree bit for bit.
type kind int

const (
	plainC kind = C.SL_C
	ssse3  kind = C.SL_SSSE3
	avx2   kind = C.SL_AVX2
)

// best is what this machine has.
func best() kind { return kind(C.sl_best()) }

// New makes an encoder with the best loops of the machine. It owns C memory until Close.
func New() (*Encoder, error) { return newEncoder(best()) }

func newEncoder(k kind) (*Encoder, error) {
	c := C.sl_new(C.int(k))
	if c == nil {
		return nil, errors.New("jpeg: could not make an encoder: out of memory")
	}
	return &Encoder{c: c}, nil
}

// Encode makes the image: its JPEG bytes (the caller's own), width and height.
func (e *Encoder) Encode(pic *yuv.Picture, o Options) ([]byte, int, int, error) {
	g, err := e.check(pic, o)
	if err != nil {
		return nil, 0, 0, err
	}
	job := newJob(pic, g, o)
	rc := C.sl_encode(e.c, bytesPtr(pic.Y), bytesPtr(pic.U), bytesPtr(pic.V), &job)
	if rc != C.SL_OK {
		return nil, 0, 0, encodeError(rc, &job)
	}
	e.luma = luma(&job)
	// append does not zero the bytes first, as make would.
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(job.out)), int(job.n))...), g.Width, g.Height, nil
}

// Scale makes the image's planes instead of its JPEG: full range, in Go memory. Quality and Optimize do not matter.
func (e *Encoder) Scale(pic *yuv.Picture, o Options) (*yuv.Picture, error) {
	g, err := e.check(pic, o)
	if err != nil {
		return nil, err
	}
	out := yuv.New(g.Width, g.Height)
	out.FullRange = true
	job := newJob(pic, g, o)
	rc := C.sl_scale(e.c, bytesPtr(pic.Y), bytesPtr(pic.U), bytesPtr(pic.V), &job, bytesPtr(out.Y), bytesPtr(out.U), bytesPtr(out.V))
	if rc != C.SL_OK {
		return nil, encodeError(rc, &job)
	}
	e.luma = luma(&job)
	return out, nil
}

// check says where the picture goes, or why the call must not reach C.
func (e *Encoder) check(pic *yuv.Picture, o Options) (Placement, error) {
	if e.c == nil {
		return Placement{}, ErrClosed
	}
	if err := pic.Validate(); err != nil {
		return Placement{}, fmt.Errorf("jpeg: %w", err)
	}
	if o.Quality < 0 || o.Quality > 100 {
		return Placement{}, fmt.Errorf("jpeg: quality %d, must be 0 to 100", o.Quality)
	}
	g, err := Place(pic.Width, pic.Height, o)
	if err != nil {
		return Placement{}, fmt.Errorf("jpeg: %w", err)
	}
	return g, nil
}

func newJob(pic *yuv.Picture, g Placement, o Options) C.sl_job {
	job := C.sl_job{
		sw: C.int32_t(pic.Width), sh: C.int32_t(pic.Height), ystride: C.int32_t(pic.YStride), cstride: C.int32_t(pic.CStride),
		dw: C.int32_t(g.Width), dh: C.int32_t(g.Height),
		ix: C.int32_t(g.InX), iy: C.int32_t(g.InY), iw: C.int32_t(g.InWidth), ih: C.int32_t(g.InHeight),
		cx: C.double(g.CropX), cy: C.double(g.CropY), cw: C.double(g.CropWidth), ch: C.double(g.CropHeight),
		quality: C.int32_t(max(o.Quality, 1)),
	}
	if pic.FullRange {
		job.full_range = 1
	}
	if o.Optimize {
		job.optimize = 1
	}
	if o.Sharp {
		job.sharp = 1
	}
	if k, same := pic.Matrix.To601(); !same {
		job.matrix = 1
		for i, f := range k {
			job.k[i] = C.int16_t(math.Round(f * (1 << 14)))
		}
	}
	return job
}

func encodeError(rc C.int, job *C.sl_job) error {
	if rc == C.SL_MEMORY {
		return errors.New("jpeg: out of memory")
	}
	return fmt.Errorf("jpeg: libjpeg error %d", int(job.jpeg_code))
}

// luma converts to video range: the black test means the same for every picture.
func luma(job *C.sl_job) Luma {
	l := Luma{Mean: float64(job.mean), Variance: float64(job.variance)}
	if job.full_range != 0 {
		const k = 219.0 / 255
		l.Mean, l.Variance = 16+l.Mean*k, l.Variance*k*k
	}
	return l
}

func bytesPtr(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// Luma is that of the picture encoded or scaled last.
func (e *Encoder) Luma() Luma { return e.luma }

// Bytes is the C memory the encoder holds between calls, libjpeg's own 20 KB or so not counted.
func (e *Encoder) Bytes() int64 {
	if e.c == nil {
		return 0
	}
	return int64(C.sl_bytes(e.c))
}

// Close frees the encoder. Closing again does nothing.
func (e *Encoder) Close() error {
	if e.c != nil {
		C.sl_free(e.c)
		e.c = nil
	}
	return nil
}
