package jetstream

import (
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

// appendN appends entries from to to.
func appendN(t testing.TB, s chatctx.Store, session string, from, to uint64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		if err := s.Append(t.Context(), session, entry(seq, fmt.Sprint(session, " ", seq))); err != nil {
			t.Fatalf("Append of entry %d to %s: %v", seq, session, err)
		}
	}
}

// readAll reads until the end or an error.
func readAll(t testing.TB, s chatctx.Store, session string) (all []chatctx.Entry, err error) {
	t.Helper()
	for {
		got, err := s.Read(t.Context(), session, uint64(len(all)), 1000)
		if err != nil || len(got) == 0 {
			return all, err
		}
		all = append(all, got...)
	}
}
