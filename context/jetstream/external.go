package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// External says which NATS cluster with JetStream holds the conversations, and how to get in.
type External struct {
	URL       string // nats:// or tls:// addresses, with commas between; empty: the server inside the process
	Creds     string // file with a user's JWT and seed; empty: none
	CA        string // file with the certificates that the servers' are signed by; empty: the system's
	Cert, Key string // files of our own certificate; empty: none
	Replicas  int    // of each stream, 1, 3 or 5; default DefaultReplicas

	// Lease is how long a node counts as alive after it has last said so; default DefaultLease. All nodes of a cluster have the
	// same: the first one's holds.
	Lease time.Duration
}

func (x External) check() error {
	if x.Replicas < 0 || x.Replicas > 5 || x.Replicas != 0 && x.Replicas%2 == 0 {
		return fmt.Errorf("jetstream: %d replicas: allowed are 1, 3 and 5", x.Replicas)
	}
	if (x.Cert == "") != (x.Key == "") {
		return errors.New("jetstream: a certificate needs its key, and a key its certificate")
	}
	return nil
}

// addresses is URL for people: without passwords.
func (x External) addresses() string {
	var all []string
	for one := range strings.SplitSeq(x.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return "an address that does not parse"
		}
		all = append(all, u.Redacted())
	}
	return strings.Join(all, ",")
}

// syncTag is on servers that sync every write to the disk before they acknowledge it (sync_interval: always). Without it a
// cluster that loses power loses everything of the last two minutes, or all of it.
const syncTag = "sync:always"

// oldestServer is the oldest version of nats-server that keeps its promises: see DECISIONS.md.
var oldestServer = [3]int{2, 15, 2}

// connectExternal opens the connections to the cluster. Connections that break are mended by the client; the one that is given up
// for good (a password that no longer holds) ends the whole running.
func connectExternal(cfg Config, uneasy func()) (*running, error) {
	x := cfg.External
	options := []nats.Option{
		nats.Timeout(2 * time.Second), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1), nats.NoCallbacksAfterClientClose(),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { uneasy() }), nats.ReconnectHandler(func(*nats.Conn) { uneasy() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { cfg.Log.Debug("store: the client", "error", err) }),
	}
	if x.Creds != "" {
		options = append(options, nats.UserCredentials(x.Creds))
	}
	if x.CA != "" {
		options = append(options, nats.RootCAs(x.CA))
	}
	if x.Cert != "" {
		options = append(options, nats.ClientCert(x.Cert, x.Key))
	}
	r := newRunning()
	r.stored = new(atomic.Uint64)
	for name, conn := range map[string]**nats.Conn{"write": &r.write, "read": &r.read, "images": &r.images, "nodes": &r.nodes} {
		var err error
		if *conn, err = nats.Connect(x.URL, append(options, nats.Name("sightline "+name))...); err == nil {
			err = checkVersion((*conn).ConnectedServerVersion())
		}
		if err != nil {
			r.stop()
			return nil, fmt.Errorf("the store's cluster at %s: %w", x.addresses(), err)
		}
	}
	if !cfg.UnsafeSync && r.write.ConnectedClusterName() == "" {
		r.stop()
		return nil, fmt.Errorf("the server at %s stands alone, and such a one does not say whether it syncs what it acknowledges: use a cluster with servers that are tagged %s, or allow what a power cut may lose with --nats-unsafe-sync", x.addresses(), syncTag)
	}
	if r.write.MaxPayload() < maxMessage {
		cfg.Log.Warn("the cluster takes no large messages: images above its limit are refused; max_payload of its servers says how large",
			"max_payload", r.write.MaxPayload(), "advised", maxMessage)
	}
	return r, nil
}

func checkVersion(version string) error {
	number, _, _ := strings.Cut(version, "-")
	parts := strings.Split(number, ".")
	for i, least := range oldestServer {
		var n int
		var err error
		if i < len(parts) {
			n, err = strconv.Atoi(parts[i])
		}
		if err != nil || n < least {
			return fmt.Errorf("its server is version %s: %d.%d.%d or later is required", version, oldestServer[0], oldestServer[1], oldestServer[2])
		}
		if n > least {
			return nil
		}
	}
	return nil
}

const probeTimeout = 1500 * time.Millisecond

// probe asks whether every stream has a leader that answers, how long the fastest of them takes, and how much they hold.
func (r *running) probe(streams []string) (rtt time.Duration, err error) {
	for _, conn := range r.conns() {
		if conn.IsClosed() {
			return 0, errClosed
		}
		if !conn.IsConnected() {
			return 0, errors.New("there is no connection to the cluster")
		}
	}
	ctx, cancel := context.WithTimeout(r.alive, probeTimeout)
	defer cancel()
	var bytes uint64
	for _, name := range streams {
		var info struct {
			State struct {
				Bytes uint64 `json:"bytes"`
			} `json:"state"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		}
		asked := time.Now()
		if err := r.api(ctx, "STREAM.INFO."+name, struct{}{}, &info); err != nil {
			return 0, fmt.Errorf("stream %s has no leader that answers: %w", name, err)
		}
		if took := time.Since(asked); rtt == 0 || took < rtt {
			rtt = took
		}
		bytes += info.State.Bytes
	}
	r.stored.Store(bytes)
	return rtt, nil
}

// errClosed: a connection that the client has given up. Only new ones help.
var errClosed = errors.New("a connection to the cluster was closed for good")
