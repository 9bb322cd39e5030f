package jetstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// disk is a file system of its own in a file, so that its power can be cut: what a copy of the file has at a moment is what had
// reached the disk by then, and what was in the kernel's memory only is not in it.
type disk struct {
	t     *testing.T
	image string
	mount string
}

// newDisk makes one; where this process may not, the error says why.
func newDisk(t *testing.T) (*disk, error) {
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), mount: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image, 640<<20); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if err := d.attach(); err != nil {
		return nil, err
	}
	t.Cleanup(d.detach)
	return d, nil
}

func (d *disk) attach() error {
	if out, err := exec.Command("mount", "-o", "loop,commit=60", d.image, d.mount).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

func (d *disk) detach() { _ = syscall.Unmount(d.mount, syscall.MNT_DETACH) }

// cut is the power cut and the return of power: the disk as it was at this moment takes the place of the one in use.
func (d *disk) cut() {
	d.t.Helper()
	copied := filepath.Join(d.t.TempDir(), "image")
	if out, err := exec.Command("cp", "--sparse=always", d.image, copied).CombinedOutput(); err != nil {
		d.t.Fatalf("cp: %v: %s", err, out)
	}
	d.detach()
	_ = os.Remove(d.image)
	d.image = copied
	if err := d.attach(); err != nil {
		d.t.Fatal(err)
	}
}

// TestG2PowerCut: the power is cut while a process appends to twelve sessions. What was acknowledged is there. The same without
// syncing loses some, which shows that the cut is one.
func TestG2PowerCut(t *testing.T) {
	if d, err := newDisk(t); err != nil {
		t.Logf("NOT SHOWN: the power cannot be cut on this machine: %v", err)
		return
	} else {
		d.detach()
	}
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("SIGHTLINE_CRASHES")); err == nil {
		rounds = min(n, 20)
	}
	total := 0
	for round := range rounds {
		d, err := newDisk(t)
		if err != nil {
			t.Fatal(err)
		}
		dir, acked := filepath.Join(d.mount, "store"), map[string]uint64{}
		total += startChild(t, dir).killAfter(t, 100*time.Millisecond+rand.N(400*time.Millisecond), acked)
		d.cut()
		s := open(t, Config{Dir: dir})
		checkCrashed(t, s, acked)
		closeStore(t, s)
		d.detach()
		if t.Failed() {
			t.Fatalf("after cut %d of %d", round+1, rounds)
		}
	}
	if total == 0 {
		t.Error("no entry was acknowledged: nothing was shown")
	}
	t.Logf("%d power cuts, %d acknowledgements, 0 lost", rounds, total)
	d, err := newDisk(t)
	if err != nil {
		t.Fatal(err)
	}
	dir, acked := filepath.Join(d.mount, "store"), map[string]uint64{}
	startChild(t, dir, crashUnsafe+"=1").killAfter(t, 300*time.Millisecond, acked)
	d.cut()
	there := 0
	s, err := Open(context.Background(), Config{Dir: dir, MaxStoreBytes: 256 << 20})
	if err == nil {
		for name := range acked {
			all, _ := readAll(t, s, name)
			there += len(all)
		}
		_ = s.Close()
	}
	all := uint64(0)
	for _, n := range acked {
		all += n
	}
	if uint64(there) >= all {
		t.Errorf("without syncing %d of %d acknowledged entries are there after the cut: it was none", there, all)
	}
	t.Logf("without syncing: %d of %d acknowledged entries are there (%v)", there, all, err)
}

// TestG2PowerCutOfACluster: all three servers lose their power at once. It takes a while: only with SIGHTLINE_FAULTS.
func TestG2PowerCutOfACluster(t *testing.T) {
	if !long() {
		t.Log("with SIGHTLINE_FAULTS only")
		return
	}
	d, err := newDisk(t)
	if err != nil {
		t.Logf("NOT SHOWN: the power cannot be cut on this machine: %v", err)
		return
	}
	b := newBrokersIn(t, d.mount, syncTag)
	for i := range 3 {
		b.spawn(i)
	}
	b.ready()
	for round := range 3 {
		s := b.open()
		w := b.write(s, fmt.Sprint("cut", round, "-"))
		w.flowing()
		for i := range 3 {
			if err := b.procs[i].Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			_ = b.procs[i].Wait()
			b.procs[i] = nil
		}
		d.cut()
		for i := range 3 {
			b.spawn(i)
		}
		b.ready()
		w.flowing()
		w.end(b, fmt.Sprintf("power cut %d", round+1))
		closeStore(t, s)
	}
}
