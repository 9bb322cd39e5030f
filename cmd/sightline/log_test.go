package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/context/jetstream"
)

// withConversations makes a data directory with two conversations and a third that has no record.
func withConversations(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir, MaxStoreBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, key := range []string{"key-one", "key-two", "key-three"} {
		for seq := range uint64(4) {
			err := store.Append(t.Context(), key, chatctx.Entry{
				Seq: seq + 1, OpID: fmt.Sprint("op", seq), Author: "caller", At: chatctx.At(time.Unix(1, 0)), Op: chatctx.OpAppend,
				Item: &chatctx.Message{ID: fmt.Sprint("m", seq), Role: chatctx.RoleUser, Content: chatctx.TextContent(fmt.Sprint("word ", seq, " of ", key))},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if i < 2 {
			if err := store.PutSession(t.Context(), chatctx.SessionRecord{ID: fmt.Sprint("room", i+1), Key: key, CreatedAt: time.Unix(1, 0)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func runLog(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, complaints bytes.Buffer
	tool := logTool{args: args, getenv: func(string) string { return "" }, stdin: strings.NewReader(stdin), stdout: &out, stderr: &complaints}
	code = tool.run()
	return out.String(), complaints.String(), code
}

func TestLogVerifyExportImport(t *testing.T) {
	dir, other := withConversations(t), filepath.Join(t.TempDir(), "new")
	out, complaints, code := runLog(t, "", "verify", "--data-dir", dir)
	for _, want := range []string{"session room1: 4 entries, 0 images, sound", "session room2: 4", "log key-three: 4", "3 conversations, 0 damaged"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("verify: exit %d, %q, %q; want %q", code, out, complaints, want)
		}
	}
	all, complaints, code := runLog(t, "", "export", "--data-dir", dir)
	if code != exitOK || strings.Count(all, "\n") != 3*6 || !strings.Contains(complaints, "session room2: 4 entries") {
		t.Fatalf("export: exit %d, %d lines, %q", code, strings.Count(all, "\n"), complaints)
	}
	for _, fresh := range []int{4, 0} {
		out, complaints, code = runLog(t, all, "import", "--data-dir", other, "-")
		if want := fmt.Sprintf("log key-two: 4 entries, %d of them new", fresh); code != exitOK || !strings.Contains(out, want) {
			t.Errorf("import: exit %d, %q, %q; want %q", code, out, complaints, want)
		}
	}
	if again, complaints, code := runLog(t, "", "export", "--data-dir", other); code != exitOK || again != all {
		t.Errorf("export of what was imported: exit %d, %q; it differs: %v", code, complaints, again != all)
	}
	file := filepath.Join(t.TempDir(), "one.jsonl")
	if _, complaints, code := runLog(t, "", "export", "--data-dir", other, "--out", file, "room2", "key-three"); code != exitOK {
		t.Errorf("export of two: exit %d, %q", code, complaints)
	}
	if data, err := os.ReadFile(file); err != nil || strings.Count(string(data), "\n") != 2*6 || strings.Contains(string(data), "key-one") {
		t.Errorf("export of two wrote %q, %v", data, err)
	}
}

func TestLogSaysWhatIsDamaged(t *testing.T) {
	dir := withConversations(t)
	blocks, _ := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "CTX_*", "msgs", "*.blk"))
	for _, block := range blocks {
		data, err := os.ReadFile(block)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(data, []byte("word 2 of key-one")); i >= 0 {
			data[i] ^= 1
			if err := os.WriteFile(block, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, complaints, code := runLog(t, "", "verify", "--data-dir", dir)
	if code != exitFail || !strings.Contains(out, "session room1: damaged: after entry 2: log_damaged") || !strings.Contains(out, "3 conversations, ") {
		t.Errorf("verify: exit %d, %q, %q", code, out, complaints)
	}
	if _, complaints, code := runLog(t, "", "export", "--data-dir", dir, "room1"); code != exitFail || !strings.Contains(complaints, "session room1: after entry 2: log_damaged") {
		t.Errorf("export: exit %d, %q", code, complaints)
	}
}

func TestLogMisuse(t *testing.T) {
	dir := withConversations(t)
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "usage: sightline log", exitUsage},
		{[]string{"burn"}, `unknown command "burn"`, exitUsage},
		{[]string{"verify", "--data-dir", filepath.Join(dir, "none")}, "there are no conversations", exitUsage},
		{[]string{"verify", "--data-dir", dir, "nobody"}, `no session and no log "nobody"`, exitFail},
		{[]string{"import", "--data-dir", dir}, "name one file", exitUsage},
		{[]string{"import", "--data-dir", dir, filepath.Join(dir, "none.jsonl")}, "no such file", exitUsage},
		{[]string{"export", "--colour"}, "colour", exitUsage},
	} {
		if _, complaints, code := runLog(t, "", c.args...); code != c.code || !strings.Contains(complaints, c.want) {
			t.Errorf("log %v: exit %d, %q; want %d and %q", c.args, code, complaints, c.code, c.want)
		}
	}
	held, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, complaints, code := runLog(t, "", "verify", "--data-dir", dir); code != exitFail || !strings.Contains(complaints, fmt.Sprint("in use by process ", os.Getpid())) {
		t.Errorf("verify beside a gateway: exit %d, %q", code, complaints)
	}
}

func TestDefaultDataDir(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/var/state", "/home/a", "/var/state/sightline"},
		{"", "/home/a", "/home/a/.local/state/sightline"},
		{"relative", "/home/a", "/home/a/.local/state/sightline"},
		{"", "", ""},
	} {
		env := map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}
		if got, err := stateDir(func(name string) string { return env[name] }); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("XDG_STATE_HOME=%q HOME=%q: %s, %v, want %s", c.xdg, c.home, got, err, c.want)
		}
	}
}
