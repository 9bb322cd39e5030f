package main

import (
	"fmt"
	"math"
	"time"
)

// blocks is into how many parts of equal time the samples are averaged: neighbours in time are alike (a garbage collector's saw),
// the parts hardly are.
const blocks = 12

// trend is a straight line through a series, and how sure it is.
type trend struct {
	from, to      time.Duration
	mean          float64
	growth, error float64 // from the beginning to the end of the time looked at, and its standard error
	first         float64 // of the line, at from
}

// fit draws the line through the means of the blocks by least squares. Not ok: too few samples.
func fit(at []time.Duration, values []float64) (t trend, ok bool) {
	if len(at) < 3*blocks {
		return t, false
	}
	t.from, t.to = at[0], at[len(at)-1]
	span := float64(t.to - t.from)
	var sums, counts [blocks]float64
	for i, v := range values {
		b := min(blocks-1, int(blocks*float64(at[i]-t.from)/span))
		sums[b] += v
		counts[b]++
	}
	var x, y []float64 // x in parts of the whole time
	for b := range blocks {
		if counts[b] > 0 {
			x, y = append(x, (float64(b)+.5)/blocks), append(y, sums[b]/counts[b])
		}
	}
	if len(x) < blocks/2 {
		return t, false
	}
	var mx, my, sxx, sxy float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(x))
	}
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	t.mean, t.growth = my, sxy/sxx
	t.first = my - mx*t.growth
	rest := 0.0
	for i := range x {
		d := y[i] - t.first - t.growth*x[i]
		rest += d * d
	}
	t.error = math.Sqrt(rest / float64(len(x)-2) / sxx)
	return t, true
}

// grows: more than chance (three standard errors), and more than is worth a word.
func (t trend) grows(floor float64) bool { return t.growth > 3*t.error && t.growth > floor }

// series is one figure over time.
type series struct {
	name, unit string
	of         func(sample) float64
	floor      float64 // growth over the whole run that is no leak: caches, the allocator's habits
}

const mib = 1 << 20

var all = []series{
	{"Resident memory", "MB", func(s sample) float64 { return float64(s.Resident) / mib }, 4},
	{"Go heap in use", "MB", func(s sample) float64 { return s.heap / mib }, 2},
	{"C memory", "MB", func(s sample) float64 { return s.c / mib }, 2},
	{"Goroutines", "", func(s sample) float64 { return float64(s.Goroutines) }, 10},
	{"File descriptors", "", func(s sample) float64 { return float64(s.Files) }, 5},
}

// judged is a series with its line.
type judged struct {
	series
	trend
	known bool
}

func (j judged) String() string {
	if !j.known {
		return fmt.Sprintf("%-18s too few samples to tell", j.name)
	}
	verdict := "flat"
	if j.grows(j.floor) {
		verdict = "GROWS"
	}
	return fmt.Sprintf("%-18s %9.2f %-2s on average, %+.2f ± %.2f over %v: %s", j.name, j.mean, j.unit, j.growth, j.error, (j.to - j.from).Round(time.Second), verdict)
}

// judge looks at the time under load, but for its first third (and three minutes at most): libraries are loaded, pools fill, and the
// heap finds its size.
func (r *result) judge() []judged {
	end := r.loadEnded
	if end == 0 {
		end = time.Since(r.began)
	}
	warm := min(end/3, 3*time.Minute)
	var list []judged
	for _, s := range all {
		var at []time.Duration
		var values []float64
		for _, x := range r.samples {
			if x.at >= warm && x.at <= end {
				at, values = append(at, x.at), append(values, s.of(x))
			}
		}
		t, ok := fit(at, values)
		list = append(list, judged{s, t, ok})
	}
	return list
}

func (r *result) grows() bool {
	for _, j := range r.judge() {
		if !j.known || j.grows(j.floor) {
			return true
		}
	}
	return false
}
