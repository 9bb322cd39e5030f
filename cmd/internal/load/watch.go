package load

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// watch looks at everything once a second while the run lasts: for the line of progress, the plots and the gateway's figures.
type watch struct {
	l *load

	mu      sync.Mutex
	empty   figures // before anybody was there; nil when the gateway told nothing
	before  figures // at the beginning of measuring
	after   figures // at its end
	start   counts
	finish  counts
	began   time.Time
	ownCPU  float64 // seconds, while it measured
	every   int     // looks for one sample
	looks   int
	samples []Sample
	failure error // why there are no figures

	last     time.Time
	lastCPU  float64
	lastOwn  float64
	lastLost float64
	lastSeen uint64
}

// Sample is one moment of the run.
type Sample struct {
	Seconds  float64 `json:"seconds"` // since measuring began; below 0 while publishers connect
	Sessions int     `json:"sessions"`
	Images   float64 `json:"images_per_second"`
	P50      float64 `json:"image_p50_ms"`
	P99      float64 `json:"image_p99_ms"`
	CPU      float64 `json:"gateway_cpu_cores"`
	RSS      float64 `json:"gateway_rss_mib"`
	Lost     float64 `json:"lost_packets"`
	Own      float64 `json:"own_cpu_cores"`
	Errors   int     `json:"errors"` // so far
}

// maxSamples bounds what is kept: then every other one goes, and so on.
const maxSamples = 1200

func newWatch(l *load) *watch { return &watch{l: l, every: 1, last: time.Now(), lastOwn: ownCPU()} }

// figures asks the gateway; a gateway that tells nothing is asked once only.
func (w *watch) figures(ctx context.Context) figures {
	w.mu.Lock()
	failed := w.failure != nil && w.empty == nil
	w.mu.Unlock()
	if failed {
		return nil
	}
	f, err := w.l.gateway.metrics(ctx)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failure = err
		return nil
	}
	return f
}

// look notes the gateway as it is without us.
func (w *watch) look(ctx context.Context) {
	f := w.figures(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty = f
	w.lastCPU, w.lastLost = f["process_cpu_seconds_total"], f["sightline_rtp_packets_lost_total"]
}

func (w *watch) begin(ctx context.Context) {
	f, c := w.figures(ctx), w.l.sum()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.start, w.began, w.ownCPU = f, c, time.Now(), -ownCPU()
}

func (w *watch) end(ctx context.Context) {
	f, c := w.figures(ctx), w.l.sum()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after, w.finish = f, c
	w.ownCPU += ownCPU()
}

// run looks once a second until ctx ends.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	lastLine := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, c := w.sample(ctx)
		if every := w.l.o.progress; every > 0 && time.Since(lastLine) >= every-100*time.Millisecond {
			lastLine = time.Now()
			w.line(s, c)
		}
	}
}

func (w *watch) sample(ctx context.Context) (Sample, counts) {
	f, c, m := w.figures(ctx), w.l.sum(), w.l.m
	now, own := time.Now(), ownCPU()
	m.mu.Lock()
	s := Sample{Errors: countAll(m.errors)}
	seen := m.images.n
	if t := m.window.times(); t.Count > 0 {
		s.P50, s.P99 = t.P50, t.P99
		m.window.h.Reset()
	}
	m.mu.Unlock()
	s.Sessions = w.l.connected()
	w.mu.Lock()
	defer w.mu.Unlock()
	passed := now.Sub(w.last).Seconds()
	s.Seconds = now.Sub(w.began).Seconds()
	if w.began.IsZero() {
		s.Seconds = -1
	}
	s.Images = float64(seen-w.lastSeen) / passed
	s.Own = (own - w.lastOwn) / passed
	if f != nil {
		s.CPU = (f["process_cpu_seconds_total"] - w.lastCPU) / passed
		s.RSS = f["process_resident_memory_bytes"] / (1 << 20)
		s.Lost = f["sightline_rtp_packets_lost_total"] - w.lastLost
		w.lastCPU, w.lastLost = f["process_cpu_seconds_total"], f["sightline_rtp_packets_lost_total"]
	}
	w.last, w.lastOwn, w.lastSeen = now, own, seen
	w.keep(s)
	return s, c
}

func (w *watch) keep(s Sample) {
	w.looks++
	if w.looks%w.every != 0 {
		return
	}
	w.samples = append(w.samples, s)
	if len(w.samples) < maxSamples {
		return
	}
	for i := range maxSamples / 2 {
		w.samples[i] = w.samples[2*i]
	}
	w.samples, w.every = w.samples[:maxSamples/2], 2*w.every
}

func (w *watch) line(s Sample, c counts) {
	when := "connect "
	if s.Seconds >= 0 {
		when = fmt.Sprintf("%6.0fs ", s.Seconds)
	}
	fmt.Fprintf(w.l.out, "%s publishers %d/%d  agents %d/%d  %.0f images/s p50 %.0f p99 %.0f ms  lost %.0f  gateway %.2f cores %.0f MiB  here %.2f cores, %d late  errors %d\n",
		when, s.Sessions, w.l.o.publishers, c.attached, c.agents, s.Images, s.P50, s.P99, s.Lost, s.CPU, s.RSS, s.Own, c.late, s.Errors)
}

// ownCPU is the CPU time of this program in seconds.
func ownCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// readKey reads a key from the file of that name, or takes it as it is.
func readKey(value string) ([]byte, error) {
	if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() && info.Size() < 64<<10 {
		return os.ReadFile(value)
	}
	return []byte(value), nil
}
