package frames

import "sightline/frames/internal/yuv"

// Picture is one decoded I420 picture: planes, strides, range and matrix.
// The planes may be C memory owned by a decoder: valid until its next Decode or Close. Clone copies it.
type Picture = yuv.Picture

// Matrix says which mix of red, green and blue a picture's luma and chroma are.
type Matrix = yuv.Matrix

// The matrices that are told apart. MatrixUnknown, the zero value, is taken as BT.601.
const (
	MatrixUnknown = yuv.MatrixUnknown
	BT601         = yuv.BT601
	BT709         = yuv.BT709
	BT2020        = yuv.BT2020 // non-constant luminance
	SMPTE240      = yuv.SMPTE240
)

// NewPicture makes a w×h picture with planes of its own, all zero (which is not black: black is luma 16 or 0 and chroma 128).
func NewPicture(w, h int) *Picture { return yuv.New(w, h) }
