// Package fetch gets the images that http(s) URLs in a conversation refer to, for operators who allow that; it is no general client, and nothing in this module fetches without it.
//
// Guarantees, each with a test of its number:
//
//   - F1: only public addresses are dialled: no private, loopback, link-local, metadata, NAT64, 6to4 or otherwise special ones. The
//     address is checked when the socket is about to connect, after all resolving, so that a name that changes its mind gains nothing.
//   - F2: every redirect, of which there are at most three, is checked like the first URL. https only, port 443 only, no user
//     information, unless Config says otherwise.
//   - F3: no proxy, no cookies, no credentials, no Referer, whatever the environment holds.
//   - F4: time and bytes are bounded, the bytes also when the length is not announced; nothing is decompressed.
//   - F5: what comes back is a JPEG, PNG, GIF or WebP by its bytes, with a size that chatctx.InspectImage takes, whatever its
//     Content-Type says.
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	chatctx "sightline/context"
)

// Bounds where Config gives none.
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = 8 << 20
)

const (
	maxRedirects   = 3
	maxURLBytes    = 4096
	maxHeaderBytes = 32 << 10
	maxAddresses   = 4 // tried of one name
)

// Config is what an operator allows. The zero value allows https to port 443 of public addresses.
type Config struct {
	AllowHTTP bool           // also http, to port 80
	Ports     []int          // further ports
	Allow     []netip.Prefix // addresses that are dialled although they are not public
	Timeout   time.Duration  // for all of it, redirects and body included; default DefaultTimeout
	MaxBytes  int            // of an image; default DefaultMaxBytes
	RootCAs   *x509.CertPool // nil: the system's
	// Lookup resolves a host name; nil: the system's resolver. What it says is checked like everything.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Fetcher gets images. It is safe for concurrent use, holds no connection between calls and starts nothing.
type Fetcher struct {
	cfg    Config
	client *http.Client
}

// New makes a Fetcher.
func New(cfg Config) *Fetcher {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	f := &Fetcher{cfg: cfg}
	f.client = &http.Client{
		CheckRedirect: f.redirect,
		Transport: &http.Transport{
			Proxy: nil, DialContext: f.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
			TLSClientConfig:   &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: false,
		},
	}
	return f
}

// Fetch gets the image at rawURL. Its error is a *chatctx.Error: InvalidArgument when the URL is none that may be fetched,
// TooLarge, InvalidImage when what came is no image, or NotFound when nothing came.
func (f *Fetcher) Fetch(ctx context.Context, rawURL string) ([]byte, chatctx.ImageInfo, error) {
	if len(rawURL) > maxURLBytes {
		return nil, chatctx.ImageInfo{}, refuse("the URL has more than " + strconv.Itoa(maxURLBytes) + " bytes")
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, chatctx.ImageInfo{}, refuse("the URL does not parse")
	}
	if err := f.checkURL(u); err != nil {
		return nil, chatctx.ImageInfo{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	data, err := f.get(ctx, u)
	if err != nil {
		return nil, chatctx.ImageInfo{}, tell(err)
	}
	info, err := chatctx.InspectImage(data)
	if err != nil {
		return nil, chatctx.ImageInfo{}, err
	}
	return data, info, nil
}

func (f *Fetcher) get(ctx context.Context, u *url.URL) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "sightline-image-fetch")
	request.Header.Set("Accept", "image/jpeg, image/png, image/webp, image/gif")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, &chatctx.Error{Kind: chatctx.NotFound, Field: field, Detail: fmt.Sprintf("the image's server answered %d", response.StatusCode)}
	}
	if response.Header.Get("Content-Encoding") != "" {
		return nil, &chatctx.Error{Kind: chatctx.InvalidImage, Field: field, Detail: "the image came with a Content-Encoding, which was not asked for"}
	}
	if response.ContentLength > int64(f.cfg.MaxBytes) {
		return nil, f.tooLarge()
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(f.cfg.MaxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > f.cfg.MaxBytes {
		return nil, f.tooLarge()
	}
	return data, nil
}

const field = "url"

func refuse(detail string) error {
	return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: field, Detail: detail}
}

func (f *Fetcher) tooLarge() error {
	return &chatctx.Error{Kind: chatctx.TooLarge, Field: field, Detail: fmt.Sprintf("the image has more than %d bytes, which is the limit", f.cfg.MaxBytes)}
}

// tell keeps our own errors and says of all others no more than that it failed: their texts hold addresses.
func tell(err error) error {
	var e *chatctx.Error
	if errors.As(err, &e) {
		return e
	}
	detail := "the image cannot be fetched"
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		detail = "the image did not come in time"
	}
	return &chatctx.Error{Kind: chatctx.NotFound, Field: field, Detail: detail}
}

// checkURL refuses what must not be asked for, before any name is looked up.
func (f *Fetcher) checkURL(u *url.URL) error {
	port := 443
	switch {
	case u.Scheme == "http" && f.cfg.AllowHTTP:
		port = 80
	case u.Scheme != "https":
		return refuse("only https URLs are fetched")
	}
	if u.User != nil {
		return refuse("a URL with user information is not fetched")
	}
	if u.Hostname() == "" {
		return refuse("the URL has no host")
	}
	if given := u.Port(); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n != port && !slices.Contains(f.cfg.Ports, n) {
			return refuse("this port is not allowed")
		}
	}
	return nil
}

// redirect checks the next URL of a chain (F2).
func (f *Fetcher) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return refuse("more than " + strconv.Itoa(maxRedirects) + " redirects")
	}
	next.Header.Del("Referer")
	return f.checkURL(next.URL)
}

// dial resolves the host once and connects to one of its addresses.
func (f *Fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{literal}
	} else if addrs, err = f.cfg.Lookup(ctx, host); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Control: f.control}
	err = refuse("the host has no address")
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		if !f.permits(addr) {
			err = errNotPublic()
			continue
		}
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// control sees the address that a socket is about to connect to (F1).
func (f *Fetcher) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !f.permits(ap.Addr()) {
		return errNotPublic()
	}
	return nil
}

func errNotPublic() error { return refuse("the host is not at a public address") }
