// Command sightline-load plays the browsers and the agents of a load test against a gateway: publishers send clips or synthetic video and speech by WHIP, agents receive images and follow the conversation, and a report says how fast, how many and whether all of it was right.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sightline/cmd/internal/load"
	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/testvideo/h264"
	"sightline/cmd/internal/whipclient"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	os.Exit(load.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr, encode))
}

// encode makes synthetic video with the encoder of a codec.
func encode(ctx context.Context, codec string, cfg testvideo.Config) (*whipclient.Clip, error) {
	if codec == "h264" {
		return h264.Make(ctx, cfg)
	}
	return testvideo.Make(ctx, cfg)
}
