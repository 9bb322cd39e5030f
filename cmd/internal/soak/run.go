package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Exit codes.
const (
	exitFlat  = 0
	exitGrows = 1 // it grows, something is left, or there was an error
	exitUsage = 2
)

type options struct {
	gateway, load, out string
	minutes            float64
	publishers         int
	every              time.Duration
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.gateway, "gateway", "bin/sightline", "the gateway's `binary`")
	f.StringVar(&o.load, "load", "bin/sightline-load", "the load's `binary`")
	f.StringVar(&o.out, "out", "", "`folder` for the page, the samples and the logs (default: a new one under the system's)")
	f.Float64Var(&o.minutes, "minutes", 30, "how long, 1 at least")
	f.IntVar(&o.publishers, "publishers", 6, "sessions at once")
	f.DurationVar(&o.every, "every", 2*time.Second, "between two samples")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.minutes < 1 || o.minutes > 24*60:
		return o, fmt.Errorf("--minutes %g: 1 to 1440 are allowed", o.minutes)
	case o.publishers < 1 || o.publishers > 200:
		return o, fmt.Errorf("--publishers %d: 1 to 200 are allowed", o.publishers)
	case o.every < 100*time.Millisecond || o.every > time.Minute:
		return o, fmt.Errorf("--every %v: 100ms to 1m are allowed", o.every)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitFlat
	}
	if err == nil && o.out == "" {
		o.out, err = os.MkdirTemp("", "sightline-soak-")
	}
	if err == nil {
		err = os.MkdirAll(o.out, 0o700)
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return exitUsage
	}
	r, err := soak(ctx, o, stdout)
	if err != nil {
		r.errors = append(r.errors, err.Error())
	}
	if err := r.write(o.out); err != nil {
		r.errors = append(r.errors, err.Error())
	}
	r.print(stdout)
	fmt.Fprintln(stdout, "page:", filepath.Join(o.out, "soak.html"))
	if len(r.errors) > 0 || r.grows() {
		return exitGrows
	}
	return exitFlat
}

// soak runs the whole of it; what it has until an error is given with the error.
func soak(ctx context.Context, o options, stdout io.Writer) (*result, error) {
	r := &result{options: o, began: time.Now()}
	g, err := startGateway(ctx, o)
	if err != nil {
		return r, err
	}
	defer func() { r.errors = append(r.errors, g.stop()...) }()
	if r.empty, err = g.look(ctx); err != nil {
		return r, err
	}
	load, ended, err := startLoad(o, g.process.URL)
	if err != nil {
		return r, err
	}
	beat := time.NewTicker(o.every)
	defer beat.Stop()
	for told := time.Now(); ; {
		select {
		case err := <-ended:
			r.loadEnded = time.Since(r.began)
			if err != nil {
				r.errors = append(r.errors, fmt.Sprintf("sightline-load: %v; see load.log", err))
			}
			return r, r.settle(ctx, g)
		case <-ctx.Done():
			_ = load.Process.Signal(os.Interrupt)
			<-ended
			return r, errors.New("called off")
		case <-beat.C:
		}
		s, err := g.look(ctx)
		if err != nil {
			_ = load.Process.Kill()
			<-ended
			return r, fmt.Errorf("the gateway is gone or does not answer: %w", err)
		}
		s.at = time.Since(r.began)
		r.samples = append(r.samples, s)
		if time.Since(told) >= 30*time.Second {
			told = time.Now()
			fmt.Fprintf(stdout, "%6s  %v\n", s.at.Round(time.Second), s)
		}
	}
}

// settle waits until the gateway holds what it held when it was empty.
func (r *result) settle(ctx context.Context, g *gateway) error {
	const patience = 30 * time.Second
	for begun := time.Now(); ; {
		s, err := g.look(ctx)
		if err != nil {
			return err
		}
		s.at = time.Since(r.began)
		r.after = s
		if left := s.beyond(r.empty); left == "" {
			return nil
		} else if time.Since(begun) > patience {
			return errors.New("left when nobody is there any more: " + left)
		}
		select {
		case <-ctx.Done():
			return errors.New("called off")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// loadArgs: sessions that come and go with video and speech over a network that loses and delays a little, two agents each that
// write, a slow one, and switches of pipelines.
func loadArgs(o options, url string) []string {
	return []string{
		"--url", url, "--session", "soak", "--publishers", strconv.Itoa(o.publishers), "--agents", "2", "--slow-agents", "1",
		"--duration", time.Duration(o.minutes * float64(time.Minute)).String(), "--churn", "10s", "--speech", "builtin",
		"--append-every", "1s", "--switch-every", "5s", "--loss", "1%", "--delay", "20ms", "--jitter", "5ms",
		"--progress", "10s", "--json", filepath.Join(o.out, "load.json"), "--html", filepath.Join(o.out, "load.html"), "--max-errors", "0",
	}
}
