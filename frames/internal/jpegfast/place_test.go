package jpegfast

import (
	"fmt"
	"math"
	"testing"
)

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		w, h int
		o    Options
		want string // width×height, x,y width×height in it, crop
	}{
		{1280, 720, Options{}, "1280×720 0,0 1280×720 0,0 1280×720"},
		{1280, 720, Options{Width: 1024, Height: 1024}, "1024×1024 0,0 1024×1024 0,0 1280×720"},
		{1280, 720, Options{Width: 1024, Height: 1024, Fit: Contain}, "1024×576 0,0 1024×576 0,0 1280×720"},
		{640, 480, Options{Width: 1024, Height: 1024, Fit: Contain}, "640×480 0,0 640×480 0,0 640×480"},
		{640, 480, Options{Width: 1024, Height: 1024, Fit: Contain, Upscale: true}, "1024×768 0,0 1024×768 0,0 640×480"},
		{1280, 720, Options{Width: 1024, Height: 1024, Fit: Cover}, "1024×1024 0,0 1024×1024 280,0 720×720"},
		{720, 1280, Options{Width: 1024, Height: 512, Fit: Cover}, "1024×512 0,0 1024×512 0,460 720×360"},
		{1280, 720, Options{Width: 1024, Height: 1024, Fit: Letterbox}, "1024×1024 0,224 1024×576 0,0 1280×720"},
		{720, 1280, Options{Width: 1024, Height: 1024, Fit: Letterbox}, "1024×1024 224,0 576×1024 0,0 720×1280"},
		{1280, 720, Options{Width: 1280, Height: 721, Fit: Letterbox}, "1280×721 0,0 1280×721 0,0 1280×720"},
		{4096, 1, Options{Width: 16, Height: 16, Fit: Contain}, "16×1 0,0 16×1 0,0 4096×1"},
		{4096, 1, Options{Width: 16, Height: 16, Fit: Letterbox}, "16×16 0,6 16×2 0,0 4096×1"},
		{1, 4096, Options{Width: 1, Height: 1, Fit: Cover}, "1×1 0,0 1×1 0,2047.5 1×1"},
	} {
		g, err := Place(c.w, c.h, c.o)
		got := fmt.Sprintf("%d×%d %d,%d %d×%d %v,%v %v×%v", g.Width, g.Height, g.InX, g.InY, g.InWidth, g.InHeight, g.CropX, g.CropY, g.CropWidth, g.CropHeight)
		if err != nil || got != c.want {
			t.Errorf("%d×%d %+v:\n got %s (%v)\nwant %s", c.w, c.h, c.o, got, err, c.want)
		}
	}
}

// A picture that was scaled down before goes where the whole one would have gone.
func TestPlaceOfAScaledPicture(t *testing.T) {
	for fit := Stretch; fit <= Letterbox; fit++ {
		o := Options{Width: 641, Height: 480, Fit: fit}
		want, err := Place(2031, 2017, o)
		if err != nil {
			t.Fatal(err)
		}
		o.OfWidth, o.OfHeight = 2031, 2017
		got, err := Place(508, 505, o)
		if err != nil {
			t.Fatal(err)
		}
		if x, y := 508/2031., 505/2017.; math.Abs(got.CropWidth-want.CropWidth*x)+math.Abs(got.CropHeight-want.CropHeight*y)+math.Abs(got.CropX-want.CropX*x) > 1e-9 {
			t.Errorf("%d: %+v of %+v", fit, got, want)
		}
		got.CropX, got.CropY, got.CropWidth, got.CropHeight = want.CropX, want.CropY, want.CropWidth, want.CropHeight
		if got != want {
			t.Errorf("%d: %+v, want %+v", fit, got, want)
		}
	}
}
