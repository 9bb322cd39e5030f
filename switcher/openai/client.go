// Package openai gives a cascade engines that speak OpenAI's HTTP interface to whatever server has one: chat completions, transcriptions and speech; it knows no session, and no provider but as a Profile.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Config says where a server is. Zero fields mean the default that is named.
type Config struct {
	// BaseURL is http or https, up to and with the version: "http://127.0.0.1:8080/v1".
	BaseURL string
	// Key goes out as a bearer token; "" = none is sent. It is in no log and no error.
	Key string `json:"-"`
	// KeyHeader takes the key in another header, as it is; "" = Authorization.
	KeyHeader string
	// PlainKey allows a key over http to a host that is not on this machine or a private network.
	PlainKey bool
	// HTTP is the client; nil = one of our own, without redirects. Its timeout must be 0: requests end with their contexts.
	HTTP *http.Client

	MaxInFlight int     // requests at the same time, 0 = 64; more wait
	PerSecond   float64 // requests in a second, 0 = no limit; more wait

	Profile Profile
	Log     *slog.Logger // nil = none
}

// LogValue leaves the key out.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("base_url", c.BaseURL), slog.Bool("key", c.Key != ""))
}

// String is what is printed of a Config: no key.
func (c Config) String() string {
	return fmt.Sprintf("openai.Config{%s, key: %t}", c.BaseURL, c.Key != "")
}

// GoString is String, so that %#v does not print the key either.
func (c Config) GoString() string { return c.String() }

// Client is a server that engines are made for. Safe for concurrent use.
type Client struct {
	cfg   Config
	base  string // without a slash at its end
	slots chan struct{}
	limit *rate.Limiter
}

// Bounds of what is sent and taken.
const (
	maxErrorBytes  = 8 << 10
	maxMessage     = 300      // runes of a provider's words in an error
	maxRequest     = 64 << 20 // bytes of a request's body; images are most of it
	maxStream      = 32 << 20 // bytes of an answer's stream
	maxLine        = 4 << 20  // bytes of one event
	maxText        = 256 << 10
	maxArguments   = 256 << 10
	maxCalls       = 64
	maxTranscript  = 1 << 20
	maxSpeechBytes = 64 << 20
)

// New checks a Config. It asks nobody.
func New(c Config) (*Client, error) {
	base, err := checkBase(c)
	if err != nil {
		return nil, err
	}
	if c.MaxInFlight < 0 || c.PerSecond < 0 {
		return nil, errors.New("max_in_flight and per_second are not negative; 0 is the default")
	}
	if strings.ContainsAny(c.Key, "\r\n\x00") {
		return nil, errors.New("the key holds a line break: take the white space off its ends")
	}
	if c.HTTP == nil {
		c.HTTP = newHTTP()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	cl := &Client{cfg: c, base: base, slots: make(chan struct{}, max(c.MaxInFlight, 0))}
	if c.MaxInFlight == 0 {
		cl.slots = make(chan struct{}, 64)
	}
	if c.PerSecond > 0 {
		cl.limit = rate.NewLimiter(rate.Limit(c.PerSecond), max(1, int(c.PerSecond)))
	}
	return cl, nil
}

func newHTTP() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConns: 64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a key is not carried elsewhere
	}
}

func checkBase(c Config) (string, error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "", errors.New("base_url: an http or https URL with a host is needed, such as http://127.0.0.1:8080/v1")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("base_url: scheme %q: allowed are http and https", u.Scheme)
	case u.User != nil:
		return "", errors.New("base_url: no user and no password belong in it; give the key as key")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", errors.New("base_url: nothing may follow the path")
	case c.Key != "" && u.Scheme == "http" && !c.PlainKey && !near(u.Hostname()):
		return "", fmt.Errorf("base_url: a key would go over plain http to %s: use https, or set plain_key", u.Hostname())
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

// near: this machine, a private network, or a bare name as containers have.
func near(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return host == "localhost" || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}

// post sends a request and gives its answer when that is a success; its body must be closed. ctx bounds all of it, the reading of
// the body too.
func (c *Client) post(ctx context.Context, path, contentType, accept string, body []byte) (*http.Response, error) {
	if len(body) > maxRequest {
		return nil, invalid("the request has %d bytes, at most %d are sent", len(body), maxRequest)
	}
	if c.limit != nil {
		if err := c.limit.Wait(ctx); err != nil {
			return nil, unreachable(ctx, err)
		}
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, unreachable(ctx, ctx.Err())
	}
	res, err := c.send(ctx, path, contentType, accept, body)
	if err != nil {
		<-c.slots
		return nil, err
	}
	res.Body = &slotted{ReadCloser: res.Body, free: func() { <-c.slots }}
	return res, nil
}

func (c *Client) send(ctx context.Context, path, contentType, accept string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, invalid("the request cannot be made")
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "sightline")
	switch {
	case c.cfg.Key == "":
	case c.cfg.KeyHeader != "":
		req.Header.Set(c.cfg.KeyHeader, c.cfg.Key)
	default:
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	res, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, unreachable(ctx, c.redacted(err))
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) // what came of it says enough
	return nil, c.statusError(res, text)
}

// slotted frees its request's slot once.
type slotted struct {
	io.ReadCloser
	free func()
}

func (s *slotted) Close() error {
	err := s.ReadCloser.Close()
	if s.free != nil {
		s.free()
		s.free = nil
	}
	return err
}
