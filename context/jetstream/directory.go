package jetstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// PutSession implements chatctx.Directory. A session that begins is refused when the store is nearly full.
func (s *Store) PutSession(ctx context.Context, r chatctx.SessionRecord) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.EndedAt.IsZero() && !r.Deleted && s.heads.acknowledged(r.Key) == 0 {
		if err := s.roomForNew(ctx, r.Key); err != nil {
			return err
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Detail: "the record does not marshal", Cause: err}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	seq, err := s.put(ctx, &nats.Msg{Subject: sessionPrefix + r.ID, Data: data})
	if err != nil {
		return err
	}
	// What it replaces is of no use; should it stay, the later one still counts. (By sequence: told to keep one, the server keeps
	// the one that it cannot read.)
	if now, _, err := s.engine.writer(ctx); err == nil {
		_ = now.api(ctx, "STREAM.PURGE."+sessionStream, map[string]any{"filter": sessionPrefix + r.ID, "seq": seq}, nil)
	}
	return nil
}

// DeleteSession implements chatctx.Directory.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	if err := checkSession(id); err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return err
	}
	if err := r.purge(ctx, sessionStream, sessionPrefix+id); err != nil {
		return unavailable("the record of the session could not be deleted", err)
	}
	return nil
}

// recordState is what the server says of the records all together.
type recordState struct {
	Messages uint64 `json:"messages"`
	Last     uint64 `json:"last_seq"`
}

func (s *Store) recordState(ctx context.Context) (recordState, error) {
	var info struct {
		State recordState `json:"state"`
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	err := s.persist(ctx, func(ctx context.Context, r *running) error {
		return r.api(ctx, "STREAM.INFO."+sessionStream, struct{}{}, &info)
	})
	return info.State, err
}

// Sessions implements chatctx.Directory. When some records do not read it returns the others and an error of kind LogDamaged.
func (s *Store) Sessions(ctx context.Context) ([]chatctx.SessionRecord, error) {
	all, err := s.Owners(ctx)
	var records []chatctx.SessionRecord
	for _, o := range all {
		records = append(records, o.SessionRecord)
	}
	return records, err
}

// Owners is Sessions with who owns them.
func (s *Store) Owners(ctx context.Context) ([]Owned, error) {
	tries := readTries
	if s.cfg.clustered() {
		tries = lagTries
	}
	for try := 1; ; try++ {
		before, err := s.recordState(ctx)
		if err != nil {
			return nil, err
		}
		records, read, err := s.recordsUpTo(ctx, before, !s.cfg.clustered() || try == tries)
		if err != nil {
			return nil, err
		}
		all := slices.SortedFunc(maps.Values(records), func(a, b Owned) int { return strings.Compare(a.ID, b.ID) })
		if read >= before.Messages {
			return all, nil
		}
		if s.cfg.clustered() && try < tries { // a replica that lags
			time.Sleep(time.Duration(try) * replicaPause / 4)
			continue
		}
		// The server skips what it cannot read without a word; but some may have been deleted while we read.
		after, err := s.recordState(ctx)
		switch {
		case err != nil:
			return nil, err
		case after == before:
			return all, s.damaged("%d of the %d records of sessions do not read", before.Messages-read, before.Messages)
		case try >= tries:
			return all, nil
		}
	}
}

// mostSkipped is how many sequences in a row may not read.
const mostSkipped = 10_000

// recordsUpTo reads the records that were there at a state; of one that was put again the later counts. Told to, it steps over what
// the server cannot read.
func (s *Store) recordsUpTo(ctx context.Context, state recordState, step bool) (records map[string]Owned, read uint64, err error) {
	records = map[string]Owned{}
	skipped := 0
	for from := uint64(1); read < state.Messages && from <= state.Last && skipped < mostSkipped; {
		batch, next, err := s.recordPage(ctx, from)
		if err != nil {
			return nil, 0, err
		}
		if skipped++; next == from { // nothing, or something that the server cannot read
			if from++; !step {
				break
			}
			continue
		}
		skipped = 0
		for _, record := range batch {
			records[record.ID] = record
		}
		read += uint64(len(batch))
		from = next
	}
	return records, read, nil
}

// recordPage reads records from a stream sequence on; next is where the page after it begins.
func (s *Store) recordPage(ctx context.Context, from uint64) (batch []Owned, next uint64, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	request := map[string]any{"seq": from, "next_by_subj": sessionPrefix + ">", "batch": readEntries, "max_bytes": readBytes}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		batch, next = nil, from
		_, err := r.directBatch(ctx, sessionStream, request, func(msg *nats.Msg, seq uint64) error {
			next = seq + 1
			record := Owned{Revision: seq}
			if err := json.Unmarshal(msg.Data, &record); err != nil || sessionPrefix+record.ID != msg.Header.Get(nats.JSSubject) {
				return &chatctx.Error{Kind: chatctx.LogDamaged, Detail: "the record of a session is none", Cause: err}
			}
			batch = append(batch, record)
			return nil
		})
		return err
	})
	return batch, next, err
}
