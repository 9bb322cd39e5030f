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

	DefaultReplicas       = 3
	DefaultClusterTimeout = 15 * time.Second // a cluster takes 4 to 10 s to choose a new leader
	DefaultClusterBytes   = 8 << 30
)

// MinStoreBytes is the least that Config.MaxStoreBytes may be: it holds a block of each stream.
const MinStoreBytes = 4 << 20

// Config is what a Store needs. Zero fields mean the defaults.
type Config struct {
	// Dir is where the server inside the process keeps everything; made when it is not there; one process at a time. Either it or
	// External.URL is required.
	Dir      string
	External External // a NATS cluster in place of the server inside

	// UnsafeSync leaves fsync to the server's two minutes: a power cut then loses what was acknowledged since, or the whole
	// store. Killing the process loses nothing either way. With External it lets servers be used that are not tagged sync:always.
	UnsafeSync bool

	// MaxStoreBytes bounds entries, images and records together; default four fifths of what is free on the disk, counting
	// what the store has already, or DefaultClusterBytes with External. A store that exists is never made smaller than it was.
	MaxStoreBytes int64
	MinFreeBytes  int64         // appends are refused while the disk has less than this; default DefaultMinFreeBytes
	MaxAge        time.Duration // sessions without a new entry for so long, and not alive in the directory, are deleted; default DefaultMaxAge
	Timeout       time.Duration // of each call whose context does not end before; default DefaultTimeout, DefaultClusterTimeout with External
	Partitions    int           // streams of each kind, when the store is made; default DefaultPartitions, twice as many with External

	Log *slog.Logger // nil = nothing is logged

	free func(dir string) (int64, error) // of the disk; tests have disks of their own
}

func (c Config) withDefaults() (Config, error) {
	if (c.Dir == "") == (c.External.URL == "") {
		return c, errors.New("jetstream: either Dir or External.URL is required: the folder that is to hold the conversations, or the cluster that does")
	}
	if c.MaxStoreBytes != 0 && c.MaxStoreBytes < MinStoreBytes {
		return c, fmt.Errorf("jetstream: MaxStoreBytes is %d: allowed is %d or more, or 0 for four fifths of what is free", c.MaxStoreBytes, MinStoreBytes)
	}
	if c.MinFreeBytes < 0 || c.MaxAge < 0 || c.Timeout < 0 || c.Partitions < 0 || c.Partitions > 64 {
		return c, errors.New("jetstream: MinFreeBytes, MaxAge and Timeout must not be negative, Partitions is 1 to 64")
	}
	if c.clustered() {
		if err := c.External.check(); err != nil {
			return c, err
		}
		def(&c.External.Replicas, DefaultReplicas)
		def(&c.External.Lease, DefaultLease)
		def(&c.Timeout, DefaultClusterTimeout)
		def(&c.Partitions, 2*DefaultPartitions)
		def(&c.MaxStoreBytes, DefaultClusterBytes)
	}
	def(&c.MinFreeBytes, DefaultMinFreeBytes)
	def(&c.MaxAge, DefaultMaxAge)
	def(&c.Timeout, DefaultTimeout)
	def(&c.Partitions, DefaultPartitions)
	if c.free == nil {
		c.free = freeBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c Config) clustered() bool { return c.External.URL != "" }

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func unavailable(detail string, cause error) *chatctx.Error {
	return &chatctx.Error{Kind: chatctx.EngineUnavailable, Detail: detail, Cause: cause}
}

func damaged(format string, args ...any) *chatctx.Error {
	return &chatctx.Error{Kind: chatctx.LogDamaged, Field: "seq", Detail: fmt.Sprintf(format, args...)}
}
