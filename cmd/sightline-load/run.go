package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
)

// Exit codes.
const (
	exitFine   = 0
	exitBroken = 1 // a limit given by flag is broken, or a publisher failed
	exitUsage  = 2 // usage, or nothing could connect
)

const usage = `sightline-load plays browsers and agents against a Sightline gateway and reports what they saw.

  sightline-load                                                    one browser, one agent, 10 s
  sightline-load --publishers 10 --agents 10 --image-fps 5 --duration 30s --max-p99-image-ms 50
  sightline-load --session demo --agents 0 --duration 1h            a camera for the page or sightline-agent

Exit code: 0 within the limits, 1 a limit is broken or a publisher failed, 2 usage or cannot connect.
Flags (SIGHTLINE_URL and SIGHTLINE_TOKEN in the environment stand in for --url and --token):
`

type options struct {
	url, token, session  string
	publishers, agents   int
	duration             time.Duration
	clip, report         string
	fps, imageFPS, maxMS float64
	ignorePLI            bool
	loss                 float64
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("sightline-load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&o.url, "url", or(getenv("SIGHTLINE_URL"), "http://127.0.0.1:8080"), "the gateway's `URL`")
	flags.StringVar(&o.token, "token", getenv("SIGHTLINE_TOKEN"), "bearer `token`, where the gateway wants one")
	flags.StringVar(&o.session, "session", "load", "session `name`; with several publishers a prefix: name-1, name-2, …")
	flags.IntVar(&o.publishers, "publishers", 1, "how many browsers, each in a session of its own")
	flags.IntVar(&o.agents, "agents", 1, "how many agents, dealt out to the sessions in turn")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long to measure once everybody is connected")
	flags.StringVar(&o.clip, "clip", "", "IVF `file` with VP8 to send in a loop (default: synthetic video, 640×480 at 30/s)")
	flags.Float64Var(&o.fps, "fps", 0, "frames a second to send; 0 = the clip's own rate")
	flags.Float64Var(&o.imageFPS, "image-fps", 1, "images a second that each agent asks for")
	flags.StringVar(&o.report, "report", "", "write the report as JSON into this `file`")
	flags.Float64Var(&o.maxMS, "max-p99-image-ms", 0, "limit: 99 of 100 images reach their agent within so many `ms` of their capture; 0 = none")
	flags.BoolVar(&o.ignorePLI, "ignore-pli", false, "send key frames only when the clip has one, also when asked")
	flags.Float64Var(&o.loss, "loss", 0, "share of packets to lose on the way, 0 to 1")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.check(flags)
}

func (o options) check(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.publishers < 1 || o.publishers > 10000:
		return fmt.Errorf("--publishers %d: 1 to 10000 are allowed", o.publishers)
	case o.agents < 0 || o.agents > 100000:
		return fmt.Errorf("--agents %d: 0 to 100000 are allowed", o.agents)
	case o.duration <= 0:
		return fmt.Errorf("--duration %v: must be more than 0", o.duration)
	case o.imageFPS <= 0:
		return fmt.Errorf("--image-fps %g: must be more than 0", o.imageFPS)
	case o.loss < 0 || o.loss > 1:
		return fmt.Errorf("--loss %g: 0 to 1 are allowed", o.loss)
	case o.maxMS > 0 && o.agents == 0:
		return errors.New("--max-p99-image-ms needs agents: nobody would receive an image")
	}
	return nil
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitFine
	case err != nil:
		fmt.Fprintf(stderr, "sightline-load: %v (--help lists the flags)\n", err)
		return exitUsage
	}
	clip, err := loadClip(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "sightline-load:", err)
		return exitUsage
	}
	fmt.Fprintf(stdout, "sending %s, %.3g frames/s, %.0f kbit/s, to %s\n", clip.Name, or(o.fps, clip.FPS), clip.Bitrate()*or(o.fps, clip.FPS)/clip.FPS/1000, o.url)
	l, err := newLoad(o, clip, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "sightline-load:", err)
		return exitUsage
	}
	report := l.run(ctx)
	report.print(stdout)
	if o.report != "" {
		if err := writeReport(o.report, report); err != nil {
			fmt.Fprintln(stderr, "sightline-load:", err)
			return exitUsage
		}
	}
	return verdict(o, report, stderr)
}

// verdict says in words which limit is broken.
func verdict(o options, r report, stderr io.Writer) int {
	switch {
	case r.Publishers.Connected == 0:
		fmt.Fprintf(stderr, "sightline-load: no publisher could connect to %s: is the gateway running there?\n", o.url)
		return exitUsage
	case r.Publishers.Failed > 0:
		fmt.Fprintf(stderr, "sightline-load: %d of %d publishers failed\n", r.Publishers.Failed, o.publishers)
		return exitBroken
	case o.agents > 0 && r.Images.Received == 0:
		fmt.Fprintln(stderr, "sightline-load: no agent received an image")
		return exitBroken
	case o.maxMS > 0 && r.Images.CaptureToAgent.P99 > o.maxMS:
		fmt.Fprintf(stderr, "sightline-load: limit broken: 99 of 100 images arrived within %.1f ms, allowed are %g ms\n", r.Images.CaptureToAgent.P99, o.maxMS)
		return exitBroken
	}
	return exitFine
}

func loadClip(ctx context.Context, o options) (*whipclient.Clip, error) {
	if o.clip == "" {
		return testvideo.Make(ctx, testvideo.Config{})
	}
	f, err := os.Open(o.clip)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return whipclient.ReadIVF(o.clip, f)
}

func writeReport(name string, r report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644)
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value != zero {
		return value
	}
	return fallback
}
