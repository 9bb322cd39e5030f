package chatctx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestG1EveryFollowerSeesOneOrder: 64 followers of different speeds, some that start late and some that resume, beside
// several writers.
func TestG1EveryFollowerSeesOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each, followers = 4, 100, 64
		log := mustOpen(t, NewMemStore())
		seen := make([][]Entry, followers)
		var wg sync.WaitGroup
		for f := range followers {
			wg.Go(func() {
				time.Sleep(time.Duration(f%5) * 100 * time.Millisecond) // free in a bubble
				cursor, err := log.Follow(0)
				if err != nil {
					t.Error(err)
					return
				}
				for len(seen[f]) < writers*each {
					if f%7 == 3 && len(seen[f])%50 == 25 { // a reconnect: resume after what was applied
						cursor, err = log.Follow(cursor.Seq())
						if err != nil {
							t.Error(err)
							return
						}
					}
					e, err := cursor.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					seen[f] = append(seen[f], e)
					time.Sleep(time.Duration(f) * time.Millisecond)
				}
			})
		}
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					mustAppend(t, log, say(fmt.Sprintf("w%d-%d", w, i), RoleUser, "hello"))
					time.Sleep(time.Duration(w+1) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		for f := range followers {
			if len(seen[f]) != writers*each {
				t.Fatalf("follower %d saw %d entries, want %d", f, len(seen[f]), writers*each)
			}
			for i, e := range seen[f] {
				if e.Seq != uint64(i+1) || !reflect.DeepEqual(e, seen[0][i]) {
					t.Fatalf("follower %d saw %+v as entry %d, follower 0 saw %+v", f, e, i+1, seen[0][i])
				}
			}
		}
		next := map[byte]int{} // one author's operations, sent one after the other, keep their order
		for _, e := range seen[0] {
			w := e.OpID[1]
			if want := fmt.Sprintf("w%c-%d", w, next[w]); e.OpID != want {
				t.Fatalf("entry %d is op %s, want %s", e.Seq, e.OpID, want)
			}
			next[w]++
		}
	})
}

// TestG1NoWakeUpIsLost: the writer goes on only when every follower has the entry, so that a follower that sleeps through one
// stops it all.
func TestG1NoWakeUpIsLost(t *testing.T) {
	const followers, rounds = 4, 3000
	log := mustOpen(t, NewMemStore())
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	got := make(chan uint64)
	var wg sync.WaitGroup
	for range followers {
		cursor, err := log.Follow(0)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range rounds {
				e, err := cursor.Next(ctx)
				if err != nil {
					t.Errorf("after entry %d: %v", cursor.Seq(), err)
					cancel()
					return
				}
				select {
				case got <- e.Seq:
				case <-ctx.Done():
				}
			}
		})
	}
	for i := range rounds {
		ack := mustAppend(t, log, say(fmt.Sprint(i), RoleUser, "x"))
		for range followers {
			select {
			case seq := <-got:
				if seq != ack.Seq {
					t.Errorf("a follower got entry %d, want %d", seq, ack.Seq)
				}
			case <-ctx.Done():
				wg.Wait()
				t.Fatalf("not everybody got entry %d", ack.Seq)
			}
		}
	}
	wg.Wait()
}

// TestG1NeverSkips: a store with a hole makes the follower fail, not skip.
func TestG1NeverSkips(t *testing.T) {
	store := &holedStore{Store: NewMemStore()}
	log := mustOpen(t, store)
	for i := range 5 {
		mustAppend(t, log, say(fmt.Sprint(i), RoleUser, "x"))
	}
	for _, lost := range []uint64{1, 3, 5} {
		store.lost = lost
		cursor, err := log.Follow(0)
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq < lost; seq++ {
			if e, err := cursor.Next(t.Context()); err != nil || e.Seq != seq {
				t.Fatalf("entry %d: %d, %v", seq, e.Seq, err)
			}
		}
		_, err = cursor.Next(t.Context())
		wantError(t, err, LogDamaged, "seq")
		if cursor.Seq() != lost-1 {
			t.Errorf("the cursor went on to %d over the hole at %d", cursor.Seq(), lost)
		}
	}
}

type holedStore struct {
	Store
	lost uint64
}

func (s *holedStore) Read(ctx context.Context, session string, after uint64, limit int) ([]Entry, error) {
	entries, err := s.Store.Read(ctx, session, after, limit)
	var kept []Entry
	for _, e := range entries {
		if e.Seq != s.lost {
			kept = append(kept, e)
		}
	}
	return kept, err
}

func TestG1FollowPastTheHead(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	mustAppend(t, log, say("a", RoleUser, "x"))
	if _, err := log.Follow(1); err != nil {
		t.Errorf("Follow at the head: %v", err)
	}
	_, err := log.Follow(2)
	wantError(t, err, InvalidArgument, "resume_from")
}

func TestG3OpIDIsAppliedOnce(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	ops := []Op{
		{ID: "append", Kind: OpAppend, Item: &Message{Role: RoleUser, Content: TextContent("x")}}, // the log gives the id
		say("m", RoleUser, "y"),
		{ID: "update", Kind: OpUpdate, ItemID: "m", Changes: Changes{Interrupted: new(true)}},
		{ID: "image", Kind: OpAppend, Item: &Message{ID: "i", Role: RoleUser, Content: Content{ImageContent{URL: DataURL("image/gif", pngBytes(t, 2, 2)), Detail: "auto"}}}},
		{ID: "truncate", Kind: OpTruncate, MaxItems: new(2)},
		{ID: "remove", Kind: OpRemove, ItemID: "i"},
	}
	var first []Ack
	for i, op := range ops {
		ack := mustAppend(t, log, op)
		if ack.Duplicate || ack.Seq != uint64(i+1) {
			t.Fatalf("op %s: first answer %+v", op.ID, ack)
		}
		first = append(first, ack)
	}
	if first[0].ItemID == "" || len(first[3].Warnings) != 1 {
		t.Fatalf("answers %+v", first)
	}
	before := log.Snapshot()
	for i, op := range ops { // again, and also when the op says something else by now
		want := first[i]
		want.Duplicate = true
		for _, again := range []Op{op, {ID: op.ID, Kind: OpAppend, Item: &Message{ID: "other", Role: RoleUser, Content: TextContent("other")}}, {ID: op.ID, Kind: "nonsense"}} {
			if got := mustAppend(t, log, again); !reflect.DeepEqual(got, want) {
				t.Errorf("op %s again: %+v, want %+v", op.ID, got, want)
			}
		}
	}
	if !reflect.DeepEqual(log.Snapshot(), before) || log.Head() != uint64(len(ops)) {
		t.Errorf("repeated ops changed the log: head %d", log.Head())
	}
	reopened := mustOpen(t, store)
	for i, op := range ops {
		want := first[i]
		want.Duplicate, want.Warnings = true, nil // warnings are not kept over a restart
		if got := mustAppend(t, reopened, op); !reflect.DeepEqual(got, want) {
			t.Errorf("op %s after a restart: %+v, want %+v", op.ID, got, want)
		}
	}
	if !reflect.DeepEqual(reopened.Snapshot(), before) {
		t.Errorf("the reopened log differs: %+v, want %+v", reopened.Snapshot(), before)
	}
}

// TestG3Concurrent: one op_id from 32 goroutines at once, over two logs of the same store.
func TestG3Concurrent(t *testing.T) {
	store := NewMemStore()
	logs := []*Log{mustOpen(t, store), mustOpen(t, store)}
	for round := range 50 {
		acks := make([]Ack, 32)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for g := range acks {
			wg.Go(func() {
				<-start
				op := Op{ID: fmt.Sprint("op", round), Kind: OpAppend, Item: &Message{Role: RoleUser, Content: TextContent(fmt.Sprint(g))}}
				acks[g] = mustAppend(t, logs[g%2], op)
			})
		}
		close(start)
		wg.Wait()
		firsts := 0
		for _, ack := range acks {
			if !ack.Duplicate {
				firsts++
			}
			if ack.Seq != uint64(round+1) || ack.ItemID == "" || ack.ItemID != acks[0].ItemID {
				t.Fatalf("round %d: answers %+v and %+v", round, acks[0], ack)
			}
		}
		if head, _ := store.Head(t.Context(), "s"); firsts != 1 || head != uint64(round+1) {
			t.Fatalf("round %d: applied %d times, head %d", round, firsts, head)
		}
	}
}

func TestG4OneCallOneOutput(t *testing.T) {
	store := NewMemStore()
	log := mustOpen(t, store)
	call := func(op, callID string) Op {
		return Op{ID: op, Kind: OpAppend, Item: &FunctionCall{CallID: callID, Name: "f", Arguments: "{}"}}
	}
	output := func(op, callID string) Op {
		return Op{ID: op, Kind: OpAppend, Item: &FunctionCallOutput{CallID: callID, Name: "f", Output: op}}
	}
	refused := func(log *Log, op Op, kind ErrorKind) {
		t.Helper()
		_, err := log.Append(t.Context(), origin, op)
		wantError(t, err, kind, "call_id")
	}
	mustAppend(t, log, call("1", "c1"))
	refused(log, call("2", "c1"), DuplicateID)
	out := mustAppend(t, log, output("3", "c1"))
	refused(log, output("4", "c1"), Conflict)
	mustAppend(t, log, call("5", "c2")) // another call goes on as usual
	mustAppend(t, log, Op{ID: "6", Kind: OpRemove, ItemID: out.ItemID})
	refused(log, output("7", "c1"), Conflict) // removing the items does not make room for a second run
	again := mustOpen(t, store)               // nor does a restart
	refused(again, call("8", "c1"), DuplicateID)
	refused(again, output("9", "c1"), Conflict)
	mustAppend(t, again, output("10", "c2"))
	mustAppend(t, again, output("11", "c3")) // an output may come before its call, and then counts
	mustAppend(t, again, call("12", "c3"))
	refused(again, output("13", "c3"), Conflict)
	refused(mustOpen(t, store), output("14", "c3"), Conflict)
}

// TestG4Concurrent: of 32 outputs for one call exactly one is recorded.
func TestG4Concurrent(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	mustAppend(t, log, Op{ID: "call", Kind: OpAppend, Item: &FunctionCall{CallID: "c", Name: "f"}})
	var recorded atomic.Int32
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			_, err := log.Append(t.Context(), origin, Op{ID: fmt.Sprint(g), Kind: OpAppend, Item: &FunctionCallOutput{CallID: "c", Output: "x"}})
			if err == nil {
				recorded.Add(1)
				return
			}
			wantError(t, err, Conflict, "call_id")
		})
	}
	wg.Wait()
	if recorded.Load() != 1 || log.Head() != 2 {
		t.Errorf("%d outputs were recorded, head %d", recorded.Load(), log.Head())
	}
}

// TestG9WriterNeverWaits: followers that never read, or stopped in the middle of a batch, delay neither the writer nor others.
func TestG9WriterNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := mustOpen(t, NewMemStore())
		var stuck []*Cursor
		for range 64 {
			c, err := log.Follow(0)
			if err != nil {
				t.Fatal(err)
			}
			stuck = append(stuck, c)
		}
		keeps, err := log.Follow(0)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range 1000 {
			mustAppend(t, log, say(fmt.Sprint(i), RoleUser, "x"))
			if e, err := keeps.Next(t.Context()); err != nil || e.Seq != uint64(i+1) {
				t.Fatalf("the follower that reads got %d, %v at %d", e.Seq, err, i+1)
			}
			if i == 10 {
				for _, c := range stuck[:32] {
					if _, err := c.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if waited := time.Since(start); waited != 0 { // the bubble's clock moves only when everybody waits
			t.Errorf("the writer waited %v", waited)
		}
		for i, c := range stuck { // and late is not lost
			seq := c.Seq()
			for {
				e, ok, err := c.TryNext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if seq++; e.Seq != seq {
					t.Fatalf("stuck follower %d got %d, want %d", i, e.Seq, seq)
				}
			}
			if seq != 1000 {
				t.Fatalf("stuck follower %d ends at %d", i, seq)
			}
		}
	})
}

// TestG9WaitingEndsWithItsOwnContext: an append that waits for a slow store's turn gives up when its own context ends.
func TestG9WaitingEndsWithItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: NewMemStore(), block: make(chan struct{})}
		log := mustOpen(t, store)
		done := make(chan error, 1)
		go func() {
			_, err := log.Append(t.Context(), origin, say("slow", RoleUser, "x"))
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := log.Append(ctx, origin, say("impatient", RoleUser, "x"))
		wantError(t, err, EngineUnavailable, "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the cause is not to be seen: %v", err)
		}
		close(store.block)
		if err := <-done; err != nil {
			t.Errorf("the append under way: %v", err)
		}
		mustAppend(t, log, say("impatient", RoleUser, "x"))
	})
}
