package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const usage = `capacity measures a gateway on one core, with sightline-load on the others. scripts/capacity builds what it needs and runs it. Flags:
`

type capacity struct {
	gateway, load string // programs
	work          string // a folder of its own
	quick         bool
	plot          string
	peer          string
	figures       bool
	seconds       time.Duration // of each measurement
	taskset       bool
	policies      bool // the gateway takes --decode-policy
	out, progress io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &capacity{out: stdout, progress: stderr, seconds: 8 * time.Second}
	f := flag.NewFlagSet("capacity", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, usage); f.PrintDefaults() }
	f.StringVar(&c.gateway, "gateway", "bin/sightline", "`program` that serves")
	f.StringVar(&c.load, "load", "bin/sightline-load", "`program` that loads")
	f.BoolVar(&c.quick, "quick", false, "fewer and shorter measurements, under 2 minutes")
	f.StringVar(&c.peer, "peer", "", "only compare with this Python `program`: sessions held before images come late")
	f.BoolVar(&c.figures, "figures", false, "only 100 sessions with two agents each, and 50 that switch pipelines")
	f.StringVar(&c.plot, "plot", "", "write the cost by number of sessions as SVG into this `file`")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if c.quick {
		c.seconds = 4 * time.Second
	}
	if err := c.all(ctx); err != nil {
		fmt.Fprintln(stderr, "capacity:", err)
		return 1
	}
	return 0
}

// video is a clip that publishers send.
type video struct {
	name   string // for people
	file   string
	layers int     // temporal
	cost   float64 // of a session with policy full, % of a core: where the search begins
}

func (c *capacity) all(ctx context.Context) (err error) {
	if c.work, err = os.MkdirTemp("", "capacity"); err != nil {
		return err
	}
	defer os.RemoveAll(c.work)
	help, _ := exec.CommandContext(ctx, c.gateway, "serve", "--help").CombinedOutput() // whatever it says is looked at
	c.policies = strings.Contains(string(help), "-decode-policy")
	_, err = exec.LookPath("taskset")
	c.taskset = err == nil && runtime.NumCPU() > 1
	small := video{"480p", "frames/testdata/face480_90.vp8.ivf", 1, 5}
	switch {
	case c.peer != "":
		return c.beside(ctx, small)
	case c.figures:
		return c.wanted(ctx, small)
	}
	big := video{"720p", "scripts/bench.d/media/cam720.vp8.ivf", 1, 11}
	fmt.Fprintf(c.out, "%s; %s. Camera clips of VP8 at 30 frames/s, replayed by sightline-load%s. A session has one agent, which asks for images of 1024×1024.\n\n",
		time.Now().UTC().Format("2006-01-02"), machine(), c.pinning())
	if err := c.chart(ctx, small, big); err != nil {
		return err
	}
	return c.growth(ctx, small)
}

func (c *capacity) pinning() string {
	if !c.taskset {
		return ", gateway and load on the same cores"
	}
	return fmt.Sprintf("; the gateway has one core to itself, sightline-load the other %d", runtime.NumCPU()-1)
}

func machine() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // without it the name is missing
	_, after, _ := strings.Cut(string(data), "model name")
	name, _, _ := strings.Cut(strings.TrimLeft(after, "\t :"), "\n")
	return fmt.Sprintf("%s, %d cores", or(name, "unknown CPU"), runtime.NumCPU())
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// layered codes a clip anew in three temporal layers. Without ffmpeg there is none.
func (c *capacity) layered(ctx context.Context, v video) (video, bool) {
	file := filepath.Join(c.work, v.name+".t3.ivf")
	kbit := map[string]string{"480p": "280,420,700", "720p": "1000,1500,2500"}[v.name]
	rate := kbit[strings.LastIndexByte(kbit, ',')+1:] + "k"
	command := exec.CommandContext(ctx, "ffmpeg", "-v", "error", "-y", "-i", v.file, "-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "6",
		"-b:v", rate, "-maxrate", rate, "-minrate", rate, "-bufsize", rate, "-g", "1000", "-error-resilient", "1", "-ts-parameters",
		"ts_number_layers=3:ts_target_bitrate="+kbit+":ts_rate_decimator=4,2,1:ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3", file)
	if out, err := command.CombinedOutput(); err != nil {
		fmt.Fprintf(c.progress, "no clip in temporal layers: ffmpeg: %v %s\n", err, out)
		return v, false
	}
	return video{v.name, file, 3, v.cost}, true
}
