package frames

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"io"

	"golang.org/x/image/webp"

	"sightline/frames/internal/stilljpeg"
)

// MaxStillBytes bounds encoded bytes that Encode decodes.
const MaxStillBytes = 64 << 20

// ImageKind tells the media type of encoded bytes by their first ones: image/jpeg, image/png, image/gif, image/webp, or "".
func ImageKind(b []byte) string {
	switch {
	case len(b) >= 3 && b[0] == 0xff && b[1] == 0xd8 && b[2] == 0xff:
		return "image/jpeg"
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return "image/gif"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// decodeStill decodes bytes of any supported kind, after their header has been checked; of an animation the first picture.
func decodeStill(b []byte) (m image.Image, orientation int, err error) {
	if len(b) == 0 {
		return nil, 0, errors.New("frame is empty: 0 bytes")
	}
	if len(b) > MaxStillBytes {
		return nil, 0, fmt.Errorf("frame of %d bytes: at most %d are allowed", len(b), MaxStillBytes)
	}
	kind := ImageKind(b)
	switch kind {
	case "image/jpeg":
		m, info, err := stilljpeg.Decode(b)
		if err != nil {
			return nil, 0, err
		}
		return m, info.Orientation, nil
	case "image/png":
		m, err = guarded(b, png.DecodeConfig, png.Decode)
	case "image/gif":
		m, err = guarded(b, gif.DecodeConfig, gif.Decode)
	case "image/webp":
		if m, err = guarded(b, webp.DecodeConfig, webp.Decode); err == nil {
			toFullRange(m)
		}
	default:
		return nil, 0, errors.New("frame bytes are not an image of a supported kind: must be JPEG, PNG, GIF or WebP")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", kind[len("image/"):], err)
	}
	return m, 1, nil
}

// guarded decodes only what the header says to be within bounds, in pixels and in memory.
func guarded(b []byte, config func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error)) (image.Image, error) {
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if err := stilljpeg.CheckSize(c.Width, c.Height); err != nil {
		return nil, err
	}
	each := 4
	if c.ColorModel == color.RGBA64Model || c.ColorModel == color.NRGBA64Model {
		each = 8
	}
	if need := each * c.Width * c.Height; need > stilljpeg.MaxMemoryBytes {
		return nil, fmt.Errorf("decoding needs %d MB, at most %d are allowed", need>>20, stilljpeg.MaxMemoryBytes>>20)
	}
	m, err := decode(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if s := m.Bounds().Size(); s.X > c.Width || s.Y > c.Height {
		return nil, fmt.Errorf("decoded to %d×%d, the header says %d×%d", s.X, s.Y, c.Width, c.Height)
	}
	return m, nil
}

// toFullRange mends what the WebP decoder leaves: a lossy WebP is VP8, its planes are video range, an image.YCbCr means full range.
func toFullRange(m image.Image) {
	var p *image.YCbCr
	switch m := m.(type) {
	case *image.YCbCr:
		p = m
	case *image.NYCbCrA:
		p = &m.YCbCr
	default:
		return
	}
	var luma, chroma [256]byte
	for i := range 256 {
		luma[i] = byte(min(max((i-16)*255+109, 0)/219, 255))
		chroma[i] = byte(min(max(((i-128)*255+128*224+112)/224, 0), 255))
	}
	for i, v := range p.Y {
		p.Y[i] = luma[v]
	}
	for _, c := range [][]byte{p.Cb, p.Cr} {
		for i, v := range c {
			c[i] = chroma[v]
		}
	}
}
