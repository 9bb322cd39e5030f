package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
)

// TestReopen runs the part of the suite that is about stores on disk. open opens the store in dir, which is empty the first
// time; leave ends its use, by Close or worse.
func TestReopen(t *testing.T, open func(t *testing.T, dir string) chatctx.Store, leave func(t *testing.T, s chatctx.Store)) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, again func() chatctx.Store)
	}{
		{"entries", testReopenEntries},
		{"blobs", testReopenBlobs},
		{"delete", testReopenDelete},
		{"log", testReopenLog},
	} {
		t.Run(part.name, func(t *testing.T) {
			dir := t.TempDir()
			var now chatctx.Store
			part.run(t, func() chatctx.Store {
				if now != nil {
					leave(t, now)
				}
				now = open(t, dir)
				return now
			})
			_ = now.Close()
		})
	}
}

func testReopenEntries(t *testing.T, again func() chatctx.Store) {
	for round := range 3 {
		s := again()
		for _, name := range []string{"a", "A", "other"} {
			had := uint64(round * 50)
			wantHead(t, s, name, had)
			all := readAll(t, s, name)
			for _, e := range all {
				if got, want := asJSON(t, e), asJSON(t, entry(e.Seq, fmt.Sprint(name, " ", e.Seq))); got != want {
					t.Fatalf("round %d, entry %d of %s came back as %s, want %s", round, e.Seq, name, got, want)
				}
			}
			if err := s.Append(t.Context(), name, entry(had, "stale")); round > 0 && !errors.Is(err, chatctx.ErrStaleHead) {
				t.Errorf("Append of entry %d once more: %v, want ErrStaleHead", had, err)
			}
			for seq := had + 1; seq <= had+50; seq++ {
				if err := s.Append(t.Context(), name, entry(seq, fmt.Sprint(name, " ", seq))); err != nil {
					t.Fatalf("round %d, Append of entry %d to %s: %v", round, seq, name, err)
				}
			}
			wantSeqs(t, s, name, had+48, 10, had+49, had+50)
		}
	}
}

func testReopenBlobs(t *testing.T, again func() chatctx.Store) {
	for round := range 3 {
		s := again()
		for i := range round {
			data := fmt.Sprint("image ", i)
			if got, err := s.GetBlob(t.Context(), "a", sha(data)); err != nil || string(got.Data) != data || got.MIME != "image/png" {
				t.Errorf("round %d: image %d came back as %q of %s, %v", round, i, got.Data, got.MIME, err)
			}
		}
		data := fmt.Sprint("image ", round)
		for range 2 {
			if err := s.PutBlob(t.Context(), "a", sha(data), chatctx.Blob{MIME: "image/png", Data: []byte(data)}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func testReopenDelete(t *testing.T, again func() chatctx.Store) {
	s := again()
	fill(t, s, "a", 5)
	fill(t, s, "b", 5)
	if err := s.PutBlob(t.Context(), "a", sha("x"), chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s = again()
	wantHead(t, s, "a", 0)
	wantHead(t, s, "b", 5)
	await(t, func() string { // a replica may lag
		if _, err := s.GetBlob(t.Context(), "a", sha("x")); !errors.Is(err, chatctx.ErrNoBlob) {
			return fmt.Sprintf("a deleted session's blob is back: %v", err)
		}
		return ""
	})
	fill(t, s, "a", 2)
	s = again()
	if got := readAll(t, s, "a"); len(got) != 2 {
		t.Errorf("%d entries, want the 2 after the deletion", len(got))
	}
}

// testReopenLog (G3): what was said under an op_id before is answered after, and not said twice.
func testReopenLog(t *testing.T, again func() chatctx.Store) {
	var want chatctx.Ack
	for round := range 3 {
		l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: again(), Session: "a"})
		if err != nil {
			t.Fatalf("round %d: OpenLog: %v", round, err)
		}
		got, err := l.Append(t.Context(), chatctx.Origin{Author: "x", At: time.Unix(1, 0)}, chatctx.Op{
			ID: "the same", Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("once")},
		})
		if err != nil {
			t.Fatalf("round %d: Append: %v", round, err)
		}
		if round == 0 {
			want = got
		}
		if got.Seq != want.Seq || got.ItemID != want.ItemID || got.Duplicate != (round > 0) {
			t.Errorf("round %d: the answer is %+v, the first was %+v", round, got, want)
		}
		if l.Head() != 1 {
			t.Errorf("round %d: the head is %d, want 1", round, l.Head())
		}
	}
}
