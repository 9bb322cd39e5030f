package jetstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// PutSession implements chatctx.Directory.
func (s *Store) PutSession(ctx context.Context, r chatctx.SessionRecord) error {
	if err := r.Check(); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Detail: "the record does not marshal", Cause: err}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	if _, err := s.put(ctx, &nats.Msg{Subject: sessionPrefix + r.ID, Data: data}); err != nil {
		return err
	}
	// What it replaces is of no use; should it stay, the later one still counts.
	if now, _, err := s.engine.writer(ctx); err == nil {
		_ = now.api(ctx, "STREAM.PURGE."+sessionStream, map[string]any{"filter": sessionPrefix + r.ID, "keep": 1}, nil)
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

// mostSkipped is after how many records that do not read Sessions gives up.
const mostSkipped = 10_000

// Sessions implements chatctx.Directory. When some records do not read it returns the others and an error of kind LogDamaged.
func (s *Store) Sessions(ctx context.Context) ([]chatctx.SessionRecord, error) {
	var info struct {
		State struct {
			Messages uint64 `json:"messages"`
			Last     uint64 `json:"last_seq"`
		} `json:"state"`
	}
	asking, cancel := s.within(ctx)
	defer cancel()
	err := s.persist(asking, func(ctx context.Context, r *running) error {
		return r.api(ctx, "STREAM.INFO."+sessionStream, struct{}{}, &info)
	})
	if err != nil {
		return nil, err
	}
	records := map[string]chatctx.SessionRecord{} // of one that was put again the later counts
	skipped := 0
	for from, more := uint64(1), info.State.Messages > 0; more && from <= info.State.Last; {
		var batch []chatctx.SessionRecord
		next := from
		batch, next, more, err = s.recordPage(ctx, from)
		if err != nil {
			return nil, err
		}
		if next == from { // there is one, and the server cannot read it
			if skipped++; skipped > mostSkipped {
				break
			}
			next, more = from+1, true
		}
		for _, record := range batch {
			records[record.ID] = record
		}
		from = next
	}
	all := slices.SortedFunc(maps.Values(records), func(a, b chatctx.SessionRecord) int { return strings.Compare(a.ID, b.ID) })
	if skipped > 0 {
		return all, s.damaged("some of the %d records of sessions do not read", info.State.Messages)
	}
	return all, nil
}

// recordPage reads records from a stream sequence on; next is where the page after it begins.
func (s *Store) recordPage(ctx context.Context, from uint64) (batch []chatctx.SessionRecord, next uint64, more bool, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	request := map[string]any{"seq": from, "next_by_subj": sessionPrefix + ">", "batch": readEntries, "max_bytes": readBytes}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		batch, next = nil, from
		var err error
		more, err = r.directBatch(ctx, sessionStream, request, func(msg *nats.Msg, seq uint64) error {
			next = seq + 1
			var record chatctx.SessionRecord
			if err := json.Unmarshal(msg.Data, &record); err != nil || sessionPrefix+record.ID != msg.Header.Get(nats.JSSubject) {
				return &chatctx.Error{Kind: chatctx.LogDamaged, Detail: "the record of a session is none", Cause: err}
			}
			batch = append(batch, record)
			return nil
		})
		return err
	})
	return batch, next, more, err
}
