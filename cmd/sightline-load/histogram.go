package main

import (
	"math"
	"time"
)

// histogram keeps durations in buckets that grow by 2 %: quantiles are right to that, whatever the number of samples, in
// a fixed 10 KB.
type histogram struct {
	buckets [histogramBuckets]uint64
	n       uint64
	max     time.Duration
}

const (
	histogramBuckets = 1200                  // up to 3 days
	histogramFirst   = 10 * time.Microsecond // everything below is in bucket 0
	histogramGrowth  = 1.02
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > histogramFirst {
		i = min(int(math.Log(float64(d)/float64(histogramFirst))/math.Log(histogramGrowth))+1, histogramBuckets-1)
	}
	h.buckets[i]++
	h.n++
	h.max = max(h.max, d)
}

// quantile is the upper edge of the bucket that holds the q-th share, and never more than the largest sample.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank, seen := uint64(math.Ceil(q*float64(h.n))), uint64(0)
	for i, count := range h.buckets {
		if seen += count; seen >= rank {
			return min(time.Duration(float64(histogramFirst)*math.Pow(histogramGrowth, float64(i))), h.max)
		}
	}
	return h.max
}
