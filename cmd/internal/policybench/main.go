// Command policybench asks a running gateway for images, one at a time, of a publisher that answers requests for key frames at its next
// frame, and prints how long a fresh one takes under each decode policy; and what idle video tracks take of memory. For scripts/bench.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sightline/cmd/internal/gatewaybench/probe"
	"sightline/cmd/internal/whipclient"
)

type config struct {
	url, clip string
	pid       int
	requests  int
	idle      int
}

func main() {
	var c config
	flag.StringVar(&c.url, "url", "", "of the gateway")
	flag.IntVar(&c.pid, "pid", 0, "of the gateway")
	flag.IntVar(&c.requests, "requests", 100, "under each policy")
	flag.IntVar(&c.idle, "idle", 20, "tracks that nobody watches")
	flag.Parse()
	c.clip = flag.Arg(0)
	if err := run(context.Background(), c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "policybench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, out io.Writer) error {
	f, err := os.Open(c.clip)
	if err != nil {
		return err
	}
	defer f.Close()
	clip, err := whipclient.ReadIVF(c.clip, f)
	if err != nil {
		return err
	}
	end, err := publish(ctx, c.url, clip, "policy")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| policy | request → fresh image over HTTP, p50, ms | p99, ms | longest, ms | wanted |\n|---|---|---|---|---|\n")
	interval := time.Duration(float64(time.Second) / clip.FPS)
	for _, policy := range []string{"keyframe", "full"} {
		took, err := c.latencies(ctx, policy)
		if err != nil {
			return errors.Join(err, end())
		}
		wanted := ""
		if policy == "keyframe" {
			p50, p99 := interval+25*time.Millisecond, 100*time.Millisecond
			wanted = fmt.Sprintf("p50 at most %d, p99 at most %d", p50.Milliseconds(), p99.Milliseconds())
			if percentile(took, 50) > p50 || percentile(took, 99) > p99 {
				wanted += ": **missed**"
			}
		}
		fmt.Fprintf(out, "| `%s` | %.1f | %.1f | %.1f | %s |\n", policy, ms(percentile(took, 50)), ms(percentile(took, 99)), ms(percentile(took, 100)), wanted)
	}
	if err := end(); err != nil {
		return err
	}
	return c.memory(ctx, clip, out)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func percentile(sorted []time.Duration, p int) time.Duration { return sorted[(len(sorted)-1)*p/100] }

// publish returns once media flows; end stops it.
func publish(ctx context.Context, url string, clip *whipclient.Clip, session string) (end func() error, err error) {
	p, err := whipclient.New(whipclient.Config{URL: url, Session: session, Clip: clip})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	end = func() error {
		cancel()
		return <-done
	}
	select {
	case <-p.Connected():
		return end, nil
	case err := <-done:
		cancel()
		return nil, err
	}
}

// latencies asks at random times, further apart than senders answer.
func (c *config) latencies(ctx context.Context, policy string) (took []time.Duration, err error) {
	if _, err := c.ask(ctx, "PATCH", "/v1/sessions/policy/sources/camera", []byte(`{"policy":"`+policy+`"}`), 5*time.Second); err != nil {
		return nil, err
	}
	for i := range c.requests + 5 {
		begin := time.Now()
		if _, err := c.ask(ctx, "GET", "/v1/sessions/policy/image?max_age_ms=0&wait_ms=5000", nil, 10*time.Second); err != nil {
			return nil, err
		}
		if i >= 5 { // how coarse key frames are is known
			took = append(took, time.Since(begin))
		}
		time.Sleep(400*time.Millisecond + rand.N(400*time.Millisecond))
	}
	slices.Sort(took)
	return took, nil
}

// ask waits for a source that is not there yet.
func (c *config) ask(ctx context.Context, method, path string, body []byte, patience time.Duration) ([]byte, error) {
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case err != nil:
			return nil, err
		case answer.StatusCode == http.StatusOK:
			return data, nil
		case answer.StatusCode != http.StatusNotFound || time.Since(begin) > patience:
			return nil, fmt.Errorf("%s %s: %s: %.200s", method, path, answer.Status, data)
		}
	}
}

// memory measures tracks that were watched once and are no more.
func (c *config) memory(ctx context.Context, clip *whipclient.Clip, out io.Writer) error {
	gateway := probe.Process{PID: c.pid, URL: c.url}
	before, err := gateway.Resident()
	if err != nil {
		return err
	}
	var ends []func() error
	defer func() {
		var all sync.WaitGroup
		for _, end := range ends {
			all.Go(func() { _ = end() })
		}
		all.Wait()
	}()
	for i := range c.idle {
		session := fmt.Sprintf("idle%d", i)
		end, err := publish(ctx, c.url, clip, session)
		if err != nil {
			return err
		}
		ends = append(ends, end)
		if _, err := c.ask(ctx, "GET", "/v1/sessions/"+session+"/image?wait_ms=5000", nil, 10*time.Second); err != nil {
			return err
		}
	}
	time.Sleep(5 * time.Second) // nobody watches any more
	after, err := gateway.Resident()
	if err != nil {
		return err
	}
	held, err := c.held(ctx)
	if err != nil {
		return err
	}
	each := float64(after-before) / float64(c.idle) / 1e6
	wanted := ""
	if each > 2.5 || held > 0 {
		wanted = ": **missed**"
	}
	_, err = fmt.Fprintf(out, "\n%d video tracks that were watched once and are idle: %.2f MB of the gateway each (session, connection and buffers included; wanted at most 2.5%s), "+
		"%d bytes of decoders and encoders.\n", c.idle, each, wanted, held)
	return err
}

// held is the C memory of all tracks.
func (c *config) held(ctx context.Context) (bytes int64, err error) {
	data, err := c.ask(ctx, "GET", "/debug/sessions", nil, time.Second)
	if err != nil {
		return 0, err
	}
	var all struct {
		Live []struct {
			Tracks []struct{ CBytes int64 } `json:"tracks"`
		} `json:"live"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, err
	}
	for _, s := range all.Live {
		for _, t := range s.Tracks {
			bytes += t.CBytes
		}
	}
	return bytes, nil
}
