package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
	"sightline/context/jetstream"
)

// Config is what a Node needs.
type Config struct {
	Store   *jetstream.Store // of a cluster; required
	ID      string           // among the nodes; default: a name made of Name and chance
	Name    string           // of the machine, for people; default "node"
	URL     string           // where agents and publishers reach this node; empty: nobody is sent here
	Version string
	Lease   time.Duration // as the store's; default jetstream.DefaultLease
	Log     *slog.Logger  // nil = nothing is logged
}

// Node is this process among the gateways of a cluster.
type Node struct {
	cfg     Config
	inbound *listener

	mu       sync.Mutex
	peers    map[string]jetstream.NodeRecord // as of the last look, without this node
	seen     map[string]time.Time            // when a node was last there
	looked   time.Time                       // the last look that was answered
	renewed  time.Time                       // when this node's own record was last taken
	draining bool
	sessions func() int
	lapsed   func() // told after this node was silent for longer than its lease
	streams  map[*stream]struct{}
	kick     chan struct{} // capacity 1: renew now
}

// New makes a Node; Run makes it known.
func New(cfg Config) (*Node, error) {
	if cfg.Store == nil {
		return nil, errors.New("cluster: Store is required")
	}
	if cfg.Lease == 0 {
		cfg.Lease = jetstream.DefaultLease
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ID == "" {
		cfg.ID = newID(cfg.Name)
	}
	if !chatctx.ValidID(cfg.ID) {
		return nil, fmt.Errorf("cluster: node id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", cfg.ID)
	}
	n := &Node{
		cfg: cfg, peers: map[string]jetstream.NodeRecord{}, seen: map[string]time.Time{}, streams: map[*stream]struct{}{},
		kick: make(chan struct{}, 1), sessions: func() int { return 0 }, lapsed: func() {},
	}
	n.inbound = newListener(n)
	return n, nil
}

// newID is different for every start: a node that starts again is another one, since it has nothing of what it had.
func newID(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.Trim(clean[:min(len(clean), 40)], "-") + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// ID is this node's name among the others.
func (n *Node) ID() string { return n.cfg.ID }

// Store is where the sessions are.
func (n *Node) Store() *jetstream.Store { return n.cfg.Store }

// Watch says how many sessions live here and who is to be told when this node was silent for longer than its lease, so that others
// may own by now what it believes to own. To be called before Run.
func (n *Node) Watch(sessions func() int, lapsed func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sessions, n.lapsed = sessions, lapsed
}

// Run keeps this node known until ctx ends, and then says that it goes.
func (n *Node) Run(ctx context.Context) error {
	var last uint64
	var subscribed *nats.Conn
	var sub *nats.Subscription
	ticker := time.NewTicker(n.cfg.Lease / lookParts)
	defer ticker.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		if conn, err := n.cfg.Store.Conn(ctx); err == nil && conn != subscribed {
			if sub, err = conn.Subscribe(dialSubject(n.cfg.ID), n.inbound.dialled); err == nil {
				subscribed = conn
			}
		}
		if round%renewRounds == 0 {
			last = n.renew(ctx, last)
		}
		n.look(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-n.kick:
			last = n.renew(ctx, last)
		}
	}
	if sub != nil {
		_ = sub.Unsubscribe()
	}
	_ = n.inbound.Close()
	n.cut(func(*stream) bool { return true })
	leaving, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = n.cfg.Store.DeleteNode(leaving, n.cfg.ID) // or its lease ends
	return nil
}

// A node looks who is there several times a lease, and renews every other time.
const (
	lookParts   = 6
	renewRounds = 2
)

// renew says that this node is alive. When it was silent for longer than its lease, somebody else may own its sessions.
func (n *Node) renew(ctx context.Context, last uint64) uint64 {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Lease/2)
	defer cancel()
	n.mu.Lock()
	record := jetstream.NodeRecord{ID: n.cfg.ID, URL: n.cfg.URL, Draining: n.draining, Version: n.cfg.Version}
	sessions, lapsed, before := n.sessions, n.lapsed, n.renewed
	n.mu.Unlock()
	record.Sessions = sessions()
	revision, err := n.cfg.Store.PutNode(ctx, record, last)
	if errors.Is(err, jetstream.ErrChanged) { // the lease has ended meanwhile
		revision, err = n.cfg.Store.PutNode(ctx, record, 0)
	}
	if err != nil {
		n.cfg.Log.Warn("this node cannot say that it is alive", "node", n.cfg.ID, "error", err)
		return last
	}
	now := time.Now()
	n.mu.Lock()
	n.renewed = now
	n.mu.Unlock()
	if !before.IsZero() && now.Sub(before) > n.cfg.Lease {
		n.cfg.Log.Warn("this node was silent for longer than its lease", "silent", now.Sub(before).Round(time.Millisecond))
		lapsed()
	}
	return revision
}

// look learns who is there and ends the streams to those who are not.
func (n *Node) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Lease/2)
	defer cancel()
	nodes, err := n.cfg.Store.Nodes(ctx)
	if err != nil {
		return // nobody is declared dead by who does not know
	}
	now := time.Now()
	n.mu.Lock()
	n.looked = now
	clear(n.peers)
	for _, p := range nodes {
		if n.seen[p.ID] = now; p.ID != n.cfg.ID {
			n.peers[p.ID] = p
		}
	}
	for id, at := range n.seen {
		if now.Sub(at) > 10*n.cfg.Lease {
			delete(n.seen, id)
		}
	}
	n.mu.Unlock()
	n.cut(func(s *stream) bool { return !n.Alive(s.peer) })
}

// cut ends streams and forgets those that have ended; it returns when their goroutines have.
func (n *Node) cut(which func(*stream) bool) {
	n.mu.Lock()
	streams := slices.Collect(maps.Keys(n.streams))
	n.mu.Unlock()
	for _, s := range streams {
		if which(s) {
			s.fail(errPeerGone)
		}
		select {
		case <-s.over:
			s.keeper.Wait()
			n.mu.Lock()
			delete(n.streams, s)
			n.mu.Unlock()
		default:
		}
	}
}

var errPeerGone = errors.New("the other node is gone")

// Alive says whether a node may still be doing something. A node that has not been seen is dead only for who has looked since.
func (n *Node) Alive(id string) bool {
	if id == n.cfg.ID {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.peers[id]; there || n.looked.IsZero() {
		return true
	}
	at, known := n.seen[id]
	return known && n.looked.Sub(at) < 2*n.cfg.Lease/lookParts
}

// Peers is who else is alive, by id.
func (n *Node) Peers() (peers []jetstream.NodeRecord) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b jetstream.NodeRecord) int { return strings.Compare(a.ID, b.ID) })
	return peers
}

// First says whether this node is the one that cleans up for all.
func (n *Node) First() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.peers {
		if id < n.cfg.ID {
			return false
		}
	}
	return !n.looked.IsZero()
}

// Elsewhere is another node that takes sessions and has an address, the least loaded of them; ok is false when there is none.
func (n *Node) Elsewhere() (peer jetstream.NodeRecord, ok bool) {
	for _, p := range n.Peers() {
		if p.URL != "" && !p.Draining && (!ok || p.Sessions < peer.Sessions) {
			peer, ok = p, true
		}
	}
	return peer, ok
}

// SetDraining tells the others whether this node takes sessions, within moments.
func (n *Node) SetDraining(draining bool) {
	n.mu.Lock()
	n.draining = draining
	n.mu.Unlock()
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// Listener gives the streams that other nodes, and this one, dial to this node.
func (n *Node) Listener() net.Listener { return n.inbound }
