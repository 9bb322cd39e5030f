package sound

import (
	"math"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	sine := func(peak float64) []int16 {
		pcm := make([]int16, 4800)
		for i := range pcm {
			pcm[i] = int16(peak * math.Sin(2*math.Pi*float64(i)/48))
		}
		return pcm
	}
	square := make([]int16, 4800)
	for i := range square {
		square[i] = math.MaxInt16
		if i%48 < 24 {
			square[i] = math.MinInt16
		}
	}
	for name, c := range map[string]struct {
		pcm       []int16
		rms, peak float64
	}{
		"silence": {make([]int16, 4800), Floor, Floor},
		"square":  {square, 0, 0},
		"sine":    {sine(32767), -3.01, 0},
		"soft":    {sine(327.67), -43.01, -40},
	} {
		var m Meter
		var got Level
		var pieces int
		for i := 0; i < len(c.pcm); i += 960 {
			if l, began, ok := m.Add(48000, c.pcm[i:i+960], dawn.Add(time.Duration(i)*time.Second/48000)); ok {
				got, pieces = l, pieces+1
				if !began.Equal(dawn) {
					t.Errorf("%s: began %v", name, began)
				}
			}
		}
		if pieces != 1 || math.Abs(got.RMS-c.rms) > 0.05 || math.Abs(got.Peak-c.peak) > 0.05 {
			t.Errorf("%s: %d pieces, %+v, want %v and %v", name, pieces, got, c.rms, c.peak)
		}
	}
}
