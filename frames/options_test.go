package frames

import (
	"image"
	"image/color"
	"strings"
	"testing"
)

func TestEncodeErrorsSayWhatIsAllowed(t *testing.T) {
	m := painted(image.NewRGBA(image.Rect(0, 0, 40, 30)))
	size := func(w, h int) *ResizeOptions { return &ResizeOptions{Width: w, Height: h} }
	for _, c := range []struct {
		frame any
		o     EncodeOptions
		words string
	}{
		{m, EncodeOptions{Format: "WEBP"}, `format "WEBP": must be "JPEG" or "PNG"`},
		{m, EncodeOptions{Quality: 101}, "quality 101: must be 0 to 100"},
		{m, EncodeOptions{Quality: -1}, "quality -1: must be 0 to 100"},
		{m, EncodeOptions{Resize: size(0, 6)}, "width 0: must be 1 to 4096"},
		{m, EncodeOptions{Resize: size(6, 4097)}, "height 4097: must be 1 to 4096"},
		{m, EncodeOptions{Resize: &ResizeOptions{Width: 1, Height: 1, Fit: "fill"}}, `fit "fill": must be "stretch"`},
		{42, EncodeOptions{}, "frame of type int: must be []byte"},
		{nil, EncodeOptions{}, "frame of type <nil>"},
		{[]byte{}, EncodeOptions{}, "frame is empty"},
		{[]byte("hello"), EncodeOptions{}, "must be JPEG, PNG, GIF or WebP"},
		{(*Picture)(nil), EncodeOptions{}, "nil *Picture"},
		{&Picture{Width: 4, Height: 4}, EncodeOptions{}, "plane Y"},
		{image.NewUniform(color.Black), EncodeOptions{}, "allowed are 1 to 16384 a side"},
		{image.NewRGBA(image.Rectangle{}), EncodeOptions{}, "picture of 0×0"},
		{image.NewRGBA(image.Rect(0, 0, 5000, 1)), EncodeOptions{}, "each side must be at most 4096"},
		{&image.YCbCr{Rect: image.Rect(0, 0, 9, 9), YStride: 9, CStride: 9, Y: make([]byte, 80), Cb: make([]byte, 81), Cr: make([]byte, 81)}, EncodeOptions{}, "planes are shorter"},
	} {
		if _, err := Encode(c.frame, &c.o); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%T %+v: %v, want %q", c.frame, c.o, err, c.words)
		}
	}
}

func TestEncodeOptionsEqualByValue(t *testing.T) {
	a, b := DefaultRealtimeEncodeOptions(), DefaultRealtimeEncodeOptions()
	if !a.Equal(b) {
		t.Error("the same options differ")
	}
	b.Format, b.Resize.Fit = "", Stretch // what is left out
	if !a.Equal(b) {
		t.Error("defaults spelled out differ")
	}
	for name, change := range map[string]func(*EncodeOptions){
		"quality": func(o *EncodeOptions) { o.Quality++ }, "width": func(o *EncodeOptions) { o.Resize.Width++ }, "resize": func(o *EncodeOptions) { o.Resize = nil },
		"fit": func(o *EncodeOptions) { o.Resize.Fit = Cover }, "format": func(o *EncodeOptions) { o.Format = PNG }, "optimize": func(o *EncodeOptions) { o.Optimize = true },
	} {
		c := DefaultRealtimeEncodeOptions()
		if change(&c); a.Equal(c) {
			t.Errorf("%s makes no difference", name)
		}
	}
	c := a.clone()
	if c.Resize.Width = 5; a.Resize.Width != 1024 {
		t.Error("a clone shares its size")
	}
}
