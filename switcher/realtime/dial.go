package realtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"

	"sightline/switcher"
)

// maxMessage is the longest message taken, in bytes; the provider's own sound comes in far smaller ones.
const maxMessage = 16 << 20

// address is the URL of the socket.
func (c *Config) address() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the base URL must be like https://host/v1 or ws://host:port/v1")
	}
	switch u.Scheme {
	case "https", "wss":
		u.Scheme = "wss"
	case "http", "ws":
		u.Scheme = "ws"
	default:
		return "", fmt.Errorf("the base URL begins with %q: allowed are http, https, ws and wss", u.Scheme)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/realtime"
	q := u.Query()
	q.Set("model", c.Model)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (c *Config) dial(ctx context.Context) (*websocket.Conn, error) {
	if c.Profile.Rate <= 0 {
		return nil, &switcher.LegError{Code: "invalid", Message: "the leg's Config has no Profile"}
	}
	address, err := c.address()
	if err != nil {
		return nil, &switcher.LegError{Code: "invalid", Message: err.Error()}
	}
	header := http.Header{}
	if c.Profile.KeyHeader != "" && c.Key != "" {
		header.Set(c.Profile.KeyHeader, c.Profile.KeyPrefix+c.Key)
	}
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	d := websocket.Dialer{NetDialContext: c.Dial, TLSClientConfig: c.TLS, Proxy: http.ProxyFromEnvironment, HandshakeTimeout: c.ConnectTimeout}
	conn, answer, err := d.DialContext(ctx, address, header)
	if err != nil {
		return nil, c.refused(answer, err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// refused says why there is no socket. The provider's text is left out: some quote the key in it.
func (c *Config) refused(answer *http.Response, err error) error {
	if answer == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return &switcher.LegError{Code: "connect", Message: "no connection to " + c.Profile.Provider, Retryable: true, Err: c.redacted(err)}
	}
	e := &switcher.LegError{Message: fmt.Sprintf("%s answered the connection with status %d", c.Profile.Provider, answer.StatusCode)}
	switch s := answer.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Code = "auth"
	case s == http.StatusTooManyRequests:
		e.Code, e.Retryable = "overloaded", true
	case s >= 500:
		e.Code, e.Retryable = "connect", true
	default:
		e.Code = "invalid"
	}
	return e
}

// redacted is err, or its text without the key when it has it.
func (c *Config) redacted(err error) error {
	if c.Key == "" || err == nil || !strings.Contains(err.Error(), c.Key) {
		return err
	}
	return errors.New(c.withoutKey(err.Error()))
}

func (c *Config) withoutKey(text string) string {
	if c.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, c.Key, "…")
}
