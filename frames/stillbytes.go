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

// bytesStill reads the header of bytes of any supported kind, and nothing else; of an animation the first picture is the still.
func bytesStill(b []byte) (stillSource, error) {
	if len(b) == 0 {
		return stillSource{}, errors.New("frame is empty: 0 bytes")
	}
	if len(b) > MaxStillBytes {
		return stillSource{}, stilljpeg.TooLarge("frame of %d bytes: at most %d are allowed", len(b), MaxStillBytes)
	}
	kind := ImageKind(b)
	switch kind {
	case "image/jpeg":
		return jpegStill(b)
	case "image/png":
		return otherStill(b, "png", png.DecodeConfig, png.Decode)
	case "image/gif":
		return otherStill(b, "gif", gif.DecodeConfig, gif.Decode)
	case "image/webp":
		return otherStill(b, "webp", webp.DecodeConfig, func(r io.Reader) (image.Image, error) {
			m, err := webp.Decode(r)
			if err == nil {
				toFullRange(m)
			}
			return m, err
		})
	}
	return stillSource{}, errors.New("frame bytes are not an image of a supported kind: must be JPEG, PNG, GIF or WebP")
}

func jpegStill(b []byte) (stillSource, error) {
	info, err := stilljpeg.Parse(b)
	if err != nil {
		return stillSource{}, err
	}
	return stillSource{
		size: image.Pt(info.Width, info.Height), orientation: info.Orientation, scales: info.Scales() && info.Width*info.Height >= largeStill,
		bytes:  info.Memory,
		decode: func(eighths int) (image.Image, error) { return stilljpeg.DecodeScaled(b, info, eighths) },
	}, nil
}

// otherStill is one of the standard library's and x/image's kinds. Of the bytes a pixel takes while it is decoded some are not the
// picture's: a PNG in passes has each beside it, a WebP its transparency and its transformed forms.
func otherStill(b []byte, kind string, config func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error)) (stillSource, error) {
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return stillSource{}, fmt.Errorf("%s: %w", kind, err)
	}
	if err := stilljpeg.CheckSize(c.Width, c.Height); err != nil {
		return stillSource{}, fmt.Errorf("%s: %w", kind, err)
	}
	each := int64(4) // in halves of a byte
	switch c.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		each = 16
	case color.RGBAModel, color.NRGBAModel:
		each = 8
	}
	switch {
	case kind == "webp":
		each = 20 // more than it takes: 25 megapixels, of which 38 bytes may consist, take the decoder a second
	case kind == "png" && len(b) > 28 && b[28] != 0:
		each = each * 3 / 2
	}
	need := each * int64(c.Width) * int64(c.Height) / 2
	return stillSource{
		size: image.Pt(c.Width, c.Height), orientation: 1,
		bytes: func(int) int64 { return need },
		decode: func(int) (image.Image, error) {
			m, err := decode(bytes.NewReader(b))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			if s := m.Bounds().Size(); s.X > c.Width || s.Y > c.Height {
				return nil, fmt.Errorf("%s: decoded to %d×%d, the header says %d×%d", kind, s.X, s.Y, c.Width, c.Height)
			}
			return m, nil
		},
	}, nil
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
