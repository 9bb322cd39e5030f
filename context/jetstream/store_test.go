package jetstream

import (
	"testing"

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
