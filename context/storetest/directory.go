package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
)

// TestDirectory runs the suite of a chatctx.Directory. open makes an empty one; again, nil when it is not on disk, opens the
// same one anew.
func TestDirectory(t *testing.T, open func(t *testing.T) (d chatctx.Directory, again func() chatctx.Directory)) {
	t.Run("put, list, delete", func(t *testing.T) {
		d, again := open(t)
		testRecords(t, d, again)
	})
	t.Run("refusals", func(t *testing.T) {
		d, _ := open(t)
		testBadRecords(t, d)
	})
	t.Run("many at once", func(t *testing.T) {
		d, _ := open(t)
		testManyRecords(t, d)
	})
}

func testRecords(t *testing.T, d chatctx.Directory, again func() chatctx.Directory) {
	check := func(want ...chatctx.SessionRecord) {
		t.Helper()
		if again != nil {
			d = again()
		}
		got, err := d.Sessions(t.Context())
		if err != nil || asJSON(t, got) != asJSON(t, want) && len(got)+len(want) > 0 {
			t.Fatalf("Sessions: %s, %v; want %s", asJSON(t, got), err, asJSON(t, want))
		}
	}
	put := func(r chatctx.SessionRecord) {
		t.Helper()
		if err := d.PutSession(t.Context(), r); err != nil {
			t.Fatalf("PutSession: %v", err)
		}
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	a := chatctx.SessionRecord{ID: "a", Key: "key-a", CreatedAt: at}
	upper := chatctx.SessionRecord{ID: "A", Key: "key-A", CreatedAt: at}
	long := chatctx.SessionRecord{ID: strings.Repeat("z", 64), Key: strings.Repeat("_", 64), CreatedAt: at, EndedAt: at.Add(time.Hour), Deleted: true}
	check()
	put(long)
	put(a)
	put(upper)
	check(upper, a, long)
	a.Key, a.EndedAt = "key-a2", at.Add(time.Minute)
	put(a) // in the place of the one before
	put(a)
	check(upper, a, long)
	for range 2 { // the second time it is unknown
		if err := d.DeleteSession(t.Context(), "A"); err != nil {
			t.Fatalf("DeleteSession: %v", err)
		}
	}
	check(a, long)
	put(upper)
	check(upper, a, long)
}

func testBadRecords(t *testing.T, d chatctx.Directory) {
	for _, r := range []chatctx.SessionRecord{
		{}, {ID: "a"}, {Key: "k"}, {ID: "a.b", Key: "k"}, {ID: "a", Key: "*"}, {ID: strings.Repeat("x", 65), Key: "k"}, {ID: "a", Key: "größe"},
	} {
		var e *chatctx.Error
		if err := d.PutSession(t.Context(), r); !errors.As(err, &e) || e.Kind != chatctx.InvalidArgument {
			t.Errorf("PutSession of %+v: %v, want an invalid argument", r, err)
		}
	}
	if got, err := d.Sessions(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("after refusals: %v, %v", got, err)
	}
}

func testManyRecords(t *testing.T, d chatctx.Directory) {
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("s-%d-%d", w, i)
				if err := d.PutSession(t.Context(), chatctx.SessionRecord{ID: id, Key: id}); err != nil {
					t.Errorf("PutSession: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got, err := d.Sessions(t.Context())
	if err != nil || len(got) != writers*each {
		t.Fatalf("%d records, %v; want %d", len(got), err, writers*each)
	}
	for i := range got[1:] {
		if got[i].ID >= got[i+1].ID {
			t.Fatalf("%s stands before %s", got[i].ID, got[i+1].ID)
		}
	}
}
