package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	chatctx "sightline/context"
)

const (
	nodeStream = "KV_NODES" // laid out as the KV bucket NODES
	nodePrefix = "$KV.NODES."
)

// DefaultLease is how long a node counts as alive after it has last said so.
const DefaultLease = 10 * time.Second

// NodeRecord is a gateway of the cluster as the others see it.
type NodeRecord struct {
	ID       string `json:"id"`
	URL      string `json:"url,omitempty"` // where agents and publishers reach it; empty: nobody is sent there
	Draining bool   `json:"draining,omitempty"`
	Sessions int    `json:"sessions"` // live ones
	Version  string `json:"version,omitempty"`
}

// nodePlan: what is not renewed within the lease is gone. It is in memory: nodes say it again every few seconds.
func nodePlan(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: nodeStream, Subjects: []string{nodePrefix + ">"}, Storage: jetstream.MemoryStorage, Replicas: max(cfg.External.Replicas, 1),
		MaxMsgsPerSubject: 1, MaxAge: cfg.External.Lease, Discard: jetstream.DiscardOld, AllowDirect: true, MaxBytes: 1 << 20, MaxMsgs: -1, MaxConsumers: -1,
		Duplicates: 100 * time.Millisecond, Metadata: map[string]string{schemaKey: schema},
	}
}

// PutNode says that a node is alive. last is what PutNode answered the time before, 0 the first time: ErrChanged when the record is
// gone, or another process uses the id.
func (s *Store) PutNode(ctx context.Context, n NodeRecord, last uint64) (uint64, error) {
	if !chatctx.ValidID(n.ID) {
		return 0, fmt.Errorf("node id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", n.ID)
	}
	data, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	return s.replace(ctx, nodePrefix+n.ID, data, last)
}

// DeleteNode says that a node goes away.
func (s *Store) DeleteNode(ctx context.Context, id string) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return err
	}
	return r.purge(ctx, nodeStream, nodePrefix+id)
}

// Nodes is who is alive, by id, as a replica knows it: a moment ago.
func (s *Store) Nodes(ctx context.Context) (nodes []NodeRecord, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	request := map[string]any{"seq": 1, "next_by_subj": nodePrefix + ">", "batch": readEntries}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		nodes = nil
		_, err := r.directBatch(ctx, nodeStream, request, func(msg *nats.Msg, _ uint64) error {
			var n NodeRecord
			if json.Unmarshal(msg.Data, &n) == nil {
				nodes = append(nodes, n)
			}
			return nil
		})
		return err
	})
	slices.SortFunc(nodes, func(a, b NodeRecord) int { return strings.Compare(a.ID, b.ID) })
	return nodes, err
}

// Owned is a session on record with the node that owns it.
type Owned struct {
	chatctx.SessionRecord
	Node string `json:"node,omitempty"` // that owns it, or did last; empty: let go of
	Term uint64 `json:"term,omitempty"` // of that ownership; see Store.Fence
	Seq  uint64 `json:"seq,omitempty"`  // of the last entry when it was let go of; 0 = not known

	Revision uint64 `json:"-"` // what ReplaceSession compares; 0 = there is no record
}

// ErrChanged: the record is not what the caller thinks that it is.
var ErrChanged = errors.New("the record has changed")

// FindSession is SessionOwner as any replica knows it: at once, and also while the cluster takes nothing; a moment old, but never
// without a record that was acknowledged.
func (s *Store) FindSession(ctx context.Context, id string) (Owned, error) {
	if err := checkSession(id); err != nil {
		return Owned{}, err
	}
	var o Owned
	near, cancel := s.within(ctx)
	defer cancel()
	err := s.persist(near, func(ctx context.Context, r *running) error {
		msg, err := ask(ctx, r.alive, r.read, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + sessionStream + "." + sessionPrefix + id})
		if err != nil {
			return err
		}
		o = Owned{}
		switch status := msg.Header.Get("Status"); status {
		case "":
		case "404":
			return nil
		default:
			return fmt.Errorf("the store's server answers %s", status)
		}
		if err := json.Unmarshal(msg.Data, &o); err != nil {
			return s.damaged("the record of session %s does not read", id)
		}
		o.Revision, err = strconv.ParseUint(msg.Header.Get(nats.JSSequence), 10, 64)
		return err
	})
	if err == nil && o.Revision == 0 {
		return s.SessionOwner(ctx, id) // perhaps it was a replica that lags
	}
	return o, err
}

// SessionOwner is the record of an id as the cluster has it now; Revision is 0 when there is none.
func (s *Store) SessionOwner(ctx context.Context, id string) (Owned, error) {
	if err := checkSession(id); err != nil {
		return Owned{}, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	data, revision, err := s.lastRecord(ctx, sessionStream, sessionPrefix+id)
	o := Owned{Revision: revision}
	if err == nil && revision > 0 {
		if err := json.Unmarshal(data, &o); err != nil {
			return Owned{}, s.damaged("the record of session %s does not read", id)
		}
	}
	return o, err
}

// ReplaceSession makes o durable in the place of the record of o.Revision, and gives it with its new one; ErrChanged when somebody
// else was faster. The first record of an id is refused when the store is nearly full.
func (s *Store) ReplaceSession(ctx context.Context, o Owned) (Owned, error) {
	if err := o.Check(); err != nil {
		return o, err
	}
	if o.Revision == 0 {
		if err := s.roomForNew(ctx, o.Key); err != nil {
			return o, err
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		return o, err
	}
	revision, err := s.replace(ctx, sessionPrefix+o.ID, data, o.Revision)
	if err != nil {
		return o, err
	}
	if r, _, err := s.engine.writer(ctx); err == nil && o.Revision > 0 { // see PutSession
		_ = r.api(ctx, "STREAM.PURGE."+sessionStream, map[string]any{"filter": sessionPrefix + o.ID, "seq": revision}, nil)
	}
	o.Revision = revision
	return o, nil
}

// ForgetSession deletes the record of o.Revision; a later one stays.
func (s *Store) ForgetSession(ctx context.Context, o Owned) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return err
	}
	if err := r.api(ctx, "STREAM.PURGE."+sessionStream, map[string]any{"filter": sessionPrefix + o.ID, "seq": o.Revision + 1}, nil); err != nil {
		return unavailable("the record of the session could not be deleted", err)
	}
	return nil
}

// lastRecord asks the stream's leader for a record; revision is 0 when there is none.
func (s *Store) lastRecord(ctx context.Context, stream, subject string) (data []byte, revision uint64, err error) {
	var answer struct {
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		return r.api(ctx, "STREAM.MSG.GET."+stream, map[string]any{"last_by_subj": subject}, &answer)
	})
	if hasCode(err, codeNoMessage) {
		return nil, 0, nil
	}
	return answer.Message.Data, answer.Message.Seq, err
}

// replace is compare-and-set of a record. After anything but a clear answer it looks what is there.
func (s *Store) replace(ctx context.Context, subject string, data []byte, last uint64) (uint64, error) {
	stream := sessionStream
	if strings.HasPrefix(subject, nodePrefix) {
		stream = nodeStream
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{headerExpected: {strconv.FormatUint(last, 10)}}}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		revision, err := s.publish(ctx, msg)
		if err == nil || final(err) {
			return revision, err
		}
		s.counters.retry(err)
		there, now, err := s.lastRecord(ctx, stream, subject)
		switch {
		case err != nil:
			return 0, err
		case now > last && string(there) == string(data):
			return now, nil
		case now != last:
			return 0, ErrChanged
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, unavailable("the store did not answer in time", errors.Join(ctx.Err(), err))
		}
	}
}

// Conn is a connection to the cluster for what nodes say to each other. It may be closed and replaced; ask again then.
func (s *Store) Conn(ctx context.Context) (*nats.Conn, error) {
	r, err := s.engine.reader(ctx)
	if err != nil {
		return nil, err
	}
	if r.nodes == nil {
		return nil, errors.New("a store of this process alone has no other nodes")
	}
	return r.nodes, nil
}
