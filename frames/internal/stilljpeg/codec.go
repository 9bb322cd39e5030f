package stilljpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"

	cjpeg "github.com/pixiv/go-libjpeg/jpeg"
	"github.com/pixiv/go-libjpeg/rgb"
)

// Decode decodes a whole JPEG: an *image.YCbCr, *image.Gray, *image.CMYK, or *image.RGBA (Adobe RGB).
func Decode(b []byte) (image.Image, Info, error) {
	info, err := Parse(b)
	if err != nil {
		return nil, Info{}, err
	}
	var m image.Image
	if info.goLibjpegTakes() {
		m, err = decodeLibrary(b, info)
	} else {
		m, err = jpeg.Decode(bytes.NewReader(b))
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("jpeg: %w", err)
	}
	if s := m.Bounds().Size(); s.X != info.Width || s.Y != info.Height {
		return nil, Info{}, fmt.Errorf("jpeg: decoded to %d×%d, the frame header says %d×%d", s.X, s.Y, info.Width, info.Height)
	}
	return m, info, nil
}

// decodeLibrary lets go-libjpeg see whole bytes in memory only (a reader that fails makes it crash or spin), after its own reading of
// the header has agreed with ours, and through Decode alone.
func decodeLibrary(b []byte, info Info) (image.Image, error) {
	c, err := cjpeg.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if c.Width != info.Width || c.Height != info.Height {
		return nil, fmt.Errorf("libjpeg reads the size as %d×%d, the frame header says %d×%d", c.Width, c.Height, info.Width, info.Height)
	}
	m, err := cjpeg.Decode(bytes.NewReader(b), &cjpeg.DecoderOptions{DCTMethod: cjpeg.DCTISlow})
	if err != nil {
		return nil, err
	}
	if m, ok := m.(*rgb.Image); ok { // a type that only that library knows
		return opaque(m), nil
	}
	return m, nil
}

func opaque(m *rgb.Image) *image.RGBA {
	out := image.NewRGBA(m.Rect)
	for y := range m.Rect.Dy() {
		d, s := out.Pix[y*out.Stride:], m.Pix[y*m.Stride:]
		for x := range m.Rect.Dx() {
			d[x*4], d[x*4+1], d[x*4+2], d[x*4+3] = s[x*3], s[x*3+1], s[x*3+2], 255
		}
	}
	return out
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
