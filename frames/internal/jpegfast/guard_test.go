package jpegfast

import (
	"bytes"
	"image/jpeg"
	"math/rand/v2"
	"testing"

	"sightline/frames/internal/guard"
	"sightline/frames/internal/yuv"
)

// fenced is a noise picture whose planes begin or end at a forbidden page, without a byte to spare; rows may have padding between them,
// though not behind the last one.
func fenced(t testing.TB, w, h, ypad, cpad int, rnd *rand.Rand) *yuv.Picture {
	cw, ch := (w+1)/2, (h+1)/2
	p := &yuv.Picture{Width: w, Height: h, YStride: w + ypad, CStride: cw + cpad}
	c := p.CStride*(ch-1) + cw
	p.Y, p.U, p.V = guard.Tail(t, p.YStride*(h-1)+w), guard.Tail(t, c), guard.Head(t, c)
	scatter(rnd, p.Y, p.U, p.V)
	return p
}

// Every source size from 1×1 to 70×70 takes part, with a wanted size and fit drawn for each; so do the sizes that crashed others.
func TestNoReadOutsideThePlanes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type size struct{ w, h int }
	sizes := []size{{640, 360}, {1920, 1080}, {641, 481}, {1280, 720}, {16, 16}, {4096, 1}, {1, 4096}, {4095, 3}}
	for w := 1; w <= 70; w++ {
		for h := 1; h <= 70; h++ {
			sizes = append(sizes, size{w, h})
		}
	}
	all := kinds(t)
	for _, s := range sizes {
		t.Run("", func(t *testing.T) { // frees the fenced planes as it goes
			p := fenced(t, s.w, s.h, rnd.IntN(2)*rnd.IntN(20), rnd.IntN(2)*rnd.IntN(20), rnd)
			if rnd.IntN(3) == 0 {
				p.Matrix = yuv.BT709
			}
			for _, e := range all {
				o := Options{Width: 1 + rnd.IntN(150), Height: 1 + rnd.IntN(150), Fit: Fit(rnd.IntN(4)), Upscale: true, Quality: 75, Optimize: rnd.IntN(4) == 0, Sharp: rnd.IntN(2) == 0}
				encodeOK(t, e, p, o)
				encodeOK(t, e, p, Options{Quality: 75})
			}
		})
	}
}

func encodeOK(t *testing.T, e *Encoder, p *yuv.Picture, o Options) {
	t.Helper()
	b, w, h, err := e.Encode(p, o)
	if err != nil {
		t.Fatalf("%d×%d %+v: %v", p.Width, p.Height, o, err)
	}
	c, err := jpeg.DecodeConfig(bytes.NewReader(b))
	if err != nil || c.Width != w || c.Height != h {
		t.Fatalf("%d×%d %+v: JPEG of %d×%d, Encode said %d×%d (%v)", p.Width, p.Height, o, c.Width, c.Height, w, h, err)
	}
	if o.Width != 0 && o.Fit != Contain && (w != o.Width || h != o.Height) {
		t.Fatalf("%d×%d %+v: got %d×%d", p.Width, p.Height, o, w, h)
	}
}
