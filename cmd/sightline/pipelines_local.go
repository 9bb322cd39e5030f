package main

import (
	"context"
	"errors"
	"log/slog"

	gatewayrealtime "sightline/gateway/realtime"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/realtime"
)

// addLocal adds the pipelines that need no key: the local engines as a cascade, and the same engines behind our own end of the
// realtime dialect, within the process, as a realtime model.
func (t *talk) addLocal(e engines, log *slog.Logger) {
	if t.local == nil {
		return
	}
	p := cascadePipeline(localCascade, "local", e, []cascade.Model{t.local.Model}, log)
	t.loopback = gatewayrealtime.NewLoopback(gatewayrealtime.LoopbackConfig{Pipeline: p, Turns: t.Turns, Log: log})
	profile := realtime.Local()
	profile.Seeds = []switcher.SeedMode{switcher.SeedItems, switcher.SeedHybrid, switcher.SeedInstructions} // rules read items, not prose
	model := realtime.Config{
		Profile: profile, URL: "ws://localhost/v1", Model: localCascade, Silence: t.Turns.EndOfTurn,
		Dial: t.loopback.Dial, // whatever the address: no packet leaves the process
	}
	t.Builtin = append(t.Builtin, p, model.Pipeline(localRealtime))
}

// start keeps the local engines warm, and serves them as a realtime model, until stop, which waits for both.
func (t *talk) start() (stop func() error) {
	if t.local == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- t.local.Run(ctx) }()
	go func() { ended <- t.loopback.Run(ctx) }()
	return func() error {
		cancel()
		var errs []error
		for range cap(ended) {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}
