package jpegfast

import (
	"fmt"
	"math"
)

// MaxSide bounds both sides of an image, in pixels.
const MaxSide = 4096

// Fit says how a picture of another aspect gets into the wanted size.
type Fit uint8

// The ways to fit. Stretch, Cover and Letterbox give exactly the wanted size.
const (
	Stretch   Fit = iota // each axis scaled on its own
	Contain              // aspect kept inside the box, no bars; no upscaling unless Options.Upscale
	Cover                // aspect kept, the centre cropped
	Letterbox            // aspect kept, black bars
)

// Placement is where a picture goes: which part of it (crop, in its pixels) fills which part of the image (in, in the image's).
type Placement struct {
	Width, Height                       int
	InX, InY, InWidth, InHeight         int // InX and InY are even
	CropX, CropY, CropWidth, CropHeight float64
}

// Place says where a picture of w×h goes by the options.
func Place(w, h int, o Options) (Placement, error) {
	if o.OfWidth > 0 && o.OfHeight > 0 {
		fx, fy := float64(w)/float64(o.OfWidth), float64(h)/float64(o.OfHeight)
		w, h, o.OfWidth, o.OfHeight = o.OfWidth, o.OfHeight, 0, 0
		g, err := Place(w, h, o)
		g.CropX, g.CropWidth, g.CropY, g.CropHeight = g.CropX*fx, g.CropWidth*fx, g.CropY*fy, g.CropHeight*fy
		return g, err
	}
	if o.Width == 0 && o.Height == 0 {
		o.Width, o.Height, o.Fit = w, h, Stretch
		if w > MaxSide || h > MaxSide {
			return Placement{}, fmt.Errorf("picture of %d×%d without a resize: each side must be at most %d", w, h, MaxSide)
		}
	}
	if o.Width < 1 || o.Width > MaxSide || o.Height < 1 || o.Height > MaxSide {
		return Placement{}, fmt.Errorf("image of %d×%d: each side must be 1 to %d", o.Width, o.Height, MaxSide)
	}
	g := Placement{Width: o.Width, Height: o.Height, CropWidth: float64(w), CropHeight: float64(h)}
	sx, sy := float64(o.Width)/float64(w), float64(o.Height)/float64(h)
	switch o.Fit {
	case Stretch:
	case Contain:
		s := min(sx, sy)
		if !o.Upscale {
			s = min(s, 1)
		}
		g.Width, g.Height = scaled(w, s, o.Width), scaled(h, s, o.Height)
	case Cover:
		s := max(sx, sy)
		g.CropWidth, g.CropHeight = min(float64(o.Width)/s, float64(w)), min(float64(o.Height)/s, float64(h))
		g.CropX, g.CropY = (float64(w)-g.CropWidth)/2, (float64(h)-g.CropHeight)/2
	case Letterbox:
		s := min(sx, sy)
		g.InX, g.InWidth = bar(o.Width, scaled(w, s, o.Width))
		g.InY, g.InHeight = bar(o.Height, scaled(h, s, o.Height))
		return g, nil
	default:
		return Placement{}, fmt.Errorf("fit %d is not known", o.Fit)
	}
	g.InWidth, g.InHeight = g.Width, g.Height
	return g, nil
}

// scaled is n·s rounded, 1 to limit.
func scaled(n int, s float64, limit int) int {
	return min(max(int(math.Round(float64(n)*s)), 1), limit)
}

// bar centres n of total on even pixels: a bar that began between two would share a chroma sample with the picture.
func bar(total, n int) (start, length int) {
	if total-n < 2 {
		return 0, total
	}
	n = max(n&^1, 2)
	return (total - n) / 2 &^ 1, n
}
