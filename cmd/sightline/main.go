// Command sightline is the gateway: `sightline serve` runs it, `sightline version` says which it is.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2) // two: the second one cuts the drain short
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	os.Exit(program{args: os.Args[1:], getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr, signals: signals}.run())
}
