package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
)

func pngBytes(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serve starts a server on loopback and a Fetcher that is allowed to reach it, under its address and under the name img.test.
func serve(t *testing.T, h http.HandlerFunc, change func(*Config)) (*httptest.Server, *Fetcher) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Ports: []int{port}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	return server, New(cfg)
}

func want(t *testing.T, err error, kind chatctx.ErrorKind, says string) {
	t.Helper()
	var e *chatctx.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Field != "url" || !strings.Contains(e.Detail, says) {
		t.Errorf("error %v, want %s of field url that says %q", err, kind, says)
	}
}

func TestFetch(t *testing.T) {
	data := pngBytes(t, 3, 2)
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html") // a lie, which does not matter
		_, _ = w.Write(data)
	}, nil)
	got, info, err := f.Fetch(t.Context(), server.URL+"/a.png")
	if err != nil || !bytes.Equal(got, data) || info != (chatctx.ImageInfo{MIME: "image/png", Width: 3, Height: 2}) {
		t.Errorf("%d bytes, %+v, %v", len(got), info, err)
	}
}

func TestF1OnlyPublicAddresses(t *testing.T) {
	f := New(Config{})
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1",
		"100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "192.88.99.1",
		"::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::1", "2001::1", "2001:db8::1", "3fff::1", "100::1", "4000::1",
	} {
		if addr := netip.MustParseAddr(a); f.permits(addr) {
			t.Errorf("%s may be dialled", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"} {
		if !f.permits(netip.MustParseAddr(a)) {
			t.Errorf("%s may not be dialled", a)
		}
	}
	if f.permits(netip.Addr{}) {
		t.Error("no address may be dialled")
	}
}

// TestF1NamesOfPrivateAddresses: what a name resolves to is checked, and once more what the socket connects to.
func TestF1NamesOfPrivateAddresses(t *testing.T) {
	asked := 0
	for _, addrs := range [][]netip.Addr{
		{netip.MustParseAddr("127.0.0.1")}, {netip.MustParseAddr("::1")}, {netip.MustParseAddr("169.254.169.254")},
		{netip.MustParseAddr("64:ff9b::a9fe:a9fe"), netip.MustParseAddr("10.0.0.1")},
	} {
		f := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) { asked++; return addrs, nil }})
		_, _, err := f.Fetch(t.Context(), "https://img.test/a.png")
		want(t, err, chatctx.InvalidArgument, "public address")
	}
	f := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) { asked++; return nil, nil }})
	_, _, err := f.Fetch(t.Context(), "https://img.test/a.png")
	want(t, err, chatctx.InvalidArgument, "no address")
	if asked != 5 {
		t.Errorf("resolved %d times, want once each", asked)
	}
	for _, literal := range []string{"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://169.254.169.254/latest/meta-data"} {
		_, _, err := f.Fetch(t.Context(), literal)
		want(t, err, chatctx.InvalidArgument, "public address")
	}
	for address, ok := range map[string]bool{"127.0.0.1:443": false, "[::1]:443": false, "10.0.0.1:443": false, "nonsense": false, "1.1.1.1:443": true} {
		if err := f.control("tcp", address, nil); (err == nil) != ok {
			t.Errorf("control of %s: %v", address, err)
		}
	}
}

func TestF2URLs(t *testing.T) {
	f := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		t.Error("a name was looked up for a URL that is refused")
		return nil, nil
	}})
	for u, says := range map[string]string{
		"http://img.test/a.png": "https", "ftp://img.test/a": "https", "file:///etc/passwd": "https", "//img.test/a": "https", "": "https",
		"https://user:pass@img.test/a": "user information", "https:///a": "no host", "https://img.test:22/": "port", "https://img.test:99999/": "port",
		"https://img.test/%zz": "parse", "https://img.test/" + strings.Repeat("a", 5000): "bytes",
	} {
		_, _, err := f.Fetch(t.Context(), u)
		want(t, err, chatctx.InvalidArgument, says)
	}
	if u, _ := url.Parse("http://img.test/a"); New(Config{AllowHTTP: true}).checkURL(u) != nil {
		t.Error("http is refused although it is allowed")
	}
}

func TestF2Redirects(t *testing.T) {
	data := pngBytes(t, 1, 1)
	var server *httptest.Server
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" {
			t.Error("a redirect told where it came from")
		}
		switch hops, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/hops/")); {
		case err != nil:
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case hops == 0:
			_, _ = w.Write(data)
		default:
			http.Redirect(w, r, "/hops/"+strconv.Itoa(hops-1), http.StatusFound)
		}
	}, nil)
	if _, _, err := f.Fetch(t.Context(), server.URL+"/hops/3"); err != nil {
		t.Errorf("three redirects: %v", err)
	}
	_, _, err := f.Fetch(t.Context(), server.URL+"/hops/4")
	want(t, err, chatctx.InvalidArgument, "redirects")
	for to, says := range map[string]string{
		"http://img.test/a.png": "https", "https://10.0.0.1/a.png": "public", "https://img.test/a.png": "public", "https://img.test:22/": "port",
		"https://169.254.169.254/latest/": "public", "https://u:p@img.test/": "user information", "file:///etc/passwd": "https",
	} {
		_, _, err := f.Fetch(t.Context(), server.URL+"/go?to="+url.QueryEscape(to))
		want(t, err, chatctx.InvalidArgument, says)
	}
}

func TestF3NoProxyNoCookies(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	data := pngBytes(t, 1, 1)
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 || r.Header.Get("Authorization") != "" {
			t.Errorf("headers %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/2", http.StatusFound)
			return
		}
		_, _ = w.Write(data)
	}, nil)
	for range 2 {
		if _, _, err := f.Fetch(t.Context(), server.URL); err != nil {
			t.Error(err)
		}
	}
}

func TestF4Bounds(t *testing.T) {
	small := func(c *Config) { c.MaxBytes = 1000 }
	for name, h := range map[string]http.HandlerFunc{
		"announced": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1001")
			_, _ = w.Write(make([]byte, 1001))
		},
		"not announced": func(w http.ResponseWriter, _ *http.Request) {
			for range 2000 {
				if _, err := w.Write(make([]byte, 100)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		},
	} {
		server, f := serve(t, h, small)
		if _, _, err := f.Fetch(t.Context(), server.URL); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			want(t, err, chatctx.TooLarge, "1000 bytes")
		}
	}
	data := pngBytes(t, 1, 1)
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }, func(c *Config) { c.MaxBytes = len(data) })
	if _, _, err := f.Fetch(t.Context(), server.URL); err != nil {
		t.Errorf("an image of just the limit: %v", err)
	}
	done := make(chan struct{})
	server, f = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(data[:4])
		w.(http.Flusher).Flush()
		<-done // a body that never ends
	}, func(c *Config) { c.Timeout = 100 * time.Millisecond })
	_, _, err := f.Fetch(t.Context(), server.URL)
	want(t, err, chatctx.NotFound, "in time")
	close(done)
	server, f = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.Copy(z, bytes.NewReader(make([]byte, 1<<20)))
		_ = z.Close()
	}, nil)
	_, _, err = f.Fetch(t.Context(), server.URL)
	want(t, err, chatctx.InvalidImage, "Content-Encoding")
}

func TestF5OnlyImages(t *testing.T) {
	bomb := []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00")
	for body, says := range map[string]string{"<html>": "no JPEG", "": "empty", "<svg xmlns='http://www.w3.org/2000/svg'/>": "no JPEG", string(bomb): "pixels"} {
		server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, body)
		}, nil)
		_, _, err := f.Fetch(t.Context(), server.URL)
		want(t, err, chatctx.InvalidImage, says)
	}
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, nil)
	_, _, err := f.Fetch(t.Context(), server.URL)
	want(t, err, chatctx.NotFound, "418")
}
