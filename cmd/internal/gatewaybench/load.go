package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

// calls is a number of publishers, each in a session of its own and sending a clip, some with an agent.
type calls struct {
	b          *bench
	ids        []string
	publishers []*whipclient.Publisher
	stop       context.CancelFunc
	running    sync.WaitGroup
	failed     chan error

	mu        sync.Mutex
	measuring bool
	latencies []time.Duration // from a frame's last packet to its image at the agent
	bytes     int
	unmatched int // images whose frame was sent too long ago to be found
}

// startEvery spaces the publishers out, so that their frames do not all arrive at the same moment.
const startEvery = 37 * time.Millisecond

// start connects n publishers; with imageFPS > 0 each has an agent that wants so many images a second.
func (b *bench) start(ctx context.Context, name string, n int, clip *whipclient.Clip, imageFPS float64) (*calls, error) {
	ctx, stop := context.WithCancel(ctx)
	c := &calls{b: b, stop: stop, failed: make(chan error, 2*n)}
	for i := range n {
		id := fmt.Sprintf("bench-%s-%d", name, i)
		publisher, err := whipclient.New(whipclient.Config{URL: b.gateway.URL, Session: id, Clip: clip})
		if err != nil {
			return nil, errors.Join(err, c.end())
		}
		c.ids, c.publishers = append(c.ids, id), append(c.publishers, publisher)
		c.running.Go(func() { c.fail(publisher.Run(ctx)) })
		select {
		case <-publisher.Connected():
		case err := <-c.failed:
			return nil, errors.Join(err, c.end())
		}
		if imageFPS > 0 {
			if err := c.attach(ctx, id, publisher, imageFPS); err != nil {
				return nil, errors.Join(err, c.end())
			}
		}
		<-time.After(startEvery)
	}
	return c, nil
}

func (c *calls) fail(err error) {
	if err != nil {
		c.failed <- err
	}
}

func (c *calls) attach(ctx context.Context, id string, publisher *whipclient.Publisher, fps float64) error {
	agent, err := agentclient.New(agentclient.Config{
		URL: c.b.gateway.URL, Session: id, WaitForSession: true, AgentID: "agent", Want: wire.Want{Context: true, Images: []wire.WantImage{{Source: "*", FPS: fps}}},
		Handler: agentclient.Handler{Image: func(i agentclient.Image) {
			_, sent, ok := publisher.SentAt(i.RTPTimestamp)
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case !c.measuring:
			case !ok:
				c.unmatched++
			default:
				c.latencies = append(c.latencies, i.ReceivedAt.Sub(sent))
				c.bytes += len(i.Data)
			}
		}},
	})
	if err != nil {
		return err
	}
	c.running.Go(func() { c.fail(agent.Run(ctx)) })
	return nil
}

// figures are of a steady load over a stretch of time.
type figures struct {
	took          time.Duration
	cpu           time.Duration // of the gateway
	resident      int64         // of the gateway at the end, bytes
	frames, late  uint64
	packets, bits uint64
	latencies     []time.Duration // sorted
	imageBytes    int
	unmatched     int
}

// measure lets the load settle, then looks at it for the bench's duration.
func (c *calls) measure(ctx context.Context) (figures, error) {
	if err := c.pass(ctx, min(2*time.Second, c.b.seconds)); err != nil {
		return figures{}, err
	}
	before, err := c.b.gateway.CPU()
	if err != nil {
		return figures{}, err
	}
	sent, begun := c.sent(), time.Now()
	c.mu.Lock()
	c.measuring = true
	c.mu.Unlock()
	if err := c.pass(ctx, c.b.seconds); err != nil {
		return figures{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = false
	after, err := c.b.gateway.CPU()
	if err != nil {
		return figures{}, err
	}
	now := c.sent()
	f := figures{took: time.Since(begun), cpu: after - before, frames: now.Frames - sent.Frames, late: now.Late - sent.Late,
		packets: now.Packets - sent.Packets, bits: 8 * (now.Bytes - sent.Bytes),
		latencies: slices.Clone(c.latencies), imageBytes: c.bytes, unmatched: c.unmatched}
	slices.Sort(f.latencies)
	f.resident, err = c.b.gateway.Resident()
	return f, err
}

// pass waits, unless a publisher or an agent fails meanwhile.
func (c *calls) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent is the publishers' counters together.
func (c *calls) sent() (sum whipclient.Stats) {
	for _, p := range c.publishers {
		s := p.Stats()
		sum.Frames += s.Frames
		sum.Late += s.Late
		sum.Packets += s.Packets
		sum.Bytes += s.Bytes
	}
	return sum
}

// end stops everybody and deletes the sessions.
func (c *calls) end() error {
	c.stop()
	c.running.Wait()
	var errs []error
	for _, id := range c.ids {
		request, err := http.NewRequest(http.MethodDelete, c.b.gateway.URL+"/v1/sessions/"+id, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		answer.Body.Close()
	}
	return errors.Join(errs...)
}

// quantile of sorted durations; 0 without any.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
