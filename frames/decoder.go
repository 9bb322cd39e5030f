package frames

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"

	"sightline/frames/internal/dav1d"
	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/openh264"
	"sightline/frames/internal/vpx"
)

// decoder is what the worker asks of every codec's decoder; internal/decodertest says what it must do. Its errors are internal/coded's. One goroutine at a time; the picture's planes are its memory until the next Decode or Close.
type decoder interface {
	Decode(frame []byte) (Picture, error)
	Bytes() int64 // C memory held
	Close() error
}

func newDecoder(c Codec) (decoder, error) {
	switch c {
	case CodecVP8:
		return vpx.NewVP8()
	case CodecVP9:
		return vpx.NewVP9()
	case CodecH264:
		return openh264.New()
	case CodecAV1:
		return dav1d.New()
	}
	return nil, fmt.Errorf("codec %q has no decoder", c)
}

var errPanic = errors.New("panic in a decoder or encoder")

// safely turns a panic of f into an error: one damaged frame does not end a call.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	return f()
}

// encoded is what encodePicture makes.
type encoded struct {
	data          []byte
	width, height int
	black         bool
}

// encodePicture makes one image of a decoded picture.
func encodePicture(enc *jpegfast.Encoder, pic *Picture, o EncodeOptions) (e encoded, err error) {
	if err := o.Validate(); err != nil {
		return e, err
	}
	if o.Format != PNG {
		e.data, e.width, e.height, err = enc.Encode(pic, o.fast())
		e.black = enc.Luma().Black()
		return e, err
	}
	full, err := enc.Scale(pic, o.fast())
	if err != nil {
		return e, err
	}
	img := &image.YCbCr{
		Y: full.Y, Cb: full.U, Cr: full.V, YStride: full.YStride, CStride: full.CStride,
		SubsampleRatio: image.YCbCrSubsampleRatio420, Rect: image.Rect(0, 0, full.Width, full.Height),
	}
	rgba := image.NewRGBA(img.Rect) // draw and png have fast paths for it
	draw.Draw(rgba, rgba.Rect, img, image.Point{}, draw.Src)
	var buf bytes.Buffer
	fast := png.Encoder{CompressionLevel: png.BestSpeed} // a fifth more bytes in a third of the time: it is a live picture
	if err := fast.Encode(&buf, rgba); err != nil {
		return e, err
	}
	return encoded{buf.Bytes(), full.Width, full.Height, enc.Luma().Black()}, nil
}
