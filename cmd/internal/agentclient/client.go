// Package agentclient attaches a Go program to a session over the agent socket (PROTOCOL.md §3), mirrors the conversation and reconnects by itself; it decides nothing about what to say.
//
// # Guarantees
//
//   - G1: Handler.Entry is called once per entry, in sequence, across any number of reconnects. A gap or a repetition from
//     the gateway is never passed on: the client reconnects and resumes after the last entry it has applied. Only where
//     the gateway's log does not reach back that far does a snapshot stand for the entries missed.
//   - G3: an operation that was sent when the connection broke is sent again with the same op_id, so that it is applied once.
//   - G9: there is no queue of images: while a Handler runs nothing is read, and the gateway then sends the newest.
//   - G13: Run returns with none of its goroutines left.
package agentclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/wire"
)

// Config says where to attach and as whom.
type Config struct {
	URL     string // of the gateway: http, https, ws or wss; a path is kept as a prefix
	Session string
	AgentID string
	Token   string // sent as a bearer token when not empty
	Want    wire.Want
	// WaitForSession: a session that is not there (404) is waited for; else that ends Run, as any refusal does that trying again cannot
	// heal.
	WaitForSession bool
	// FromStart asks for every entry since the first instead of a snapshot.
	FromStart bool
	Handler   Handler
	Legs      []Leg // pipelines that the client offers
	// RetryMin and RetryMax bound the pause before the next attempt to connect, which doubles from one to the other;
	// 0 = 250 ms and 5 s.
	RetryMin, RetryMax time.Duration
	Log                *slog.Logger // nil = silent
}

// Handler is told what happens. Every function may be nil. They are called one at a time from the goroutine that reads
// the socket: what they hold up is not read, and none of them may wait for Append or RequestImage.
type Handler struct {
	Attached func(wire.Welcome)  // also after each reconnect; with a Snapshot when the conversation starts from one
	Entry    func(chatctx.Entry) // after it was applied to the mirror
	Image    func(Image)         // subscribed ones; requested ones are returned by RequestImage
	Source   func(wire.Source)
	Refused  func(wire.Error) // an error that answers no operation or request of this client
	Bye      func(wire.Bye)   // the gateway is about to close

	Switched   func(wire.PipelineCommitted)
	Aborted    func(wire.PipelineAborted)
	Transcript func(wire.Transcript) // with Want.Transcripts, as is Played
	Played     func(wire.Played)
	ToolCall   func(wire.ToolCall) // a tool that tools.set offers; answer it by Do with a wire.ToolResult

	// Detached: the connection or the attempt to connect ended by err; the next attempt is after the pause.
	Detached func(err error, pause time.Duration)
}

// Image is one image with its header.
type Image struct {
	wire.ImageHeader
	Data       []byte
	ReceivedAt time.Time
}

// Stats counts since New.
type Stats struct {
	Attached uint64 // welcomes, so reconnects are Attached-1
	Attempts uint64
	Entries  uint64
	Images   uint64
	// Superseded is the sum of what the gateway's headers said: images replaced by newer ones before they were sent.
	Superseded uint64
}

// Client is one attachment. Make it with New, then Run it; every other method may be called at any time.
type Client struct {
	cfg    Config
	target *url.URL
	dialer dialer
	slots  chan struct{} // one per operation or request in flight

	mu      sync.Mutex
	chat    *chatctx.ChatContext
	resume  bool   // the mirror holds what the gateway has told, up to its seq
	logID   string // of the log that the mirror follows
	conn    *conn
	ops     []*call          // unanswered operations, in order; sent again after a reconnect
	asks    map[string]*call // unanswered image requests, by request_id
	stats   Stats
	changed chan struct{} // closed and replaced whenever conn or chat changed
}

// maxInFlight bounds unanswered operations and image requests of one client.
const maxInFlight = 64

// New checks the configuration; it connects nothing.
func New(cfg Config) (*Client, error) {
	target, err := socketURL(cfg.URL, cfg.Session)
	if err != nil {
		return nil, err
	}
	if !chatctx.ValidID(cfg.Session) {
		return nil, fmt.Errorf("session %q: 1 to 64 of A-Z a-z 0-9 _ -", cfg.Session)
	}
	if !chatctx.ValidID(cfg.AgentID) {
		return nil, fmt.Errorf("agent id %q: 1 to 64 of A-Z a-z 0-9 _ -", cfg.AgentID)
	}
	if other := sessionOf(cfg.Token); other != "" && other != "*" && other != cfg.Session {
		return nil, fmt.Errorf("the token is for session %q, not for %q", other, cfg.Session) // the gateway would not tell: to it there is no such session
	}
	if cfg.RetryMin <= 0 {
		cfg.RetryMin = 250 * time.Millisecond
	}
	if cfg.RetryMax < cfg.RetryMin {
		cfg.RetryMax = max(5*time.Second, cfg.RetryMin)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{
		cfg: cfg, target: target, dialer: newDialer(), slots: make(chan struct{}, maxInFlight),
		chat: chatctx.New(), resume: cfg.FromStart, asks: map[string]*call{}, changed: make(chan struct{}),
	}, nil
}

func socketURL(base, session string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("gateway URL %q: %w", base, err)
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return nil, fmt.Errorf("gateway URL %q: must start with http://, https://, ws:// or wss://", base)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("gateway URL %q has no host", base)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/agent"
	u.RawQuery = url.Values{"session": {session}}.Encode()
	return u, nil
}

// sessionOf is the session that a token says it is for, "" where it says none that can be read. Nothing is verified.
func sessionOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Session string `json:"session"`
	}
	if data, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Session
}

// Run stays attached until ctx ends, then says bye and returns nil. It comes back from every lost connection, waits for a
// gateway that is not there and, with Config.WaitForSession, for a session that does not exist yet, and returns an error only
// where trying again cannot help: refused credentials, no such session, a protocol error, ErrReplaced.
func (c *Client) Run(ctx context.Context) error {
	pause := c.cfg.RetryMin
	for {
		welcomed, err := c.attach(ctx)
		if ctx.Err() != nil {
			c.failAsks(ctx.Err())
			return nil
		}
		c.failAsks(ErrDetached)
		if final(err, c.cfg.WaitForSession) {
			return err
		}
		if welcomed {
			pause = c.cfg.RetryMin
		}
		wait := retryIn(err, pause)
		if h := c.cfg.Handler.Detached; h != nil {
			h(err, wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		pause = min(2*pause, c.cfg.RetryMax)
	}
}

// retryIn spreads the pause, so that the agents of a restarted gateway do not come back all at once, and respects what
// the gateway asked for.
func retryIn(err error, pause time.Duration) time.Duration {
	var refused *HTTPError
	if errors.As(err, &refused) {
		if refused.RetryAfter > 0 {
			return refused.RetryAfter
		}
		if refused.Status == http.StatusNotFound {
			return min(pause, time.Second) // a session may appear at any moment
		}
	}
	return pause/2 + rand.N(pause/2+1)
}

// Chat is a copy of the conversation as told so far.
func (c *Client) Chat() *chatctx.ChatContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chat.Clone()
}

// Stats is a copy of the counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Changed is closed at the next change of the conversation or of the connection; ask for it before looking.
func (c *Client) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Connected reports whether the client is attached at this moment.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil
}

// signal wakes those who wait on Changed; the caller holds mu.
func (c *Client) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}
