package realtime

import (
	"context"
	"net/http"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
)

// address is the URL of the socket.
func (c *Config) address() (string, error) {
	u, err := socket.Address(c.URL, "/realtime")
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("model", c.Model)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func (c *Config) dialer() socket.Dialer {
	return socket.Dialer{Provider: c.Profile.Provider, Secret: socket.Secret(c.Key), Dial: c.Dial, TLS: c.TLS, Timeout: c.ConnectTimeout}
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
	return c.dialer().Open(ctx, address, header)
}

// shown is somebody else's text, bounded, without the key.
func (c *Config) shown(text string) string { return socket.Secret(c.Key).Hide(socket.Clip(text)) }
