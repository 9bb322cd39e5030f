package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

func cpus() int { return runtime.NumCPU() }

// row is one line of the chart.
type row struct {
	policy string // for people
	work   work
}

// rows are what is measured, in order.
func (c *capacity) rows(ctx context.Context, small, big video) (rows []row) {
	add := func(policy, flag string, v video, agents int, fps float64) {
		rows = append(rows, row{policy, work{policy: flag, video: v, agents: agents, fps: fps}})
	}
	videos := []video{small, big}
	if c.quick {
		videos = videos[:1]
	}
	for _, v := range videos {
		add("nobody watches", "", v, 0, 1)
		if !c.policies {
			add("the default", "", v, 1, 1)
			continue
		}
		add("keyframe", "keyframe", v, 1, 1)
		if layered, ok := c.layered(ctx, v); ok && !c.quick {
			add("temporal, of 3 layers", "temporal", layered, 1, 1)
		}
		add("full", "full", v, 1, 1)
		add("auto", "auto", v, 1, 1)
	}
	if !c.quick {
		auto := ""
		if c.policies {
			auto = "auto"
		}
		for _, fps := range []float64{0.5, 2, 5} {
			add(or(auto, "the default"), auto, big, 1, fps)
		}
	}
	return rows
}

// chart prints sessions by policy, size and rate.
func (c *capacity) chart(ctx context.Context, small, big video) error {
	fmt.Fprint(c.out, "| policy | video | images a second | CPU of a session, % of a core | **sessions a core** | measured with | image p50 · p99, ms | lost |\n|---|---|---|---|---|---|---|---|\n")
	busy := ""
	for _, r := range c.rows(ctx, small, big) {
		f, n, err := c.fill(ctx, r.work)
		if err != nil {
			return err
		}
		rate, delays := "–", "–"
		if r.work.agents > 0 {
			rate, delays = fmt.Sprintf("%g", r.work.fps), fmt.Sprintf("%.0f · %.0f", f.Images.Sent.P50, f.Images.Sent.P99)
		}
		note := ""
		if n := f.errors(); n > 0 {
			note = fmt.Sprintf(", %d errors", n)
		}
		if f.late() > 0.01 {
			note, busy = note+" ¹", "¹ More than 1 % of the frames were sent late: sightline-load itself was too busy, and delays are its as well.\n"
		}
		fmt.Fprintf(c.out, "| %s | %s | %s | %.2f | **%.0f** | %d sessions, %.0f %% of the core%s | %s | %.0f |\n",
			r.policy, r.work.video.name, rate, f.Gateway.PerSession, 100/max(f.Gateway.PerSession, 0.01), n, 100*f.Gateway.Cores, note, delays, f.Gateway.Lost)
	}
	fmt.Fprintf(c.out, "\nSessions a core: one core divided by the CPU of one session, at the number of sessions that was measured, which fills about two thirds of it.\n%s", busy)
	return nil
}

// Numbers of sessions: the first ones are for a guess at what one costs, the second fill so much of the core.
const (
	guessSessions = 12
	fillTo        = 65 // % of the core
	mostSessions  = 150
)

// fill measures with as many sessions as fill about two thirds of the core.
func (c *capacity) fill(ctx context.Context, w work) (figures, int, error) {
	w.sessions, w.seconds = guessSessions, 3*time.Second
	if !c.taskset {
		w.seconds = 2 * time.Second
	}
	guess, err := c.once(ctx, w, true)
	if err != nil {
		return guess, 0, err
	}
	w.sessions = int(min(max(fillTo/max(guess.Gateway.PerSession, 0.1), 2), mostSessions))
	w.seconds = c.seconds
	fmt.Fprintf(c.progress, "%s %s, %g images/s: %d sessions\n", or(w.policy, "default"), w.video.name, w.fps, w.sessions)
	f, err := c.once(ctx, w, true)
	return f, w.sessions, err
}

// growth prints what a session costs as their number grows, on all cores.
func (c *capacity) growth(ctx context.Context, v video) error {
	counts := []int{1, 10, 50, 100, 200}
	if c.quick {
		counts = counts[:3]
	}
	fmt.Fprintf(c.out, "\nWhat one session costs as their number grows; %s at %s, one image a second; gateway and sightline-load share the %d cores:\n\n", v.name, "30 frames/s", cpus())
	fmt.Fprint(c.out, "| sessions | CPU of the gateway, % of a core | of one session | memory of one session, MiB | image p50 · p99, ms | images that came | lost packets | context exact |\n|---|---|---|---|---|---|---|---|\n")
	var costs []float64
	for _, n := range counts {
		fmt.Fprintf(c.progress, "growth: %d sessions\n", n)
		f, err := c.once(ctx, work{video: v, sessions: n, agents: 1, fps: 1, seconds: c.seconds}, false)
		if err != nil {
			return err
		}
		costs = append(costs, f.Gateway.PerSession)
		fmt.Fprintf(c.out, "| %d | %.1f | %.2f | %.1f | %.0f · %.0f | %.0f %% | %.0f | %d of %d |\n", n, 100*f.Gateway.Cores, f.Gateway.PerSession, f.Gateway.Memory,
			f.Images.Sent.P50, f.Images.Sent.P99, 100*f.Images.PerSecond/f.Images.Wanted, f.Gateway.Lost, f.Context.Exact, f.Context.Checked)
	}
	first, last := costs[1], costs[len(costs)-1]
	state := "linear or better"
	if last > 1.2*first {
		state = "**not linear**"
	}
	fmt.Fprintf(c.out, "\nThe cost of one session with %d is %.2f of that with %d: %s (wanted: at most 1.2).\n", counts[len(counts)-1], last/first, counts[1], state)
	if c.plot == "" {
		return nil
	}
	return os.WriteFile(c.plot, []byte(plot(counts, costs)), 0o644)
}

// plot draws the gateway's CPU over the number of sessions, with the line of a constant cost.
func plot(counts []int, costs []float64) string {
	const w, h, left, bottom, top = 640.0, 300.0, 60.0, 40.0, 16.0
	last := float64(counts[len(counts)-1])
	most := 0.0
	for i, n := range counts {
		most = max(most, float64(n)*costs[i])
	}
	most = max(1.1*most, 1)
	x := func(n float64) float64 { return left + (w-left-20)*n/last }
	y := func(v float64) float64 { return top + (h-top-bottom)*(1-v/most) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, sans-serif" font-size="12">
<style>text{fill:#57606a}.axis{stroke:#8c959f}.line{stroke:#0b6bcb}.dot{fill:#0b6bcb}.ideal{stroke:#c2410c;stroke-dasharray:5 4}.i{fill:#c2410c}
@media (prefers-color-scheme:dark){text{fill:#9aa4ae}.line{stroke:#62b0ff}.dot{fill:#62b0ff}.ideal{stroke:#ff9b66}.i{fill:#ff9b66}}</style>
<title>CPU of the gateway by number of sessions</title>
`, w, h)
	fmt.Fprintf(&b, `<path class="axis" fill="none" d="M%g %g V%g H%g"/>`+"\n", left, top, h-bottom, w-20)
	for _, share := range []float64{0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n", left-6, y(share*most)+4, share*most)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">of a core</text><text x="%g" y="%g" text-anchor="end">sessions</text>`+"\n", left+6, top+8, w-20, h-4)
	fmt.Fprintf(&b, `<path class="ideal" fill="none" d="M%.1f %.1f L%.1f %.1f"/><text class="i" x="%g" y="%.1f" text-anchor="end">the cost of one at %d, times their number</text>`+"\n",
		x(0), y(0), x(last), y(min(costs[1]*last, most)), w-24, h-bottom-10, counts[1])
	b.WriteString(`<path class="line" fill="none" stroke-width="2" d="`)
	for i, n := range counts {
		fmt.Fprintf(&b, "%s%.1f %.1f ", []string{"M", "L"}[min(i, 1)], x(float64(n)), y(float64(n)*costs[i]))
	}
	b.WriteString(`"/>` + "\n")
	for i, n := range counts {
		fmt.Fprintf(&b, `<circle class="dot" r="3.5" cx="%.1f" cy="%.1f"/>`, x(float64(n)), y(float64(n)*costs[i]))
		if n != 1 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%d</text>`, x(float64(n)), h-bottom+16, n)
		}
		b.WriteString("\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
