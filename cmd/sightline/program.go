package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
)

// program is the command as a value, so that tests can run it.
type program struct {
	args           []string
	getenv         func(string) string
	stdout, stderr io.Writer
	signals        <-chan os.Signal
	ready          chan<- string // told the URL once it serves; nil outside tests
}

// version is the release this tree becomes; CHANGELOG.md has its story.
const version = "0.1.0"

const usage = `usage: sightline COMMAND [flags]

  serve     run the gateway; sightline serve --help lists its flags
  context   read, check and convert saved conversations; sightline context lists its commands
  token     make a token for a publisher, an agent or an admin
  log       check, export and import the conversations of a data directory
  version   print the version and what it was built with
`

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
)

func (p program) run() int {
	if len(p.args) == 0 {
		fmt.Fprint(p.stderr, usage)
		return exitUsage
	}
	switch p.args[0] {
	case "serve":
		return p.serve(p.args[1:])
	case "context":
		return p.context(p.args[1:])
	case "token":
		return p.token(p.args[1:])
	case "log":
		return p.log(p.args[1:])
	case "version", "--version":
		fmt.Fprintf(p.stdout, "sightline %s (%s%s)\n", version, runtime.Version(), revision())
		return exitOK
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, usage)
		return exitOK
	}
	fmt.Fprintf(p.stderr, "sightline: unknown command %q\n\n%s", p.args[0], usage)
	return exitUsage
}

func (p program) serve(args []string) int {
	s, err := parseSettings(args, p.getenv, p.stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(p.stderr, "sightline serve:", err)
		return exitUsage
	}
	if err := p.serveUntilSignal(s); err != nil {
		fmt.Fprintln(p.stderr, "sightline serve:", err)
		return exitFail
	}
	return exitOK
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return ", " + s.Value
		}
	}
	return ""
}
