package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"
	"sightline/context/storetest"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.MaxStoreBytes == 0 {
		cfg.MaxStoreBytes = 256 << 20
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Test(t, func(t *testing.T) chatctx.Store { return open(t, Config{}) })
}

func TestStoreReopened(t *testing.T) {
	storetest.TestReopen(t, func(t *testing.T, dir string) chatctx.Store { return open(t, Config{Dir: dir}) }, closeStore)
}

func closeStore(t *testing.T, s chatctx.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestDirectory(t *testing.T) {
	storetest.TestDirectory(t, func(t *testing.T) (chatctx.Directory, func() chatctx.Directory) {
		dir := t.TempDir()
		s := open(t, Config{Dir: dir})
		return s, func() chatctx.Directory {
			closeStore(t, s)
			s = open(t, Config{Dir: dir})
			return s
		}
	})
}

// TestG9ReadersDoNotWaitForTheWriter: an append that is under way, however long, holds no reader up, neither of the newest entries
// nor of those on disk; a second writer gives up when its own context ends.
func TestG9ReadersDoNotWaitForTheWriter(t *testing.T) {
	s := open(t, Config{})
	appendN(t, s, "a", 1, 100)
	m := s.enter("a")
	defer m.leave()
	if err := m.takeTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer m.endTurn()
	if all, err := readAll(t, s, "a"); err != nil || len(all) != 100 {
		t.Errorf("%d entries, %v", len(all), err)
	}
	if got, err := s.Read(t.Context(), "a", 99, 10); err != nil || len(got) != 1 {
		t.Errorf("the newest: %d entries, %v", len(got), err)
	}
	if head, err := s.Head(t.Context(), "a"); err != nil || head != 100 {
		t.Errorf("head %d, %v", head, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Append(ctx, "a", entry(101, "second")); !isUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second writer: %v, want unavailable when its time is over", err)
	}
}

// TestHeads: the file of heads comes back, takes its free places again, and leaves out what does not read.
func TestHeads(t *testing.T) {
	dir := t.TempDir()
	again := func(wantBad int) *heads {
		t.Helper()
		h, bad, err := openHeads(dir)
		if err != nil || bad != wantBad {
			t.Fatalf("%d bad records, %v; want %d", bad, err, wantBad)
		}
		t.Cleanup(func() { _ = h.close() })
		return h
	}
	at := time.Unix(1000, 0)
	h := again(0)
	long := strings.Repeat("x", 64)
	for i, name := range []string{"a", long, "c"} {
		h.raise(name, uint64(i+1), at.Add(time.Duration(i)*time.Second))
	}
	h.raise("c", 2, at) // never back
	h = again(0)
	if h.acknowledged("a") != 1 || h.acknowledged(long) != 2 || h.acknowledged("c") != 3 || h.acknowledged("nobody") != 0 {
		t.Errorf("came back as %+v", h.of)
	}
	h.forget("a")
	h.raise("d", 9, at)
	if h.slots != 3 {
		t.Errorf("%d places, want the one of the forgotten used again", h.slots)
	}
	path := filepath.Join(dir, "heads")
	data, err := os.ReadFile(path)
	if err != nil || len(data) != 3*headSlot {
		t.Fatal(len(data), err)
	}
	data[headSlot+headN] ^= 1
	if err := os.WriteFile(path, data[:len(data)-1], 0o600); err != nil { // and the last is cut off
		t.Fatal(err)
	}
	h = again(2)
	if got := fmt.Sprint(h.sessions(time.Time{})); got != "[d]" || h.acknowledged("d") != 9 {
		t.Errorf("what is left: %s, %+v", got, h.of)
	}
	h.raise("e", 1, at)
	h.raise("f", 1, at)
	if again(0).count() != 3 {
		t.Error("the bad places are not used again")
	}
}

// TestG13CloseLeavesNothing: also when it is called twice, and beside callers.
func TestG13CloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := open(t, Config{})
	appendN(t, s, "a", 1, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}
