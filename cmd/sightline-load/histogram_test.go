package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreRightToTwoPercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	samples := make([]time.Duration, 20000)
	for i := range samples {
		samples[i] = time.Duration(random.ExpFloat64() * float64(12*time.Millisecond))
		h.add(samples[i])
	}
	slices.Sort(samples)
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		want := samples[min(int(q*float64(len(samples))), len(samples)-1)]
		if got := h.quantile(q); float64(got) < 0.98*float64(want) || float64(got) > 1.021*float64(want)+float64(histogramFirst) {
			t.Errorf("quantile %g is %v, want %v", q, got, want)
		}
	}
}

func TestHistogramTakesAnything(t *testing.T) {
	var h histogram
	if h.quantile(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	for _, d := range []time.Duration{-time.Second, 0, 1, 1000 * time.Hour} {
		h.add(d)
	}
	if h.n != 4 || h.max != 1000*time.Hour || h.quantile(0.5) > histogramFirst {
		t.Errorf("n %d, max %v, p50 %v", h.n, h.max, h.quantile(0.5))
	}
}
