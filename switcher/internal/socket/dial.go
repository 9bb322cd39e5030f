package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
)

// Dialer opens connections to a provider.
type Dialer struct {
	Provider string // for people
	Secret   Secret
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	TLS      *tls.Config
	Timeout  time.Duration
}

// Secret is a key that must not stand in any text.
type Secret string

// Hide is a text without the key.
func (s Secret) Hide(text string) string {
	if s == "" {
		return text
	}
	return strings.NewReplacer(string(s), "…", url.QueryEscape(string(s)), "…").Replace(text)
}

// HideIn is err, or its text without the key when it has it.
func (s Secret) HideIn(err error) error {
	if err == nil || s.Hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(s.Hide(err.Error()))
}

// Open dials an address; what is wrong is a *switcher.LegError.
func (d Dialer) Open(ctx context.Context, address string, header http.Header) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	ws := websocket.Dialer{NetDialContext: d.Dial, TLSClientConfig: d.TLS, Proxy: http.ProxyFromEnvironment, HandshakeTimeout: d.Timeout}
	conn, answer, err := ws.DialContext(ctx, address, header)
	switch {
	case err == nil:
		return conn, nil
	case answer == nil || !errors.Is(err, websocket.ErrBadHandshake):
		return nil, &switcher.LegError{Code: "connect", Message: "no connection to " + d.Provider, Retryable: true, Err: d.Secret.HideIn(err)}
	}
	return nil, Refused(d.Provider, answer.StatusCode)
}

// Refused is the end that an HTTP status means. The provider's text is left out: some quote the key in it.
func Refused(provider string, status int) *switcher.LegError {
	e := &switcher.LegError{Message: fmt.Sprintf("%s answered with status %d", provider, status)}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Code = "auth"
	case status == http.StatusPaymentRequired:
		e.Code = "quota"
	case status == http.StatusTooManyRequests:
		e.Code, e.Retryable = "overloaded", true
	case status >= 500:
		e.Code, e.Retryable = "connect", true
	default:
		e.Code = "invalid"
	}
	return e
}

// Address is a base URL as one of a WebSocket; path is added unless the base has one that ends in it.
func Address(base, path string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New("the base URL must be like https://host or ws://host:port")
	}
	switch u.Scheme {
	case "https", "wss":
		u.Scheme = "wss"
	case "http", "ws":
		u.Scheme = "ws"
	default:
		return nil, fmt.Errorf("the base URL begins with %q: allowed are http, https, ws and wss", u.Scheme)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	return u, nil
}

// Closed is the end that a broken connection means.
func (d Dialer) Closed(err error) *switcher.LegError {
	var end *websocket.CloseError
	if !errors.As(err, &end) {
		return &switcher.LegError{Code: "connect", Message: "the connection to " + d.Provider + " broke", Retryable: true, Err: d.Secret.HideIn(err)}
	}
	text := d.Secret.Hide(Clip(end.Text))
	e := &switcher.LegError{Message: fmt.Sprintf("%s closed with %d %s", d.Provider, end.Code, text)}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(strings.ToLower(text), w) {
				return true
			}
		}
		return false
	}
	switch end.Code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		e.Code, e.Retryable = "connect", true
		if has("expire", "maximum duration", "session limit", "deadline", "duration") {
			e.Code = "expired"
		}
	case websocket.ClosePolicyViolation:
		e.Code = "refused"
		if has("auth", "key") {
			e.Code = "auth"
		}
	case websocket.CloseInternalServerErr, websocket.CloseServiceRestart, websocket.CloseTryAgainLater:
		e.Code, e.Retryable = "overloaded", true
		if has("quota", "billing") {
			e.Code, e.Retryable = "quota", false
		}
	default: // 1002, 1003, 1007, 1009, 1010, 4000 and above: something that was sent
		e.Code, e.Retryable = "protocol", true
		if has("api key", "api_key") {
			e.Code, e.Retryable = "auth", false
		}
	}
	return e
}

// Clip bounds somebody else's text.
func Clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
