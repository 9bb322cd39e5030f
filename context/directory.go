package chatctx

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// SessionRecord is what a Directory keeps of one session, so that its id means the same conversation after a restart.
type SessionRecord struct {
	ID        string    `json:"id"`  // the public id
	Key       string    `json:"key"` // of its log in the Store
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero while it is alive, or was when the process went away
	Deleted   bool      `json:"deleted,omitempty"` // by request: the id then begins a new conversation
}

// Directory keeps the records of many sessions, at most one per id. It is safe for concurrent use. storetest has the suite
// that each implementation passes.
type Directory interface {
	// PutSession makes r durable in the place of the record of the same id.
	PutSession(ctx context.Context, r SessionRecord) error
	// DeleteSession forgets the record of an id; an unknown id is no error.
	DeleteSession(ctx context.Context, id string) error
	// Sessions gives every record, by id.
	Sessions(ctx context.Context) ([]SessionRecord, error)
}

// Check says what is wrong with a record, nil when it can be kept.
func (r SessionRecord) Check() error {
	if !ValidID(r.ID) {
		return fail(InvalidArgument, "id", "session id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", r.ID)
	}
	if !ValidID(r.Key) {
		return fail(InvalidArgument, "key", "log key %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", r.Key)
	}
	return nil
}

// MemDirectory is a Directory in memory: what it holds ends with the process. Its zero value is empty and ready.
type MemDirectory struct {
	mu      sync.Mutex
	records map[string]SessionRecord
}

// PutSession implements Directory.
func (d *MemDirectory) PutSession(_ context.Context, r SessionRecord) error {
	if err := r.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records == nil {
		d.records = map[string]SessionRecord{}
	}
	d.records[r.ID] = r
	return nil
}

// DeleteSession implements Directory.
func (d *MemDirectory) DeleteSession(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.records, id)
	return nil
}

// Sessions implements Directory.
func (d *MemDirectory) Sessions(context.Context) ([]SessionRecord, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []SessionRecord
	for _, r := range d.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b SessionRecord) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
