package load

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"time"
)

//go:embed page.html
var pageText string

// pageView is what the page shows.
type pageView struct {
	*Report
	When   string
	Kept   bool
	Rows   [][2]string
	Errors [][2]any
	Doubts []string
	Plots  []plotView
}

type plotView struct {
	Title, About string
	SVG          template.HTML
}

// page is the report as one HTML file that needs nothing else.
func (r *Report) page() ([]byte, error) {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	v := pageView{Report: r, When: r.At.Format(time.RFC1123), Rows: r.rows(), Doubts: r.doubts(), Plots: r.plots()}
	v.Kept = len(r.Wrong) == 0
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		v.Errors = append(v.Errors, [2]any{r.Errors[kind], kind})
	}
	var page bytes.Buffer
	err = t.Execute(&page, v)
	return page.Bytes(), err
}

func (r *Report) plots() (plots []plotView) {
	add := func(title, about string, svg template.HTML) { plots = append(plots, plotView{title, about, svg}) }
	for _, h := range []struct {
		title, about string
		t            Times
	}{
		{"Images: last packet → agent", "from the sending of the frame's last packet to the image at the agent", r.Images.SentToAgent},
		{"Messages: append → acknowledgement", "until the gateway has made the entry durable", r.Context.Append},
		{"Switches: request → committed", "until the new pipeline has the floor", r.Switches.Took},
		{"image.request → image", "images asked for one by one", r.Images.Request},
	} {
		if h.t.Count > 0 {
			add(h.title, h.about+"; "+h.t.String(), bars(h.title, h.t.Bins))
		}
	}
	if len(r.Samples) < 2 {
		return plots
	}
	x := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		x[i] = s.Seconds
		if s.Seconds < 0 {
			x[i] = float64(i - connecting(r.Samples))
		}
	}
	series := func(name, class string, of func(Sample) float64) line {
		l := line{name: name, class: class, y: make([]float64, len(r.Samples))}
		for i, s := range r.Samples {
			l.y[i] = of(s)
		}
		return l
	}
	add("Images a second", "of all agents that are not slow", lines("images a second", "1/s", x, series("images", "a", func(s Sample) float64 { return s.Images })))
	add("Delay of images over time", "of each second", lines("delay of images", "ms", x,
		series("p99", "b", func(s Sample) float64 { return s.P99 }), series("p50", "a", func(s Sample) float64 { return s.P50 })))
	add("CPU", "cores", lines("CPU", "cores", x,
		series("gateway", "a", func(s Sample) float64 { return s.CPU }), series("this program", "c", func(s Sample) float64 { return s.Own })))
	add("Memory of the gateway", "resident", lines("memory", "MiB", x, series("resident", "a", func(s Sample) float64 { return s.RSS })))
	add("What went wrong", "lost packets of each second, errors so far", lines("losses and errors", "", x,
		series("lost packets", "b", func(s Sample) float64 { return s.Lost }), series("errors", "c", func(s Sample) float64 { return float64(s.Errors) })))
	add("Sessions", "connected", lines("sessions", "", x, series("sessions", "a", func(s Sample) float64 { return float64(s.Sessions) })))
	return plots
}

// connecting is how many samples are of before measuring began.
func connecting(samples []Sample) int {
	i := slices.IndexFunc(samples, func(s Sample) bool { return s.Seconds >= 0 })
	if i < 0 {
		return len(samples)
	}
	return i
}
