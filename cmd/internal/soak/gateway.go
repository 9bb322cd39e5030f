package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sightline/cmd/internal/gatewaybench/probe"
)

// sample is what the gateway holds at one moment.
type sample struct {
	at time.Duration // since the beginning
	probe.Holdings
	heap, c  float64 // bytes: Go's heap in use, C memory of decoders and encoders
	sessions int     // live
}

func (s sample) String() string {
	return fmt.Sprintf("%v, Go heap %.1f MB, C %.1f MB, %d sessions", s.Holdings, s.heap/(1<<20), s.c/(1<<20), s.sessions)
}

// beyond lists what there is more of than before. Memory is none of it: it is looked at by its slope.
func (s sample) beyond(empty sample) string {
	var list []string
	if s.sessions > 0 {
		list = append(list, fmt.Sprintf("%d sessions", s.sessions))
	}
	if n := s.Goroutines - empty.Goroutines; n > 5 {
		list = append(list, fmt.Sprintf("%d goroutines", n))
	}
	if n := s.Files - empty.Files; n > 8 { // a store opens some of its files with the first entry
		list = append(list, fmt.Sprintf("%d files", n))
	}
	if s.c > 0 {
		list = append(list, fmt.Sprintf("%.0f bytes of C memory", s.c))
	}
	return strings.Join(list, ", ")
}

// gateway is the process that is looked at.
type gateway struct {
	process probe.Process
	command *exec.Cmd
	log     string
	ended   chan error
}

var announced = regexp.MustCompile(`serves (http://localhost:\d+)`)

func startGateway(ctx context.Context, o options) (*gateway, error) {
	g := &gateway{log: filepath.Join(o.out, "gateway.log"), ended: make(chan error, 1)}
	log, err := os.Create(g.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	g.command = exec.Command(o.gateway, "serve", "--listen", "127.0.0.1:0", "--pipeline", "none",
		"--data-dir", filepath.Join(o.out, "data"), "--retention", "1s", "--log-level", "warn")
	g.command.Stderr = log
	out, err := g.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := announced.FindStringSubmatch(lines.Text()); found != nil {
			g.process = probe.Process{PID: g.command.Process.Pid, URL: found[1]}
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		g.ended <- g.command.Wait()
	}()
	if g.process.URL == "" || ctx.Err() != nil {
		return nil, errors.Join(errors.New("the gateway did not say where it serves; see gateway.log"), errors.Join(toErrors(g.stop())...))
	}
	return g, nil
}

func toErrors(texts []string) (errs []error) {
	for _, t := range texts {
		errs = append(errs, errors.New(t))
	}
	return errs
}

// stop ends the gateway as Ctrl-C does and gives what was wrong: its exit code, errors in its log.
func (g *gateway) stop() (wrong []string) {
	_ = g.command.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(time.Minute, func() { _ = g.command.Process.Kill() })
	defer kill.Stop()
	if err := <-g.ended; err != nil {
		wrong = append(wrong, fmt.Sprintf("the gateway ended with: %v; see gateway.log", err))
	}
	log, err := os.ReadFile(g.log)
	if err != nil {
		return append(wrong, err.Error())
	}
	if n := bytes.Count(log, []byte("level=ERROR")); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d errors in gateway.log", n))
	}
	if bytes.Contains(log, []byte("panic:")) {
		wrong = append(wrong, "a panic in gateway.log")
	}
	return wrong
}

func (g *gateway) look(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var s sample
	var err error
	if s.Holdings, err = g.process.Look(ctx); err != nil {
		return s, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.process.URL+"/metrics", nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return s, err
	}
	for name, field := range map[string]*float64{
		"go_memstats_heap_inuse_bytes": &s.heap, "sightline_c_memory_bytes": &s.c,
	} {
		if *field, err = sum(string(text), name); err != nil {
			return s, err
		}
	}
	live, err := sum(string(text), `sightline_sessions{state="live"}`)
	stalled, err2 := sum(string(text), `sightline_sessions{state="stalled"}`)
	s.sessions = int(live + stalled)
	return s, errors.Join(err, err2)
}

// sum adds the values of a metric, over its labels if name has none of its own.
func sum(text, name string) (total float64, err error) {
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		total, found = total+v, true
	}
	if !found {
		return 0, fmt.Errorf("the gateway's metrics tell no %s", name)
	}
	return total, nil
}

func startLoad(o options, url string) (*exec.Cmd, <-chan error, error) {
	log, err := os.Create(filepath.Join(o.out, "load.log"))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	command := exec.Command(o.load, loadArgs(o, url)...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	return command, ended, nil
}
