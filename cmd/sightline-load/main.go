// Command sightline-load plays the browsers and the agents of a load test against a gateway: publishers send a clip or synthetic video by WHIP, agents receive images, and a report says how fast and how many.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
