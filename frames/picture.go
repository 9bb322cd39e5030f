package frames

import "sightline/frames/internal/yuv"

// Picture is one decoded I420 picture: planes, strides and range.
// The planes may be C memory owned by a decoder: valid until its next Decode or Close. Clone copies it.
type Picture = yuv.Picture

// NewPicture makes a w×h picture with planes of its own, all zero (which is not black: black is luma 16 or 0 and chroma 128).
func NewPicture(w, h int) *Picture { return yuv.New(w, h) }
