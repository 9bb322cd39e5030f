package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
	"sightline/switcher"
	"sightline/switcher/rules"
)

// Exit codes.
const (
	exitFine = iota
	exitFailed
	exitUsage
)

const usage = `sightline-agent attaches to a session of a Sightline gateway, prints what happens, saves
images and, where no pipeline has the floor, answers each message of the user by rules. Ctrl-C leaves.

  sightline-agent --session demo
  sightline-agent --session demo --images-dir images --fps 2
  sightline-agent --session demo --leg realtime --switch    be a pipeline of the call, and take the floor
  sightline-agent --session demo --switch=local-realtime    ask for a switch of pipelines, and watch
  sightline-agent --session demo --tools                    run the demo tools for whichever pipeline calls them

Flags (SIGHTLINE_URL and SIGHTLINE_TOKEN in the environment stand in for --url and --token):
`

type options struct {
	url, session, token, agentID, imagesDir string
	fps                                     float64

	speakingFPS float64
	onChange    bool
	maxGap      time.Duration

	leg      string       // kind of the pipeline that it offers, "" none
	switchTo switchTarget // asked for once
	tools    bool
}

// switchTarget is a flag that may be given without a value: the agent's own leg then.
type switchTarget struct {
	asked bool
	name  string
}

func (s *switchTarget) String() string   { return s.name }
func (s *switchTarget) IsBoolFlag() bool { return true }
func (s *switchTarget) Set(v string) error {
	s.asked, s.name = true, v
	if v == "true" || v == "false" {
		s.asked, s.name = v == "true", ""
	}
	return nil
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("sightline-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&o.url, "url", or(getenv("SIGHTLINE_URL"), "http://127.0.0.1:8080"), "the gateway's `URL`")
	flags.StringVar(&o.session, "session", "demo", "the session to attach to")
	flags.StringVar(&o.token, "token", getenv("SIGHTLINE_TOKEN"), "bearer `token`, where the gateway wants one")
	flags.StringVar(&o.imagesDir, "images-dir", "", "save each image into this `folder` (made if missing)")
	flags.Float64Var(&o.fps, "fps", 1, "images a second of each source; 0 = none")
	flags.Float64Var(&o.speakingFPS, "speaking-fps", 0, "images a second while the caller speaks; 0 = as --fps")
	flags.BoolVar(&o.onChange, "on-change", false, "only images that show something else than the one before, at most --fps")
	flags.DurationVar(&o.maxGap, "max-gap", 0, "with --on-change: an image after so long nevertheless; 0 = none")
	flags.StringVar(&o.agentID, "agent-id", "", "name in the conversation (default sightline-agent- and four random letters)")
	flags.StringVar(&o.leg, "leg", "", "offer a pipeline of this `kind`, cascade or realtime, made of the local engines")
	flags.Var(&o.switchTo, "switch", "ask once for a switch, to --switch=`NAME` or, alone, to the own --leg")
	flags.BoolVar(&o.tools, "tools", false, "run the demo tools (lookup_order, current_time) for the session")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.leg != "" && o.leg != string(switcher.Cascade) && o.leg != string(switcher.Realtime) {
		return o, fmt.Errorf("--leg %q: allowed are cascade and realtime", o.leg)
	}
	if o.switchTo.asked && o.switchTo.name == "" && o.leg == "" {
		return o, errors.New("--switch alone means the own leg, and there is none: say --switch=NAME, or --leg cascade|realtime")
	}
	if err := o.checkRates(); err != nil {
		return o, err
	}
	if o.agentID == "" {
		o.agentID = "sightline-agent-" + letters(4)
	}
	return o, nil
}

func (o options) checkRates() error {
	switch {
	case o.fps < 0:
		return fmt.Errorf("--fps %g: must be 0 or more", o.fps)
	case o.speakingFPS < 0:
		return fmt.Errorf("--speaking-fps %g: must be 0 or more", o.speakingFPS)
	case o.fps == 0 && (o.speakingFPS > 0 || o.onChange):
		return errors.New("--fps 0 wants no images: --speaking-fps and --on-change need a rate above it")
	case o.maxGap < 0 || o.maxGap > 0 && !o.onChange:
		return fmt.Errorf("--max-gap %v: must not be negative, and goes with --on-change", o.maxGap)
	}
	return nil
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitFine
	case err != nil:
		fmt.Fprintf(stderr, "sightline-agent: %v (--help lists the flags)\n", err)
		return exitUsage
	}
	if o.imagesDir != "" {
		if err := os.MkdirAll(o.imagesDir, 0o755); err != nil {
			fmt.Fprintln(stderr, "sightline-agent:", err)
			return exitUsage
		}
	}
	a := newAgent(o, stdout, rules.Responder{})
	legs, err := a.legs()
	if err != nil {
		fmt.Fprintln(stderr, "sightline-agent:", err)
		return exitUsage
	}
	a.client, err = agentclient.New(agentclient.Config{
		URL: o.url, Session: o.session, WaitForSession: true, Token: o.token, AgentID: o.agentID, Want: want(o),
		Legs: legs,
		Handler: agentclient.Handler{Attached: a.attached, Entry: a.entry, Image: a.image, Source: a.source,
			Refused: a.refused, Bye: a.bye, Detached: a.detached,
			Switched: a.switched, Aborted: a.aborted, Transcript: a.transcript, Played: a.played, ToolCall: a.toolCall},
	})
	if err != nil {
		fmt.Fprintln(stderr, "sightline-agent:", err)
		return exitUsage
	}
	if err := a.run(ctx); err != nil {
		fmt.Fprintln(stderr, "sightline-agent:", err)
		return exitFailed
	}
	return exitFine
}

func want(o options) wire.Want {
	w := wire.Want{Context: true, Transcripts: o.leg != "" || o.switchTo.asked}
	if o.fps > 0 {
		w.Images = []wire.WantImage{{
			Source: "*", FPS: o.fps, SpeakingFPS: o.speakingFPS, OnChange: o.onChange, MaxGapMS: int(o.maxGap.Milliseconds()),
		}}
	}
	return w
}

func or(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rand.IntN(26))
	}
	return string(b)
}

// role of an item for printing; other kinds than messages print their kind.
func role(item chatctx.Item) string {
	if m, ok := item.(*chatctx.Message); ok {
		return string(m.Role)
	}
	return string(item.Kind())
}
