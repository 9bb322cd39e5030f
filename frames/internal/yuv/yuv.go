// Package yuv holds the decoded picture that decoders hand to encoders: planes, strides and what their values mean, no pixels of its own.
package yuv

import "fmt"

// MaxSide bounds both sides of a picture, in pixels. Video is held to less (coded.MaxSide); stills may be this large.
const MaxSide = 16384

// Picture is one decoded I420 picture: luma and two chroma planes of half the size, rounded up.
// The planes may be C memory owned by a decoder: valid until its next Decode or Close.
type Picture struct {
	Width, Height int    // pixels
	Y, U, V       []byte // at least stride*(rows-1)+row bytes long; chroma is (Width+1)/2 × (Height+1)/2
	YStride       int    // bytes from one luma row to the next
	CStride       int    // the same of both chroma planes
	FullRange     bool   // false: video range (luma 16–235, chroma 16–240), the WebRTC default
	Matrix        Matrix // as the stream says
}

// ChromaSize is the size of U and V.
func (p *Picture) ChromaSize() (w, h int) { return (p.Width + 1) / 2, (p.Height + 1) / 2 }

// Validate reports the first reason why the planes cannot be read as the picture they claim to be.
func (p *Picture) Validate() error {
	if p.Width < 1 || p.Height < 1 || p.Width > MaxSide || p.Height > MaxSide {
		return fmt.Errorf("picture of %d×%d: each side must be 1 to %d", p.Width, p.Height, MaxSide)
	}
	cw, ch := p.ChromaSize()
	for _, pl := range [...]struct {
		name         string
		data         []byte
		stride, w, h int
	}{{"Y", p.Y, p.YStride, p.Width, p.Height}, {"U", p.U, p.CStride, cw, ch}, {"V", p.V, p.CStride, cw, ch}} {
		if pl.stride < pl.w {
			return fmt.Errorf("plane %s: stride %d is less than its %d columns", pl.name, pl.stride, pl.w)
		}
		if need := pl.stride*(pl.h-1) + pl.w; len(pl.data) < need {
			return fmt.Errorf("plane %s: %d bytes, needs %d (stride %d, %d rows)", pl.name, len(pl.data), need, pl.stride, pl.h)
		}
	}
	return nil
}

// New makes a picture with planes of its own (Go memory), all zero.
func New(w, h int) *Picture {
	p := &Picture{Width: w, Height: h, YStride: w}
	cw, ch := p.ChromaSize()
	p.CStride = cw
	buf := make([]byte, w*h+2*cw*ch)
	p.Y, p.U, p.V = buf[:w*h:w*h], buf[w*h:w*h+cw*ch:w*h+cw*ch], buf[w*h+cw*ch:]
	return p
}

// Clone copies the picture into Go memory of its own, without padding between rows.
func (p *Picture) Clone() *Picture {
	q := New(p.Width, p.Height)
	q.FullRange, q.Matrix = p.FullRange, p.Matrix
	cw, ch := p.ChromaSize()
	rows := func(dst []byte, src []byte, stride, w, h int) {
		for y := range h {
			copy(dst[y*w:(y+1)*w], src[y*stride:y*stride+w])
		}
	}
	rows(q.Y, p.Y, p.YStride, p.Width, p.Height)
	rows(q.U, p.U, p.CStride, cw, ch)
	rows(q.V, p.V, p.CStride, cw, ch)
	return q
}
