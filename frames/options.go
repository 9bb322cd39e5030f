package frames

import (
	"fmt"

	"sightline/frames/internal/jpegfast"
)

// Format is the file format of an image.
type Format string

// The two formats; an empty Format is JPEG.
const (
	JPEG Format = "JPEG"
	PNG  Format = "PNG"
)

// MIME is the media type of images of this format.
func (f Format) MIME() string {
	if f == PNG {
		return "image/png"
	}
	return "image/jpeg"
}

// Fit says how a picture of another aspect gets into the wanted size. The zero value is Stretch, as in the seeds.
type Fit string

// The ways to fit. Stretch, Cover and Letterbox give exactly the wanted size.
const (
	Stretch   Fit = "stretch"   // each axis scaled on its own
	Contain   Fit = "contain"   // aspect kept inside the box, no bars; no upscaling unless Upscale is set
	Cover     Fit = "cover"     // aspect kept, the centre cropped
	Letterbox Fit = "letterbox" // aspect kept, black bars
)

// MaxSide bounds both sides of an image that is asked for, in pixels.
const MaxSide = jpegfast.MaxSide

// ResizeOptions is the wanted size of an image, in pixels, 1 to MaxSide a side.
type ResizeOptions struct {
	Width, Height int
	Fit           Fit
	Upscale       bool // Contain only: allow an image larger than the picture
}

// EncodeOptions says how a picture becomes an image. Start from DefaultEncodeOptions or DefaultRealtimeEncodeOptions:
// the zero value has Quality 0, the worst.
type EncodeOptions struct {
	Format   Format
	Resize   *ResizeOptions // nil: the picture's own size
	Quality  int            // libjpeg's scale, 0 to 100 (0 is taken as 1); ignored for PNG
	Optimize bool           // JPEG: Huffman tables made for this image: twice the CPU, 8–18 % fewer bytes
	Sharp    bool           // luma of live pictures scaled by four taps, not two: 3 dB better for text and enlarging, 6 % more CPU, 2 % more bytes
}

// DefaultEncodeOptions is what Encode uses when it is given none: JPEG, quality 75, optimised, 320×240. The seeds call that size
// "the legacy default resolution" without giving it; 320×240 is what their predecessor has.
func DefaultEncodeOptions() EncodeOptions {
	return EncodeOptions{Format: JPEG, Resize: &ResizeOptions{Width: 320, Height: 240}, Quality: 75, Optimize: true}
}

// DefaultRealtimeEncodeOptions is what live images use: JPEG, 1024×1024 stretched, quality 75.
func DefaultRealtimeEncodeOptions() EncodeOptions {
	return EncodeOptions{Format: JPEG, Resize: &ResizeOptions{Width: 1024, Height: 1024}, Quality: 75}
}

// Validate names the first field that is out of range, and the range.
func (o EncodeOptions) Validate() error {
	switch o.Format {
	case "", JPEG, PNG:
	default:
		return fmt.Errorf("format %q: must be %q or %q", o.Format, JPEG, PNG)
	}
	if o.Quality < 0 || o.Quality > 100 {
		return fmt.Errorf("quality %d: must be 0 to 100", o.Quality)
	}
	r := o.Resize
	if r == nil {
		return nil
	}
	if r.Width < 1 || r.Width > MaxSide {
		return fmt.Errorf("width %d: must be 1 to %d", r.Width, MaxSide)
	}
	if r.Height < 1 || r.Height > MaxSide {
		return fmt.Errorf("height %d: must be 1 to %d", r.Height, MaxSide)
	}
	if _, ok := r.Fit.fast(); !ok {
		return fmt.Errorf("fit %q: must be %q, %q, %q or %q", r.Fit, Stretch, Contain, Cover, Letterbox)
	}
	return nil
}

// Equal reports whether both give the same image of the same picture.
func (o EncodeOptions) Equal(p EncodeOptions) bool { return o.key() == p.key() }

// optionsKey is EncodeOptions by value: comparable, so that subscribers who want the same image share one encoding.
type optionsKey struct {
	format   Format
	resize   bool
	width    int
	height   int
	fit      jpegfast.Fit
	upscale  bool
	quality  int
	optimize bool
	sharp    bool
}

func (o EncodeOptions) key() optionsKey {
	k := optionsKey{format: o.Format, quality: max(o.Quality, 1), optimize: o.Optimize, sharp: o.Sharp}
	if k.format == "" {
		k.format = JPEG
	}
	if k.format == PNG {
		k.quality, k.optimize = 0, false
	}
	if r := o.Resize; r != nil {
		k.resize, k.width, k.height = true, r.Width, r.Height
		k.fit, _ = r.Fit.fast()
		k.upscale = r.Upscale && r.Fit == Contain
	}
	return k
}

// clone has a Resize of its own: what a caller changes later does not reach a subscription.
func (o EncodeOptions) clone() EncodeOptions {
	if o.Resize != nil {
		r := *o.Resize
		o.Resize = &r
	}
	return o
}

func (f Fit) fast() (jpegfast.Fit, bool) {
	switch f {
	case "", Stretch:
		return jpegfast.Stretch, true
	case Contain:
		return jpegfast.Contain, true
	case Cover:
		return jpegfast.Cover, true
	case Letterbox:
		return jpegfast.Letterbox, true
	}
	return 0, false
}

// fast turns valid options into those of the fast path.
func (o EncodeOptions) fast() jpegfast.Options {
	j := jpegfast.Options{Quality: o.Quality, Optimize: o.Optimize, Sharp: o.Sharp}
	if r := o.Resize; r != nil {
		j.Width, j.Height, j.Upscale = r.Width, r.Height, r.Upscale
		j.Fit, _ = r.Fit.fast()
	}
	return j
}
