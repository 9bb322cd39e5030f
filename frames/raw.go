package frames

import (
	"fmt"
	"image"

	"sightline/frames/internal/stilljpeg"
)

// RawFormat says how the samples of a Raw frame lie.
type RawFormat string

// The formats of raw frames, 8 bits a sample.
const (
	RawI420 RawFormat = "I420" // planes Y, U and V; chroma of half the size, rounded up
	RawNV12 RawFormat = "NV12" // planes Y and U, V alternating
	RawRGBA RawFormat = "RGBA" // one plane of R, G, B, A; colours not multiplied by their alpha
)

// Raw is a frame of samples that nobody has encoded, as a camera or another decoder has it. Encode reads it and keeps nothing of it.
type Raw struct {
	Format        RawFormat
	Width, Height int       // pixels, 1 to 16384 a side, at most 50 megapixels
	Planes        [3][]byte // each at least stride*(rows-1)+row bytes; those that the format has not are nil
	Strides       [3]int    // bytes from one row to the next; 0: as long as a row
	FullRange     bool      // I420, NV12: luma is 0 to 255; false: 16 to 235
	Matrix        Matrix    // I420, NV12
}

// Validate reports the first reason why the planes cannot be read as the frame they claim to be.
func (r *Raw) Validate() error {
	_, err := r.strides()
	return err
}

// strides checks everything and gives the strides of the planes there are.
func (r *Raw) strides() (strides [3]int, err error) {
	if err := stilljpeg.CheckSize(r.Width, r.Height); err != nil {
		return strides, fmt.Errorf("raw frame: %w", err)
	}
	if r.Matrix > SMPTE240 {
		return strides, fmt.Errorf("raw frame: matrix %d is not known", r.Matrix)
	}
	cw, ch := (r.Width+1)/2, (r.Height+1)/2
	var rows [3]image.Point // bytes of a row, rows
	switch r.Format {
	case RawI420:
		rows = [3]image.Point{{r.Width, r.Height}, {cw, ch}, {cw, ch}}
	case RawNV12:
		rows = [3]image.Point{{r.Width, r.Height}, {cw * 2, ch}}
	case RawRGBA:
		rows = [3]image.Point{{r.Width * 4, r.Height}}
	default:
		return strides, fmt.Errorf("raw frame: format %q: must be %q, %q or %q", r.Format, RawI420, RawNV12, RawRGBA)
	}
	for i, want := range rows {
		strides[i] = r.Strides[i]
		switch {
		case want.Y == 0 && (r.Planes[i] != nil || strides[i] != 0):
			return strides, fmt.Errorf("raw frame: plane %d: %s has none", i, r.Format)
		case want.Y == 0:
			continue
		case strides[i] == 0:
			strides[i] = want.X
		case strides[i] < want.X || strides[i] > maxStride:
			return strides, fmt.Errorf("raw frame: plane %d: stride %d: must be %d to %d", i, strides[i], want.X, maxStride)
		}
		if need := strides[i]*(want.Y-1) + want.X; len(r.Planes[i]) < need {
			return strides, fmt.Errorf("raw frame: plane %d: %d bytes, needs %d (stride %d, %d rows)", i, len(r.Planes[i]), need, strides[i], want.Y)
		}
	}
	return strides, nil
}

// maxStride keeps products of strides and rows far from overflow.
const maxStride = 1 << 20

func (r *Raw) still() (stillSource, error) {
	s, err := r.strides()
	if err != nil {
		return stillSource{}, err
	}
	src := stillSource{size: image.Pt(r.Width, r.Height), orientation: 1}
	p := &Picture{Width: r.Width, Height: r.Height, Y: r.Planes[0], YStride: s[0], FullRange: r.FullRange, Matrix: r.Matrix}
	switch {
	case r.Format == RawRGBA:
		m := &image.NRGBA{Pix: r.Planes[0], Stride: s[0], Rect: image.Rect(0, 0, r.Width, r.Height)}
		src.decode = func(int) (image.Image, error) { return m, nil }
		return src, nil
	case r.Format == RawI420 && s[1] == s[2]:
		p.U, p.V, p.CStride = r.Planes[1], r.Planes[2], s[1]
		src.picture = p
		return src, nil
	}
	cw, ch := p.ChromaSize()
	src.bytes = func(int) int64 { return 2 * int64(cw) * int64(ch) }
	src.fill = func() *Picture {
		p.CStride, p.U, p.V = cw, make([]byte, cw*ch), make([]byte, cw*ch)
		for y := range ch {
			u, v := p.U[y*cw:][:cw], p.V[y*cw:][:cw]
			if r.Format == RawI420 {
				copy(u, r.Planes[1][y*s[1]:])
				copy(v, r.Planes[2][y*s[2]:])
				continue
			}
			for x, uv := 0, r.Planes[1][y*s[1]:][:2*cw]; x < cw; x, uv = x+1, uv[2:] {
				u[x], v[x] = uv[0], uv[1]
			}
		}
		return p
	}
	return src, nil
}
