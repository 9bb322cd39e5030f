package frames

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"

	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/stilljpeg"
)

// ErrStillTooLarge is what stills are refused with (errors.Is) whose pixels, bytes, scans or working memory are out of bounds. Nothing of
// them has been decoded then.
var ErrStillTooLarge = stilljpeg.ErrTooLarge

// largeStill is from how many pixels on a JPEG is decoded to eighths of its size and scaled by the live path: below, the seeds' own filter
// costs little.
const largeStill = 4_000_000

// liveStill is from how many pixels on, as decoded, it goes by the live path: where there are fewer, and where it is enlarged, the seeds'
// filter is better.
const liveStill = 1_000_000

// mostEighths is the largest part that a JPEG is scaled to in the DCT. Above, chroma comes as large as luma and libjpeg has no SIMD: all of
// it takes less memory and no more time.
const mostEighths = 4

// stillSource is a still of which only the header has been read.
type stillSource struct {
	size        image.Point // as stored, before it is turned
	orientation int         // EXIF's, 1 to 8
	scales      bool        // decode may be asked for 1 to 7 eighths
	bytes       func(eighths int) int64
	decode      func(eighths int) (image.Image, error)
	picture     *Picture        // instead of decode: goes the way of live pictures as it is
	fill        func() *Picture // makes picture, where samples have to be moved for it
	input       int             // bytes that the caller holds meanwhile, of encoded ones
}

// stillPlan is a still and what becomes of it, before any of it is decoded.
type stillPlan struct {
	stillSource
	options EncodeOptions
	fast    jpegfast.Options // the same for what decode gives
	shrinks bool             // no side of the image has more pixels than its part of the still
	eighths int
	need    int64 // bytes of working memory at most
}

// planStill looks at a frame's kind and header and at the options, and refuses what it may.
func planStill(frame any, o EncodeOptions) (stillPlan, error) {
	if err := o.Validate(); err != nil {
		return stillPlan{}, err
	}
	src, err := sourceOf(frame)
	if err != nil {
		return stillPlan{}, err
	}
	if err := stilljpeg.CheckSize(src.size.X, src.size.Y); err != nil {
		return stillPlan{}, err
	}
	turned := src.size
	if src.orientation >= 5 {
		turned.X, turned.Y = src.size.Y, src.size.X
	}
	g, err := jpegfast.Place(turned.X, turned.Y, o.fast())
	if err != nil {
		return stillPlan{}, err
	}
	p := stillPlan{stillSource: src, options: o, fast: o.fast(), eighths: 8}
	p.fast.OfWidth, p.fast.OfHeight, p.fast.Sharp = turned.X, turned.Y, true
	p.shrinks = g.InWidth <= int(g.CropWidth) && g.InHeight <= int(g.CropHeight)
	if src.scales {
		p.eighths = eighthsFor(g)
	}
	image := int64(g.Width+16) * int64(g.Height+16) * 3 // planes, JPEG
	if p.decode != nil {
		image += int64(g.InWidth)*int64(g.InHeight)*4 + int64(g.Width)*int64(g.Height)*4
	}
	p.need = image
	if src.bytes != nil {
		p.need += src.bytes(p.eighths)
	}
	if p.need > stilljpeg.MaxMemoryBytes {
		return stillPlan{}, stilljpeg.TooLarge("picture of %d×%d to an image of %d×%d: needs %d MB of memory, at most %d are allowed",
			src.size.X, src.size.Y, g.Width, g.Height, p.need>>20, stilljpeg.MaxMemoryBytes>>20)
	}
	return p, nil
}

// eighthsFor is the least part of the picture that still has a pixel for each of the image's, and some more where that is few: to keep but
// one or four of a block's 64 frequencies is a crude filter.
func eighthsFor(g jpegfast.Placement) int {
	want := 8 * max(float64(g.InWidth)/g.CropWidth, float64(g.InHeight)/g.CropHeight)
	n := int(math.Ceil(want))
	if want <= 1 {
		n = 2
	} else if want <= 2 {
		n = 3
	}
	if n <= mostEighths {
		return n
	}
	return 8
}

func sourceOf(frame any) (stillSource, error) {
	switch f := frame.(type) {
	case []byte:
		src, err := bytesStill(f)
		src.input = len(f)
		return src, err
	case *Image:
		if f == nil {
			return stillSource{}, errors.New("frame is a nil *Image")
		}
		src, err := bytesStill(f.Data)
		src.input = len(f.Data)
		return src, err
	case Picture:
		return pictureStill(&f)
	case *Picture:
		if f == nil {
			return stillSource{}, errors.New("frame is a nil *Picture")
		}
		return pictureStill(f)
	case Raw:
		return f.still()
	case *Raw:
		if f == nil {
			return stillSource{}, errors.New("frame is a nil *Raw")
		}
		return f.still()
	case image.Image:
		b := f.Bounds()
		return stillSource{size: b.Size(), orientation: 1, decode: func(int) (image.Image, error) { return f, nil }}, nil
	}
	return stillSource{}, fmt.Errorf("frame of type %T: must be []byte (JPEG, PNG, GIF or WebP), image.Image, *Raw, *Picture or *Image", frame)
}

func pictureStill(p *Picture) (stillSource, error) {
	if err := p.Validate(); err != nil {
		return stillSource{}, err
	}
	return stillSource{size: image.Pt(p.Width, p.Height), orientation: 1, picture: p}, nil
}

// make decodes, scales, turns and encodes.
func (p *stillPlan) make() (out []byte, err error) {
	err = safely(func() (err error) { // images may be anybody's code
		if p.fill != nil {
			p.picture = p.fill()
		}
		if p.picture != nil {
			return withEncoder(func(enc *jpegfast.Encoder) error {
				e, err := encodePicture(enc, p.picture, p.options)
				out = e.data
				return err
			})
		}
		m, err := p.decode(p.eighths)
		if err != nil {
			return err
		}
		if size := m.Bounds().Size(); p.options.Format != PNG && p.scales && p.shrinks && size.X*size.Y >= liveStill {
			pic, err := turnedPicture(m, p.orientation)
			if err != nil {
				return err
			}
			if pic != nil {
				return withEncoder(func(enc *jpegfast.Encoder) (err error) {
					out, _, _, err = enc.Encode(pic, p.fast)
					return err
				})
			}
		}
		out, err = p.encode(m)
		return err
	})
	return out, err
}

// withEncoder lends an encoder of the live path.
func withEncoder(f func(*jpegfast.Encoder) error) error {
	enc, err := jpegfast.New()
	if err != nil {
		return err
	}
	defer enc.Close()
	return f(enc)
}

// encode scales, turns and encodes what decode gave.
func (p *stillPlan) encode(m image.Image) ([]byte, error) {
	turned := m.Bounds().Size()
	if p.orientation >= 5 {
		turned.X, turned.Y = turned.Y, turned.X
	}
	g, err := jpegfast.Place(turned.X, turned.Y, p.fast)
	if err != nil {
		return nil, err
	}
	s := still{g, p.orientation}
	if p.options.Format == PNG {
		rgba, err := s.rgba(m)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := png.Encode(&out, rgba); err != nil {
			return nil, fmt.Errorf("png: %w", err)
		}
		return out.Bytes(), nil
	}
	planes, err := s.ycbcr(m)
	if err != nil {
		return nil, err
	}
	return stilljpeg.Encode(planes, max(p.options.Quality, 1), p.options.Optimize)
}
