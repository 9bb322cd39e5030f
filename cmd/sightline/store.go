package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	chatctx "sightline/context"
	"sightline/context/jetstream"
	"sightline/gateway/cluster"
)

// inMemory is the --data-dir that keeps nothing beyond the process.
const inMemory = "memory"

// maxEndedOnDisk is how many ended sessions stay readable: on disk they cost a few hundred bytes of memory each.
const maxEndedOnDisk = 100_000

// openTimeout bounds reading the store at start; a hundred thousand sessions take some seconds.
const openTimeout = 2 * time.Minute

// storage is where conversations and the record of sessions live.
type storage struct {
	chatctx.Store
	chatctx.Directory
	health func() error  // nil: always well
	node   *cluster.Node // nil: there are no other gateways
	leave  func() error  // makes the node unknown; nil without one
}

// Close ends the node's part in the cluster, and the use of the store.
func (s storage) Close() error {
	var err error
	if s.leave != nil {
		err = s.leave()
	}
	return errors.Join(err, s.Store.Close())
}

// openStorage opens the store on disk, in a cluster, or one in memory.
func openStorage(s *settings, listen net.Addr, log *slog.Logger) (storage, error) {
	if s.dataDir == inMemory {
		log.Warn("conversations are kept in memory and end with this process")
		return storage{Store: chatctx.NewMemStore(), Directory: &chatctx.MemDirectory{}}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	store, err := jetstream.Open(ctx, jetstream.Config{
		Dir: s.dataDir, External: s.nats.external(), UnsafeSync: s.nats.unsafeSync, MaxStoreBytes: s.storeBytes, Log: log,
	})
	if err != nil {
		return storage{}, err
	}
	kept := storage{Store: store, Directory: store, health: store.Health}
	if s.nats.url == "" {
		return kept, nil
	}
	if kept.node, kept.leave, err = joinCluster(s, store, listen, log); err != nil {
		return storage{}, errors.Join(err, store.Close())
	}
	return kept, nil
}

// joinCluster makes this process known to the other gateways until leave is called.
func joinCluster(s *settings, store *jetstream.Store, listen net.Addr, log *slog.Logger) (node *cluster.Node, leave func() error, err error) {
	name, _ := os.Hostname() // only for people
	url := s.nats.nodeURL
	if tcp, ok := listen.(*net.TCPAddr); url == "" && ok && !tcp.IP.IsUnspecified() {
		url = s.scheme() + "://" + listen.String()
	}
	node, err = cluster.New(cluster.Config{Store: store, Name: name, URL: url, Version: version, Lease: s.nats.lease, Log: log})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	log.Info("one of the cluster's gateways", "node", node.ID(), "url", url)
	return node, func() error {
		cancel()
		return <-ended
	}, nil
}

// stateDir is the default --data-dir, by the XDG base directory specification.
func stateDir(getenv func(string) string) (string, error) {
	if base := getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "sightline"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sightline"), nil
	}
	return "", errors.New("there is no home directory to keep conversations in: say where with --data-dir, or --data-dir memory")
}
