package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// tlsSettings are the flags of HTTPS.
type tlsSettings struct {
	cert, key     string
	acmeDomains   list
	acmeEmail     string
	acmeDirectory string

	files *certFiles // of config; nil without --tls-cert
}

func (t *tlsSettings) flags(f *flag.FlagSet) {
	f.StringVar(&t.cert, "tls-cert", "", "serve HTTPS with this certificate: `file` (PEM, with its chain), read again when it changes; needs --tls-key")
	f.StringVar(&t.key, "tls-key", "", "`file` with its key (PEM)")
	f.Var(&t.acmeDomains, "acme-domain", "serve HTTPS with certificates by ACME for this `name`, which must lead to port 443 of this gateway; repeatable. Saying it agrees to the terms of --acme-directory; keys are kept in --data-dir")
	f.StringVar(&t.acmeEmail, "acme-email", "", "`address` that the certificate authority may write to")
	f.StringVar(&t.acmeDirectory, "acme-directory", acme.LetsEncryptURL, "`address` of the certificate authority (RFC 8555)")
}

func (t *tlsSettings) on() bool { return t.cert != "" || len(t.acmeDomains) > 0 }

func (t *tlsSettings) check(dataDir string) error {
	switch {
	case (t.cert == "") != (t.key == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	case t.cert != "" && len(t.acmeDomains) > 0:
		return errors.New("--tls-cert and --acme-domain: the certificate comes from one of them")
	case len(t.acmeDomains) > 0 && (dataDir == "" || dataDir == inMemory):
		return errors.New("--acme-domain keeps its keys in a --data-dir, and there is none")
	case len(t.acmeDomains) == 0 && t.acmeEmail != "":
		return errors.New("--acme-email needs --acme-domain")
	}
	return nil
}

// acmeFolder is below the data directory, for this user's eyes only.
const acmeFolder = "acme"

// config is how HTTPS is served; nil: plain HTTP is.
func (t *tlsSettings) config(dataDir string, log *slog.Logger) (*tls.Config, error) {
	if len(t.acmeDomains) > 0 {
		m := &autocert.Manager{
			Prompt: autocert.AcceptTOS, Email: t.acmeEmail, HostPolicy: autocert.HostWhitelist(t.acmeDomains...),
			Cache: autocert.DirCache(filepath.Join(dataDir, acmeFolder)), Client: &acme.Client{DirectoryURL: t.acmeDirectory},
		}
		c := m.TLSConfig() // with ALPN of h2, http/1.1 and acme-tls/1
		c.MinVersion = tls.VersionTLS12
		return c, nil
	}
	if t.cert == "" {
		return nil, nil
	}
	files := &certFiles{cert: t.cert, key: t.key, log: log}
	if err := files.load(time.Now()); err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	t.files = files
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get}, nil
}

// reload reads the certificate again, whether its files look new or not.
func (t *tlsSettings) reload() error {
	if t.files == nil {
		return nil
	}
	t.files.mu.Lock()
	defer t.files.mu.Unlock()
	t.files.stamp = [2]fileStamp{}
	if err := t.files.loadLocked(time.Now()); err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	return nil
}

// certLook is how often the files are looked at, at most.
const certLook = time.Second

// certFiles is a certificate in files that somebody renews.
type certFiles struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	stamp  [2]fileStamp // of what was read last, good or not
	looked time.Time
}

type fileStamp struct {
	at   time.Time
	size int64
}

// get implements tls.Config.GetCertificate. Files that do not fit each other, as between the two steps of a renewal, change nothing.
func (c *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) >= certLook {
		before := c.stamp
		if err := c.loadLocked(now); err != nil && c.stamp != before {
			c.log.Warn("the certificate has changed and is not good: the one before stays", "error", err)
		}
	}
	return c.loaded, nil
}

func (c *certFiles) load(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loadLocked(now)
}

func (c *certFiles) loadLocked(now time.Time) error {
	c.looked = now
	var stamp [2]fileStamp
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		stamp[i] = fileStamp{info.ModTime(), info.Size()}
	}
	if stamp == c.stamp {
		return nil
	}
	c.stamp = stamp
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	c.loaded = &pair
	return nil
}
