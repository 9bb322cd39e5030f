package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sightline/gateway"
	"sightline/gateway/auth"
)

// authSettings are the flags that say who may do what, and how much of it.
type authSettings struct {
	key, jwks   string
	audience    string
	maxLifetime time.Duration
	proxies     list
	limits      gateway.Limits
}

func (a *authSettings) flags(f *flag.FlagSet) {
	f.StringVar(&a.key, "auth-key", "", "ask every request for a token by this `key`: a file with a secret of at least 32 bytes (HS256) or a PEM public key (RS256, ES256, EdDSA); or the secret itself, best in the environment")
	f.StringVar(&a.jwks, "auth-jwks", "", "ask every request for a token by one of these keys: https `address`, or file, of a JSON Web Key Set")
	f.StringVar(&a.audience, "auth-audience", auth.DefaultAudience, "the `aud` of our tokens")
	f.DurationVar(&a.maxLifetime, "auth-max-lifetime", auth.DefaultMaxLifetime, "how long a token may live; those that live longer are refused")
	f.Var(&a.proxies, "trusted-proxy", "address or `network` of a proxy in front, such as 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto are believed; repeatable")
	f.IntVar(&a.limits.AddressRate, "ip-rate", gateway.DefaultAddressRate, "requests a second from one address, -1 = any; with twice that as burst, like the next")
	f.IntVar(&a.limits.TokenRate, "token-rate", gateway.DefaultTokenRate, "requests a second with one token, -1 = any")
	f.IntVar(&a.limits.TokenSockets, "token-sockets", gateway.DefaultTokenSockets, "sockets open with one token, -1 = any")
	f.IntVar(&a.limits.TokenSessions, "token-sessions", gateway.DefaultTokenSessions, "live sessions begun with one token, -1 = any")
}

func (a *authSettings) on() bool { return a.key != "" || a.jwks != "" }

func (a *authSettings) check(insecure bool) error {
	switch {
	case a.key != "" && a.jwks != "":
		return errors.New("--auth-key and --auth-jwks: tokens are checked with one of them")
	case a.on() && insecure:
		return errors.New("--insecure is to serve without authentication, and tokens are asked for: leave one of them out")
	case a.maxLifetime < time.Second:
		return fmt.Errorf("--auth-max-lifetime %v: allowed is 1s and longer", a.maxLifetime)
	case a.audience == "":
		return errors.New("--auth-audience is empty")
	}
	for name, n := range map[string]int{"--ip-rate": a.limits.AddressRate, "--token-rate": a.limits.TokenRate, "--token-sockets": a.limits.TokenSockets, "--token-sessions": a.limits.TokenSessions} {
		if n == 0 || n < -1 || n > 1_000_000 {
			return fmt.Errorf("%s %d: allowed are 1 to 1000000, and -1 for any", name, n)
		}
	}
	_, err := a.trusted()
	return err
}

// trusted is --trusted-proxy as networks.
func (a *authSettings) trusted() (networks []netip.Prefix, err error) {
	for _, text := range a.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			one, oneErr := netip.ParseAddr(text)
			if p, err = netip.PrefixFrom(one, one.BitLen()), oneErr; err != nil {
				return nil, fmt.Errorf("--trusted-proxy %q: allowed are addresses and networks, such as 10.0.0.7 and 10.0.0.0/8", text)
			}
		}
		networks = append(networks, p.Masked())
	}
	return networks, nil
}

// verifier checks tokens; nil when none are asked for.
func (a *authSettings) verifier(log *slog.Logger) (*auth.Verifier, error) {
	if !a.on() {
		return nil, nil
	}
	cfg := auth.Config{Audience: a.audience, MaxLifetime: a.maxLifetime}
	if a.key != "" {
		data, err := readKey(a.key)
		if err == nil {
			cfg.Key, err = auth.ParseKey(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--auth-key: %w", err)
		}
	}
	var err error
	remote := strings.Contains(a.jwks, "://")
	switch {
	case remote:
		cfg.KeySet, err = fetchKeySet(a.jwks)
	case a.jwks != "":
		cfg.KeySet = func(context.Context) ([]byte, error) { return readSmall(a.jwks, auth.MaxKeySet) }
	}
	if err != nil {
		return nil, fmt.Errorf("--auth-jwks: %w", err)
	}
	v, err := auth.New(cfg)
	if err != nil {
		return nil, err
	}
	err = v.Load(context.Background(), time.Now()) // bounded by itself
	switch {
	case err != nil && remote: // who makes the tokens may come later than we
		log.Warn("--auth-jwks cannot be had now; it is tried again when a token comes", "error", err)
	case err != nil:
		return nil, fmt.Errorf("--auth-jwks: %w", err)
	}
	return v, nil
}

// reload reads the key, or the key set, again; what is not good leaves the one before.
func (a *authSettings) reload(v *auth.Verifier) error {
	switch {
	case v == nil:
		return nil
	case a.jwks != "":
		if err := v.Load(context.Background(), time.Now()); err != nil { // bounded by itself
			return fmt.Errorf("--auth-jwks: %w", err)
		}
		return nil
	}
	data, err := readKey(a.key)
	if err != nil {
		return fmt.Errorf("--auth-key: %w", err)
	}
	key, err := auth.ParseKey(data)
	if err != nil {
		return fmt.Errorf("--auth-key: %w", err)
	}
	return v.SetKey(key)
}

// readKey is what --auth-key names: a file where there is one, else the value itself. What looks like a path is one, so that a slip in
// it does not become a secret that others can guess.
func readKey(value string) ([]byte, error) {
	path := value
	for _, sign := range []string{"/", "./", "../", "~"} {
		if strings.HasPrefix(value, sign) {
			return readSmall(path, 64<<10)
		}
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() || slices.Contains([]string{".pem", ".key", ".txt", ".pub"}, filepath.Ext(value)) {
		return readSmall(path, 64<<10)
	}
	return []byte(value), nil
}

// readSmall reads a file up to a size, which a set of keys has.
func readSmall(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is over %d bytes", path, limit)
	}
	return data, err
}

// fetchKeySet gets a key set from where the operator says, over TLS to whoever its name's certificate belongs to.
func fetchKeySet(address string) (func(context.Context) ([]byte, error), error) {
	allowed := func(u *url.URL) error {
		ip := net.ParseIP(u.Hostname())
		if u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())) {
			return fmt.Errorf("%s: allowed are https, and http of this machine itself", u.Redacted())
		}
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("this is no address")
	}
	if err := allowed(u); err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ResponseHeaderTimeout: 5 * time.Second},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return errors.New("too many redirects")
			}
			return allowed(r.URL)
		},
	}
	return func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("it answers %d", answer.StatusCode)
		}
		return io.ReadAll(io.LimitReader(answer.Body, auth.MaxKeySet+1))
	}, nil
}
