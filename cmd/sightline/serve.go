package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	chatctx "sightline/context"
	"sightline/context/fetch"
	"sightline/frames"
	"sightline/gateway"
	"sightline/gateway/auth"
	"sightline/gateway/rtc"
	"sightline/web"
)

// serveUntilSignal runs the gateway until a signal ends it: SIGINT at once, SIGTERM after a drain; a second signal does not wait. SIGHUP
// reads certificates and keys again.
func (p program) serveUntilSignal(s *settings) error {
	log := s.logger(p.stderr)
	cfg := gateway.Config{
		Listen: s.listen, Insecure: s.insecure, AllowOrigins: s.origins, WHIPStrict: s.whipStrict,
		Media: rtc.Config{
			UDPPort: s.udpPort, TCPPort: s.tcpPort, PublicIPs: s.publicIPs,
			AllowLoopback: gateway.IsLoopback(s.listen), AllowPrivate: !s.denyPrivate,
		},
		Store: chatctx.NewMemStore(), Web: web.Files(), WebPolicy: web.ContentSecurityPolicy, Log: log,
		SessionGrace: s.sessionGrace, Retention: s.retention, DrainTimeout: s.drainTimeout,
		MaxSessions: s.maxSessions, MaxAgents: s.maxAgents, MaxMessageBytes: s.maxMessage, MaxDecoderBytes: s.maxDecoders, MaxVideoBitrate: s.bitrate(), DecodePolicy: frames.Policy(s.decodePolicy),
	}
	var err error
	if cfg.Auth, err = s.auth.verifier(log); err != nil {
		return err
	}
	if cfg.TrustedProxies, err = s.auth.trusted(); err != nil {
		return err
	}
	cfg.Limits = s.auth.limits
	secure, err := s.tls.config(s.dataDir, log)
	if err != nil {
		return err
	}
	tracer, endTraces, err := s.trace.tracer(p.getenv, log)
	if err != nil {
		return err
	}
	cfg.Tracer = tracer
	defer endTraces() // when the last call has ended
	cfg.Stills = frames.NewStills(frames.StillsConfig{})
	s.talk.stills = cfg.Stills
	talk, err := s.talk.pipelines(log)
	if err != nil {
		return err
	}
	cfg.Pipelines = talk.PipelineConfig
	for _, note := range talk.notes {
		log.Warn(note)
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	listener, err := listen(s.listen)
	if err != nil {
		return err
	}
	kept, err := openStorage(s, listener.Addr(), log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	cfg.Store, cfg.Directory, cfg.Health, cfg.Cluster = kept.Store, kept.Directory, kept.health, kept.node
	if s.fetchImages {
		cfg.Fetch = fetch.New(fetch.Config{MaxBytes: chatctx.DefaultMaxImageBytes})
	}
	if s.dataDir != inMemory {
		cfg.MaxEnded = maxEndedOnDisk
	}
	server, err := gateway.New(cfg)
	if err != nil {
		return errors.Join(err, listener.Close(), kept.Close())
	}
	s.warn(log)
	stop := talk.start()
	return errors.Join(p.runBoth(s, server, listener, secure, talk.First, log), stop(), kept.Close())
}

// warn says what is less safe than it might seem.
func (s *settings) warn(log *slog.Logger) {
	if gateway.IsLoopback(s.listen) {
		return
	}
	switch {
	case s.insecure:
		log.Warn("--insecure: everybody who can reach this address may see and hear every call", "listen", s.listen)
	case !s.tls.on() && len(s.auth.proxies) == 0:
		log.Warn("tokens come in the clear: serve HTTPS with --tls-cert or --acme-domain, or name the proxy that does with --trusted-proxy", "listen", s.listen)
	}
}

// reload reads again what may have been renewed. What cannot be read, or is not good, leaves what was.
func (s *settings) reload(v *auth.Verifier, log *slog.Logger) {
	if err := errors.Join(s.tls.reload(), s.auth.reload(v)); err != nil {
		log.Error("not all could be read again; what was stays", "error", err)
		return
	}
	log.Info("certificates and keys were read again")
}

// scheme is how this gateway is reached, as far as it knows.
func (s *settings) scheme() string {
	if s.tls.on() {
		return "https"
	}
	return "http"
}

// runBoth runs the gateway and its HTTP server; the first to fail stops the other.
func (p program) runBoth(s *settings, server *gateway.Server, listener net.Listener, secure *tls.Config, pipeline string, log *slog.Logger) error {
	httpServer := &http.Server{
		Handler: server.Handler(), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// Sockets and image requests outlive these: they end when a request's body has been read, or are lifted on upgrade.
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 90 * time.Second,
		IdleTimeout: 60 * time.Second, MaxHeaderBytes: 16 << 10,
		// HTTP/2 comes with TLS. It has no upgrade: browsers open another connection, of HTTP/1.1, for a socket.
		TLSConfig: secure, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100},
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var tasks sync.WaitGroup
	var httpErr, runErr error
	drained := make(chan struct{})
	tasks.Go(func() {
		defer stop()
		serve := httpServer.Serve
		if secure != nil {
			serve = func(l net.Listener) error { return httpServer.ServeTLS(l, "", "") }
		}
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			httpErr = err
		}
	})
	tasks.Go(func() {
		defer close(drained)
		runErr = server.Run(ctx)
		closing, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if httpServer.Shutdown(closing) != nil {
			_ = httpServer.Close()
		}
	})
	p.announce(s.scheme(), listener.Addr(), pipeline)
	if !p.untilSignalled(ctx, server, stop, drained, func() { s.reload(server.Verifier(), log) }, log) {
		return errors.New("stopped by a second signal before the drain was done")
	}
	tasks.Wait()
	return errors.Join(runErr, httpErr)
}

// untilSignalled does what signals ask for until the gateway has ended; false when a second one does not want to wait for that.
func (p program) untilSignalled(ctx context.Context, server *gateway.Server, stop context.CancelFunc, ended <-chan struct{}, reload func(), log *slog.Logger) bool {
	var first time.Time
	calls := make(chan error, 1) // what has become of a drain
	for {
		select {
		case <-ended:
			return true
		case err := <-calls:
			if err == nil {
				stop()
				continue
			}
			log.Info("the drain was undone, new sessions are taken again")
			first = time.Time{}
		case sig := <-p.signals:
			if sig == syscall.SIGHUP {
				reload()
				continue
			}
			switch {
			case first.IsZero() && sig == syscall.SIGTERM:
				log.Info("draining: running calls may end, no new ones begin; a second signal ends at once", "signal", sig.String())
				go func() { calls <- server.Drain(ctx) }() // ends with ctx, or when it was undone
			case first.IsZero():
				log.Info("stopping; a second signal ends at once", "signal", sig.String())
				stop()
			case time.Since(first) > sameSignal:
				return false
			}
			if first.IsZero() {
				first = time.Now()
			}
		}
	}
}

// sameSignal: supervisors and timeout(1) signal a process and then its group; what comes so soon is the first signal again.
const sameSignal = 50 * time.Millisecond

// nextSteps are what somebody does first, with a pipeline that answers and without.
func nextSteps(url, pipeline string) string {
	attach := "bin/sightline-agent --url " + url + " --session demo"
	if pipeline == "" {
		return fmt.Sprintf(`  1. Open %s and press "Start camera".
  2. In another terminal, attach an agent:  %s
  3. Type a message on the page; the agent answers with what it sees.
`, url, attach)
	}
	return fmt.Sprintf(`  1. Open %s, tick "Microphone", press "Start camera", and speak or type: the pipeline %q answers.
  2. Switch to another pipeline on the page, in mid-call.
  3. In another terminal, watch as an agent, or be a pipeline yourself:  %s --leg realtime
`, url, pipeline, attach)
}

// announce says where the page is and what to do next.
func (p program) announce(scheme string, addr net.Addr, pipeline string) {
	url := scheme + "://" + addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && (tcp.IP.IsLoopback() || tcp.IP.IsUnspecified()) {
		url = scheme + "://localhost:" + strconv.Itoa(tcp.Port)
	}
	fmt.Fprintf(p.stdout, "Sightline %s serves %s\n\n%s\nStop with Ctrl-C.\n", version, url, nextSteps(url, pipeline))
	if p.ready != nil {
		p.ready <- url
	}
}

// listen opens the HTTP port, or says in a sentence why not.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		_, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		return nil, fmt.Errorf("%s is taken by another program (perhaps another Sightline): stop it, or choose another port, such as --listen 127.0.0.1:%d or PORT=%d scripts/run", address, n+1, n+1)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s may not be opened by this user: ports below 1024 need privileges, choose one above", address)
	}
	return nil, fmt.Errorf("--listen %s: %w", address, err)
}
