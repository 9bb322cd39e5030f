package stilljpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"

	cjpeg "github.com/pixiv/go-libjpeg/jpeg"
)

// Decode decodes a whole JPEG at its full size; see DecodeScaled.
func Decode(b []byte) (image.Image, Info, error) {
	info, err := Parse(b)
	if err != nil {
		return nil, Info{}, err
	}
	m, err := DecodeScaled(b, info, 8)
	if err != nil {
		return nil, Info{}, err
	}
	return m, info, nil
}

// DecodeScaled decodes what Parse has read to eighths (1 to 8, rounded up) of its size, in the DCT: an *image.YCbCr, *image.Gray or
// *rgb.Image, or an *image.CMYK, which is never scaled. What needs more than MaxMemoryBytes is refused.
func DecodeScaled(b []byte, info Info, eighths int) (image.Image, error) {
	if eighths < 1 || eighths > 8 || eighths < 8 && !info.Scales() {
		return nil, fmt.Errorf("jpeg: scaled to %d/8: must be 1 to 8, and 8 for four components", eighths)
	}
	if need := info.Memory(eighths); need > MaxMemoryBytes {
		return nil, TooLarge("jpeg: decoding needs %d MB, at most %d are allowed", need>>20, MaxMemoryBytes>>20)
	}
	var m image.Image
	var err error
	b = b[:info.Bytes]
	want := image.Pt((info.Width*eighths+7)/8, (info.Height*eighths+7)/8)
	if len(info.Components) == 4 {
		m, err = jpeg.Decode(bytes.NewReader(b))
	} else {
		m, err = decodeLibrary(b, info, want)
	}
	if err != nil {
		return nil, fmt.Errorf("jpeg: %w", err)
	}
	if s := m.Bounds().Size(); s != want {
		return nil, fmt.Errorf("jpeg: decoded to %d×%d, the frame header says %d×%d", s.X, s.Y, want.X, want.Y)
	}
	return m, nil
}

// endless gives the file and then end markers for ever: go-libjpeg never sees an end, a failure or nothing at all, which make it crash or
// spin. A segment skips at most 64 KB of them.
type endless struct {
	b   []byte
	pos int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.pos < len(e.b) {
		n := copy(p, e.b[e.pos:])
		e.pos += n
		return n, nil
	}
	for i := range p {
		p[i] = [2]byte{0xff, 0xd9}[e.pos&1]
		e.pos++
	}
	return len(p), nil
}

// decodeLibrary calls go-libjpeg only after its own reading of the header has agreed with ours: what runs into a C error later does so
// inside the calls that catch it.
func decodeLibrary(b []byte, info Info, want image.Point) (image.Image, error) {
	c, err := cjpeg.DecodeConfig(&endless{b: b})
	if err != nil {
		return nil, err
	}
	if c.Width != info.Width || c.Height != info.Height {
		return nil, fmt.Errorf("libjpeg reads the size as %d×%d, the frame header says %d×%d", c.Width, c.Height, info.Width, info.Height)
	}
	o := &cjpeg.DecoderOptions{DCTMethod: cjpeg.DCTISlow}
	if want.X < info.Width || want.Y < info.Height {
		o.ScaleTarget = image.Rectangle{Max: want} // it takes the first eighths that reach this
	}
	if !info.planar() {
		return cjpeg.DecodeIntoRGB(&endless{b: b}, o)
	}
	return cjpeg.Decode(&endless{b: b}, o)
}

// NewPadded makes a 4:2:0 picture of w×h whose planes reach to the end of its last MCUs, as Encode demands.
func NewPadded(w, h int) *image.YCbCr {
	m := image.NewYCbCr(image.Rect(0, 0, (w+15)&^15, (h+15)&^15), image.YCbCrSubsampleRatio420)
	m.Rect = image.Rect(0, 0, w, h)
	return m
}

// PadEdges repeats the last column and row to the end of the MCUs, so that nothing else shows there.
func PadEdges(m *image.YCbCr) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	pad(m.Y, m.YStride, w, h, 16)
	pad(m.Cb, m.CStride, (w+1)/2, (h+1)/2, 8)
	pad(m.Cr, m.CStride, (w+1)/2, (h+1)/2, 8)
}

func pad(p []byte, stride, w, h, mcu int) {
	right, bottom := (w+mcu-1)/mcu*mcu, (h+mcu-1)/mcu*mcu
	for y := range h {
		row := p[y*stride : y*stride+right]
		for x := w; x < right; x++ {
			row[x] = row[w-1]
		}
	}
	for y := h; y < bottom; y++ {
		copy(p[y*stride:y*stride+right], p[(h-1)*stride:(h-1)*stride+right])
	}
}

// Encode writes a JPEG (4:2:0, full range) of a picture with planes padded as by NewPadded: libjpeg reads whole MCUs. Quality is
// libjpeg's, 1 to 100.
func Encode(m *image.YCbCr, quality int, optimize bool) ([]byte, error) {
	if quality < 1 || quality > 100 {
		return nil, fmt.Errorf("jpeg: quality %d, must be 1 to 100", quality)
	}
	if err := checkPadded(m); err != nil {
		return nil, err
	}
	// A bytes.Buffer never fails: a writer that does makes go-libjpeg spin for ever.
	var out bytes.Buffer
	err := cjpeg.Encode(&out, m, &cjpeg.EncoderOptions{Quality: quality, OptimizeCoding: optimize, DCTMethod: cjpeg.DCTISlow})
	if err != nil {
		return nil, fmt.Errorf("jpeg: %w", err)
	}
	return out.Bytes(), nil
}

func checkPadded(m *image.YCbCr) error {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	if m.SubsampleRatio != image.YCbCrSubsampleRatio420 || m.Rect.Min != (image.Point{}) || w < 1 || h < 1 || w > 65500 || h > 65500 {
		return fmt.Errorf("jpeg: picture %v with %v: must be 4:2:0 from (0,0) on, 1 to 65500 a side", m.Rect, m.SubsampleRatio)
	}
	pw, ph := (w+15)&^15, (h+15)&^15
	if m.YStride < pw || m.CStride < pw/2 || len(m.Y) < m.YStride*(ph-1)+pw ||
		len(m.Cb) < m.CStride*(ph/2-1)+pw/2 || len(m.Cr) < m.CStride*(ph/2-1)+pw/2 {
		return errors.New("jpeg: planes are not padded to whole MCUs of 16×16")
	}
	return nil
}
