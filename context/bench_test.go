package chatctx

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAppend is what the log itself costs, over the memory store. Items and op ids are made before the clock starts.
// With followers the machine also does their work, so that ns/op says little; writer-cpu-ns/op is the processor time of the
// writer alone, waking the followers included. A log of ten thousand entries is a call of some hours; in one that is as long as the
// benchmark goes on (a million) each lookup waits for memory. The baseline is the loop without the log.
func BenchmarkAppend(b *testing.B) {
	for _, followers := range []int{0, 64} {
		b.Run(fmt.Sprintf("followers=%d/entries=10000", followers), func(b *testing.B) { benchmarkAppend(b, followers, 10_000) })
		b.Run(fmt.Sprintf("followers=%d/entries=all", followers), func(b *testing.B) { benchmarkAppend(b, followers, b.N) })
	}
	b.Run("baseline", func(b *testing.B) { benchmarkAppend(b, -1, b.N) })
}

// benchmarkAppend appends b.N items to logs of at most perLog entries; followers -1 = to none.
func benchmarkAppend(b *testing.B, followers, perLog int) {
	ops := make([]Op, b.N)
	for i := range ops {
		id := strconv.Itoa(i)
		ops[i] = Op{ID: "op" + id, Kind: OpAppend, Item: &Message{ID: id, Role: RoleUser, Content: TextContent("how far is it to the station?")}}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	used := time.Duration(0)
	for part := range slices.Chunk(ops, perLog) {
		used += appendAll(b, part, followers)
	}
	b.ReportMetric(float64(used)/float64(b.N), "writer-cpu-ns/op")
}

// appendAll gives the processor time of appending ops to a new log.
func appendAll(b *testing.B, ops []Op, followers int) (used time.Duration) {
	log := mustOpen(b, NewMemStore())
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range followers {
		cursor, err := log.Follow(0)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			for {
				if _, err := cursor.Next(ctx); err != nil {
					return
				}
			}
		})
	}
	send := log.Append
	if followers < 0 {
		send = func(_ context.Context, _ Origin, op Op) (Ack, error) {
			if op.Item.ItemID() == "" {
				b.Error("an item without an id")
			}
			return Ack{}, nil
		}
	}
	from := Origin{Author: "caller", At: time.Unix(1, 0)}
	b.StartTimer()
	start := threadTime(b)
	for i := range ops {
		if _, err := send(ctx, from, ops[i]); err != nil {
			b.Fatal(err)
		}
	}
	used = threadTime(b) - start
	b.StopTimer()
	cancel()
	wg.Wait()
	return used
}

// threadTime is the processor time that this thread has used.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const rusageThread = 1 // RUSAGE_THREAD of getrusage(2), which package syscall does not name

// BenchmarkFold10000 folds ten thousand entries: mostly messages, and the updates, removals and calls of a long session.
func BenchmarkFold10000(b *testing.B) {
	var entries []Entry
	chat := New()
	for seq := uint64(1); seq <= 10000; seq++ {
		e := Entry{Seq: seq, OpID: fmt.Sprint("op", seq), Op: OpAppend}
		switch {
		case seq%10 == 9:
			old := chat.Items()[chat.Len()/2].(*Message)
			e.Op, e.ItemID, e.Item = OpUpdate, old.ID, &Message{ID: old.ID, Role: RoleUser, Content: TextContent("changed")}
		case seq%50 == 0:
			e.Op, e.ItemID = OpRemove, chat.Items()[chat.Len()/3].ItemID()
		default:
			e.Item = &Message{ID: fmt.Sprint("item-", seq), Role: RoleUser, Content: TextContent("how far is it to the station?")}
		}
		if err := chat.Apply(e); err != nil {
			b.Fatal(err)
		}
		entries = append(entries, e)
	}
	b.ReportAllocs()
	b.ResetTimer()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(b)
	for b.Loop() {
		c := New()
		for i := range entries {
			if err := c.Apply(entries[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(threadTime(b)-start)/float64(b.N), "cpu-ns/op")
}
