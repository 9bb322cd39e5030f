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
	msg := &nats.Msg{Subject: sessionPrefix + r.ID, Data: data}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		_, err := s.publish(ctx, msg) // a repetition puts the same again
		if err == nil {
			return nil
		}
		if final(err) {
			return err
		}
		s.counters.retry(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unavailable("the store of sessions did not answer in time", err)
		}
	}
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

// Sessions implements chatctx.Directory. A record that does not read is an error of kind LogDamaged.
func (s *Store) Sessions(ctx context.Context) ([]chatctx.SessionRecord, error) {
	records := map[string]chatctx.SessionRecord{} // one that is put again while we read comes twice: the later counts
	from, more := uint64(1), true
	for more {
		page, cancel := s.within(ctx)
		var batch []chatctx.SessionRecord
		next := from
		err := s.persist(page, func(ctx context.Context, r *running) error {
			batch, next = nil, from
			var err error
			more, err = r.directBatch(ctx, sessionStream, map[string]any{"seq": from, "next_by_subj": sessionPrefix + ">", "batch": readEntries, "max_bytes": readBytes},
				func(msg *nats.Msg, seq uint64) error {
					next = seq + 1
					var record chatctx.SessionRecord
					if err := json.Unmarshal(msg.Data, &record); err != nil || sessionPrefix+record.ID != msg.Header.Get(nats.JSSubject) {
						return &chatctx.Error{Kind: chatctx.LogDamaged, Detail: "the record of a session does not read", Cause: err}
					}
					batch = append(batch, record)
					return nil
				})
			return err
		})
		cancel()
		if err != nil {
			return nil, err
		}
		for _, record := range batch {
			records[record.ID] = record
		}
		more = more && next > from
		from = next
	}
	return slices.SortedFunc(maps.Values(records), func(a, b chatctx.SessionRecord) int { return strings.Compare(a.ID, b.ID) }), nil
}
