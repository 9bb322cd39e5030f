package load

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The size of a plot in its own units, and the room around it for the axes' words.
const (
	plotWidth, plotHeight       = 640.0, 240.0
	plotLeft, plotRight         = 56.0, 26.0
	plotTop, plotBottom         = 12.0, 34.0
	plotInnerW, plotInnerH      = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
	maxPoints                   = 400 // of a line: more cannot be seen
	barTicks, timeTicks, yTicks = 8, 6, 4
)

// line is one series over time; class picks its colour.
type line struct {
	name, class string
	y           []float64
}

// svg collects a plot.
type svg struct{ strings.Builder }

func newSVG(title string) *svg {
	s := &svg{}
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(title))
	return s
}

func (s *svg) end() template.HTML {
	s.WriteString("</svg>")
	return template.HTML(s.String()) //nolint:gosec // made here, of numbers and escaped words
}

func (s *svg) text(x, y float64, anchor, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// yAxis draws lines at round numbers from 0 to top and gives the scale.
func (s *svg) yAxis(most float64, unit string) (y func(float64) float64) {
	step := roundStep(most / yTicks)
	top := step * math.Ceil(most/step)
	if top == 0 {
		top, step = 1, 1
	}
	y = func(v float64) float64 { return plotTop + plotInnerH*(1-v/top) }
	for v := 0.0; v <= top*1.0001; v += step {
		fmt.Fprintf(s, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, plotLeft, plotWidth-plotRight, y(v), y(v))
		s.text(plotLeft-6, y(v)+4, "end", short(v))
	}
	s.text(plotLeft-6, plotHeight-6, "end", unit)
	return y
}

// roundStep is the next of 1, 2, 5, 10, 20, … that is not smaller.
func roundStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*scale >= v {
			return m * scale
		}
	}
	return 10 * scale
}

func short(v float64) string {
	switch {
	case v >= 10000:
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	case v >= 100:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// bars is a histogram: each bin has the same width, so that durations stand on a logarithmic axis.
func bars(title string, bins []Bin) template.HTML {
	s := newSVG(title)
	most := int64(0)
	for _, b := range bins {
		most = max(most, b.Count)
	}
	y := s.yAxis(float64(most), "ms")
	w := plotInnerW / float64(max(len(bins), 1))
	for i, b := range bins {
		x := plotLeft + float64(i)*w
		fmt.Fprintf(s, `<rect class="bar" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>up to %.4g ms: %d</title></rect>`,
			x+w*0.06, y(float64(b.Count)), w*0.88, y(0)-y(float64(b.Count)), b.UpTo, b.Count)
		if i%max(len(bins)/barTicks, 1) == 0 {
			s.text(x+w, plotHeight-plotBottom+16, "middle", short(b.UpTo))
		}
	}
	return s.end()
}

// lines draws series over the seconds in x.
func lines(title, unit string, x []float64, all ...line) template.HTML {
	s := newSVG(title)
	most := 0.0
	for _, l := range all {
		for _, v := range l.y {
			most = max(most, v)
		}
	}
	y := s.yAxis(most, unit)
	if len(x) == 0 {
		return s.end()
	}
	first, last := x[0], max(x[len(x)-1], x[0]+1)
	at := func(v float64) float64 { return plotLeft + plotInnerW*(v-first)/(last-first) }
	step := roundStep((last - first) / timeTicks)
	for v := step*math.Ceil(first/step) + 0; v <= last; v += step { // + 0: of -0 it makes 0
		s.text(at(v), plotHeight-plotBottom+16, "middle", short(v)+" s")
	}
	every := max(len(x)/maxPoints, 1)
	for i, l := range all {
		fmt.Fprintf(s, `<polyline class="%s" points="`, l.class)
		for k := 0; k < len(x); k += every {
			fmt.Fprintf(s, "%.1f,%.1f ", at(x[k]), y(l.y[k]))
		}
		s.WriteString(`"/>`)
		right := plotWidth - plotRight - 8
		fmt.Fprintf(s, `<text class="name %s" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, l.class, right, plotTop+14+16*float64(i), html.EscapeString(l.name))
	}
	return s.end()
}
