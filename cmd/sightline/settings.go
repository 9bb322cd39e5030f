package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"sightline/context/jetstream"
	"sightline/frames"
	"sightline/gateway"
)

// settings are serve's flags. Each is also SIGHTLINE_NAME in the environment and a key of the --config file; a flag goes
// before the environment, the environment before the file.
type settings struct {
	listen       string
	dataDir      string
	nats         natsSettings
	storeBytes   int64
	talk         pipelineSettings
	auth         authSettings
	tls          tlsSettings
	trace        traceSettings
	udpPort      int
	tcpPort      int
	publicIPs    list
	denyPrivate  bool
	origins      list
	insecure     bool
	fetchImages  bool
	whipStrict   bool
	sessionGrace time.Duration
	retention    time.Duration
	drainTimeout time.Duration
	maxSessions  int
	maxAgents    int
	maxMessage   int
	maxDecoders  int
	maxBitrate   int
	noBitrateCap bool
	decodePolicy string
	logFormat    string
	logLevel     slog.Level
	config       string
}

// list is a flag that may be repeated or hold several values with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }
func (l *list) Set(s string) error {
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" && !slices.Contains(*l, v) {
			*l = append(*l, v)
		}
	}
	return nil
}

func (s *settings) flags(out io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("sightline serve", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.listen, "listen", gateway.DefaultListen, "`address` of HTTP, host:port; anything but loopback needs --auth-key, --auth-jwks or --insecure")
	f.StringVar(&s.dataDir, "data-dir", "", "`folder` of the conversations, or \"memory\" to keep them in memory only (default: sightline in the XDG state directory)")
	s.nats.flags(f)
	s.nats.nodeFlags(f)
	s.talk.flags(f)
	s.auth.flags(f)
	s.tls.flags(f)
	s.trace.flags(f)
	f.Int64Var(&s.storeBytes, "store-bytes", 0, "`bytes` that conversations may take, 0 = four fifths of the free disk, or 8 GiB in a cluster; never less than they were given before")
	f.IntVar(&s.udpPort, "udp-port", 0, "UDP `port` of all media, 0 = any free one")
	f.IntVar(&s.tcpPort, "tcp-port", 0, "ICE-TCP `port` for publishers behind firewalls that block UDP, 0 = any free one, -1 = off")
	f.Var(&s.publicIPs, "public-ip", "public `address` to tell publishers in place of this machine's own (1:1 NAT); repeatable")
	f.BoolVar(&s.denyPrivate, "deny-private", false, "send no media traffic to private addresses (for a gateway on the public internet)")
	f.Var(&s.origins, "allow-origin", "web `origin` besides our own whose pages may use the API, such as https://app.example; repeatable")
	f.BoolVar(&s.insecure, "insecure", false, "serve other addresses than loopback WITHOUT authentication: whoever reaches them sees every call")
	f.BoolVar(&s.fetchImages, "fetch-images", false, "fetch the https images that messages refer to, from public addresses only, and keep their bytes")
	f.BoolVar(&s.whipStrict, "whip-strict", false, "hold WHIP clients to RFC 9725's preconditions to the letter")
	f.DurationVar(&s.sessionGrace, "session-grace", gateway.DefaultSessionGrace, "how long a session lives without publisher and agent")
	f.DurationVar(&s.retention, "retention", gateway.DefaultRetention, "how long the conversation of an ended session stays readable")
	f.DurationVar(&s.drainTimeout, "drain-timeout", gateway.DefaultDrainTimeout, "how long a stop waits for what is under way; a second signal does not wait")
	f.IntVar(&s.maxSessions, "max-sessions", gateway.DefaultMaxSessions, "live sessions at once")
	f.IntVar(&s.maxAgents, "max-agents", gateway.DefaultMaxAgents, "agents attached to one session")
	f.IntVar(&s.maxMessage, "max-message-bytes", gateway.DefaultMaxMessageBytes, "bytes of one agent message or one HTTP body")
	f.IntVar(&s.maxDecoders, "max-decoder-bytes", gateway.DefaultMaxDecoderBytes, "C memory of all video decoders; a stream that does not fit shows no images until there is room")
	f.IntVar(&s.maxBitrate, "max-video-bitrate", gateway.DefaultMaxVideoBitrate, "`bits` a second that a publisher is asked to keep each video source to; to less when agents want less")
	f.BoolVar(&s.noBitrateCap, "no-bitrate-cap", false, "do not ask publishers to send less: each sends what it likes")
	f.StringVar(&s.decodePolicy, "decode-policy", string(frames.PolicyAuto), "what is decoded of a video source: auto, keyframe, temporal or full; PATCH /v1/sessions/ID/sources/NAME sets another for one")
	f.StringVar(&s.logFormat, "log-format", "text", "text or json")
	f.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	f.StringVar(&s.config, "config", "", "YAML `file` with these settings, keys as the flags' names")
	f.Usage = func() {
		fmt.Fprint(out, "usage: sightline serve [flags]\n\nServes the console page, WHIP, the HTTP API and the agent socket.\nEach flag is also SIGHTLINE_… in the environment (--udp-port: SIGHTLINE_UDP_PORT).\n\n")
		f.PrintDefaults()
	}
	return f
}

// parseSettings reads flags, environment and file; --help prints to out and gives flag.ErrHelp.
func parseSettings(args []string, getenv func(string) string, out io.Writer) (*settings, error) {
	s := &settings{}
	var complaints strings.Builder
	f := s.flags(&complaints)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, complaints.String())
			return nil, err
		}
		return nil, fmt.Errorf("%w; sightline serve --help lists the flags", err)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; flags begin with --", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	var err error
	f.VisitAll(func(fl *flag.Flag) {
		name := "SIGHTLINE_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		value := getenv(name)
		if given[fl.Name] || value == "" || err != nil {
			return
		}
		given[fl.Name] = true
		if e := fl.Value.Set(value); e != nil {
			err = fmt.Errorf("%s=%q: %w", name, value, e)
		}
	})
	if err == nil && s.config != "" {
		err = s.readFile(f, given)
	}
	if err == nil && s.dataDir == "" && s.nats.url == "" {
		s.dataDir, err = stateDir(getenv)
	}
	if err == nil {
		err = s.check()
	}
	return s, err
}

// readFile sets what neither a flag nor the environment has given.
func (s *settings) readFile(f *flag.FlagSet, given map[string]bool) error {
	data, err := os.ReadFile(s.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("--config %s: %w", s.config, err)
	}
	for key, value := range values {
		fl := f.Lookup(key)
		if fl == nil || key == "config" {
			return fmt.Errorf("--config %s: unknown key %q; the keys are the flags' names", s.config, key)
		}
		if given[key] {
			continue
		}
		texts := []any{value}
		if many, ok := value.([]any); ok {
			texts = many
		}
		for _, v := range texts {
			if err := fl.Value.Set(fmt.Sprint(v)); err != nil {
				return fmt.Errorf("--config %s: %s: %w", s.config, key, err)
			}
		}
	}
	return nil
}

func (s *settings) check() error {
	if err := errors.Join(s.nats.check(s.dataDir), s.auth.check(s.insecure), s.tls.check(s.dataDir)); err != nil {
		return err
	}
	if s.storeBytes != 0 && s.storeBytes < jetstream.MinStoreBytes {
		return fmt.Errorf("--store-bytes %d: allowed are 0, and %d or more", s.storeBytes, jetstream.MinStoreBytes)
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		return fmt.Errorf("--log-format %q: allowed are text and json", s.logFormat)
	}
	if _, err := frames.ParsePolicy(s.decodePolicy); err != nil {
		return fmt.Errorf("--decode-policy: %w", err)
	}
	if s.maxBitrate < gateway.MinVideoBitrate {
		return fmt.Errorf("--max-video-bitrate %d: allowed are %d bits a second or more; --no-bitrate-cap asks for nothing", s.maxBitrate, gateway.MinVideoBitrate)
	}
	for name, port := range map[string]int{"--udp-port": s.udpPort, "--tcp-port": s.tcpPort} {
		if port > 65535 || port < -1 || port == -1 && name == "--udp-port" {
			return fmt.Errorf("%s %s: allowed are 0 to 65535", name, strconv.Itoa(port))
		}
	}
	return s.talk.check()
}

// bitrate is the gateway's MaxVideoBitrate.
func (s *settings) bitrate() int {
	if s.noBitrateCap {
		return -1
	}
	return s.maxBitrate
}

func (s *settings) logger(out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
