package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"time"
)

// report is what a run has shown; its JSON names are for scripts and do not change.
type report struct {
	Seconds    float64        `json:"seconds"` // measured, without connecting and leaving
	Publishers publishers     `json:"publishers"`
	Agents     agents         `json:"agents"`
	Images     images         `json:"images"`
	Errors     map[string]int `json:"errors"`      // by kind, over the whole run
	CPUSeconds float64        `json:"cpu_seconds"` // of this program, over the whole run
}

type publishers struct {
	Wanted       int     `json:"wanted"`
	Connected    int     `json:"connected"`
	Failed       int     `json:"failed"`
	ConnectMSMax float64 `json:"connect_ms_max"`
	Frames       uint64  `json:"frames"`
	KeyFrames    uint64  `json:"key_frames"`
	LateFrames   uint64  `json:"late_frames"` // sent more than an interval late: this machine is too busy to be believed
	Packets      uint64  `json:"packets"`
	LostPackets  uint64  `json:"lost_packets"` // by --loss
	PLI          uint64  `json:"pli"`
	KbitPerSec   float64 `json:"kbit_per_second"` // all publishers together
}

type agents struct {
	Wanted     int    `json:"wanted"`
	Connected  int    `json:"connected"` // at the end
	Reconnects uint64 `json:"reconnects"`
}

type images struct {
	Received   uint64  `json:"received"`
	PerSecond  float64 `json:"per_second"`
	Wanted     float64 `json:"wanted_per_second"`
	BytesMean  float64 `json:"bytes_mean"`
	Superseded uint64  `json:"superseded"`
	// CaptureToAgent: from the capture time in the header to the arrival; right only while both clocks agree, as on one machine.
	CaptureToAgent times `json:"capture_to_agent_ms"`
	// LastPacketToAgent: from the sending of the frame's last packet, as this program noted it, to the arrival.
	LastPacketToAgent times  `json:"last_packet_to_agent_ms"`
	Unmatched         uint64 `json:"unmatched"` // whose frame was sent too long ago to be found
}

// times are milliseconds.
type times struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func timesOf(h *histogram) times {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return times{ms(h.quantile(0.50)), ms(h.quantile(0.95)), ms(h.quantile(0.99)), ms(h.max)}
}

func (t times) String() string {
	return fmt.Sprintf("p50 %.1f  p95 %.1f  p99 %.1f  max %.1f ms", t.P50, t.P95, t.P99, t.Max)
}

// totals are the publishers' and agents' counters together at one moment.
type totals struct {
	connected, attached                              int
	frames, keys, late, packets, lost, pli, bytes, r uint64
	slowest                                          time.Duration
}

func (l *load) sum() totals {
	var t totals
	for _, b := range l.browsers {
		s := b.publisher.Stats()
		if s.ConnectedIn > 0 {
			t.connected++
		}
		t.frames += s.Frames
		t.keys += s.KeyFrames
		t.late += s.Late
		t.packets += s.Packets
		t.lost += s.Lost
		t.pli += s.PLI
		t.bytes += s.Bytes
		t.slowest = max(t.slowest, s.ConnectedIn)
		for _, a := range b.agents {
			if a.Connected() {
				t.attached++
			}
			t.r += max(a.Stats().Attached, 1) - 1
		}
	}
	return t
}

func (l *load) report(took time.Duration, before, after totals) report {
	l.mu.Lock()
	defer l.mu.Unlock()
	seconds := max(took.Seconds(), 0.001)
	r := report{
		Seconds: seconds,
		Publishers: publishers{
			Wanted: l.o.publishers, Connected: after.connected, Failed: l.failed, ConnectMSMax: float64(after.slowest.Milliseconds()),
			Frames: after.frames - before.frames, KeyFrames: after.keys - before.keys, LateFrames: after.late - before.late,
			Packets: after.packets - before.packets, LostPackets: after.lost - before.lost, PLI: after.pli - before.pli,
			KbitPerSec: float64(after.bytes-before.bytes) * 8 / 1000 / seconds,
		},
		Agents: agents{Wanted: l.o.agents, Connected: after.attached, Reconnects: after.r},
		Images: images{
			Received: l.images, PerSecond: float64(l.images) / seconds, Wanted: float64(l.o.agents) * l.o.imageFPS,
			BytesMean: float64(l.bytes) / float64(max(l.images, 1)), Superseded: l.replaced, Unmatched: l.stale,
			CaptureToAgent: timesOf(&l.captured), LastPacketToAgent: timesOf(&l.sent),
		},
		Errors: maps.Clone(l.errors),
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		r.CPUSeconds = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	return r
}

// progress prints a line a second until the time is over.
func (l *load) progress(ctx context.Context, begun time.Time) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.NewTimer(l.o.duration)
	defer end.Stop()
	last := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
		}
		t := l.sum()
		l.mu.Lock()
		seen := times{}
		if l.images > 0 {
			seen = timesOf(&l.captured)
		}
		fmt.Fprintf(l.out, "%4.0fs  publishers %d/%d  agents %d/%d  frames %d (%d late)  images %d/s  capture→agent p50 %.0f p99 %.0f ms  errors %d\n",
			time.Since(begun).Seconds(), t.connected, l.o.publishers, t.attached, l.o.agents, t.frames, t.late,
			l.images-last, seen.P50, seen.P99, countAll(l.errors))
		last = l.images
		l.mu.Unlock()
	}
}

func countAll(errors map[string]int) int {
	n := 0
	for _, count := range errors {
		n += count
	}
	return n
}

func (r report) print(out io.Writer) {
	p, i := r.Publishers, r.Images
	fmt.Fprintf(out, "\nmeasured          %.1f s, %.2f s CPU of this program in all\n", r.Seconds, r.CPUSeconds)
	fmt.Fprintf(out, "publishers        %d of %d connected, %d failed, slowest connect %.0f ms\n", p.Connected, p.Wanted, p.Failed, p.ConnectMSMax)
	fmt.Fprintf(out, "sent              %d frames (%d key, %d late), %d packets (%d lost), %.0f kbit/s, %d PLI received\n",
		p.Frames, p.KeyFrames, p.LateFrames, p.Packets, p.LostPackets, p.KbitPerSec, p.PLI)
	if r.Agents.Wanted > 0 {
		fmt.Fprintf(out, "agents            %d of %d attached, %d reconnects\n", r.Agents.Connected, r.Agents.Wanted, r.Agents.Reconnects)
		fmt.Fprintf(out, "images            %d, %.2f/s of %.2f/s wanted, %.1f KB each, %d superseded\n",
			i.Received, i.PerSecond, i.Wanted, i.BytesMean/1000, i.Superseded)
		fmt.Fprintf(out, "capture→agent     %v\n", i.CaptureToAgent)
		fmt.Fprintf(out, "last packet→agent %v\n", i.LastPacketToAgent)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "error             %d × %s\n", r.Errors[kind], kind)
	}
}
