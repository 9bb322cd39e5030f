package gateway

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	chatctx "sightline/context"
	"sightline/context/fetch"
	"sightline/frames"
	"sightline/gateway/auth"
	"sightline/gateway/cluster"
	"sightline/gateway/rtc"
)

// Defaults of Config.
const (
	DefaultListen          = "127.0.0.1:8080"
	DefaultSessionGrace    = 60 * time.Second
	DefaultRetention       = 7 * 24 * time.Hour
	DefaultDrainTimeout    = 30 * time.Second
	DefaultMaxSessions     = 1000
	DefaultMaxEnded        = 1000
	DefaultMaxAgents       = 32
	DefaultMaxMessageBytes = 2 << 20
	DefaultOpsPerSecond    = 50
	DefaultMaxImageFPS     = 30
	DefaultMaxDecoderBytes = 2 << 30
)

// Config is all that a Server needs to know. The zero value, with a Store, serves this machine only.
type Config struct {
	Listen   string // where HTTP is served; only told apart as loopback or not here. Default DefaultListen
	Insecure bool   // serve addresses other than loopback without authentication
	// Auth checks the tokens that every request is then asked for, on loopback too; nil: everybody may do everything.
	Auth           *auth.Verifier
	Limits         Limits
	TrustedProxies []netip.Prefix // whose X-Forwarded-For and X-Forwarded-Proto are believed

	// AllowOrigins are web origins (scheme://host[:port]) besides the gateway's own whose pages may use the agent socket
	// and the HTTP API. Their hosts may also stand in the Host header.
	AllowOrigins []string
	WHIPStrict   bool // RFC 9725's PATCH preconditions to the letter

	Media rtc.Config    // UDP and TCP ports, public addresses, address policy
	Store chatctx.Store // where conversations live. Required; the caller closes it after Run
	// Directory is where sessions are on record, so that they go on after a restart; nil: in memory.
	Directory chatctx.Directory
	// Cluster makes this gateway one of several that share Store and Directory; nil: it is alone. The caller runs it beside Run, from
	// before until after.
	Cluster *cluster.Node
	// Health says why the store takes nothing now, nil when it does; readiness follows it. nil: always well.
	Health func() error
	Web    fs.FS // the console page, nil for none
	// WebPolicy is the Content-Security-Policy that the page is made for.
	WebPolicy string
	Log       *slog.Logger // nil: discard
	// Tracer makes spans of turns, switches and tool calls, without what is said in them (package gateway/trace). A request's traceparent
	// (W3C Trace Context) is their parent then. nil: none are made, at no cost.
	Tracer oteltrace.Tracer

	Pipelines PipelineConfig // what sessions talk with; zero: agents may register legs, nothing is built in

	// Stills makes smaller ones of large images, in its own bounds and turn; nil: one of the gateway's own.
	Stills *frames.Stills
	// Fetch gets the http(s) images that messages refer to, by its own rules; nil: they stay references, nothing is fetched.
	Fetch *fetch.Fetcher

	SessionGrace time.Duration // how long a session lives without publisher and agent
	Retention    time.Duration // how long an ended session stays readable
	DrainTimeout time.Duration // how long shutdown waits for what is under way

	MaxSessions     int     // live at once
	MaxEnded        int     // ended ones kept readable; the oldest is forgotten first
	MaxAgents       int     // agent sockets of one session
	MaxMessageBytes int     // of one message on an agent socket or one HTTP body
	MaxItemBytes    int     // see chatctx.LogConfig
	MaxImageBytes   int     // see chatctx.LogConfig
	OpsPerSecond    int     // of one agent, with twice that as burst
	MaxImageFPS     float64 // of one wish
	MaxDecoderBytes int     // C memory of all video decoders
	// MaxVideoBitrate is what a publisher is asked at most to send of one video source, in bits per second; it is asked for less when less
	// is wanted. -1: it is asked for nothing and sends what it likes.
	MaxVideoBitrate int
	DecodePolicy    frames.Policy // of sources for which nobody has set another; default frames.PolicyAuto

	hello, silence time.Duration // helloTimeout and silenceTimeout; tests shorten them
}

// withDefaults fills zero fields.
func (c Config) withDefaults() Config {
	def(&c.Listen, DefaultListen)
	def(&c.SessionGrace, DefaultSessionGrace)
	def(&c.Retention, DefaultRetention)
	def(&c.DrainTimeout, DefaultDrainTimeout)
	def(&c.MaxSessions, DefaultMaxSessions)
	def(&c.MaxEnded, DefaultMaxEnded)
	def(&c.MaxAgents, DefaultMaxAgents)
	def(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	def(&c.MaxItemBytes, chatctx.DefaultMaxItemBytes)
	def(&c.MaxImageBytes, chatctx.DefaultMaxImageBytes)
	def(&c.OpsPerSecond, DefaultOpsPerSecond)
	def(&c.MaxImageFPS, DefaultMaxImageFPS)
	def(&c.MaxDecoderBytes, DefaultMaxDecoderBytes)
	def(&c.hello, helloTimeout)
	def(&c.silence, silenceTimeout)
	def(&c.MaxVideoBitrate, DefaultMaxVideoBitrate)
	def(&c.DecodePolicy, frames.PolicyAuto)
	c.Media.MaxVideoBPS = max(c.MaxVideoBitrate, 0)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stills == nil {
		c.Stills = frames.NewStills(frames.StillsConfig{})
	}
	if c.Directory == nil {
		c.Directory = &chatctx.MemDirectory{}
	}
	c.Media.Log = c.Log
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate refuses what would be unsafe or could not work, in a sentence that says what to do.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Store == nil {
		return fmt.Errorf("Config.Store is required: chatctx.NewMemStore() keeps conversations in memory")
	}
	if !IsLoopback(c.Listen) && !c.Insecure && c.Auth == nil {
		return fmt.Errorf("refusing to listen on %s without authentication: give --auth-key or --auth-jwks, listen on 127.0.0.1, or say --insecure if everybody who can reach this address may see and hear every call", c.Listen)
	}
	if c.Insecure && c.Auth != nil {
		return fmt.Errorf("--insecure is to serve without authentication, and tokens are asked for: leave one of them out")
	}
	for _, o := range c.AllowOrigins {
		scheme, host, ok := strings.Cut(o, "://")
		if !ok || scheme != "http" && scheme != "https" || host == "" || strings.ContainsAny(host, "/?#") {
			return fmt.Errorf("allowed origin %q: an origin is http://host[:port] or https://host[:port], without a path", o)
		}
	}
	for name, n := range map[string]int{"MaxSessions": c.MaxSessions, "MaxEnded": c.MaxEnded, "MaxAgents": c.MaxAgents,
		"MaxMessageBytes": c.MaxMessageBytes, "MaxItemBytes": c.MaxItemBytes, "MaxImageBytes": c.MaxImageBytes, "OpsPerSecond": c.OpsPerSecond, "MaxDecoderBytes": c.MaxDecoderBytes} {
		if n < 1 {
			return fmt.Errorf("%s is %d: it must be at least 1", name, n)
		}
	}
	return nil
}

// IsLoopback reports whether a listen address (host:port) can be reached from this machine only.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
