package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	chatctx "sightline/context"
)

// TestShared runs the part of the suite that is about one store in several processes. open gives two of an empty one.
func TestShared(t *testing.T, open func(t *testing.T) (one, other chatctx.Store)) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, one, other chatctx.Store)
	}{
		{"what one writes the other reads", testSharedReads},
		{"one of two writers wins", testSharedWriters},
		{"two logs of a session", testSharedLogs},
		{"delete", testSharedDelete},
	} {
		t.Run(part.name, func(t *testing.T) {
			one, other := open(t)
			part.run(t, one, other)
			_ = one.Close()
			_ = other.Close()
		})
	}
}

func testSharedReads(t *testing.T, one, other chatctx.Store) {
	for n := uint64(1); n <= 60; n++ {
		if err := one.Append(t.Context(), "a", entry(n, fmt.Sprint("a ", n))); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			wantHead(t, other, "a", n)
		}
	}
	await(t, func() string {
		got, err := other.Read(t.Context(), "a", 0, 100)
		if err != nil || len(got) != 60 {
			return fmt.Sprintf("the other reads %d entries, %v; want 60", len(got), err)
		}
		return ""
	})
	if err := one.PutBlob(t.Context(), "a", sha("x"), chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	await(t, func() string {
		if b, err := other.GetBlob(t.Context(), "a", sha("x")); err != nil || string(b.Data) != "x" {
			return fmt.Sprintf("the other's image: %v", err)
		}
		return ""
	})
	if err := other.Append(t.Context(), "a", entry(61, "from the other")); err != nil {
		t.Errorf("Append by the other: %v", err)
	}
	if err := one.Append(t.Context(), "a", entry(61, "late")); !errors.Is(err, chatctx.ErrStaleHead) {
		t.Errorf("Append after the other's: %v, want ErrStaleHead", err)
	}
}

func testSharedWriters(t *testing.T, one, other chatctx.Store) {
	for seq := uint64(1); seq <= 30; seq++ {
		var wins atomic.Int32
		var wg sync.WaitGroup
		for i, s := range []chatctx.Store{one, other} {
			wg.Go(func() {
				switch err := s.Append(t.Context(), "a", entry(seq, fmt.Sprint("writer ", i))); {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, chatctx.ErrStaleHead):
					t.Errorf("Append of entry %d: %v, want nil or ErrStaleHead", seq, err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("entry %d was appended %d times", seq, wins.Load())
		}
	}
	wantHead(t, one, "a", 30)
	wantHead(t, other, "a", 30)
}

// testSharedLogs (G1, G3): two logs that write at once agree on one order, and each op is there once.
func testSharedLogs(t *testing.T, one, other chatctx.Store) {
	const each = 25
	var wg sync.WaitGroup
	for i, s := range []chatctx.Store{one, other} {
		l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "a"})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for k := range each {
				op := chatctx.Op{ID: fmt.Sprint("op-", i, "-", k), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("word")}}
				for try := 0; ; try++ {
					_, err := l.Append(t.Context(), chatctx.Origin{Author: "x", At: time.Unix(1, 0)}, op)
					if err == nil {
						break
					}
					if !errors.Is(err, chatctx.ErrStaleHead) || try == 20 { // again and again the other was first
						t.Errorf("%s: %v", op.ID, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	wantHead(t, one, "a", 2*each) // who has asked for the head reads as far
	all := readAll(t, one, "a")
	seen := map[string]bool{}
	for _, e := range all {
		seen[e.OpID] = true
	}
	if len(all) != 2*each || len(seen) != 2*each {
		t.Errorf("%d entries, %d op ids; want %d", len(all), len(seen), 2*each)
	}
}

func testSharedDelete(t *testing.T, one, other chatctx.Store) {
	fill(t, one, "a", 5)
	wantHead(t, other, "a", 5)
	if err := other.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantHead(t, one, "a", 0)
	await(t, func() string {
		if got, err := one.Read(t.Context(), "a", 0, 10); err != nil || len(got) != 0 {
			return fmt.Sprintf("after the other's Delete: %d entries, %v", len(got), err)
		}
		return ""
	})
}

func await(t *testing.T, check func() string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		wrong := check()
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(wrong)
		}
	}
}
