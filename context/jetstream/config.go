package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	chatctx "sightline/context"
)

// Defaults of a Config.
const (
	DefaultTimeout      = 5 * time.Second
	DefaultMaxAge       = 7 * 24 * time.Hour
	DefaultPartitions   = 4
	DefaultMinFreeBytes = 64 << 20
)

// MinStoreBytes is the least that Config.MaxStoreBytes may be: it holds a block of each stream.
const MinStoreBytes = 4 << 20

// Config is what a Store needs. Zero fields mean the defaults.
type Config struct {
	Dir string // required; made when it is not there; one process at a time

	// UnsafeSync leaves fsync to the server's two minutes: a power cut then loses what was acknowledged since, or the whole
	// store. Killing the process loses nothing either way.
	UnsafeSync bool

	// MaxStoreBytes bounds entries, images and records together; default four fifths of what is free on the disk, counting
	// what the store has already. A store that exists is never made smaller than it was.
	MaxStoreBytes int64
	MinFreeBytes  int64         // appends are refused while the disk has less than this; default DefaultMinFreeBytes
	MaxAge        time.Duration // sessions without a new entry for so long, and not alive in the directory, are deleted; default DefaultMaxAge
	Timeout       time.Duration // of each call whose context does not end before; default DefaultTimeout
	Partitions    int           // streams of each kind, when the store is made; default DefaultPartitions

	Log *slog.Logger // nil = nothing is logged

	free func(dir string) (int64, error) // of the disk; tests have disks of their own
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("jetstream: Dir is required: the folder that is to hold the conversations")
	}
	if c.MaxStoreBytes != 0 && c.MaxStoreBytes < MinStoreBytes {
		return c, fmt.Errorf("jetstream: MaxStoreBytes is %d: allowed is %d or more, or 0 for four fifths of what is free", c.MaxStoreBytes, MinStoreBytes)
	}
	if c.MinFreeBytes < 0 || c.MaxAge < 0 || c.Timeout < 0 || c.Partitions < 0 || c.Partitions > 64 {
		return c, errors.New("jetstream: MinFreeBytes, MaxAge and Timeout must not be negative, Partitions is 1 to 64")
	}
	if c.MinFreeBytes == 0 {
		c.MinFreeBytes = DefaultMinFreeBytes
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Partitions == 0 {
		c.Partitions = DefaultPartitions
	}
	if c.free == nil {
		c.free = freeBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func unavailable(detail string, cause error) *chatctx.Error {
	return &chatctx.Error{Kind: chatctx.EngineUnavailable, Detail: detail, Cause: cause}
}

func damaged(format string, args ...any) *chatctx.Error {
	return &chatctx.Error{Kind: chatctx.LogDamaged, Field: "seq", Detail: fmt.Sprintf(format, args...)}
}
