package load

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of what is measured: durations outside count as the bound itself.
const (
	shortest = time.Microsecond
	longest  = 10 * time.Minute
)

// histogram keeps durations to three digits, in microseconds.
type histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() *histogram {
	return &histogram{hdrhistogram.New(shortest.Microseconds(), longest.Microseconds(), 3)}
}

func (h *histogram) add(d time.Duration) {
	_ = h.h.RecordValue(min(max(d, shortest), longest).Microseconds()) // cannot be out of bounds
}

// Times are milliseconds.
type Times struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
	Bins  []Bin   `json:"histogram,omitempty"`
}

// Bin counts the durations above the one before it and up to its own, in milliseconds.
type Bin struct {
	UpTo  float64 `json:"up_to_ms"`
	Count int64   `json:"count"`
}

// times sums h up.
func (h *histogram) times() Times {
	if h.h.TotalCount() == 0 {
		return Times{}
	}
	at := func(q float64) float64 { return float64(h.h.ValueAtQuantile(q)) / 1000 }
	return Times{
		Count: h.h.TotalCount(), Mean: h.h.Mean() / 1000, P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9),
		Max: float64(h.h.Max()) / 1000, Bins: h.bins(),
	}
}

// perDouble is how many bins there are from one duration to its double.
const perDouble = 6

// bins are the counts by durations that grow by the same factor, from the first that has any to the last.
func (h *histogram) bins() (bins []Bin) {
	counts := map[int]int64{}
	first, last := math.MaxInt, math.MinInt
	for _, bar := range h.h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		i := int(math.Ceil(math.Log2(float64(max(bar.To, 1))) * perDouble))
		counts[i] += bar.Count
		first, last = min(first, i), max(last, i)
	}
	for i := first; i <= last; i++ {
		bins = append(bins, Bin{UpTo: math.Exp2(float64(i)/perDouble) / 1000, Count: counts[i]})
	}
	return bins
}
