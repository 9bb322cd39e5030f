package whipclient

import (
	"context"

	"sightline/internal/faultnet"
)

// detour leads the media through a relay, which runs until ctx ends: the answer's addresses are replaced by its own.
func (p *Publisher) detour(ctx context.Context, answer string) (string, error) {
	relay, err := faultnet.New(*p.cfg.Relay)
	if err != nil {
		return "", err
	}
	if err := relay.Open(); err != nil {
		return "", err
	}
	p.mu.Lock()
	p.relay = relay
	p.mu.Unlock()
	p.tasks.Go(func() {
		if err := relay.Run(ctx); err != nil {
			p.cfg.Log.Warn("relay", "err", err)
		}
	})
	return relay.Answer(answer, onLoopback(p.endpoint))
}
