package chatctx

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAppend is what the log itself costs, over the memory store. Items and op ids are made before the clock starts.
// With followers the machine also does their work, so that ns/op says little; writer-cpu-ns/op is the processor time of the
// writer alone, waking the followers included.
func BenchmarkAppend(b *testing.B) {
	for _, followers := range []int{0, 64} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) { benchmarkAppend(b, followers) })
	}
}

func benchmarkAppend(b *testing.B, followers int) {
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
	ops := make([]Op, b.N)
	for i := range ops {
		id := strconv.Itoa(i)
		ops[i] = Op{ID: "op" + id, Kind: OpAppend, Item: &Message{ID: id, Role: RoleUser, Content: TextContent("how far is it to the station?")}}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from := Origin{Author: "caller", At: time.Unix(1, 0)}
	b.ReportAllocs()
	b.ResetTimer()
	start := threadTime(b)
	for i := range ops {
		if _, err := log.Append(ctx, from, ops[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(threadTime(b)-start)/float64(b.N), "writer-cpu-ns/op")
	cancel()
	wg.Wait()
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
