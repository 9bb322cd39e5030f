package jetstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
)

// The test binary is its own child: with this in its environment it writes to the store in that folder until it is killed.
const crashDir = "SIGHTLINE_TEST_CRASH_DIR"

// crashUnsafe, beside it: without syncing.
const crashUnsafe = "SIGHTLINE_TEST_CRASH_UNSAFE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeUntilKilled(dir, os.Stdout); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	if config := os.Getenv(brokerConfig); config != "" {
		beBroker(config)
	}
	if url := os.Getenv(ownerURL); url != "" {
		beOwner(url)
	}
	os.Exit(m.Run())
}

const crashSessions = 12

// writeUntilKilled appends to all sessions at once and says "ack session seq" of each entry after it was acknowledged.
func writeUntilKilled(dir string, out io.Writer) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Dir: dir, MaxStoreBytes: 256 << 20, UnsafeSync: os.Getenv(crashUnsafe) != ""})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	say("ready")
	failed := make(chan error)
	for i := range crashSessions {
		go func() { failed <- talk(ctx, s, fmt.Sprint("crash-", i), say) }()
	}
	return <-failed
}

func talk(ctx context.Context, s *Store, name string, say func(string, ...any)) error {
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Store: s, Session: name})
	if err != nil {
		return err
	}
	for k := max(1, int(log.Head())-1); ; k++ { // the last two again: whether they were acknowledged the one before did not know
		known := uint64(k) <= log.Head()
		content := chatctx.TextContent(fmt.Sprint(name, " ", k, strings.Repeat(" word", k%100)))
		if k%10 == 0 {
			url, _, err := log.PutImage(ctx, tinyPNG(k))
			if err != nil {
				return fmt.Errorf("image %d: %w", k, err)
			}
			content = chatctx.Content{chatctx.ImageContent{URL: url, Detail: "auto"}}
		}
		ack, err := log.Append(ctx, chatctx.Origin{Author: "caller", At: time.Now()}, chatctx.Op{
			ID: "op-" + strconv.Itoa(k), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: content},
		})
		if err != nil {
			return fmt.Errorf("%s op-%d: %w", name, k, err)
		}
		if ack.Seq != uint64(k) || ack.Duplicate != known {
			return fmt.Errorf("%s op-%d: answered %+v, known before: %v", name, k, ack, known)
		}
		say("ack %s %d", name, ack.Seq)
	}
}

// tinyPNG is a picture of one pixel, different for every k.
func tinyPNG(k int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.NRGBA{uint8(k), uint8(k >> 8), uint8(k >> 16), 255})
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}

type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, dir string, environment ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), crashDir+"="+dir), environment...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, bufio.NewScanner(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if !c.lines.Scan() || c.lines.Text() != "ready" {
		t.Fatalf("the child does not begin: %q", c.lines.Text())
	}
	return c
}

// killAfter lets the child write for a while, kills it and gives the last seq that it said was acknowledged in each session.
func (c *child) killAfter(t *testing.T, d time.Duration, acked map[string]uint64) (acks int) {
	t.Helper()
	time.AfterFunc(d, func() { _ = c.cmd.Process.Kill() })
	for c.lines.Scan() {
		var name string
		var seq uint64
		if _, err := fmt.Sscanf(c.lines.Text(), "ack %s %d", &name, &seq); err != nil {
			t.Fatalf("the child says %q", c.lines.Text())
		}
		acked[name] = max(acked[name], seq)
		acks++
	}
	_ = c.cmd.Wait()
	return acks
}

// TestG2KillNine: a process that appends to many sessions is killed at random moments, again and again. Nothing that was
// acknowledged is missing, nothing is there twice, nothing has a hole.
func TestG2KillNine(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	if n, err := strconv.Atoi(os.Getenv("SIGHTLINE_CRASHES")); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	acked := map[string]uint64{}
	total := 0
	begun := time.Now()
	var opening time.Duration
	for round := range rounds {
		total += startChild(t, dir).killAfter(t, rand.N(250*time.Millisecond), acked)
		at := time.Now()
		s := open(t, Config{Dir: dir})
		opening = max(opening, time.Since(at))
		checkCrashed(t, s, acked)
		closeStore(t, s)
		if t.Failed() {
			t.Fatalf("after kill %d of %d, %d acknowledged entries", round+1, rounds, total)
		}
	}
	if total == 0 {
		t.Error("no entry was acknowledged: nothing was shown")
	}
	t.Logf("%d kills, %d acknowledgements, 0 lost, 0 twice, 0 holes; longest opening %v; %v", rounds, total, opening.Round(time.Millisecond), time.Since(begun).Round(time.Second))
}

func checkCrashed(t *testing.T, s *Store, acked map[string]uint64) {
	t.Helper()
	for i := range crashSessions {
		name := fmt.Sprint("crash-", i)
		all, err := readAll(t, s, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if uint64(len(all)) < acked[name] {
			t.Errorf("%s ends at %d, %d was acknowledged", name, len(all), acked[name])
		}
		for k, e := range all {
			if e.Seq != uint64(k+1) || e.OpID != fmt.Sprint("op-", k+1) {
				t.Errorf("%s: entry %d is seq %d, %s", name, k+1, e.Seq, e.OpID)
			}
			for _, img := range e.Item.(*chatctx.Message).Content.Images() {
				sum := strings.TrimPrefix(img.URL, chatctx.BlobPrefix)
				if b, err := s.GetBlob(t.Context(), name, sum); err != nil || !bytes.Equal(b.Data, tinyPNG(k+1)) {
					t.Errorf("%s: the image of entry %d: %v", name, k+1, err)
				}
			}
		}
	}
}

// TestStoreReopenedWithoutClose: a copy of the folder as it is at a moment has what was acknowledged, and nothing of what was
// deleted.
func TestStoreReopenedWithoutClose(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := open(t, Config{Dir: dir})
	appendN(t, s, "a", 1, 40)
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, "a", 1, 7)
	copyDir(t, dir, copied)
	again := open(t, Config{Dir: copied})
	if all, err := readAll(t, again, "a"); err != nil || len(all) != 7 {
		t.Errorf("%d entries, %v; want the 7 after the deletion", len(all), err)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestOneProcessPerDirectory: the second is told who has it, whether that is another process or this one.
func TestOneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir)
	_, err := Open(t.Context(), Config{Dir: dir})
	if want := fmt.Sprintf("in use by process %d:", c.cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open beside another process: %v, want one that says %q", err, want)
	}
	c.killAfter(t, 0, map[string]uint64{})
	s := open(t, Config{Dir: dir}) // whoever is dead holds nothing
	_, err = Open(t.Context(), Config{Dir: dir})
	if want := fmt.Sprintf("in use by process %d:", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open a second time: %v, want one that says %q", err, want)
	}
	closeStore(t, s)
	closeStore(t, open(t, Config{Dir: dir}))
}

func isDamage(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && e.Kind == chatctx.LogDamaged
}
