package frames

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"

	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/stilljpeg"
)

// Encode makes an image of frame: a JPEG or PNG of the size the options ask for. Nil options are DefaultEncodeOptions.
//
// A frame is encoded bytes ([]byte of a JPEG, PNG, GIF or WebP, at most 50 megapixels and 16384 pixels a side, decoded first), an
// image.Image, a *Picture or an *Image. An EXIF orientation is applied. JPEG has no transparency: it is laid on white; PNG keeps it.
// Pictures are scaled by the live path, everything else by Lanczos as the seeds' own path does.
//
// The error says what is wrong with the frame or the options, and what is allowed.
func Encode(frame any, opts *EncodeOptions) ([]byte, error) {
	o := DefaultEncodeOptions()
	if opts != nil {
		o = *opts
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	switch f := frame.(type) {
	case []byte:
		return encodeBytes(f, o)
	case *Image:
		if f == nil {
			return nil, errors.New("frame is a nil *Image")
		}
		return encodeBytes(f.Data, o)
	case Picture:
		return encodeOnePicture(&f, o)
	case *Picture:
		if f == nil {
			return nil, errors.New("frame is a nil *Picture")
		}
		return encodeOnePicture(f, o)
	case image.Image:
		return encodeStill(f, 1, o)
	}
	return nil, fmt.Errorf("frame of type %T: must be []byte (JPEG, PNG, GIF or WebP), image.Image, *Picture or *Image", frame)
}

// CoerceImageToJPEGBytes returns the bytes of an image: a frame that already is bytes ([]byte or *Image) as it is, the same memory and
// whatever it holds; every other frame as Encode makes it. Nil options are DefaultRealtimeEncodeOptions.
func CoerceImageToJPEGBytes(frame any, opts *EncodeOptions) ([]byte, error) {
	switch f := frame.(type) {
	case []byte:
		return f, nil
	case *Image:
		if f != nil {
			return f.Data, nil
		}
	}
	o := DefaultRealtimeEncodeOptions()
	if opts != nil {
		o = *opts
	}
	return Encode(frame, &o)
}

func encodeBytes(b []byte, o EncodeOptions) ([]byte, error) {
	m, orientation, err := decodeStill(b)
	if err != nil {
		return nil, err
	}
	return encodeStill(m, orientation, o)
}

func encodeOnePicture(p *Picture, o EncodeOptions) ([]byte, error) {
	enc, err := jpegfast.New()
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	e, err := encodePicture(enc, p, o)
	return e.data, err
}

// encodeStill scales, turns and encodes m; orientation is EXIF's, 1 to 8.
func encodeStill(m image.Image, orientation int, o EncodeOptions) ([]byte, error) {
	size := m.Bounds().Size()
	if err := stilljpeg.CheckSize(size.X, size.Y); err != nil {
		return nil, err
	}
	turned := size
	if orientation >= 5 {
		turned.X, turned.Y = size.Y, size.X
	}
	g, err := jpegfast.Place(turned.X, turned.Y, o.fast())
	if err != nil {
		return nil, err
	}
	s := still{g, orientation}
	if o.Format == PNG {
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
	return stilljpeg.Encode(planes, max(o.Quality, 1), o.Optimize)
}
