package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
)

func entry(seq uint64, text string) chatctx.Entry {
	return chatctx.Entry{
		Seq: seq, OpID: fmt.Sprint("op", seq), Author: "caller", At: chatctx.At(time.Unix(int64(seq), 0)), Op: chatctx.OpAppend,
		Item: &chatctx.Message{ID: fmt.Sprint("m", seq), Role: chatctx.RoleUser, Content: chatctx.TextContent(text)},
	}
}

// fill appends entries 1 to n; their text is the session and the seq.
func fill(t *testing.T, s chatctx.Store, session string, n int) {
	t.Helper()
	for seq := uint64(1); seq <= uint64(n); seq++ {
		if err := s.Append(t.Context(), session, entry(seq, fmt.Sprint(session, " ", seq))); err != nil {
			t.Fatalf("Append of entry %d to %s: %v", seq, session, err)
		}
	}
}

func read(t *testing.T, s chatctx.Store, session string, after uint64, limit int) []chatctx.Entry {
	t.Helper()
	got, err := s.Read(t.Context(), session, after, limit)
	if err != nil {
		t.Fatalf("Read after %d: %v", after, err)
	}
	if len(got) > limit {
		t.Fatalf("Read after %d gives %d entries, more than the %d asked for", after, len(got), limit)
	}
	return got
}

// readAll reads a session from the first to the last entry and checks that there is no hole.
func readAll(t *testing.T, s chatctx.Store, session string) []chatctx.Entry {
	t.Helper()
	var all []chatctx.Entry
	for {
		got := read(t, s, session, uint64(len(all)), 100)
		if len(got) == 0 {
			wantHead(t, s, session, uint64(len(all)))
			return all
		}
		for _, e := range got {
			all = append(all, e)
			if e.Seq != uint64(len(all)) {
				t.Fatalf("read entry %d in the place of %d", e.Seq, len(all))
			}
		}
	}
}

// wantSeqs reads a window; a store may give it in several pieces.
func wantSeqs(t *testing.T, s chatctx.Store, session string, after uint64, limit int, want ...uint64) {
	t.Helper()
	var got []uint64
	for len(got) < limit {
		piece := read(t, s, session, after+uint64(len(got)), limit-len(got))
		if len(piece) == 0 {
			break
		}
		for _, e := range piece {
			got = append(got, e.Seq)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Read after %d, limit %d: %v, want %v", after, limit, got, want)
	}
}

func wantHead(t *testing.T, s chatctx.Store, session string, want uint64) {
	t.Helper()
	if got, err := s.Head(t.Context(), session); err != nil || got != want {
		t.Errorf("Head of %s: %d, %v; want %d", session, got, err, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sha(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}
