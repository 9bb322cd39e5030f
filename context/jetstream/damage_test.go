package jetstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chatctx "sightline/context"
)

// TestG1BitFlip: one bit of the store's files is turned over, anywhere. Whoever reads then gets every entry as it was written,
// or is told; with the server's index as it was left, and rebuilt as after a crash.
func TestG1BitFlip(t *testing.T) {
	const sessions, entries = 6, 60
	flips := 40
	if testing.Short() {
		flips = 8
	}
	sound := t.TempDir()
	s := open(t, Config{Dir: sound, Partitions: 2, MaxStoreBytes: MinStoreBytes})
	for seq := uint64(1); seq <= entries; seq++ {
		for i := range sessions {
			appendN(t, s, fmt.Sprint("s", i), seq, seq)
		}
	}
	closeStore(t, s)
	var told, harmless int
	rng := rand.New(rand.NewPCG(1, 2))
	for flip := range flips {
		dir := t.TempDir()
		copyDir(t, sound, dir)
		blocks := find(t, dir, "CTX_", ".blk")
		block := blocks[rng.IntN(len(blocks))]
		data, err := os.ReadFile(block)
		if err != nil || len(data) == 0 {
			t.Fatal(block, err)
		}
		at, bit := rng.IntN(len(data)), rng.IntN(8)
		data[at] ^= 1 << bit
		if err := os.WriteFile(block, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rebuilt := flip%2 == 1
		if rebuilt {
			for _, index := range find(t, dir, "CTX_", "index.db") {
				if err := os.Remove(index); err != nil {
					t.Fatal(err)
				}
			}
		}
		what := fmt.Sprintf("bit %d of byte %d of %d of %s, index rebuilt: %v", bit, at, len(data), filepath.Base(block), rebuilt)
		t.Log(what)
		switch damaged := readDamaged(t, dir, what, sessions, entries); {
		case damaged:
			told++
		default:
			harmless++
		}
	}
	if told == 0 {
		t.Error("no flip was ever reported: nothing was shown")
	}
	t.Logf("%d flips: %d reported, %d without effect", flips, told, harmless)
}

// readDamaged says whether somebody was told; it fails the test when an entry is missing or changed and nobody was.
func readDamaged(t *testing.T, dir, what string, sessions, entries int) (told bool) {
	s, err := Open(context.Background(), Config{Dir: dir, MaxStoreBytes: MinStoreBytes})
	if err != nil {
		return true
	}
	defer s.Close()
	for i := range sessions {
		name := fmt.Sprint("s", i)
		all, err := readAll(t, s, name)
		for k, e := range all {
			if got, want := e.Item.(*chatctx.Message).Content.Text(), fmt.Sprint(name, " ", k+1); got != want || e.Seq != uint64(k+1) {
				t.Errorf("%s: entry %d of %s is %q", what, k+1, name, got)
			}
		}
		switch {
		case isDamage(err):
			told = true
			if err := s.Append(t.Context(), name, entry(uint64(len(all)+1), "over the hole")); err == nil {
				t.Errorf("%s: %s is damaged after entry %d and takes another", what, name, len(all))
			}
		case err != nil:
			t.Errorf("%s: %s: %v, want damage or nothing", what, name, err)
		case len(all) != entries:
			t.Errorf("%s: %s has %d of %d entries and nobody was told", what, name, len(all), entries)
		}
		if isDamage(err) && i%2 == 0 {
			if err := s.Delete(t.Context(), name); err != nil {
				t.Errorf("%s: Delete of %s: %v", what, name, err)
			}
			if err := s.Append(t.Context(), name, entry(1, "anew")); err != nil {
				t.Errorf("%s: %s was deleted and does not begin anew: %v", what, name, err)
			}
			continue
		}
		if head, err := s.Head(t.Context(), name); err == nil && head != uint64(entries) || err != nil && !isDamage(err) {
			t.Errorf("%s: the head of %s is %d, %v", what, name, head, err)
		}
	}
	if err := s.PutSession(t.Context(), chatctx.SessionRecord{ID: "x", Key: "x"}); err != nil {
		t.Errorf("%s: PutSession: %v", what, err)
	}
	return told
}

// find gives the files below dir whose folder and name have these in them.
func find(t *testing.T, dir, folder, name string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(filepath.Dir(path), folder) && strings.Contains(d.Name(), name) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in %s below %s: %v", name, folder, dir, err)
	}
	return found
}

// TestG12ImpossibleSequence: the server would fill memory up to a number that one flipped bit made huge.
func TestG12ImpossibleSequence(t *testing.T) {
	for bit := 25; bit < 62; bit += 4 {
		dir := t.TempDir()
		s := open(t, Config{Dir: dir, Partitions: 1})
		appendN(t, s, "a", 1, 5)
		closeStore(t, s)
		block := find(t, dir, "CTX_", ".blk")[0]
		data, err := os.ReadFile(block)
		if err != nil {
			t.Fatal(err)
		}
		third := 0
		for range 2 {
			third += int(binary.LittleEndian.Uint32(data[third:]) &^ recordHasHdr)
		}
		data[third+4+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(block, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, Config{Dir: dir})
		if all, err := readAll(t, s, "a"); err != nil || len(all) != 5 {
			t.Errorf("bit %d of a sequence: %d entries, %v; want all 5: it was the only damage", bit, len(all), err)
		}
		closeStore(t, s)
	}
}

// TestG1SpoiledRecord: a session's record that does not read is no reason to lose the others, and somebody is told.
func TestG1SpoiledRecord(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for i := range 9 {
		id := fmt.Sprint("session-", i)
		if err := s.PutSession(t.Context(), chatctx.SessionRecord{ID: id, Key: id}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	flipText(t, find(t, dir, sessionStream, ".blk"), `"key":"session-4"`)
	s = open(t, Config{Dir: dir})
	records, err := s.Sessions(t.Context())
	if len(records) != 8 || !isDamage(err) {
		t.Errorf("%d records, %v; want 8 and damage", len(records), err)
	}
	if err := s.PutSession(t.Context(), chatctx.SessionRecord{ID: "session-4", Key: "new"}); err != nil {
		t.Errorf("PutSession over the damaged one: %v", err)
	}
	if records, err := s.Sessions(t.Context()); len(records) != 9 {
		t.Errorf("%d records, %v; want 9", len(records), err)
	}
}

// flipText turns a bit of the first byte of text over, wherever it stands.
func flipText(t *testing.T, files []string, text string) {
	t.Helper()
	found := false
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.Index(string(data), text); i >= 0 {
			found = true
			data[i] ^= 1
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !found {
		t.Fatalf("no %q in %v", text, files)
	}
}

// TestG1SpoiledImage: an image whose bytes are not what they were is an error, and heals when the same is stored again.
func TestG1SpoiledImage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	image := []byte(strings.Repeat("picture ", 1000))
	put := func(s *Store) {
		t.Helper()
		if err := s.PutBlob(t.Context(), "a", sumOf(image), chatctx.Blob{MIME: "image/png", Data: image}); err != nil {
			t.Fatal(err)
		}
	}
	put(s)
	closeStore(t, s)
	flipText(t, find(t, dir, "BLOB_", ".blk"), "picture")
	s = open(t, Config{Dir: dir})
	if b, err := s.GetBlob(t.Context(), "a", sumOf(image)); err == nil {
		t.Errorf("a spoiled image is given out: %d bytes", len(b.Data))
	}
	put(s)
	if b, err := s.GetBlob(t.Context(), "a", sumOf(image)); err != nil || string(b.Data) != string(image) {
		t.Errorf("after storing it again: %d bytes, %v", len(b.Data), err)
	}
}

// TestG1CutOff: a stream that lost its end says so, and its sessions take nothing more.
func TestG1CutOff(t *testing.T) {
	dir, early := t.TempDir(), t.TempDir()
	s := open(t, Config{Dir: dir})
	appendN(t, s, "a", 1, 10)
	copyDir(t, dir, early)
	appendN(t, s, "a", 11, 12)
	closeStore(t, s)
	data, err := os.ReadFile(filepath.Join(dir, "heads"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(early, "heads"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: early})
	all, err := readAll(t, s, "a")
	if len(all) != 10 || !isDamage(err) {
		t.Errorf("%d entries, then %v; want 10, then damage", len(all), err)
	}
	if err := s.Append(t.Context(), "a", entry(11, "another")); !isDamage(err) {
		t.Errorf("Append: %v, want damage", err)
	}
	if _, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "a"}); !isDamage(err) {
		t.Errorf("OpenLog: %v, want damage", err)
	}
	if s.Stats().Damaged == 0 {
		t.Error("nothing was counted")
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	appendN(t, s, "a", 1, 2) // the id is good for another conversation
}
