package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	chatctx "sightline/context"
	"sightline/context/storetest"
)

// TestCluster: the suites of a store and of a directory, on three servers in this process.
func TestCluster(t *testing.T) {
	b := inProcess(t)
	fresh := func(t *testing.T) *Store {
		s := openCluster(t, b.config())
		empty(t, s)
		return s
	}
	storetest.Test(t, func(t *testing.T) chatctx.Store { return fresh(t) })
	t.Run("reopened", func(t *testing.T) {
		var of string
		storetest.TestReopen(t, func(t *testing.T, dir string) chatctx.Store {
			if dir == of {
				return openCluster(t, b.config())
			}
			of = dir
			return fresh(t)
		}, closeStore)
	})
	t.Run("directory", func(t *testing.T) {
		storetest.TestDirectory(t, func(t *testing.T) (chatctx.Directory, func() chatctx.Directory) {
			return fresh(t), func() chatctx.Directory { return openCluster(t, b.config()) }
		})
	})
	t.Run("shared", func(t *testing.T) {
		storetest.TestShared(t, func(t *testing.T) (one, other chatctx.Store) { return fresh(t), b.open() })
	})
	t.Run("logs", func(t *testing.T) { testClusterLogs(t, fresh(t), b.open()) })
	t.Run("fence", func(t *testing.T) { testFence(t, fresh(t), b.open()) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, fresh(t), b.open()) })
	t.Run("owners", func(t *testing.T) { testOwners(t, fresh(t), b.open()) })
	t.Run("never shrinks", func(t *testing.T) { testClusterNeverShrinks(t, b) })
}

func testClusterLogs(t *testing.T, one, other *Store) {
	appendN(t, one, "a", 1, 3)
	if err := other.PutBlob(t.Context(), "b", sumOf([]byte("x")), chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if logs, err := other.Logs(t.Context()); err != nil || fmt.Sprint(logs) != "[a b]" {
		t.Errorf("Logs: %v, %v", logs, err)
	}
	if err := one.Health(); err != nil {
		t.Errorf("Health: %v", err)
	}
}

// testClusterNeverShrinks: a gateway that is told less than the cluster has leaves it as it is.
func testClusterNeverShrinks(t *testing.T, b *brokers) {
	cfg := b.config()
	cfg.MaxStoreBytes, cfg.Partitions, cfg.External.Replicas = MinStoreBytes, 5, 1
	s := openCluster(t, cfg)
	if s.partitions != 2 {
		t.Errorf("%d partitions, want the 2 it was made with", s.partitions)
	}
	for _, stream := range s.engine.streams() {
		var info struct {
			Config struct {
				MaxBytes int64 `json:"max_bytes"`
				Replicas int   `json:"num_replicas"`
			} `json:"config"`
		}
		r, err := s.engine.reader(t.Context())
		if err == nil {
			err = r.api(t.Context(), "STREAM.INFO."+stream, struct{}{}, &info)
		}
		if err != nil || info.Config.MaxBytes < 16<<20 || info.Config.Replicas != 3 {
			t.Errorf("%s: %+v, %v", stream, info.Config, err)
		}
	}
}

// TestClusterUnfit: servers that do not say that they sync, that stand alone, or that are not there, are refused in a sentence.
func TestClusterUnfit(t *testing.T) {
	b := newBrokers(t, "sync:never")
	for i := range 3 {
		b.up(i)
	}
	b.ready()
	refused := func(cfg Config, want string) {
		t.Helper()
		s, err := Open(t.Context(), cfg)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open: %v, want one that says %q", err, want)
		}
	}
	refused(b.config(), `server_tags: ["sync:always"]`)
	unsafe := b.config()
	unsafe.UnsafeSync = true
	appendN(t, openCluster(t, unsafe), "a", 1, 2)
	refused(b.config(), "without asking for servers that are tagged sync:always")
	alone, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	alone.Start()
	defer alone.WaitForShutdown()
	defer alone.Shutdown()
	one := Config{External: External{URL: alone.ClientURL(), Replicas: 1}, MaxStoreBytes: 64 << 20, Partitions: 1}
	refused(one, "stands alone")
	one.UnsafeSync = true
	appendN(t, openCluster(t, one), "a", 1, 2)
	refused(Config{External: External{URL: fmt.Sprintf("nats://127.0.0.1:%d", freePorts(t, 1)[0])}}, "the store's cluster at nats://")
	refused(Config{External: External{URL: fmt.Sprintf("nats://me:secret@127.0.0.1:%d", freePorts(t, 1)[0])}}, "nats://me:xxxxx@127.0.0.1")
	refused(Config{External: External{URL: b.url(), Replicas: 2}}, "allowed are 1, 3 and 5")
	refused(Config{Dir: t.TempDir(), External: External{URL: b.url()}}, "either Dir or External.URL")
}

// TestVersions: what is older than the server that was measured is refused.
func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"2.15.2": true, "2.15.10": true, "2.16.0-RC.1": true, "3.0.0": true, "2.15.1": false, "2.9.30": false, "1.99.99": false, "": false, "x": false, "2.15": false,
	} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// testFence (G5 of the engine's page: one owner): from the fence on, who wrote under a lower term is refused, and what he wrote
// before stays. Readers see entries only.
func testFence(t *testing.T, one, other *Store) {
	ctx := t.Context()
	if err := one.Fence(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	appendN(t, one, "a", 1, 5)
	if err := other.Fence(ctx, "a", 2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := one.Append(ctx, "a", entry(6, "from the old owner")); !isUnavailable(err) || !isFenced(err) {
			t.Errorf("Append under a term that is over: %v", err)
		}
	}
	appendN(t, other, "a", 6, 9)
	if err := one.Append(ctx, "a", entry(10, "from the old owner")); !isFenced(err) {
		t.Errorf("Append under a term that is over: %v", err)
	}
	if err := one.Fence(ctx, "a", 1); !isFenced(err) {
		t.Errorf("Fence of a term that is over: %v", err)
	}
	if err := other.Fence(ctx, "a", 2); err != nil {
		t.Errorf("Fence of one's own term again: %v", err)
	}
	for name, s := range map[string]*Store{"the old owner": one, "the owner": other} {
		all, err := readAll(t, s, "a")
		if err != nil || len(all) != 9 {
			t.Errorf("%s reads %d entries, %v; want 9", name, len(all), err)
		}
		if head, err := s.Head(ctx, "a"); err != nil || head != 9 {
			t.Errorf("%s: head %d, %v", name, head, err)
		}
	}
	if one.Stats().Fenced == 0 {
		t.Error("nothing was counted")
	}
	if err := one.Fence(ctx, "a", 7); err != nil { // and back again
		t.Error(err)
	}
	appendN(t, one, "a", 10, 12)
	if err := other.Append(ctx, "a", entry(13, "late")); !isFenced(err) {
		t.Errorf("the owner in between: %v", err)
	}
}

func isFenced(err error) bool { return err != nil && strings.Contains(err.Error(), ErrFenced.Error()) }

// testNodes: who says that he is alive is seen until he stops; an id is one process's.
func testNodes(t *testing.T, one, other *Store) {
	ctx := t.Context()
	last, err := one.PutNode(ctx, NodeRecord{ID: "a", URL: "http://a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.PutNode(ctx, NodeRecord{ID: "a"}, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("a second process with the id: %v", err)
	}
	if _, err := other.PutNode(ctx, NodeRecord{ID: "b"}, 0); err != nil {
		t.Fatal(err)
	}
	names := func(s *Store) string {
		nodes, err := s.Nodes(ctx)
		if err != nil {
			return err.Error()
		}
		var ids []string
		for _, n := range nodes {
			ids = append(ids, n.ID+n.URL)
		}
		return strings.Join(ids, " ")
	}
	until(t, 5*time.Second, "both to be seen", func() bool { return names(one) == "ahttp://a b" && names(other) == "ahttp://a b" })
	begun := time.Now()
	until(t, 10*time.Second, "who is silent to be gone", func() bool {
		if last, err = one.PutNode(ctx, NodeRecord{ID: "a", URL: "http://a"}, last); err != nil {
			t.Fatal(err)
		}
		return names(other) == "ahttp://a"
	})
	t.Logf("gone after %v with a lease of 2 s", time.Since(begun).Round(100*time.Millisecond))
	if err := one.DeleteNode(ctx, "a"); err != nil {
		t.Error(err)
	}
	until(t, 5*time.Second, "nobody to be there", func() bool { return names(other) == "" })
}

// testOwners: of two nodes that claim a session at once one wins, and the other is told.
func testOwners(t *testing.T, one, other *Store) {
	ctx := t.Context()
	for i := range 20 {
		id := fmt.Sprint("s", i)
		var wins atomic.Int32
		var wg sync.WaitGroup
		for name, s := range map[string]*Store{"one": one, "other": other} {
			wg.Go(func() {
				o, err := s.SessionOwner(ctx, id)
				if err != nil {
					t.Error(err)
					return
				}
				if o.Revision > 0 { // the other was faster
					return
				}
				o.SessionRecord, o.Node, o.Term = chatctx.SessionRecord{ID: id, Key: name}, name, 1
				switch o, err = s.ReplaceSession(ctx, o); {
				case err == nil && o.Revision > 0:
					wins.Add(1)
				case !errors.Is(err, ErrChanged):
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("%s has %d owners", id, wins.Load())
		}
	}
	o, err := other.SessionOwner(ctx, "s3")
	if err != nil || o.ID != "s3" || o.Key != o.Node || o.Term != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	if near, err := one.FindSession(ctx, "s3"); err != nil || near.Key != o.Key || near.Revision != o.Revision {
		t.Errorf("found %+v, %v; want %+v", near, err, o)
	}
	if near, err := one.FindSession(ctx, "nobody"); err != nil || near.Revision != 0 {
		t.Errorf("found %+v, %v", near, err)
	}
	stale := o
	for range 5 {
		o.Term++
		if o, err = other.ReplaceSession(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.ReplaceSession(ctx, stale); !errors.Is(err, ErrChanged) {
		t.Errorf("over a record that has changed: %v", err)
	}
	if records, err := one.Sessions(ctx); err != nil || len(records) != 20 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if o, err := one.SessionOwner(ctx, "nobody"); err != nil || o.Revision != 0 {
		t.Errorf("no record: %+v, %v", o, err)
	}
}
