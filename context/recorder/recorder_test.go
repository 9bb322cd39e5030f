package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
)

// running starts a Recorder; stop ends it and waits.
func running(t testing.TB, cfg Config) (r *Recorder, stop func()) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	}
}

func tell(t testing.TB, r *Recorder, events ...Event) {
	t.Helper()
	for _, e := range events {
		if e.At.IsZero() {
			e.At = time.Now()
		}
		if err := r.Report(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecorderRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, polite{chatctx.NewMemStore()})
		r, stop := running(t, Config{Log: log})
		tell(t, r, Event{Kind: SpeechStarted, Who: Caller, Item: "u1"})
		time.Sleep(time.Second)
		tell(t, r, Event{Kind: Delta, Who: Assistant, Item: "a1", Text: "It shipped.", Leg: "rt", Epoch: 2}, Event{Kind: Done, Who: Assistant, Item: "a1", Epoch: 2})
		time.Sleep(time.Second)
		synctest.Wait()
		wantLog(t, log)
		tell(t, r, user("u1", "Where is it?"))
		synctest.Wait()
		wantLog(t, log, "user: Where is it?", "assistant: It shipped.")
		tell(t, r, partial("u2", "and my"))
		time.Sleep(DefaultWait + time.Second) // nobody reports anything: time alone settles it
		synctest.Wait()
		wantLog(t, log, "user: Where is it?", "assistant: It shipped.", "user: and my")
		tell(t, r, partial("u3", "the last words"))
		stop()
		wantLog(t, log, "user: Where is it?", "assistant: It shipped.", "user: and my", "user: the last words")
		if err := r.Report(t.Context(), Event{}); !errors.Is(err, chatctx.ErrClosed) {
			t.Errorf("a report after the end: %v", err)
		}
		if err := r.Flush(t.Context()); !errors.Is(err, chatctx.ErrClosed) {
			t.Errorf("a flush after the end: %v", err)
		}
		cursor, _ := log.Follow(0)
		for _, want := range []string{"caller 0", "leg:rt 2", "caller 0"} {
			if e, _, _ := cursor.TryNext(t.Context()); fmt.Sprint(e.Author, " ", e.Epoch) != want {
				t.Errorf("entry %d is of %s in epoch %d, want %s", e.Seq, e.Author, e.Epoch, want)
			}
		}
	})
}

func TestRecorderFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, chatctx.NewMemStore())
		r, stop := running(t, Config{Log: log})
		defer stop()
		tell(t, r, partial("u1", "I want"), Event{Kind: ToolCall, CallID: "c1", Name: "f"})
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantLog(t, log, "user: I want", "call f({})")
	})
}

// TestOthersRecordToo: what somebody else has recorded is not recorded again, and what somebody removed does not stop the rest.
func TestOthersRecordToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, chatctx.NewMemStore())
		r, stop := running(t, Config{Log: log})
		defer stop()
		other := func(op chatctx.Op) {
			if _, err := log.Append(t.Context(), chatctx.Origin{Author: "agent", At: time.Now()}, op); err != nil {
				t.Fatal(err)
			}
		}
		say := &chatctx.Message{ID: "say1", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("You have reached support.")}
		other(chatctx.Op{ID: "o1", Kind: chatctx.OpAppend, Item: say})
		tell(t, r, Event{Kind: Delta, Who: Assistant, Item: "say1", Text: "You have reached support."}, Event{Kind: Done, Who: Assistant, Item: "say1"})
		tell(t, r, Event{Kind: ToolCall, CallID: "c1", Name: "f"}, partial("u1", "wh"))
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		other(chatctx.Op{ID: "o2", Kind: chatctx.OpAppend, Item: &chatctx.FunctionCallOutput{CallID: "c1", Name: "f", Output: "42"}})
		other(chatctx.Op{ID: "o3", Kind: chatctx.OpRemove, ItemID: "u1"})
		time.Sleep(time.Millisecond) // what the caller says in the same instant stands first
		tell(t, r, output("c1", "f", "42"), user("u1", "where?"), user("u2", "Hello?"))
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantLog(t, log, "assistant: You have reached support.", "call f({})", "output f: 42", "user: Hello?")
		if s, refused := r.Stats(); s.Duplicates != 3 || refused != 1 {
			t.Errorf("stats %+v, %d refused", s, refused)
		}
	})
}

// polite is a Store that, as one with a disk does, gives up when it is told to.
type polite struct{ chatctx.Store }

func (s polite) Append(ctx context.Context, session string, e chatctx.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Append(ctx, session, e)
}

// stuttering is a Store of which some appends fail, or never come back, before or after they are stored.
type stuttering struct {
	chatctx.Store
	n atomic.Int64
}

func (s *stuttering) Append(ctx context.Context, session string, e chatctx.Entry) error {
	switch s.n.Add(1) % 3 {
	case 0:
		return errors.New("the disk is away")
	case 1:
		if err := s.Store.Append(ctx, session, e); err != nil {
			return err
		}
		return errors.New("the answer was lost")
	}
	return s.Store.Append(ctx, session, e)
}

// TestStoreStutters: with a store that fails two times of three, half of them after storing, all is recorded once and in order.
func TestStoreStutters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, &stuttering{Store: chatctx.NewMemStore()})
		r, stop := running(t, Config{Log: log, Queue: 2})
		var want []string
		for i := range 30 {
			text := fmt.Sprint("word ", i)
			tell(t, r, user("", text))
			want = append(want, "user: "+text)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		wantLog(t, log, want...)
	})
}

// TestReportWaits: a full queue holds the pipeline back instead of losing words, and gives up with the caller's context.
func TestReportWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{Log: openLog(t, chatctx.NewMemStore()), Queue: 1}) // not running
		if err != nil {
			t.Fatal(err)
		}
		tell(t, r, user("u1", "one"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Report(ctx, user("u2", "two")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a full queue: %v", err)
		}
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a flush: %v", err)
		}
	})
	if _, err := New(Config{}); err == nil {
		t.Error("a Recorder without a log")
	}
}

// BenchmarkCore is one utterance with a partial, from its start to the operation.
func BenchmarkCore(b *testing.B) {
	core := NewCore(Times{})
	now := t0
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		id := fmt.Sprint("u", n)
		now = now.Add(time.Second)
		core.Handle(Event{Kind: SpeechStarted, Who: Caller, Item: id, At: now}, now)
		core.Handle(Event{Kind: Partial, Who: Caller, Item: id, Text: "where is", At: now}, now)
		now = now.Add(time.Second)
		if out := core.Handle(Event{Kind: Final, Who: Caller, Item: id, Text: "where is it?", At: now}, now); len(out) != 1 {
			b.Fatalf("%d operations", len(out))
		}
	}
}
