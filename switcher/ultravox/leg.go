package ultravox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
)

const tick = 50 * time.Millisecond

// Run implements switcher.Leg.
func (l *Leg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	if start.Log == nil {
		start.Log = slog.New(slog.DiscardHandler)
	}
	err := l.run(ctx, start, in, out)
	if ctx.Err() != nil { // that the session stops a leg is no failure of it
		return nil
	}
	return err
}

func (l *Leg) run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	conn, err := l.cfg.join(ctx, start)
	if err != nil {
		return err
	}
	session := socket.Join(ctx, in, out)
	defer session.Close()
	sock := socket.Open(ctx, conn, socket.Times{Write: l.cfg.WriteTimeout, Pong: l.cfg.PongTimeout})
	defer sock.Close()
	r := newRun(l, start, session, sock, time.Now())
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for r.err == nil {
		frames := sock.Frames
		if session.Full(OutRate) {
			frames = nil // the provider waits until the session has taken some
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-frames:
			r.frame(f, time.Now())
		case i := <-session.Inputs:
			r.input(ctx, i, time.Now())
		case <-session.Out.Room():
		case now := <-ticks.C:
			r.tick(now)
		case err := <-sock.Ended:
			r.broken(err)
		case err := <-session.Ended:
			r.fail(err)
		}
	}
	return r.err
}

// fail ends the leg; the first reason counts.
func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *run) broken(err error) {
	var broken *socket.Broken
	if errors.As(err, &broken) {
		err = r.cfg.dialer().Closed(broken.Err)
	}
	r.fail(err)
}

func (c *Config) dialer() socket.Dialer {
	return socket.Dialer{Provider: Provider, Secret: socket.Secret(c.Key), Dial: c.Dial, TLS: c.TLS, Timeout: c.ConnectTimeout}
}

func invalid(format string, args ...any) error {
	return &switcher.LegError{Code: "invalid", Message: fmt.Sprintf(format, args...)}
}

// join makes a call and opens its socket.
func (c *Config) join(ctx context.Context, start switcher.Start) (*websocket.Conn, error) {
	if start.InRate != 0 && start.InRate != InRate {
		return nil, invalid("the leg is given sound of %d Hz, its Capability asks for %d", start.InRate, InRate)
	}
	body, err := c.call(start)
	if err != nil {
		return nil, err
	}
	joinURL, err := c.create(ctx, body)
	if err != nil {
		return nil, err
	}
	u, err := socket.Address(joinURL, "")
	if err != nil {
		return nil, &switcher.LegError{Code: "protocol", Message: Provider + " gave no URL to join the call", Retryable: true}
	}
	conn, err := c.dialer().Open(ctx, u.String(), nil)
	if err != nil { // whoever has the URL may join
		return nil, withoutURL(err, joinURL)
	}
	return conn, nil
}

func withoutURL(err error, joinURL string) error {
	var e *switcher.LegError
	if errors.As(err, &e) && e.Err != nil {
		e.Err = errors.New(strings.ReplaceAll(e.Err.Error(), joinURL, "the call's URL"))
	}
	return err
}

// call is what a call is made with: the record of what was said stands in the prompt, nobody is greeted.
func (c *Config) call(start switcher.Start) ([]byte, error) {
	n := newCall{
		SystemPrompt: start.Seed.Instructions, Model: c.Model, Voice: c.Voice, LanguageHint: c.Language,
		MaxDuration: seconds(MaxLife), JoinTimeout: seconds(30 * time.Second),
		Medium: medium{serverWebSocket{InputSampleRate: InRate, OutputSampleRate: OutRate, ClientBufferSizeMs: clientBuffer.Milliseconds()}},
	}
	for _, t := range start.Tools {
		parameters, err := parametersOf(t)
		if err != nil {
			return nil, err
		}
		n.SelectedTools = append(n.SelectedTools, selectedTool{temporaryTool{ModelToolName: t.Name, Description: t.Description, DynamicParameters: parameters, Timeout: seconds(c.ToolTimeout)}})
	}
	return json.Marshal(n)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) }

// parametersOf are the properties of a tool's schema, in the order of their names.
func parametersOf(t switcher.Tool) (all []parameter, err error) {
	if len(t.Parameters) == 0 {
		return nil, nil
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(t.Parameters, &schema); err != nil {
		return nil, invalid("the parameters of the tool %q are no JSON Schema of an object", t.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		all = append(all, parameter{Name: name, Location: "PARAMETER_LOCATION_BODY", Schema: schema.Properties[name], Required: slices.Contains(schema.Required, name)})
	}
	return all, nil
}

const mostAnswer = 1 << 20 // bytes of the answer to POST /api/calls

// create makes a call; it gives the URL of its socket.
func (c *Config) create(ctx context.Context, body []byte) (joinURL string, err error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", invalid("the base URL must be like %s", BaseURL)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/api") + "/api/calls"
	u.RawQuery = "enableGreetingPrompt=false"
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return "", invalid("the base URL must be like %s", BaseURL)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("X-API-Key", c.Key)
	}
	transport := &http.Transport{DialContext: c.Dial, TLSClientConfig: c.TLS, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	unreached := func(err error) error {
		return &switcher.LegError{Code: "connect", Message: "no connection to " + Provider, Retryable: true, Err: socket.Secret(c.Key).HideIn(err)}
	}
	if err != nil {
		return "", unreached(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return "", socket.Refused(Provider, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return "", unreached(err)
	}
	var answer made
	if json.Unmarshal(data, &answer) != nil || answer.JoinURL == "" {
		return "", &switcher.LegError{Code: "protocol", Message: Provider + " gave no URL to join the call", Retryable: true}
	}
	return answer.JoinURL, nil
}
