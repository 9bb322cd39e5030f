package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// result is what a run has shown.
type result struct {
	options
	began        time.Time
	empty, after sample // before the load, and when it has gone
	samples      []sample
	loadEnded    time.Duration // since began
	errors       []string
}

func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "\nempty:      %v\nafterwards: %v\n\n", r.empty, r.after)
	for _, j := range r.judge() {
		fmt.Fprintln(w, j)
	}
	for _, e := range r.errors {
		fmt.Fprintln(w, "error:", e)
	}
	switch {
	case len(r.errors) > 0:
		fmt.Fprintf(w, "%d errors\n", len(r.errors))
	case r.grows():
		fmt.Fprintln(w, "it grows")
	default:
		fmt.Fprintf(w, "flat, no errors, %d samples\n", len(r.samples))
	}
}

// write puts the samples and the page into the folder.
func (r *result) write(folder string) error {
	var csv strings.Builder
	csv.WriteString("seconds,resident_bytes,heap_bytes,c_bytes,goroutines,files,sessions\n")
	for _, s := range r.samples {
		fmt.Fprintf(&csv, "%.1f,%d,%.0f,%.0f,%d,%d,%d\n", s.at.Seconds(), s.Resident, s.heap, s.c, s.Goroutines, s.Files, s.sessions)
	}
	if err := os.WriteFile(filepath.Join(folder, "samples.csv"), []byte(csv.String()), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "soak.html"), []byte(r.page()), 0o600)
}

func (r *result) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><meta charset=utf-8><title>Soak</title><style>body{font:14px sans-serif;max-width:60em;margin:2em auto}svg{width:100%%}pre{overflow:auto}</style><h1>Soak, %s</h1>\n",
		r.began.UTC().Format("2006-01-02 15:04"))
	var text strings.Builder
	r.print(&text)
	fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(text.String()))
	for _, j := range r.judge() {
		b.WriteString(r.chart(j))
	}
	fmt.Fprintf(&b, "<p>Load: <code>sightline-load %s</code></p>\n", html.EscapeString(strings.Join(loadArgs(r.options, "URL"), " ")))
	return b.String()
}

// chart draws one series with its line.
func (r *result) chart(j judged) string {
	const width, height, left, bottom = 900.0, 220.0, 60.0, 24.0
	if len(r.samples) == 0 {
		return ""
	}
	end, most := r.samples[len(r.samples)-1].at, 0.0
	for _, s := range r.samples {
		most = max(most, j.of(s))
	}
	if most *= 1.1; most == 0 {
		most = 1
	}
	x := func(at time.Duration) float64 { return left + (width-left-10)*float64(at)/float64(max(end, 1)) }
	y := func(v float64) float64 { return (height - bottom) * (1 - v/most) }
	var b strings.Builder
	fmt.Fprintf(&b, `<h2>%s%s</h2><svg viewBox="0 -8 %g %g" font-size="12" font-family="sans-serif"><path d="M%g 0V%gH%g" fill="none" stroke="#888"/>`,
		j.name, html.EscapeString(unitOf(j.unit)), width, height+8, left, height-bottom, width-10)
	for n := range 5 {
		v := most * float64(n) / 4
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%.4g</text>`, left-6, y(v)+4, v)
		at := end * time.Duration(n) / 4
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`, x(at), height-6, at.Round(time.Second))
	}
	b.WriteString(`<polyline fill="none" stroke="#06c" points="`)
	for _, s := range r.samples {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(s.at), y(j.of(s)))
	}
	b.WriteString(`"/>`)
	if j.known {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#c30" stroke-width="2"/>`, x(j.from), y(j.first), x(j.to), y(j.first+j.growth))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func unitOf(unit string) string {
	if unit == "" {
		return ""
	}
	return ", " + unit
}
