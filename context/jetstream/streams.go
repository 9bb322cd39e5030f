package jetstream

import (
	"context"
	"fmt"
	"hash/fnv"
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
func plan(partitions int, bytes int64) []jetstream.StreamConfig {
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: 1, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		AllowDirect: true, MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: maxMessage,
		Duplicates: 100 * time.Millisecond, // the least: no message has an id, and the server reads that much when it starts
		Metadata:   map[string]string{schemaKey: schema},
	}
	sessions := base
	sessions.Name, sessions.Subjects = sessionStream, []string{sessionPrefix + ">"}
	sessions.MaxBytes = bytes / 16
	sessions.AllowRollup, sessions.DenyDelete = true, true
	sessions.Metadata = map[string]string{schemaKey: schema, partitionsKey: strconv.Itoa(partitions)}
	all := []jetstream.StreamConfig{sessions}
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

// reconcile makes the streams that are missing and widens the bounds of those that are there; it never narrows one, since the
// server then throws the oldest messages away. It returns how many partitions the store has.
func reconcile(ctx context.Context, r *running, partitions int, bytes int64) (int, error) {
	js, err := jetstream.New(r.write)
	if err != nil {
		return 0, err
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
	for _, want := range plan(partitions, bytes) {
		old, there := have[want.Name]
		if !there {
			if _, err := js.CreateStream(ctx, want); err != nil {
				return 0, fmt.Errorf("the store's stream %s: %w", want.Name, err)
			}
			continue
		}
		if v := old.Metadata[schemaKey]; v != schema {
			return 0, fmt.Errorf("the store's stream %s has schema %q, this program reads %s: it was written by another version", want.Name, v, schema)
		}
		if old.MaxBytes >= want.MaxBytes && old.MaxMsgSize >= want.MaxMsgSize {
			continue
		}
		old.MaxBytes, old.MaxMsgSize = max(old.MaxBytes, want.MaxBytes), max(old.MaxMsgSize, want.MaxMsgSize)
		if _, err := js.UpdateStream(ctx, old); err != nil {
			return 0, fmt.Errorf("the store's stream %s: %w", want.Name, err)
		}
	}
	return partitions, nil
}
