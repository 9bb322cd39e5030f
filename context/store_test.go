package chatctx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// faultyStore is a store that fails when told to.
type faultyStore struct {
	Store
	block chan struct{} // when not nil, Append waits for it to be closed

	mu    sync.Mutex
	fail  error // answered instead of doing anything
	lose  error // answered by Append and PutBlob after doing it: the answer was lost
	puts  int   // blobs put
	reads int   // blobs read
}

func (s *faultyStore) set(fail, lose error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.lose = fail, lose
}

func (s *faultyStore) faults() (fail, lose error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail, s.lose
}

func (s *faultyStore) Append(ctx context.Context, session string, e Entry) error {
	if s.block != nil {
		<-s.block
	}
	fail, lose := s.faults()
	if fail != nil {
		return fail
	}
	if err := s.Store.Append(ctx, session, e); err != nil {
		return err
	}
	return lose
}

func (s *faultyStore) Read(ctx context.Context, session string, after uint64, limit int) ([]Entry, error) {
	if fail, _ := s.faults(); fail != nil {
		return nil, fail
	}
	return s.Store.Read(ctx, session, after, limit)
}

func (s *faultyStore) PutBlob(ctx context.Context, session, sha256 string, b Blob) error {
	s.puts++
	fail, lose := s.faults()
	if fail != nil {
		return fail
	}
	if err := s.Store.PutBlob(ctx, session, sha256, b); err != nil {
		return err
	}
	return lose
}

func (s *faultyStore) GetBlob(ctx context.Context, session, sha256 string) (Blob, error) {
	s.reads++
	if fail, _ := s.faults(); fail != nil {
		return Blob{}, fail
	}
	return s.Store.GetBlob(ctx, session, sha256)
}

var errDown = errors.New("the disk is gone")

func TestStoreDown(t *testing.T) {
	store := &faultyStore{Store: NewMemStore()}
	log := mustOpen(t, store)
	mustAppend(t, log, say("a", RoleUser, "x"))
	url, _, err := log.PutImage(t.Context(), pngBytes(t, 9, 9))
	if err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, log)
	image := func(url string) Item {
		return &Message{ID: "i", Role: RoleUser, Content: Content{ImageContent{URL: url, Detail: "auto"}}}
	}
	ops := []Op{
		say("b", RoleUser, "y"),
		{ID: "update", Kind: OpUpdate, ItemID: "a", Changes: Changes{Interrupted: new(true)}},
		{ID: "image", Kind: OpAppend, Item: image(DataURL("image/png", pngBytes(t, 2, 2)))},
		{ID: "truncate", Kind: OpTruncate, MaxItems: new(1)},
		{ID: "remove", Kind: OpRemove, ItemID: "i"},
	}
	store.set(errDown, nil)
	for _, op := range ops[:2] {
		_, err := log.Append(t.Context(), origin, op)
		wantError(t, err, EngineUnavailable, "")
		if !errors.Is(err, errDown) {
			t.Errorf("the cause is not to be seen: %v", err)
		}
	}
	_, err = log.Append(t.Context(), origin, ops[2])
	wantError(t, err, EngineUnavailable, "")
	_, _, err = log.PutImage(t.Context(), pngBytes(t, 7, 7))
	wantError(t, err, EngineUnavailable, "")
	_, err = log.Blob(t.Context(), url[len(BlobPrefix):])
	wantError(t, err, EngineUnavailable, "")
	_, err = OpenLog(t.Context(), LogConfig{Store: store, Session: "s"})
	wantError(t, err, EngineUnavailable, "")
	cursor, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cursor.Next(t.Context())
	wantError(t, err, EngineUnavailable, "")
	store.set(nil, nil)
	if after := stateOf(t, log); !reflect.DeepEqual(after, before) {
		t.Errorf("a failing store changed the log:\n%+v\nwas\n%+v", after, before)
	}
	if e, err := cursor.Next(t.Context()); err != nil || e.Seq != 1 {
		t.Errorf("the cursor does not go on: %d, %v", e.Seq, err)
	}
	for i, op := range ops { // the same op ids again
		if ack := mustAppend(t, log, op); ack.Duplicate || ack.Seq != uint64(i+2) {
			t.Errorf("op %s after the store came back: %+v", op.ID, ack)
		}
	}
}

// TestStoreAnswerLost: the store has the entry though it answered an error. The same op again is answered, not applied again,
// and other ops go on behind it.
func TestStoreAnswerLost(t *testing.T) {
	for _, next := range []string{"same", "other"} {
		t.Run(next, func(t *testing.T) {
			store := &faultyStore{Store: NewMemStore()}
			log := mustOpen(t, store)
			mustAppend(t, log, say("a", RoleUser, "x"))
			store.set(nil, errDown)
			_, err := log.Append(t.Context(), origin, say("lost", RoleUser, "y"))
			wantError(t, err, EngineUnavailable, "")
			store.set(nil, nil)
			early, err := log.Follow(0)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := early.Next(t.Context()); err != nil || e.Seq != 1 {
				t.Errorf("follower: %d, %v, want 1", e.Seq, err)
			}
			if e, ok, err := early.TryNext(t.Context()); ok || err != nil {
				t.Errorf("a follower sees entry %d before it is acknowledged (%v)", e.Seq, err)
			}
			if next == "other" {
				if ack := mustAppend(t, log, say("other", RoleUser, "z")); ack.Seq != 3 || ack.Duplicate {
					t.Errorf("the next op: %+v, want seq 3", ack)
				}
			}
			if ack := mustAppend(t, log, say("lost", RoleUser, "y")); ack.Seq != 2 || !ack.Duplicate || ack.ItemID != "lost" {
				t.Errorf("the lost op again: %+v, want the answer of seq 2", ack)
			}
			if got, want := log.Snapshot(), mustOpen(t, store).Snapshot(); !reflect.DeepEqual(got, want) {
				t.Errorf("the log differs from its store: %+v, want %+v", got, want)
			}
			cursor, err := log.Follow(0)
			if err != nil {
				t.Fatal(err)
			}
			for seq := uint64(1); seq <= log.Head(); seq++ {
				if e, err := cursor.Next(t.Context()); err != nil || e.Seq != seq {
					t.Errorf("follower: %d, %v, want %d", e.Seq, err, seq)
				}
			}
		})
	}
}

// TestStoreShorterThanLog: somebody deleted the session under the log. That ends in an error, not in a loop.
func TestStoreShorterThanLog(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	mustAppend(t, log, say("a", RoleUser, "x"))
	if err := store.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	_, err := log.Append(t.Context(), origin, say("b", RoleUser, "x"))
	wantError(t, err, EngineUnavailable, "")
	cursor, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cursor.Next(t.Context())
	wantError(t, err, LogDamaged, "seq")
}

// TestDamagedLog: what no Log has written is refused when it is read, and says which entry.
func TestDamagedLog(t *testing.T) {
	a := Entry{Seq: 1, OpID: "1", Op: OpAppend, Item: &Message{ID: "a", Role: RoleUser, Content: TextContent("x")}}
	for name, second := range map[string]Entry{
		"hole":                  {Seq: 3, Op: OpRemove, ItemID: "a"},
		"repetition":            {Seq: 1, Op: OpRemove, ItemID: "a"},
		"unknown op":            {Seq: 2, Op: "merge"},
		"no item":               {Seq: 2, Op: OpAppend},
		"item without id":       {Seq: 2, Op: OpAppend, Item: &Message{}},
		"item twice":            {Seq: 2, Op: OpAppend, Item: &Message{ID: "a"}},
		"update of nothing":     {Seq: 2, Op: OpUpdate, ItemID: "b", Item: &Message{ID: "b"}},
		"update to nothing":     {Seq: 2, Op: OpUpdate, ItemID: "a"},
		"update to another":     {Seq: 2, Op: OpUpdate, ItemID: "a", Item: &Message{ID: "b"}},
		"remove of nothing":     {Seq: 2, Op: OpRemove, ItemID: "b"},
		"truncate of nobody":    {Seq: 2, Op: OpTruncate, Removed: []string{"a", "b"}},
		"truncate twice":        {Seq: 2, Op: OpTruncate, Removed: []string{"a", "a"}},
		"replacement of nobody": {Seq: 2, Op: OpAppend, Item: &Message{ID: "n", Role: RoleUser, Content: TextContent("x")}, Removed: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			if err := c.Apply(a); err != nil {
				t.Fatal(err)
			}
			err := c.Apply(second)
			var e *Error
			if !errors.As(err, &e) || e.Kind != LogDamaged {
				t.Errorf("Apply: %v, want %s", err, LogDamaged)
			}
			if err := c.check(); err != nil || c.Seq() != 1 || c.Len() != 1 {
				t.Errorf("the refused entry changed the fold: %v, seq %d, %d items", err, c.Seq(), c.Len())
			}
			_, err = OpenLog(t.Context(), LogConfig{Store: listStore{entries: []Entry{a, second}}, Session: "s"})
			if !errors.As(err, &e) || e.Kind != LogDamaged {
				t.Errorf("OpenLog: %v, want %s", err, LogDamaged)
			}
		})
	}
}

// listStore reads what it was made of, right or wrong.
type listStore struct {
	Store
	entries []Entry
}

func (s listStore) Read(_ context.Context, _ string, after uint64, _ int) ([]Entry, error) {
	return s.entries[min(after, uint64(len(s.entries))):], nil
}

func TestClose(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	mustAppend(t, log, say("a", RoleUser, "x"))
	behind, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	atHead, err := log.Follow(1)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := atHead.Next(t.Context())
		ended <- err
	}()
	log.Close()
	log.Close()
	if err := <-ended; !IsClosed(err) {
		t.Errorf("a follower at the head: %v, want ErrClosed", err)
	}
	if e, err := behind.Next(t.Context()); err != nil || e.Seq != 1 {
		t.Errorf("a follower behind: %d, %v, want its entry", e.Seq, err)
	}
	if _, err := behind.Next(t.Context()); !IsClosed(err) {
		t.Errorf("then: %v, want ErrClosed", err)
	}
	_, err = log.Append(t.Context(), origin, say("b", RoleUser, "x"))
	wantError(t, err, EngineUnavailable, "")
	if ack := mustAppend(t, log, say("a", RoleUser, "x")); !ack.Duplicate {
		t.Errorf("a known op on a closed log: %+v", ack)
	}
	if head, err := store.Head(t.Context(), "s"); err != nil || head != 1 {
		t.Errorf("the store was touched: head %d, %v", head, err)
	}
}

// TestStoreClosedIsNotLogClosed: a follower must not take a store that went away for the end of the conversation.
func TestStoreClosedIsNotLogClosed(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	mustAppend(t, log, say("a", RoleUser, "x"))
	cursor, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = cursor.Next(t.Context())
	wantError(t, err, EngineUnavailable, "")
	if IsClosed(err) {
		t.Errorf("%v counts as the end of the log", err)
	}
}

func TestNextEndsWithContext(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	cursor, err := log.Follow(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cursor.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with an ended context: %v", err)
	}
	for i := range 3 {
		grown := cursor.Grown()
		mustAppend(t, log, say(fmt.Sprint(i), RoleUser, "x"))
		<-grown
		<-cursor.Grown() // still, until the entry is given
		if _, ok, err := cursor.TryNext(t.Context()); !ok || err != nil {
			t.Fatalf("TryNext: %t, %v", ok, err)
		}
		select {
		case <-cursor.Grown():
			t.Fatal("Grown at the head")
		default:
		}
	}
}
