package jetstream

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// schema is written into each stream; a store of a later one is not opened.
const schema = "1"

// Keys of the streams' metadata.
const (
	schemaKey     = "sightline_schema"
	partitionsKey = "sightline_partitions" // of the session stream, which is made first
)

func contextStream(p int) string { return fmt.Sprintf("CTX_%d", p) }
func blobStream(p int) string    { return fmt.Sprintf("BLOB_%d", p) }

const (
	sessionStream = "KV_SESS" // laid out as the KV bucket SESS
	sessionPrefix = "$KV.SESS."
)

// partition is where a session's messages are. It depends on the number of streams, which a store keeps for good.
func (s *Store) partition(session string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(session))
	return int(h.Sum32() % uint32(s.partitions))
}

func (s *Store) entrySubject(session string) string {
	return fmt.Sprintf("ctx.%d.%s", s.partition(session), session)
}

func (s *Store) blobSubject(session, sha256 string) string {
	return fmt.Sprintf("blob.%d.%s.%s", s.partition(session), session, sha256)
}

// plan is the streams of a store of n partitions and so many bytes. Images are about a hundred times the text of a call that
// has some, and many calls have none.
//
// No stream has a bound per subject: the server then loads what it is to replace, and when that is damaged it calls it a write
// error and takes nothing more, also after a restart. Old images are not replaced, old records are purged.
func plan(cfg Config, partitions int, bytes int64) []jetstream.StreamConfig {
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: max(cfg.External.Replicas, 1), Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		AllowDirect: true, MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: maxMessage,
		Duplicates: 100 * time.Millisecond, // the least: no message has an id, and the server reads that much when it starts
		Metadata:   map[string]string{schemaKey: schema},
	}
	if cfg.clustered() && !cfg.UnsafeSync {
		base.Placement = &jetstream.Placement{Tags: []string{syncTag}}
	}
	sessions := base
	sessions.Name, sessions.Subjects = sessionStream, []string{sessionPrefix + ">"}
	sessions.MaxBytes = bytes / 16
	sessions.AllowRollup, sessions.DenyDelete = true, true
	sessions.Metadata = map[string]string{schemaKey: schema, partitionsKey: strconv.Itoa(partitions)}
	all := []jetstream.StreamConfig{sessions}
	if cfg.clustered() {
		all = append(all, nodePlan(cfg))
	}
	for p := range partitions {
		entries := base
		entries.Name, entries.Subjects = contextStream(p), []string{fmt.Sprintf("ctx.%d.*", p)}
		entries.MaxBytes = bytes * 5 / 16 / int64(partitions)
		blobs := base
		blobs.Name, blobs.Subjects = blobStream(p), []string{fmt.Sprintf("blob.%d.*.*", p)}
		blobs.MaxBytes = bytes * 10 / 16 / int64(partitions)
		all = append(all, entries, blobs)
	}
	return all
}

// streams is the names of all that hold anything for good.
func (e *engine) streams() []string {
	names := []string{sessionStream}
	for p := range e.partitions {
		names = append(names, contextStream(p), blobStream(p))
	}
	return names
}

// reconcile makes the streams that are missing and widens the bounds of those that are there; it never narrows one, since the
// server then throws the oldest messages away. It returns how many partitions the store has. Gateways that start together on an
// empty cluster make the streams together: who comes second looks again.
func (e *engine) reconcile(ctx context.Context, r *running) (partitions int, err error) {
	for range reconcileTries {
		if partitions, err = e.reconcileOnce(ctx, r); !errors.Is(err, errMadeByOther) {
			break
		}
	}
	return partitions, err
}

const reconcileTries = 5

var errMadeByOther = errors.New("somebody else has made it just now")

func (e *engine) reconcileOnce(ctx context.Context, r *running) (int, error) {
	js, err := jetstream.New(r.write)
	if err != nil {
		return 0, err
	}
	partitions := max(e.partitions, 0)
	if partitions == 0 {
		partitions = e.cfg.Partitions
	}
	have := map[string]jetstream.StreamConfig{}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		have[info.Config.Name] = info.Config
	}
	if err := list.Err(); err != nil {
		return 0, fmt.Errorf("the store's streams: %w", err)
	}
	if sessions, there := have[sessionStream]; there {
		if partitions, err = strconv.Atoi(sessions.Metadata[partitionsKey]); err != nil || partitions < 1 {
			return 0, fmt.Errorf("the store's stream %s has no sound %s: this store was not made by this program", sessionStream, partitionsKey)
		}
	}
	for _, want := range plan(e.cfg, partitions, e.bytes) {
		old, there := have[want.Name]
		if !there {
			err = create(ctx, js, want)
		} else {
			err = e.widen(ctx, js, old, want)
		}
		if err != nil {
			return 0, fmt.Errorf("the store's stream %s: %w", want.Name, err)
		}
	}
	return partitions, nil
}

func create(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	_, err := js.CreateStream(ctx, want)
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.ErrorCode {
	case codeNameInUse:
		return errMadeByOther
	case codeNoPeers:
		return fmt.Errorf("the cluster has no %d servers for it that are tagged %s: give them sync_interval: always and server_tags: [%q]: %w",
			want.Replicas, syncTag, syncTag, err)
	case codeNoStorage:
		return fmt.Errorf("the cluster has no room for %d bytes: say less with --store-bytes: %w", want.MaxBytes, err)
	}
	return err
}

// widen makes a stream at least what is wanted of it.
func (e *engine) widen(ctx context.Context, js jetstream.JetStream, old, want jetstream.StreamConfig) error {
	if v := old.Metadata[schemaKey]; v != schema {
		return fmt.Errorf("it has schema %q, this program reads %s: it was written by another version", v, schema)
	}
	if want.Placement != nil && (old.Placement == nil || !slices.Contains(old.Placement.Tags, syncTag)) {
		return fmt.Errorf("it was made without asking for servers that are tagged %s: move it to such, or allow what a power cut then loses with --nats-unsafe-sync", syncTag)
	}
	if old.MaxBytes >= want.MaxBytes && old.MaxMsgSize >= want.MaxMsgSize && old.Replicas >= want.Replicas {
		return nil
	}
	old.MaxBytes, old.MaxMsgSize = max(old.MaxBytes, want.MaxBytes), max(old.MaxMsgSize, want.MaxMsgSize)
	old.Replicas = max(old.Replicas, want.Replicas)
	_, err := js.UpdateStream(ctx, old)
	return err
}
