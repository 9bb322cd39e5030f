package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sightline/cmd/internal/gatewaybench/churn"
	"sightline/cmd/internal/gatewaybench/probe"
)

const (
	imageFPS     = 5
	warmSessions = 100
	atOnce       = 20
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func mb(bytes int64) float64     { return float64(bytes) / (1 << 20) }

// under puts a value beside its limit, and says when it is missed.
func under(value, limit float64) string {
	if value > limit {
		return fmt.Sprintf("**missed**, at most %g", limit)
	}
	return fmt.Sprintf("at most %g", limit)
}

// idle: what calls cost that nobody watches.
func (b *bench) idle(ctx context.Context) error {
	c, err := b.start(ctx, "idle", b.idleCalls, b.unwatch, 0)
	if err != nil {
		return err
	}
	f, err := c.measure(ctx)
	if err = errors.Join(err, c.end()); err != nil {
		return err
	}
	core := 100 * f.cpu.Seconds() / f.took.Seconds() / float64(b.idleCalls)
	fmt.Fprintf(b.out, "A call that nobody watches, %d×%d at %.1f Mbit/s (%d at once for %.0f s):\n\n", b.unwatch.Width, b.unwatch.Height,
		float64(f.bits)/f.took.Seconds()/float64(b.idleCalls)/1e6, b.idleCalls, f.took.Seconds())
	fmt.Fprint(b.out, "| | measured | wanted |\n|---|---|---|\n")
	fmt.Fprintf(b.out, "| CPU of one call, %% of a core | %.2f | %s |\n", core, under(core, 1))
	fmt.Fprintf(b.out, "| CPU of one RTP packet, µs | %.1f | |\n", float64(f.cpu.Microseconds())/float64(f.packets))
	fmt.Fprintf(b.out, "| memory of the gateway, empty · with these calls, MB | %.1f · %.1f | |\n| the difference for one call, MB | %.2f | |\n\n",
		mb(b.empty), mb(f.resident), mb(f.resident-b.empty)/float64(b.idleCalls))
	b.honest(f)
	return nil
}

// images: how soon an image is there, and what it costs beside the same calls with nobody watching.
func (b *bench) images(ctx context.Context) error {
	c, err := b.start(ctx, "unwatched", b.watchedCalls, b.watched, 0)
	if err != nil {
		return err
	}
	unwatched, err := c.measure(ctx)
	if err = errors.Join(err, c.end()); err != nil {
		return err
	}
	if c, err = b.start(ctx, "watched", b.watchedCalls, b.watched, imageFPS); err != nil {
		return err
	}
	f, err := c.measure(ctx)
	if err = errors.Join(err, c.end()); err != nil {
		return err
	}
	n := len(f.latencies)
	if n == 0 {
		return errors.New("no image was received")
	}
	p50, p99 := ms(quantile(f.latencies, 0.50)), ms(quantile(f.latencies, 0.99))
	fmt.Fprintf(b.out, "%d sessions of %d×%d at %.0f frames/s, one agent each at %d images/s of 1024×1024 (%d images in %.0f s, %d kB each):\n\n",
		b.watchedCalls, b.watched.Width, b.watched.Height, b.watched.FPS, imageFPS, n, f.took.Seconds(), f.imageBytes/n/1000)
	fmt.Fprint(b.out, "| | measured | wanted |\n|---|---|---|\n")
	fmt.Fprintf(b.out, "| last RTP packet of a frame in → agent has the JPEG, p50, ms | %.1f | %s |\n", p50, under(p50, 15))
	fmt.Fprintf(b.out, "| the same, p99, ms | %.1f | %s |\n", p99, under(p99, 50))
	fmt.Fprintf(b.out, "| the same, longest, ms | %.1f | |\n", ms(f.latencies[n-1]))
	fmt.Fprintf(b.out, "| images that came, of those wanted | %.1f %% | |\n", 100*float64(n)/(imageFPS*float64(b.watchedCalls)*f.took.Seconds()))
	fmt.Fprintf(b.out, "| CPU of the gateway, %% of a core, watched · not watched | %.1f · %.1f | |\n",
		100*f.cpu.Seconds()/f.took.Seconds(), 100*unwatched.cpu.Seconds()/unwatched.took.Seconds())
	extra := f.cpu.Seconds() - unwatched.cpu.Seconds()*f.took.Seconds()/unwatched.took.Seconds()
	fmt.Fprintf(b.out, "| CPU of a delivered image, every frame decoded for it, ms | %.2f | |\n", 1000*extra/float64(n))
	// What earlier parts have left in the heap counts in: no session takes more than this.
	fmt.Fprintf(b.out, "| memory of the gateway, empty · with these calls, MB | %.1f · %.1f | |\n| the difference for one session, at most, MB | %.1f | |\n\n",
		mb(b.empty), mb(f.resident), mb(f.resident-b.empty)/float64(b.watchedCalls))
	b.honest(f)
	return nil
}

// churn: sessions that come and go leave nothing.
func (b *bench) churn(ctx context.Context) error {
	cfg := churn.Config{URL: b.gateway.URL, Clip: b.watched, Prefix: "bench-warm", Sessions: min(warmSessions, b.sessions), AtOnce: atOnce, AgentEvery: 5}
	if _, err := churn.Run(ctx, cfg); err != nil {
		return err
	}
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	cpu, err := b.gateway.CPU()
	if err != nil {
		return err
	}
	cfg.Prefix, cfg.Sessions = "bench-churn", b.sessions
	begun := time.Now()
	images, err := churn.Run(ctx, cfg)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	used, err := b.gateway.CPU()
	if err != nil {
		return err
	}
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d sessions opened and closed, %d at once, each with a publisher that sends video, every fifth with an agent that sees it (%d images); %.1f s, %.0f sessions/s, %.1f ms CPU of the gateway each:\n\n",
		b.sessions, atOnce, images, took.Seconds(), float64(b.sessions)/took.Seconds(), ms(used-cpu)/float64(b.sessions))
	fmt.Fprint(b.out, "| | goroutines | file handles | memory, MB |\n|---|---|---|---|\n")
	fmt.Fprintf(b.out, "| before, %d sessions having come and gone | %d | %d | %.1f |\n", min(warmSessions, b.sessions), before.Goroutines, before.Files, mb(before.Resident))
	fmt.Fprintf(b.out, "| after | %d | %d | %.1f |\n\n", after.Goroutines, after.Files, mb(after.Resident))
	return nil
}

// settled is what the gateway holds when nothing changes any more, or after 5 s: sessions end a little after they were deleted.
func (b *bench) settled(ctx context.Context) (probe.Holdings, error) {
	last, err := b.gateway.Look(ctx)
	begun := time.Now()
	for same := 0; err == nil && same < 10 && time.Since(begun) < 5*time.Second; {
		<-time.After(100 * time.Millisecond)
		var now probe.Holdings
		if now, err = b.gateway.Look(ctx); now.Goroutines == last.Goroutines && now.Files == last.Files {
			same++
		} else {
			same = 0
		}
		last = now
	}
	return last, err
}

// honest says when the load was not what it was meant to be.
func (b *bench) honest(f figures) {
	if late := float64(f.late) / float64(max(f.frames, 1)); late > 0.01 {
		fmt.Fprintf(b.out, "%.0f %% of the frames were sent late: this machine was too busy for these figures.\n\n", 100*late)
	}
	if f.unmatched > 0 {
		fmt.Fprintf(b.out, "%d images were of frames sent too long ago to be matched.\n\n", f.unmatched)
	}
}
