package logfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
)

func fill(t *testing.T, s chatctx.Store, key string, n int) {
	t.Helper()
	data := []byte("image of " + key)
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	if err := s.PutBlob(t.Context(), key, name, chatctx.Blob{MIME: "image/png", Data: data}); err != nil {
		t.Fatal(err)
	}
	for seq := range n {
		content := chatctx.TextContent(fmt.Sprint("größer <", seq, ">"))
		if seq%3 == 1 {
			content = append(content, chatctx.ImageContent{URL: chatctx.BlobPrefix + name, Detail: "auto"})
		}
		err := s.Append(t.Context(), key, chatctx.Entry{
			Seq: uint64(seq + 1), OpID: fmt.Sprint("op", seq), Author: "caller", At: chatctx.At(time.Unix(int64(seq), 0)), Op: chatctx.OpAppend,
			Item: &chatctx.Message{ID: fmt.Sprint("m", seq), Role: chatctx.RoleUser, Content: content},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func export(t *testing.T, s chatctx.Store, key string, record *chatctx.SessionRecord) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := Export(t.Context(), &b, s, key, record); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExportImport(t *testing.T) {
	from := chatctx.NewMemStore()
	fill(t, from, "a", 600)
	fill(t, from, "b", 5)
	record := &chatctx.SessionRecord{ID: "room", Key: "a", CreatedAt: time.Unix(1, 0).UTC()}
	file := export(t, from, "a", record) + export(t, from, "b", nil)

	to, directory := chatctx.NewMemStore(), new(chatctx.MemDirectory)
	half := strings.SplitAfter(file, "\n")
	if err := Import(t.Context(), strings.NewReader(strings.Join(half[:300], "")), to, directory, func(key string, n Count) {
		t.Errorf("%s is complete in half a file: %+v", key, n)
	}); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("half a file: %v, want it called cut off", err)
	}
	for round, want := range []map[string]Count{
		{"a": {600, 1, 302}, "b": {5, 1, 5}}, // the header and the image are two of the 300 lines
		{"a": {600, 1, 0}, "b": {5, 1, 0}},
	} {
		got := map[string]Count{}
		if err := Import(t.Context(), strings.NewReader(file), to, directory, func(key string, n Count) { got[key] = n }); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
	if again := export(t, to, "a", record) + export(t, to, "b", nil); again != file {
		t.Error("what was imported is exported otherwise")
	}
	if list, err := directory.Sessions(t.Context()); err != nil || len(list) != 1 || list[0] != *record {
		t.Errorf("the directory has %+v, %v", list, err)
	}
	if n, err := Verify(t.Context(), to, "a"); err != nil || n.Entries != 600 || n.Images != 1 {
		t.Errorf("Verify: %+v, %v", n, err)
	}
}

func TestImportRefuses(t *testing.T) {
	from := chatctx.NewMemStore()
	fill(t, from, "a", 4)
	good := export(t, from, "a", &chatctx.SessionRecord{ID: "room", Key: "a"})
	lines := strings.SplitAfter(good, "\n")
	for _, c := range []struct{ name, file, want string }{
		{"a byte that differs", strings.Replace(good, "größer", "Größer", 1), "not what was exported"},
		{"an entry that is missing", strings.Replace(good, lines[3], "", 1), "line 4: entry 3 follows entry 1"},
		{"an image that is missing", strings.Replace(good, lines[2], "", 1), "images 0 of 1"},
		{"an image that is another", strings.Replace(good, `"data":"aW1h`, `"data":"aW2h`, 1), "line 3: "},
		{"no beginning", strings.Join(lines[1:], ""), "line 1: no conversation has begun"},
		{"a later version", strings.Replace(good, `"sightline_log":1`, `"sightline_log":2`, 1), "line 1: sightline_log is 2"},
		{"a key with a dot", strings.ReplaceAll(good, `"key":"a"`, `"key":"a.b"`), "line 1: key"},
		{"two beginnings", lines[0] + good, "line 2: a conversation begins before"},
		{"no JSON", "hello\n", "line 1: "},
		{"another object", lines[0] + "{}\n", "line 2: no sightline_log, image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Import(t.Context(), strings.NewReader(c.file), blobChecker{chatctx.NewMemStore()}, new(chatctx.MemDirectory), func(string, Count) {
				t.Error("it is called complete")
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
	to, directory := chatctx.NewMemStore(), new(chatctx.MemDirectory)
	fill(t, to, "a", 2)
	other := strings.ReplaceAll(good, "op1", "opX")
	if err := Import(t.Context(), strings.NewReader(other), to, directory, func(string, Count) {}); err == nil || !strings.Contains(err.Error(), "another entry 2") {
		t.Errorf("an entry that the store has otherwise: %v", err)
	}
	if err := directory.PutSession(t.Context(), chatctx.SessionRecord{ID: "room", Key: "other"}); err != nil {
		t.Fatal(err)
	}
	if err := Import(t.Context(), strings.NewReader(good), to, directory, func(string, Count) {}); err == nil || !strings.Contains(err.Error(), "another conversation") {
		t.Errorf("a session id that is taken: %v", err)
	}
}

// blobChecker refuses bytes under a wrong name, as stores on disk do.
type blobChecker struct{ chatctx.Store }

func TestVerifySaysWhere(t *testing.T) {
	for _, c := range []struct {
		name, want string
		store      func(*chatctx.MemStore) chatctx.Store
	}{
		{"a missing image", "entry 2: image", func(s *chatctx.MemStore) chatctx.Store { return noBlobs{s} }},
		{"a spoiled image", "entry 2: image", func(s *chatctx.MemStore) chatctx.Store { return otherBlobs{s} }},
		{"a hole", "entry 4", func(s *chatctx.MemStore) chatctx.Store { return hole{s} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := chatctx.NewMemStore()
			fill(t, s, "a", 5)
			if _, err := Verify(t.Context(), c.store(s), "a"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}

// FuzzImport: a file that anybody may have changed is refused, or gives the conversations that it says.
func FuzzImport(f *testing.F) {
	from := chatctx.NewMemStore()
	sum := sha256.Sum256([]byte("x"))
	name := hex.EncodeToString(sum[:])
	if err := from.PutBlob(f.Context(), "a", name, chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
		f.Fatal(err)
	}
	if err := from.Append(f.Context(), "a", chatctx.Entry{Seq: 1, OpID: "o", Author: "caller", At: chatctx.At(time.Unix(1, 0)), Op: chatctx.OpAppend,
		Item: &chatctx.Message{ID: "m", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.ImageContent{URL: chatctx.BlobPrefix + name}}}}); err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := Export(f.Context(), &b, from, "a", &chatctx.SessionRecord{ID: "room", Key: "a", CreatedAt: time.Unix(1, 0).UTC()}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"sightline_log":1,"key":"a"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		to := chatctx.NewMemStore()
		_ = Import(t.Context(), bytes.NewReader(data), to, new(chatctx.MemDirectory), func(key string, n Count) {
			if entries, err := to.Read(t.Context(), key, 0, n.Entries+1); err != nil || len(entries) != n.Entries {
				t.Fatalf("%s: %d entries, %v; said to be %d", key, len(entries), err, n.Entries)
			}
		})
	})
}
