package jpegfast

import (
	"math"
	"os"
	"testing"

	"sightline/frames/internal/resample"
	"sightline/frames/internal/vpx"
	"sightline/frames/internal/yuv"
	"sightline/frames/ivf"
)

// camera is the 21st picture of a real webcam clip, 640×480.
func camera(t *testing.T) *yuv.Picture {
	t.Helper()
	f, err := os.Open("../../testdata/face480_90.vp8.ivf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, frames, err := ivf.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	d, err := vpx.NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var p yuv.Picture
	for _, fr := range frames[:21] {
		if p, err = d.Decode(fr.Data); err != nil {
			t.Fatal(err)
		}
	}
	q := p.Clone()
	q.FullRange = true // compare scaling alone
	return q
}

// The scaler against Lanczos on a camera picture, by two taps and by four. JPEG at quality 75 is about 38 dB from its source, so that what
// is above is not seen; a shift of half a pixel would be below 35.
func TestScalingIsCloseToLanczos(t *testing.T) {
	e, p := encoder(t), camera(t)
	for _, c := range []struct {
		w, h      int
		dB, sharp float64
	}{{1024, 1024, 46, 53}, {1024, 768, 46, 53}, {640, 480, 90, 90}, {512, 384, 46, 51}, {333, 251, 44, 45}, {320, 240, 44, 44}, {300, 200, 39, 43},
		{160, 120, 41, 41}, {64, 64, 34, 37}, {33, 25, 31, 34}} {
		want := make([]byte, c.w*c.h)
		if err := resample.Scale(want, c.w, c.w, c.h, resample.Source{Pix: p.Y, Stride: p.YStride, Width: p.Width, Height: p.Height, Channels: 1}); err != nil {
			t.Fatal(err)
		}
		for sharp, least := range map[bool]float64{false: c.dB, true: c.sharp} {
			got, err := e.Scale(p, Options{Width: c.w, Height: c.h, Sharp: sharp})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := range want {
				d := float64(want[i]) - float64(got.Y[i])
				sum += d * d
			}
			dB := 10 * math.Log10(255*255*float64(len(want))/max(sum, 1e-3))
			t.Logf("%d×%d sharp %v: %.1f dB", c.w, c.h, sharp, dB)
			if dB < least {
				t.Errorf("%d×%d sharp %v: %.1f dB, want %.0f", c.w, c.h, sharp, dB, least)
			}
		}
	}
}
