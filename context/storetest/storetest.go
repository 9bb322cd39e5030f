// Package storetest is the suite that every chatctx.Store passes; it is for the tests of stores and nothing else.
package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	chatctx "sightline/context"
)

// Test runs the suite. open makes an empty store for each part of it; the suite closes what it opens.
func Test(t *testing.T, open func(t *testing.T) chatctx.Store) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, s chatctx.Store)
	}{
		{"empty", testEmpty},
		{"append and read", testAppendRead},
		{"every field and kind comes back", testFidelity},
		{"read windows", testReadWindows},
		{"stale head", testStaleHead},
		{"sessions apart", testSessionsApart},
		{"blobs", testBlobs},
		{"delete", testDelete},
		{"concurrent appenders", testConcurrentAppenders},
		{"readers beside an appender", testReadersBesideAppender},
		{"log over the store", testLog},
		{"close", testClose},
	} {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { _ = s.Close() })
			part.run(t, s)
		})
	}
}

func testEmpty(t *testing.T, s chatctx.Store) {
	wantHead(t, s, "nobody", 0)
	wantSeqs(t, s, "nobody", 0, 10)
	wantSeqs(t, s, "nobody", 7, 10)
	if _, err := s.GetBlob(t.Context(), "nobody", sha("x")); !errors.Is(err, chatctx.ErrNoBlob) {
		t.Errorf("GetBlob of an unknown session: %v, want ErrNoBlob", err)
	}
	if err := s.Delete(t.Context(), "nobody"); err != nil {
		t.Errorf("Delete of an unknown session: %v", err)
	}
}

func testAppendRead(t *testing.T, s chatctx.Store) {
	for seq := uint64(1); seq <= 300; seq++ {
		if err := s.Append(t.Context(), "a", entry(seq, fmt.Sprint("word ", seq))); err != nil {
			t.Fatalf("Append of entry %d: %v", seq, err)
		}
		wantHead(t, s, "a", seq)
	}
	after := uint64(0)
	for after < 300 {
		got := read(t, s, "a", after, 64)
		if len(got) == 0 {
			t.Fatalf("Read after %d gives nothing before the head 300", after)
		}
		for _, e := range got {
			after++
			want := fmt.Sprint("word ", after)
			if e.Seq != after || e.Item.(*chatctx.Message).Content.Text() != want {
				t.Fatalf("entry %d is seq %d with %q, want %q", after, e.Seq, e.Item.(*chatctx.Message).Content.Text(), want)
			}
		}
	}
}

// testFidelity compares JSON, since a store may keep an entry as JSON and need not keep more than that carries.
func testFidelity(t *testing.T, s chatctx.Store) {
	at := chatctx.At(time.Date(2026, 3, 4, 5, 6, 7, 891e6, time.UTC))
	image := chatctx.ImageContent{URL: chatctx.BlobPrefix + sha("x"), Detail: "low", Source: "camera", CapturedAt: at, Width: 640, Height: 480}
	items := []chatctx.Item{
		&chatctx.Message{ID: "m", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.Text{Text: "größer <b>&\u2028 \x00 \"q\""}, image}, AgentID: "a", Interrupted: true, TextGenerated: "more"},
		&chatctx.Message{ID: "e", Role: chatctx.RoleSystem, Content: chatctx.Content{}},
		&chatctx.FunctionCall{ID: "c", CallID: "c1", Name: "f", Arguments: `{"a": 1}`, AgentID: "a"},
		&chatctx.FunctionCallOutput{ID: "o", CallID: "c1", Name: "f", Output: "", IsError: true},
		&chatctx.AgentHandoff{ID: "h", FromAgent: "a", ToAgent: "b", Reason: "r", Summary: "s"},
		&chatctx.ConfigUpdate{ID: "u", Instructions: "i", Tools: json.RawMessage(`[{"name":"f"}]`)},
		&chatctx.Summary{ID: "s", Text: "t", Covers: [2]uint64{1, 1 << 53}},
		&chatctx.PipelineSwitch{ID: "p", State: "committed", From: "x", To: "y", Epoch: 3, Reason: "r", OpID: "sw"},
	}
	var want []chatctx.Entry
	for i, item := range items {
		want = append(want, chatctx.Entry{Seq: uint64(i + 1), OpID: fmt.Sprint("op/ü.*> ", i), Author: "leg:x", At: at, Epoch: uint64(i), Op: chatctx.OpAppend, Item: item})
	}
	n := uint64(len(want))
	want = append(want,
		chatctx.Entry{Seq: n + 1, OpID: "up", Author: "http", At: at, Op: chatctx.OpUpdate, ItemID: "e", Item: &chatctx.Message{ID: "e", Role: chatctx.RoleSystem, Content: chatctx.TextContent("new")}},
		chatctx.Entry{Seq: n + 2, OpID: "rm", Author: "system", At: at, Op: chatctx.OpRemove, ItemID: "e"},
		chatctx.Entry{Seq: n + 3, OpID: "tr", Author: "system", At: at, Op: chatctx.OpTruncate, Removed: []string{"m", "h"}},
		chatctx.Entry{Seq: n + 4, OpID: "big", Author: "system", At: at, Op: chatctx.OpAppend, Item: &chatctx.Message{ID: "big", Role: chatctx.RoleUser, Content: chatctx.TextContent(strings.Repeat("b", chatctx.DefaultMaxItemBytes-512))}},
		chatctx.Entry{Seq: n + 5, OpID: "fold", Author: "system", At: at, Op: chatctx.OpAppend, Item: &chatctx.Summary{ID: "fold", Text: "t", Covers: [2]uint64{1, 2}}, After: "big", Removed: []string{"big"}},
	)
	for _, e := range want {
		if err := s.Append(t.Context(), "a", e); err != nil {
			t.Fatalf("Append of entry %d: %v", e.Seq, err)
		}
	}
	for i, got := range readAll(t, s, "a") {
		if g, w := asJSON(t, got), asJSON(t, want[i]); g != w {
			t.Errorf("entry %d came back as\n%.300s\nwant\n%.300s", want[i].Seq, g, w)
		}
	}
}

func testReadWindows(t *testing.T, s chatctx.Store) {
	fill(t, s, "a", 10)
	for _, w := range []struct {
		after uint64
		limit int
		want  []uint64
	}{
		{0, 1, []uint64{1}},
		{0, 3, []uint64{1, 2, 3}},
		{4, 3, []uint64{5, 6, 7}},
		{8, 3, []uint64{9, 10}},
		{9, 100, []uint64{10}},
		{10, 3, nil},
		{11, 3, nil},
		{1 << 40, 3, nil},
	} {
		wantSeqs(t, s, "a", w.after, w.limit, w.want...)
	}
}

func testStaleHead(t *testing.T, s chatctx.Store) {
	stale := func(session string, seq uint64) {
		t.Helper()
		if err := s.Append(t.Context(), session, entry(seq, "intruder")); !errors.Is(err, chatctx.ErrStaleHead) {
			t.Errorf("Append of entry %d: %v, want ErrStaleHead", seq, err)
		}
	}
	stale("a", 2) // not the first of an empty session
	wantHead(t, s, "a", 0)
	fill(t, s, "a", 3)
	for _, seq := range []uint64{1, 2, 3, 5, 100} {
		stale("a", seq)
	}
	wantHead(t, s, "a", 3)
	for _, e := range readAll(t, s, "a") {
		if text := e.Item.(*chatctx.Message).Content.Text(); text == "intruder" {
			t.Errorf("entry %d was overwritten by a refused append", e.Seq)
		}
	}
	if err := s.Append(t.Context(), "a", entry(4, "right")); err != nil {
		t.Errorf("Append of the next entry after refusals: %v", err)
	}
}

func testSessionsApart(t *testing.T, s chatctx.Store) {
	names := []string{"a", "A", "a-b", "a_b", "ab", strings.Repeat("x", 64)}
	for i, name := range names {
		fill(t, s, name, i+1)
	}
	for i, name := range names {
		wantHead(t, s, name, uint64(i+1))
		for _, e := range readAll(t, s, name) {
			if want := fmt.Sprint(name, " ", e.Seq); e.Item.(*chatctx.Message).Content.Text() != want {
				t.Errorf("session %s, entry %d: %q, want %q", name, e.Seq, e.Item.(*chatctx.Message).Content.Text(), want)
			}
		}
	}
}

func testBlobs(t *testing.T, s chatctx.Store) {
	put := func(session string, data []byte, mime string) {
		t.Helper()
		if err := s.PutBlob(t.Context(), session, sha(string(data)), chatctx.Blob{MIME: mime, Data: data}); err != nil {
			t.Fatalf("PutBlob: %v", err)
		}
	}
	big := bytes.Repeat([]byte{0, 255, 7}, chatctx.DefaultMaxImageBytes/3)
	put("a", []byte("one"), "image/png")
	put("a", []byte("one"), "image/png") // the same again
	put("a", big, "image/jpeg")
	put("b", []byte("other"), "image/webp")
	for _, c := range []struct {
		session, data, mime string
	}{{"a", "one", "image/png"}, {"a", string(big), "image/jpeg"}, {"b", "other", "image/webp"}} {
		got, err := s.GetBlob(t.Context(), c.session, sha(c.data))
		if err != nil || string(got.Data) != c.data || got.MIME != c.mime {
			t.Errorf("GetBlob: %d bytes of %s, %v; want %d bytes of %s", len(got.Data), got.MIME, err, len(c.data), c.mime)
		}
	}
	for _, c := range []struct{ session, data string }{{"a", "other"}, {"b", "one"}, {"a", "never"}} {
		if _, err := s.GetBlob(t.Context(), c.session, sha(c.data)); !errors.Is(err, chatctx.ErrNoBlob) {
			t.Errorf("GetBlob of %q in %s: %v, want ErrNoBlob", c.data, c.session, err)
		}
	}
	wantHead(t, s, "a", 0) // blobs are no entries
	fill(t, s, "a", 1)
}

func testDelete(t *testing.T, s chatctx.Store) {
	fill(t, s, "a", 5)
	fill(t, s, "ab", 2)
	for _, session := range []string{"a", "ab"} {
		if err := s.PutBlob(t.Context(), session, sha("x"), chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to delete
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	wantHead(t, s, "a", 0)
	wantSeqs(t, s, "a", 0, 10)
	if _, err := s.GetBlob(t.Context(), "a", sha("x")); !errors.Is(err, chatctx.ErrNoBlob) {
		t.Errorf("a blob outlived its session: %v", err)
	}
	wantHead(t, s, "ab", 2)
	if _, err := s.GetBlob(t.Context(), "ab", sha("x")); err != nil {
		t.Errorf("another session's blob went with it: %v", err)
	}
	fill(t, s, "a", 1) // the id can be used again, from seq 1
	wantHead(t, s, "a", 1)
}

// testConcurrentAppenders: of those who append the same seq exactly one wins, and what it appended is what stays.
func testConcurrentAppenders(t *testing.T, s chatctx.Store) {
	const appenders, seqs = 8, 25
	fill(t, s, "bystander", 3)
	for seq := uint64(1); seq <= seqs; seq++ {
		var wins atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		for a := range appenders {
			wg.Go(func() {
				text := fmt.Sprint("appender ", a)
				switch err := s.Append(t.Context(), "a", entry(seq, text)); {
				case err == nil:
					wins.Add(1)
					winner.Store(text)
				case !errors.Is(err, chatctx.ErrStaleHead):
					t.Errorf("Append of entry %d: %v, want nil or ErrStaleHead", seq, err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("entry %d was appended %d times", seq, wins.Load())
		}
		got := read(t, s, "a", seq-1, 1)
		if len(got) != 1 || got[0].Item.(*chatctx.Message).Content.Text() != winner.Load() {
			t.Fatalf("entry %d is not what %v appended: %v", seq, winner.Load(), got)
		}
	}
	wantHead(t, s, "a", seqs)
	wantHead(t, s, "bystander", 3)
}

// testReadersBesideAppender: a reader sees only whole windows without holes while the log grows.
func testReadersBesideAppender(t *testing.T, s chatctx.Store) {
	const last = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for after := uint64(0); after < last; {
				got, err := s.Read(t.Context(), "a", after, 7)
				if err != nil || len(got) > 7 {
					t.Errorf("Read: %d entries, %v", len(got), err)
					return
				}
				for _, e := range got {
					if after++; e.Seq != after {
						t.Errorf("read entry %d in the place of %d", e.Seq, after)
						return
					}
				}
			}
		})
	}
	fill(t, s, "a", last)
	wg.Wait()
}

// testLog: a Log over the store finds everything again, the op ids too, also beside a second Log of the same session.
func testLog(t *testing.T, s chatctx.Store) {
	open := func() *chatctx.Log {
		t.Helper()
		l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "a"})
		if err != nil {
			t.Fatalf("OpenLog: %v", err)
		}
		return l
	}
	say := func(l *chatctx.Log, op string) chatctx.Ack {
		t.Helper()
		ack, err := l.Append(t.Context(), chatctx.Origin{Author: "x", At: time.Unix(1, 0)}, chatctx.Op{
			ID: op, Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(op)},
		})
		if err != nil {
			t.Fatalf("Append %s: %v", op, err)
		}
		return ack
	}
	first, second := open(), open()
	one := say(first, "one")
	two := say(second, "two") // its head is stale: it catches up
	if again := say(second, "one"); !again.Duplicate || again.Seq != 1 || again.ItemID != one.ItemID {
		t.Errorf("the other log answers %+v for op one, the first answer was %+v", again, one)
	}
	if again := say(first, "two"); !again.Duplicate || again.Seq != two.Seq {
		t.Errorf("the other log answers %+v for op two, the first answer was %+v", again, two)
	}
	if got, want := asJSON(t, open().Snapshot()), asJSON(t, first.Snapshot()); got != want {
		t.Errorf("reopened:\n%s\nwant\n%s", got, want)
	}
}

func testClose(t *testing.T, s chatctx.Store) {
	fill(t, s, "a", 1)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_ = s.Close() // the second time may say what it likes, but it returns
	if err := s.Append(t.Context(), "a", entry(2, "late")); err == nil {
		t.Error("Append to a closed store answers nil")
	}
	if _, err := s.Read(t.Context(), "a", 0, 1); err == nil {
		t.Error("Read of a closed store answers nil")
	}
	if _, err := s.Head(t.Context(), "a"); err == nil {
		t.Error("Head of a closed store answers nil")
	}
	if err := s.PutBlob(t.Context(), "a", sha("x"), chatctx.Blob{MIME: "image/png", Data: []byte("x")}); err == nil {
		t.Error("PutBlob to a closed store answers nil")
	}
	if _, err := s.GetBlob(t.Context(), "a", sha("x")); err == nil || errors.Is(err, chatctx.ErrNoBlob) {
		t.Errorf("GetBlob of a closed store: %v, want an error that is not ErrNoBlob", err)
	}
	if err := s.Delete(t.Context(), "a"); err == nil {
		t.Error("Delete in a closed store answers nil")
	}
}
