package load

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"sightline/cmd/internal/testvideo"
)

const usage = `sightline-load plays browsers and agents against a Sightline gateway and reports what they saw.

  sightline-load                                                    one browser, one agent, 10 s
  sightline-load --publishers 100 --agents 2 --duration 30s --max-p99-image-ms 100 --max-lost 0
  sightline-load --publishers 50 --switch-every 10s --duration 1m   a switch of pipelines in every session, again and again
  sightline-load --publishers 20 --churn 5s --loss 5% --delay 50ms  sessions that come and go over a bad network
  sightline-load --session demo --agents 0 --keep --duration 1h     a camera for the page or sightline-agent

Ctrl-C ends it in order, with the report; again: at once. docs/load.md explains every figure.
Exit code: 0 within the limits, 1 a limit is broken, a publisher failed or agents saw different logs, 2 usage or cannot connect.
Flags (SIGHTLINE_URL, SIGHTLINE_TOKEN and SIGHTLINE_AUTH_KEY in the environment stand in for --url, --token and --auth-key):
`

type options struct {
	url, agentURL, token, authKey, audience, session string
	publishers, agents, slowAgents                   int
	duration, startEvery, slowFor                    time.Duration

	clip, codec, size, speech string
	temporal                  int
	fps, bitrate              float64
	keyEvery                  time.Duration
	simulcast, ignorePLI      bool

	imageFPS                rates
	imageSize               string
	requestEvery            time.Duration
	appendEvery             time.Duration
	switchEvery             time.Duration
	switchBetween           string
	churn                   time.Duration
	loss                    share
	delay, jitter           time.Duration
	noContext, keep         bool
	json, html              string
	progress                time.Duration
	limits                  []*limit
	width, height           int // of size
	imageWidth, imageHeight int
}

// share is a part of the whole: "0.05" and "5%" are the same.
type share float64

// String implements flag.Value.
func (s *share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Set implements flag.Value.
func (s *share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) { // NaN is neither
		return errors.New("a share is allowed: 0% to 100%, or 0 to 1")
	}
	*s = share(v)
	return nil
}

// rates are dealt out to agents in turn.
type rates []float64

// String implements flag.Value.
func (r *rates) String() string {
	texts := make([]string, len(*r))
	for i, v := range *r {
		texts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (r *rates) Set(text string) error {
	*r = nil
	for one := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(one), 64)
		if err != nil || !(v > 0 && v <= 1000) {
			return errors.New("rates are allowed, above 0 and up to 1000, with commas between them")
		}
		*r = append(*r, v)
	}
	return nil
}

func newFlags(o *options, getenv func(string) string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("sightline-load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, usage); f.PrintDefaults() }
	f.StringVar(&o.url, "url", or(getenv("SIGHTLINE_URL"), "http://127.0.0.1:8080"), "the gateway's `URL`")
	f.StringVar(&o.agentURL, "agent-url", "", "`URL` that agents attach to, where it is another")
	f.StringVar(&o.token, "token", getenv("SIGHTLINE_TOKEN"), "bearer `token`, where the gateway wants one: of an admin, for all sessions (*)")
	f.StringVar(&o.authKey, "auth-key", getenv("SIGHTLINE_AUTH_KEY"), "make a token for each session by this `key`, the gateway's --auth-key: a file, or the secret")
	f.StringVar(&o.audience, "audience", "", "the gateway's --auth-audience, for --auth-key")
	for _, secret := range []string{"token", "auth-key"} {
		f.Lookup(secret).DefValue = "" // --help shows defaults
	}
	f.StringVar(&o.session, "session", "load", "session `name`; with several publishers or --churn a prefix: name-1, name-2, …")

	f.IntVar(&o.publishers, "publishers", 1, "how many browsers at once, each in a session of its own")
	f.IntVar(&o.agents, "agents", 1, "agents in each session")
	f.IntVar(&o.slowAgents, "slow-agents", 0, "so many agents more in all, dealt out to the sessions, that take their time for every image")
	f.DurationVar(&o.slowFor, "slow-for", 2*time.Second, "how long a slow agent reads nothing after an image; what the kernels hold for it, about a megabyte, comes before images are superseded")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "how long to measure once everybody is connected")
	f.DurationVar(&o.startEvery, "start-every", 20*time.Millisecond, "pause between two publishers that begin")
	f.DurationVar(&o.churn, "churn", 0, "sessions come and go: each ends after this time, give or take a half, and a new one takes its place; 0 = they stay")

	f.StringVar(&o.clip, "clip", "", "IVF `file` with VP8 or H264 to send in a loop, from memory; for --simulcast two or three, the smallest first, with commas between them (default: synthetic video)")
	f.IntVar(&o.temporal, "temporal-layers", 1, "the --clip was coded in so many temporal layers: 1, 2 or 3, as libvpx orders them")
	f.StringVar(&o.codec, "codec", "vp8", "`codec` of synthetic video: vp8 or h264")
	f.StringVar(&o.size, "size", "640x480", "`size` of synthetic video")
	f.Float64Var(&o.fps, "fps", 0, "frames a second to send; 0 = the clip's own rate, 30 of synthetic video")
	f.Float64Var(&o.bitrate, "bitrate", 1000, "`kbit/s` of synthetic video, about; the noise in it takes 1000 at 640x480 whatever is asked")
	f.DurationVar(&o.keyEvery, "key-every", 4*time.Second, "time between key frames of synthetic video when nobody asks; one that is asked for comes at once")
	f.BoolVar(&o.simulcast, "simulcast", false, "send three layers: the size, its half and its quarter")
	f.BoolVar(&o.ignorePLI, "ignore-pli", false, "send key frames only when the clip has one, also when asked")
	f.StringVar(&o.speech, "speech", "", "a microphone that says this Ogg Opus `file` again and again; \"builtin\" = 11 s of a speech (default: no microphone)")

	f.Var(&o.imageFPS, "image-fps", "`rates` of images a second that agents ask for; several, with commas between them, are dealt out in turn")
	f.StringVar(&o.imageSize, "image-size", "1024x1024", "`size` of the images")
	f.DurationVar(&o.requestEvery, "request-every", 0, "each agent also asks for one image so often, none older than 1 s; 0 = never")
	f.DurationVar(&o.appendEvery, "append-every", 10*time.Second, "each agent adds a message to the conversation so often; 0 = never")
	f.DurationVar(&o.switchEvery, "switch-every", 0, "a switch of pipelines in every session so often; 0 = never")
	f.StringVar(&o.switchBetween, "switch-between", "", "two `pipelines` of the gateway to switch between, as local,local-realtime (default: two that the session's first agent offers)")
	f.BoolVar(&o.noContext, "no-context", false, "agents do not follow the conversation, and nothing is checked of it")

	f.Var(&o.loss, "loss", "`share` of packets that the network loses each way, as 5%")
	f.DurationVar(&o.delay, "delay", 0, "how long the network takes each way")
	f.DurationVar(&o.jitter, "jitter", 0, "up to so much longer for each packet, by chance")

	f.StringVar(&o.json, "json", "", "write the report as JSON into this `file`")
	f.StringVar(&o.html, "html", "", "write the report as a page with plots into this `file`")
	f.DurationVar(&o.progress, "progress", time.Second, "time between two lines of progress; 0 = none")
	f.BoolVar(&o.keep, "keep", false, "leave the sessions to the gateway; otherwise they are deleted, with their conversations")
	o.limits = limitFlags(f)
	return f
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	o := options{imageFPS: rates{1}}
	f := newFlags(&o, getenv, stderr)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func (o *options) check() (err error) {
	if o.width, o.height, err = parseSize("--size", o.size); err != nil {
		return err
	}
	if o.imageWidth, o.imageHeight, err = parseSize("--image-size", o.imageSize); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"start-every": o.startEvery, "slow-for": o.slowFor, "churn": o.churn, "request-every": o.requestEvery,
		"append-every": o.appendEvery, "switch-every": o.switchEvery, "delay": o.delay, "jitter": o.jitter, "progress": o.progress} {
		if d < 0 || d > 24*time.Hour {
			return fmt.Errorf("--%s %v: 0 to 24h are allowed", name, d)
		}
	}
	clips := strings.Count(o.clip, ",") + 1
	switch {
	case o.publishers < 1 || o.publishers > 10000:
		return fmt.Errorf("--publishers %d: 1 to 10000 are allowed", o.publishers)
	case o.agents < 0 || o.agents > 1000:
		return fmt.Errorf("--agents %d: 0 to 1000 are allowed", o.agents)
	case o.slowAgents < 0 || o.slowAgents > 10000:
		return fmt.Errorf("--slow-agents %d: 0 to 10000 are allowed", o.slowAgents)
	case o.duration <= 0:
		return fmt.Errorf("--duration %v: must be more than 0", o.duration)
	case o.codec != "vp8" && o.codec != "h264":
		return fmt.Errorf("--codec %q: vp8 and h264 are allowed", o.codec)
	case math.IsNaN(o.bitrate) || o.bitrate < 10 || o.bitrate > 100_000:
		return fmt.Errorf("--bitrate %g: 10 to 100000 are allowed", o.bitrate)
	case math.IsNaN(o.fps) || o.fps < 0 || o.fps > 240:
		return fmt.Errorf("--fps %g: 0 to 240 are allowed", o.fps)
	case o.keyEvery < 100*time.Millisecond || o.keyEvery > time.Minute:
		return fmt.Errorf("--key-every %v: 100ms to 1m are allowed", o.keyEvery)
	case o.simulcast && o.clip != "" && (clips < 2 || clips > 3):
		return errors.New("--simulcast with --clip: two or three files are allowed, the smallest first, with commas between them")
	case o.temporal < 1 || o.temporal > 3 || o.temporal > 1 && o.clip == "":
		return fmt.Errorf("--temporal-layers %d: 1 to 3 are allowed, 2 and 3 with --clip only", o.temporal)
	case !o.simulcast && clips > 1:
		return errors.New("--clip: several files are layers, for --simulcast only")
	case o.delay > time.Minute || o.jitter > time.Minute:
		return errors.New("--delay and --jitter: 0 to 1m are allowed")
	case o.churn > 0 && o.churn < 500*time.Millisecond:
		return fmt.Errorf("--churn %v: 500ms and more are allowed, or 0", o.churn)
	case o.switchEvery > 0 && o.agents == 0:
		return errors.New("--switch-every needs agents: one of them asks for the switches")
	case o.switchEvery > 0 && o.switchEvery < 500*time.Millisecond:
		return fmt.Errorf("--switch-every %v: 500ms and more are allowed, or 0", o.switchEvery)
	case o.switchBetween != "" && strings.Count(o.switchBetween, ",") != 1:
		return fmt.Errorf("--switch-between %q: two names are allowed, with a comma between them", o.switchBetween)
	case o.token != "" && o.authKey != "":
		return errors.New("--token and --auth-key: one of them is allowed")
	}
	return checkLimits(o)
}

func parseSize(name, text string) (width, height int, err error) {
	w, h, ok := strings.Cut(text, "x")
	width, errW := strconv.Atoi(w)
	height, errH := strconv.Atoi(h)
	if !ok || errW != nil || errH != nil || width < 16 || height < 16 || width > 4096 || height > 4096 {
		return 0, 0, fmt.Errorf("%s %q: WIDTHxHEIGHT is allowed, each 16 to 4096", name, text)
	}
	return width, height, nil
}

// video is what the encoder is asked for: the largest layer last.
func (o *options) video() []testvideo.Config {
	full := testvideo.Config{Width: o.width, Height: o.height, FPS: or(o.fps, 30), Bitrate: int(o.bitrate * 1000), KeyEvery: o.keyEvery, Length: o.keyEvery}
	if !o.simulcast {
		return []testvideo.Config{full}
	}
	layers := make([]testvideo.Config, 3)
	for i, by := range []int{4, 2, 1} {
		layers[i] = full
		layers[i].Width, layers[i].Height = even(o.width/by), even(o.height/by)
		layers[i].Bitrate = full.Bitrate / (by * by)
	}
	return layers
}

func even(n int) int { return max(n&^1, 16) }

func or[T comparable](value, fallback T) T {
	var zero T
	if value != zero {
		return value
	}
	return fallback
}
