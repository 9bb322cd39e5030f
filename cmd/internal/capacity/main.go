// Command capacity measures how many sessions a core of a gateway holds, by decode policy, size and rate, and what a session costs as their number grows: it starts gateways and sightline-load again and again, and prints a chapter of Markdown and a plot.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
