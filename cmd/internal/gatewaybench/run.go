package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"sightline/cmd/internal/gatewaybench/probe"
	"sightline/cmd/internal/whipclient"
)

const usage = `gatewaybench measures a running gateway and prints Markdown tables. It needs the gateway's process id, to read what it costs:

  sightline serve --listen 127.0.0.1:8099 --retention 1ms --log-level error &
  gatewaybench --url http://127.0.0.1:8099 --pid $!

Run it from the module's root; it takes about two minutes. The parts voice, delay and switch have to be named (--only), and want the
gateway as "serve --pipeline none --barge-in off"; the part response wants "serve --pipeline local". Flags:
`

type bench struct {
	gateway          probe.Process
	seconds          time.Duration // of each steady load
	watched, unwatch *whipclient.Clip
	idleCalls        int   // at once, that nobody watches
	watchedCalls     int   // at once, with an agent each
	sessions         int   // opened and closed
	empty            int64 // the gateway's memory before anything, bytes
	speechFile       string
	voiceCalls       int // at once, that echo
	delayCalls       int // at once, whose delay is measured
	rounds           int // turns with the local engines
	endOfTurn        time.Duration
	switchCount      int
	tracked          *whipclient.Clip // of the part tracks
	trackCount       int
	policies         string // with commas
	out              io.Writer
}

type part struct {
	name  string
	run   func(*bench, context.Context) error
	named bool // runs only when it is named: the gateway has to run with certain flags
}

// parts are measured in this order: what leaves the heap large comes last.
var parts = []part{
	{"idle", (*bench).idle, false},
	{"images", (*bench).images, false},
	{"churn", (*bench).churn, false},
	{"voice", (*bench).voice, true},
	{"delay", (*bench).delay, true},
	{"switch", (*bench).switches, true},
	{"response", (*bench).response, true},
	{"tracks", (*bench).tracks, true},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{out: stdout}
	var watched, unwatched, tracked, only string
	f := flag.NewFlagSet("gatewaybench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, usage); f.PrintDefaults() }
	f.StringVar(&b.gateway.URL, "url", "http://127.0.0.1:8080", "the gateway's `URL`")
	f.IntVar(&b.gateway.PID, "pid", 0, "its process `id`")
	f.DurationVar(&b.seconds, "duration", 10*time.Second, "how long each steady load is measured")
	f.StringVar(&watched, "clip", "frames/testdata/face480_90.vp8.ivf", "IVF `file` of calls that are watched")
	f.StringVar(&unwatched, "clip-unwatched", "scripts/bench.d/media/cam720.vp8.ivf", "IVF `file` of calls that nobody watches")
	f.IntVar(&b.idleCalls, "idle-calls", 20, "calls at once that nobody watches")
	f.IntVar(&b.watchedCalls, "watched-calls", 10, "calls at once with an agent each")
	f.IntVar(&b.sessions, "sessions", 1000, "sessions to open and close")
	f.StringVar(&only, "only", "", "comma-separated `parts`: idle, images, churn, voice, delay, switch, response, tracks; empty = the first three")
	f.StringVar(&b.speechFile, "speech", "gateway/sound/testdata/speech/jfk.wav", "WAVE `file` that the callers of the part voice say")
	f.IntVar(&b.voiceCalls, "voice-calls", 50, "calls at once that echo")
	f.IntVar(&b.delayCalls, "delay-calls", 4, "calls at once of the part delay")
	f.IntVar(&b.rounds, "turns", 12, "turns of the part response")
	f.DurationVar(&b.endOfTurn, "end-of-turn", 600*time.Millisecond, "what the gateway runs with")
	f.IntVar(&b.switchCount, "switches", 200, "switches of the part switch, and a quarter as many that fail")
	f.StringVar(&tracked, "clip-tracks", "scripts/bench.d/media/cam720.vp8.ivf", "IVF `file` of the part tracks")
	f.IntVar(&b.trackCount, "tracks", 20, "tracks at once of the part tracks")
	f.StringVar(&b.policies, "policy", "full,temporal,keyframe,auto,nobody", "comma-separated `policies` of the part tracks")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	err := b.load(watched, unwatched)
	if slices.Contains(strings.Split(only, ","), "tracks") {
		err = errors.Join(err, b.loadTracked(tracked))
	}
	if err == nil {
		err = b.measure(ctx, only)
	}
	http.DefaultClient.CloseIdleConnections()
	if err != nil {
		fmt.Fprintln(stderr, "gatewaybench:", err)
		return 1
	}
	return 0
}

func (b *bench) load(watched, unwatched string) (err error) {
	if b.gateway.PID <= 0 {
		return errors.New("--pid is needed: the gateway's process id")
	}
	if min(b.idleCalls, b.watchedCalls, b.sessions, b.voiceCalls, b.delayCalls, b.rounds) < 1 || b.switchCount < 4 || b.seconds <= 0 {
		return errors.New("the numbers of calls, sessions and turns and --duration must be above 0, --switches above 3")
	}
	if b.watched, err = readClip(watched); err != nil {
		return err
	}
	b.unwatch, err = readClip(unwatched)
	return err
}

func readClip(name string) (*whipclient.Clip, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return whipclient.ReadIVF(name, file)
}

func (b *bench) measure(ctx context.Context, only string) error {
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if only != "" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("--only %q: the parts are idle, images, churn, voice, delay, switch, response and tracks", name)
		}
	}
	var err error
	if b.empty, err = b.gateway.Resident(); err != nil {
		return err
	}
	for _, part := range parts {
		if only == "" && part.named || only != "" && !slices.Contains(wanted, part.name) {
			continue
		}
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
