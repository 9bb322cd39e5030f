// Package churn opens and closes sessions against a running gateway, each with a real WHIP publisher that sends media and some with an agent that sees it; it measures nothing but the time.
package churn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

// Config says how many sessions come and go.
type Config struct {
	URL        string
	Clip       *whipclient.Clip
	Prefix     string // of the sessions' ids
	Sessions   int
	AtOnce     int // batches of so many
	AgentEvery int // every n-th session has an agent that waits for an image; 0: none
}

// frames is what a publisher sends before it leaves, at least.
const frames = 3

// within bounds one session's life.
const within = 30 * time.Second

// Run opens and closes all sessions and returns when the last one is deleted, with the number of images seen.
func Run(ctx context.Context, cfg Config) (images int, err error) {
	for done := 0; done < cfg.Sessions; done += cfg.AtOnce {
		size := min(cfg.AtOnce, cfg.Sessions-done)
		results := make([]error, size)
		seen := make([]bool, size)
		var batch sync.WaitGroup
		for i := range size {
			n := done + i
			batch.Go(func() { seen[i], results[i] = one(ctx, cfg, n) })
		}
		batch.Wait()
		if err := errors.Join(results...); err != nil {
			return images, err
		}
		for _, s := range seen {
			if s {
				images++
			}
		}
	}
	return images, nil
}

// one is the life of one session.
func one(ctx context.Context, cfg Config, n int) (sawImage bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	id := fmt.Sprintf("%s-%d", cfg.Prefix, n)
	publisher, err := whipclient.New(whipclient.Config{URL: cfg.URL, Session: id, Clip: cfg.Clip})
	if err != nil {
		return false, err
	}
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- publisher.Run(publishing) }()
	select {
	case <-publisher.Connected():
	case err := <-ended:
		return false, fmt.Errorf("session %s: publisher: %w", id, errors.Join(err, ctx.Err()))
	}
	if cfg.AgentEvery > 0 && n%cfg.AgentEvery == 0 {
		if err := see(ctx, cfg.URL, id); err != nil {
			stop()
			return false, errors.Join(fmt.Errorf("session %s: agent: %w", id, err), <-ended)
		}
		sawImage = true
	}
	for publisher.Stats().Frames < frames && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	stop()
	if err := errors.Join(<-ended, ctx.Err()); err != nil {
		return sawImage, fmt.Errorf("session %s: publisher: %w", id, err)
	}
	return sawImage, remove(ctx, cfg.URL, id)
}

// see attaches an agent until it has received an image.
func see(ctx context.Context, url, id string) error {
	got := make(chan struct{}, 1)
	agent, err := agentclient.New(agentclient.Config{
		URL: url, Session: id, WaitForSession: true, AgentID: "agent", Want: wire.Want{Context: true, Images: []wire.WantImage{{Source: "*", FPS: 5}}},
		Handler: agentclient.Handler{Image: func(agentclient.Image) {
			select {
			case got <- struct{}{}:
			default:
			}
		}},
	})
	if err != nil {
		return err
	}
	attached, leave := context.WithCancel(ctx)
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(attached) }()
	select {
	case <-got:
	case err := <-ended:
		return errors.Join(err, ctx.Err())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), <-ended)
	}
	leave()
	return <-ended
}

func remove(ctx context.Context, url, id string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, url+"/v1/sessions/"+id, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("deleting session %s: %s", id, answer.Status)
	}
	return nil
}
