package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// held is when a server holds its sessions: images come, and in time.
const (
	heldMS    = 500
	heldShare = 0.85 // of the images asked for; in 8 s an agent of one a second may miss the first
	ratio     = 10
)

func (f figures) held() bool {
	return f.Images.Sent.P99 > 0 && f.Images.Sent.P99 <= heldMS && f.Images.PerSecond >= heldShare*f.Images.Wanted
}

// ladder are numbers of sessions to try, each until one is not held.
var ladder = []int{2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 250, 300, 400, 500}

// beside drives the same load at the gateway and at the peer, and tells how many sessions each holds.
func (c *capacity) beside(ctx context.Context, v video) error {
	fmt.Fprintf(c.out, "The same load, %s at 30 frames/s with one agent a session that asks for one image a second, driven at this gateway and at a Python program of aiortc, Pillow and websockets (`%s`), one after the other on the same %d cores beside sightline-load. Held: 99 of 100 images within %d ms of their frame's last packet, and %.0f %% of them came.\n\n",
		v.name, c.peer, cpus(), heldMS, 100*heldShare)
	fmt.Fprint(c.out, "| | sessions | image p50 · p99, ms | images that came | CPU of the server, % of a core | of one session | held |\n|---|---|---|---|---|---|---|\n")
	theirs, err := c.climb(ctx, "aiortc, Pillow, websockets", v, ladder, c.servePeer)
	if err != nil {
		return err
	}
	var steps []int // not below what is wanted: there it would only be repeated
	for _, n := range ladder {
		if n >= min(ratio*max(theirs, 1), 50) {
			steps = append(steps, n)
		}
	}
	ours, err := c.climb(ctx, "Sightline", v, steps, func(ctx context.Context) (string, []string, func() error, error) {
		url, stop, err := c.serve(ctx, "", false)
		return url, nil, stop, err
	})
	if err != nil {
		return err
	}
	state := "at least 10 wanted"
	if ours < ratio*theirs {
		state = "**missed**, " + state
	}
	fmt.Fprintf(c.out, "\nSightline holds %d sessions, the Python program %d: %.0f times as many (%s).\n", ours, theirs, float64(ours)/float64(max(theirs, 1)), state)
	return nil
}

// climb goes up the steps until one is not held, and gives the last that was. One that fails has a second try: others use
// the machine, too.
func (c *capacity) climb(ctx context.Context, name string, v video, steps []int, serve func(context.Context) (string, []string, func() error, error)) (held int, err error) {
	for _, n := range steps {
		var f figures
		for range 2 {
			url, more, stop, err := serve(ctx)
			if err != nil {
				return held, err
			}
			more = append(more, "--no-context")
			fmt.Fprintf(c.progress, "%s: %d sessions\n", name, n)
			f, err = c.measure(ctx, url, work{video: v, sessions: n, agents: 1, fps: 1, seconds: 8 * time.Second, more: more}, false)
			if err = errors.Join(err, stop()); err != nil {
				fmt.Fprintf(c.progress, "%v\n", err) // a server that breaks down does not hold
				f = figures{}
			}
			if f.held() || ctx.Err() != nil {
				break
			}
		}
		word := "yes"
		if !f.held() {
			word = "no"
		}
		fmt.Fprintf(c.out, "| %s | %d | %.0f · %.0f | %.0f %% | %.0f | %.2f | %s |\n", name, n, f.Images.Sent.P50, f.Images.Sent.P99,
			100*f.Images.PerSecond/max(f.Images.Wanted, 1), 100*f.Gateway.Cores, f.Gateway.PerSession, word)
		if !f.held() || ctx.Err() != nil {
			return held, ctx.Err()
		}
		held = n
	}
	return held, nil
}

// servePeer starts the Python program.
func (c *capacity) servePeer(ctx context.Context) (url string, more []string, stop func() error, err error) {
	command := exec.CommandContext(ctx, "/usr/bin/python3", c.peer)
	command.Stderr = c.progress
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return "", nil, nil, err
	}
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) == 7 && f[0] == "peer" {
			stop = func() error {
				_ = command.Process.Kill() // it has nothing to put in order
				_ = command.Wait()         // and says so
				return nil
			}
			return f[2], []string{"--agent-url", f[6]}, stop, nil
		}
	}
	_ = command.Process.Kill()
	return "", nil, nil, errors.Join(fmt.Errorf("%s did not start", c.peer), command.Wait())
}

// wanted measures the two loads that the gateway was built for.
func (c *capacity) wanted(ctx context.Context, v video) error {
	sessions, switching, d := 100, 50, 20*time.Second
	if c.quick {
		sessions, switching, d = 20, 10, 12*time.Second
	}
	f, err := c.once(ctx, work{video: v, sessions: sessions, agents: 2, fps: 1, seconds: d}, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%d sessions of %s at 30 frames/s, two agents each at one image a second, for %.0f s, on the %d cores beside sightline-load:\n\n", sessions, v.name, f.Seconds, cpus())
	fmt.Fprint(c.out, "| | measured | wanted |\n|---|---|---|\n")
	fmt.Fprintf(c.out, "| RTP packets lost at the gateway, of %.0f | %.0f | %s |\n", f.Gateway.Packets, f.Gateway.Lost, under(f.Gateway.Lost, 0))
	fmt.Fprintf(c.out, "| last RTP packet of a frame sent → agent has the image, p50 · p99, ms | %.0f · %.0f | %s |\n", f.Images.Sent.P50, f.Images.Sent.P99, under(f.Images.Sent.P99, 100))
	fmt.Fprintf(c.out, "| images that came, of those asked for | %.0f %% | |\n", 100*f.Images.PerSecond/f.Images.Wanted)
	fmt.Fprintf(c.out, "| memory of the gateway for one session, MiB | %.2f | %s |\n", f.Gateway.Memory, under(f.Gateway.Memory, 3))
	fmt.Fprintf(c.out, "| CPU of the gateway · of sightline-load, cores | %.2f · %.2f | |\n", f.Gateway.Cores, f.OwnCPU/f.Seconds)
	fmt.Fprintf(c.out, "| sessions whose conversation is exact at every agent | %d of %d | %s |\n", f.Context.Exact, sessions, f.all(sessions))
	fmt.Fprintf(c.out, "| frames that sightline-load sent late | %.1f %% | |\n\n", 100*f.late())

	f, err = c.once(ctx, work{video: v, sessions: switching, agents: 2, fps: 1, seconds: 3 * d / 2, more: []string{"--switch-every", "10s", "--append-every", "2s"}}, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%d sessions with a switch of pipelines every 10 s in each, and a message of every agent every 2 s, for %.0f s:\n\n", switching, f.Seconds)
	fmt.Fprint(c.out, "| | measured | wanted |\n|---|---|---|\n")
	fmt.Fprintf(c.out, "| sessions whose conversation is exact at every agent (%d entries) | %d of %d | %s |\n", f.Context.Entries, f.Context.Exact, switching, f.all(switching))
	fmt.Fprintf(c.out, "| switches committed · request → committed, p50 · p99, ms | %d · %.0f · %.0f | |\n", f.Switches.Committed, f.Switches.Took.P50, f.Switches.Took.P99)
	fmt.Fprintf(c.out, "| errors | %d | |\n", f.errors())
	return nil
}

// under judges a figure that must be small.
func under(value, most float64) string {
	if value > most {
		return fmt.Sprintf("**missed**, at most %g", most)
	}
	return fmt.Sprintf("at most %g", most)
}

// all judges whether each session was checked and exact: one that could not be checked is not.
func (f figures) all(sessions int) string {
	if f.Context.Exact < sessions {
		return "**missed**, all"
	}
	return "all"
}
