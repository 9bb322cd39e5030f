package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	chatctx "sightline/context"
	"sightline/context/jetstream"
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
	health func() error // nil: always well
}

// openStorage opens the store on disk, in a cluster, or one in memory.
func openStorage(s *settings, log *slog.Logger) (storage, error) {
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
	return storage{Store: store, Directory: store, health: store.Health}, nil
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
