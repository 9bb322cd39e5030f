package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	chatctx "sightline/context"
)

func isUnavailable(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && e.Kind == chatctx.EngineUnavailable
}

// appendUntilRefused appends large entries to a session until one is not taken.
func appendUntilRefused(t *testing.T, s *Store, name string, most int) (last uint64, took time.Duration, err error) {
	t.Helper()
	text := strings.Repeat("much to say ", 4000)
	for seq := uint64(1); seq <= uint64(most); seq++ {
		at := time.Now()
		if err := s.Append(t.Context(), name, entry(seq, text)); err != nil {
			return seq - 1, time.Since(at), err
		}
	}
	t.Fatalf("%d entries and the store is not full", most)
	return 0, 0, nil
}

// TestG12StoreFull: at its bound the store refuses at once, keeps what it has, and goes on when something was deleted.
func TestG12StoreFull(t *testing.T) {
	s := open(t, Config{MaxStoreBytes: MinStoreBytes, Partitions: 1})
	last, took, err := appendUntilRefused(t, s, "a", 1000)
	if !isUnavailable(err) || !errors.Is(err, ErrStoreFull) || took > time.Second {
		t.Fatalf("after %d entries: %v after %v, want ErrStoreFull at once", last, err, took)
	}
	if all, err := readAll(t, s, "a"); err != nil || uint64(len(all)) != last {
		t.Errorf("%d entries, %v; %d were taken", len(all), err, last)
	}
	if err := s.Health(); err != nil {
		t.Errorf("Health: %v: the store is well, only full", err)
	}
	if s.Stats().Full == 0 {
		t.Error("the refusal was not counted")
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, "b", 1, 3)
}

// TestG12NearlyFull: from 85 % on no session begins, and those that there are go on.
func TestG12NearlyFull(t *testing.T) {
	s := open(t, Config{MaxStoreBytes: MinStoreBytes, Partitions: 1})
	begin := func(id string) error { return s.PutSession(t.Context(), chatctx.SessionRecord{ID: id, Key: id}) }
	if err := begin("a"); err != nil {
		t.Fatal(err)
	}
	text, bound := strings.Repeat("much to say ", 1000), plan(s.cfg, 1, MinStoreBytes)[1].MaxBytes
	seq := uint64(1)
	for ; int64(seq-1)*int64(len(text)) < bound/100*newUpTo; seq++ {
		if err := s.Append(t.Context(), "a", entry(seq, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("b"); !isUnavailable(err) || !errors.Is(err, ErrNearlyFull) || s.Stats().Full != 1 {
		t.Errorf("a new session: %v, counted %d times", err, s.Stats().Full)
	}
	if _, err := s.ReplaceSession(t.Context(), Owned{SessionRecord: chatctx.SessionRecord{ID: "b", Key: "b"}}); !errors.Is(err, ErrNearlyFull) {
		t.Errorf("a new session of a cluster: %v", err)
	}
	if err := s.Append(t.Context(), "a", entry(seq, text)); err != nil {
		t.Errorf("a session that is there: %v", err)
	}
	if err := begin("a"); err != nil {
		t.Errorf("a session that goes on: %v", err)
	}
	if err := s.PutSession(t.Context(), chatctx.SessionRecord{ID: "a", Key: "a", EndedAt: time.Now()}); err != nil {
		t.Errorf("a session that ends: %v", err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := begin("b"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestG12DiskNearlyFull: on a disk with less than twice the room at which nothing is taken, no session begins.
func TestG12DiskNearlyFull(t *testing.T) {
	s := open(t, Config{MinFreeBytes: 1 << 20, free: func(string) (int64, error) { return 3 << 19, nil }})
	appendN(t, s, "old", 1, 1)
	for id, want := range map[string]error{"new": ErrNearlyFull, "old": nil} {
		if err := s.PutSession(t.Context(), chatctx.SessionRecord{ID: id, Key: id}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
}

// TestG2DiskFull: a disk that is full, and room on it again. Where this process may mount a small one, it really is: also with a
// guard too small to be worth the name, so that the server itself runs into the end of the disk.
func TestG2DiskFull(t *testing.T) {
	if err := mountSmall(t, t.TempDir()); err != nil {
		t.Logf("no disk to fill, its size is pretended: mounting one: %v", err)
		dir := t.TempDir()
		testDiskFull(t, dir, 1<<20, func(string) (int64, error) {
			if _, err := os.Stat(filepath.Join(dir, "filler")); err == nil {
				return 24 << 10, nil
			}
			return 1 << 30, nil
		})
		return
	}
	for _, guard := range []int64{1, 1 << 20} {
		t.Run(fmt.Sprint("guard ", guard), func(t *testing.T) {
			dir := t.TempDir()
			if err := mountSmall(t, dir); err != nil {
				t.Fatal(err)
			}
			testDiskFull(t, dir, guard, nil)
		})
	}
}

func mountSmall(t *testing.T, dir string) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m")
	if err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	return err
}

func testDiskFull(t *testing.T, mount string, guard int64, free func(string) (int64, error)) {
	s := open(t, Config{Dir: filepath.Join(mount, "store"), MaxStoreBytes: 1 << 30, MinFreeBytes: guard, Partitions: 1, Timeout: 2 * time.Second, free: free})
	appendN(t, s, "bystander", 1, 3)
	filler := filepath.Join(mount, "filler")
	if err := os.WriteFile(filler, make([]byte, 19<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	last, took, err := appendUntilRefused(t, s, "a", 1000)
	if !isUnavailable(err) || took > s.cfg.Timeout+time.Second {
		t.Fatalf("after %d entries: %v after %v", last, err, took)
	}
	t.Logf("refused after %v: %v", took.Round(time.Millisecond), err)
	at := time.Now()
	if guard > 1 {
		until(t, 3*time.Second, "Health to say so", func() bool { return s.Health() != nil })
		if err := s.Append(t.Context(), "bystander", entry(4, "no room")); !isUnavailable(err) {
			t.Errorf("Append: %v, want unavailable", err)
		}
		if took := time.Since(at); took > time.Second {
			t.Errorf("the next refusal took %v, want it at once", took)
		}
	}
	if all, err := readAll(t, s, "bystander"); err != nil || len(all) != 3 {
		t.Errorf("reading while the disk is full: %d entries, %v", len(all), err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	at = time.Now()
	until(t, 5*time.Second, "the store to take entries again", func() bool {
		return s.Append(t.Context(), "bystander", entry(4, "room")) == nil
	})
	t.Logf("takes entries %v after there was room, %d restarts", time.Since(at).Round(time.Millisecond), s.Stats().Restarts)
	all, err := readAll(t, s, "a")
	if err != nil || uint64(len(all)) < last || uint64(len(all)) > last+1 { // the refused one may be there
		t.Errorf("%d entries, %v; %d were acknowledged", len(all), err, last)
	}
	if all, err := readAll(t, s, "bystander"); err != nil || len(all) != 4 {
		t.Errorf("bystander: %d entries, %v", len(all), err)
	}
}

func until(t testing.TB, atMost time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(atMost); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", atMost, what)
		}
	}
}

// TestG3RestartsUnderWriters: the server inside goes away again and again while eight sessions are written to. Every append
// succeeds within its time, and everything is there once.
func TestG3RestartsUnderWriters(t *testing.T) {
	s := open(t, Config{})
	done := make(chan error)
	stop := make(chan struct{})
	for i := range 8 {
		go func() { done <- writeAndFollow(s, fmt.Sprint("s", i), stop) }()
	}
	for n := range uint64(5) {
		time.Sleep(rand.N(100 * time.Millisecond)) // a random moment
		r, err := s.engine.reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.srv.Shutdown()
		s.engine.suspect()
		until(t, 10*time.Second, "the server's next life", func() bool { return s.Stats().Restarts > n && s.Health() == nil })
	}
	close(stop)
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if st := s.Stats(); st.Restarts < 5 || st.Appends == 0 {
		t.Errorf("%+v", st)
	}
}

func writeAndFollow(s *Store, name string, stop <-chan struct{}) error {
	log, err := chatctx.OpenLog(context.Background(), chatctx.LogConfig{Store: s, Session: name})
	if err != nil {
		return err
	}
	var n uint64
	for running := true; running; n++ {
		select {
		case <-stop:
			running = false
		default:
		}
		ack, err := log.Append(context.Background(), chatctx.Origin{Author: "caller", At: time.Now()}, chatctx.Op{
			ID: fmt.Sprint("op-", n+1), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("word")},
		})
		if err != nil || ack.Seq != n+1 {
			return fmt.Errorf("%s: op-%d: %+v, %w", name, n+1, ack, err)
		}
	}
	again, err := chatctx.OpenLog(context.Background(), chatctx.LogConfig{Store: s, Session: name})
	if err != nil || again.Head() != n {
		return fmt.Errorf("%s: head %d, want %d, %w", name, again.Head(), n, err)
	}
	return nil
}

// TestRetention: what is past its age goes whole, with its images; what the directory calls alive stays.
func TestRetention(t *testing.T) {
	s := open(t, Config{MaxAge: time.Hour})
	for _, name := range []string{"old", "alive", "ended"} {
		appendN(t, s, name, 1, 3)
		data := []byte("image of " + name)
		if err := s.PutBlob(t.Context(), name, sumOf(data), chatctx.Blob{MIME: "image/png", Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	for _, r := range []chatctx.SessionRecord{{ID: "x", Key: "alive", CreatedAt: now}, {ID: "y", Key: "ended", CreatedAt: now, EndedAt: now}} {
		if err := s.PutSession(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s.sweep(t.Context(), now.Add(59*time.Minute))
	if logs, _ := s.Logs(t.Context()); len(logs) != 3 {
		t.Errorf("before their age: %v", logs)
	}
	s.sweep(t.Context(), now.Add(2*time.Hour))
	if logs, _ := s.Logs(t.Context()); fmt.Sprint(logs) != "[alive]" {
		t.Errorf("past their age: %v, want the live one only", logs)
	}
	for name, want := range map[string]uint64{"old": 0, "alive": 3, "ended": 0} {
		if head, err := s.Head(t.Context(), name); err != nil || head != want {
			t.Errorf("%s: head %d, %v; want %d", name, head, err, want)
		}
		_, err := s.GetBlob(t.Context(), name, sumOf([]byte("image of "+name)))
		if (err == nil) != (want > 0) {
			t.Errorf("%s: its image: %v", name, err)
		}
	}
	if s.Stats().Swept != 2 {
		t.Errorf("%d counted", s.Stats().Swept)
	}
}

// TestReconcileNeverShrinks: a store that was given more room keeps it, since the server would throw entries away.
func TestReconcileNeverShrinks(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, MaxStoreBytes: 64 << 20, Partitions: 3})
	appendN(t, s, "a", 1, 200)
	closeStore(t, s)
	s = open(t, Config{Dir: dir, MaxStoreBytes: MinStoreBytes, Partitions: 8})
	if s.partitions != 3 {
		t.Errorf("%d partitions, want the 3 it was made with", s.partitions)
	}
	if all, err := readAll(t, s, "a"); err != nil || len(all) != 200 {
		t.Errorf("%d entries, %v", len(all), err)
	}
	big := bytes.Repeat([]byte("b"), 2<<20)
	for i := range 3 {
		data := append(big, byte(i))
		if err := s.PutBlob(t.Context(), "a", sumOf(data), chatctx.Blob{MIME: "image/png", Data: data}); err != nil {
			t.Errorf("image %d: %v", i, err)
		}
	}
}

// TestG12ReadIsBounded: one Read holds about a MiB, however much is asked for.
func TestG12ReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	text := strings.Repeat("x", 100<<10)
	for seq := uint64(1); seq <= 40; seq++ {
		if err := s.Append(t.Context(), "a", entry(seq, text)); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	s = open(t, Config{Dir: dir})
	got, err := s.Read(t.Context(), "a", 0, 1000)
	if err != nil || len(got) < 2 || len(got) > 12 {
		t.Errorf("one Read gives %d entries of 100 KiB, %v; want about ten", len(got), err)
	}
	if all, err := readAll(t, s, "a"); err != nil || len(all) != 40 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}
