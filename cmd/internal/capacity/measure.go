package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// figures is the part of a report of sightline-load that matters here.
type figures struct {
	Seconds    float64 `json:"seconds"`
	Publishers struct {
		Frames uint64 `json:"frames"`
		Late   uint64 `json:"late_frames"`
	} `json:"publishers"`
	Images struct {
		PerSecond float64 `json:"per_second"`
		Wanted    float64 `json:"wanted_per_second"`
		Sent      struct {
			P50 float64 `json:"p50"`
			P99 float64 `json:"p99"`
		} `json:"sent_to_agent_ms"`
	} `json:"images"`
	Switches struct {
		Committed int `json:"committed"`
		Took      struct {
			P50 float64 `json:"p50"`
			P99 float64 `json:"p99"`
		} `json:"took_ms"`
	} `json:"switches"`
	Context struct {
		Checked int `json:"sessions_checked"`
		Entries int `json:"entries"`
		Exact   int `json:"sessions_exact"`
	} `json:"context"`
	Gateway struct {
		Cores      float64 `json:"cpu_cores"`
		PerSession float64 `json:"cpu_percent_per_session"`
		Memory     float64 `json:"rss_mib_per_session"`
		Lost       float64 `json:"rtp_packets_lost"`
		Packets    float64 `json:"rtp_packets"`
	} `json:"gateway"`
	Errors map[string]int `json:"errors"`
	OwnCPU float64        `json:"cpu_seconds"`
}

// work is what a gateway is to do.
type work struct {
	policy   string // of serve --decode-policy; empty = the default
	video    video
	sessions int
	agents   int
	fps      float64
	seconds  time.Duration
	more     []string // flags of sightline-load
}

// on puts a command onto cores: the gateway's is the last one.
func (c *capacity) on(ctx context.Context, last bool, name string, args ...string) *exec.Cmd {
	if c.taskset {
		cores := "0"
		if n := cpus(); last {
			cores = strconv.Itoa(n - 1)
		} else if n > 2 {
			cores = fmt.Sprintf("0-%d", n-2)
		}
		name, args = "taskset", append([]string{"-c", cores, name}, args...)
	}
	return exec.CommandContext(ctx, name, args...)
}

// serve starts a gateway; stop ends it.
func (c *capacity) serve(ctx context.Context, policy string, pinned bool) (url string, stop func() error, err error) {
	data, err := os.MkdirTemp(c.work, "data")
	if err != nil {
		return "", nil, err
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--retention", "1ms", "--log-level", "error", "--pipeline", "none"}
	if policy != "" {
		args = append(args, "--decode-policy", policy)
	}
	command := exec.CommandContext(ctx, c.gateway, args...)
	if pinned {
		command = c.on(ctx, true, c.gateway, args...)
	}
	command.Stderr = c.progress
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	out, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		_, after, found := strings.Cut(lines.Text(), " serves ")
		if address, _, ok := strings.Cut(after+" ", " "); found && ok {
			url = address
		}
	}
	if url == "" {
		return "", nil, errors.Join(errors.New("the gateway did not start"), command.Wait())
	}
	go func() { // what it prints later is nobody's
		for lines.Scan() {
		}
	}()
	return url, func() error {
		_ = command.Process.Signal(syscall.SIGINT) // it may have ended; Wait tells
		return command.Wait()
	}, nil
}

// measure runs sightline-load against the gateway at url.
func (c *capacity) measure(ctx context.Context, url string, w work, pinned bool) (figures, error) {
	var f figures
	file := filepath.Join(c.work, "report.json")
	args := []string{"--url", url, "--clip", w.video.file, "--temporal-layers", strconv.Itoa(w.video.layers), "--publishers", strconv.Itoa(w.sessions),
		"--agents", strconv.Itoa(w.agents), "--image-fps", strconv.FormatFloat(w.fps, 'g', -1, 64), "--duration", w.seconds.String(),
		"--start-every", max(10*time.Millisecond, min(37*time.Millisecond, 3*time.Second/time.Duration(w.sessions))).String(), "--progress", "0s", "--json", file}
	args = append(args, w.more...)
	command := exec.CommandContext(ctx, c.load, args...)
	if pinned {
		command = c.on(ctx, false, c.load, args...)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	said, failed := command.CombinedOutput()
	data, err := os.ReadFile(file)
	if err != nil {
		return f, fmt.Errorf("sightline-load %s: %w\n%s", strings.Join(args, " "), errors.Join(failed, err), said)
	}
	if failed != nil { // what went wrong is in the figures, too
		fmt.Fprintf(c.progress, "sightline-load %s: %v\n%s", strings.Join(args, " "), failed, said)
	}
	err = json.Unmarshal(data, &f)
	return f, err
}

// once measures a gateway of its own.
func (c *capacity) once(ctx context.Context, w work, pinned bool) (figures, error) {
	url, stop, err := c.serve(ctx, w.policy, pinned)
	if err != nil {
		return figures{}, err
	}
	f, err := c.measure(ctx, url, w, pinned)
	return f, errors.Join(err, stop())
}

// errors are those of all kinds.
func (f figures) errors() (n int) {
	for _, count := range f.Errors {
		n += count
	}
	return n
}

func (f figures) late() float64 {
	return float64(f.Publishers.Late) / float64(max(f.Publishers.Frames, 1))
}
