package sound

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pion/rtp"
)

// BenchmarkEgressCalls runs calls at once in real time for a second an operation, each fed 20 ms of speech every 20 ms as a
// remote leg does, and tells how late the clocks were and what share of one core a call took. Nothing is encrypted or sent.
// Nothing is lost either, which half of them are told.
func BenchmarkEgressCalls(b *testing.B) {
	speech := jfk(b) // whole packets
	for _, c := range []struct{ calls, reports int }{{1, 0}, {50, 0}, {1, 10}, {50, 10}} {
		calls := c.calls
		b.Run(fmt.Sprintf("calls=%d/reports=%d", calls, c.reports), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			egresses := make([]*Egress, calls)
			for i := range egresses {
				e, err := NewEgress(EgressConfig{})
				if err != nil {
					b.Fatal(err)
				}
				e.SetWriter(func(*rtp.Packet) error { return nil })
				for range c.reports {
					e.Lost(0)
				}
				egresses[i] = e
				wg.Go(func() {
					if err := e.Run(ctx); err != nil {
						b.Error(err)
					}
				})
				wg.Go(func() { talk(ctx, e, speech, time.Duration(i)*20*ms/time.Duration(calls)) })
			}
			cpu, begun := cpuTime(), time.Now()
			for b.Loop() {
				time.Sleep(time.Second)
			}
			share := float64(cpuTime()-cpu) / float64(time.Since(begun)) / float64(calls)
			cancel()
			wg.Wait()
			var all EgressStats
			for _, e := range egresses {
				s := e.Stats()
				for i, n := range s.Late {
					all.Late[i] += n
				}
				all.Underruns, all.MaxLate, all.Packets = all.Underruns+s.Underruns, max(all.MaxLate, s.MaxLate), all.Packets+s.Packets
			}
			b.ReportMetric(float64(all.LateAtMost(0.99))/1e6, "ms-p99-late")
			b.ReportMetric(float64(all.MaxLate)/1e6, "ms-max-late")
			b.ReportMetric(float64(all.Underruns), "underruns")
			b.ReportMetric(100*share, "%core/call")
		})
	}
}

// talk feeds a turn without end at the pace of the clock.
func talk(ctx context.Context, e *Egress, pcm []int16, offset time.Duration) {
	next := time.Now().Add(offset)
	for i := 0; ctx.Err() == nil; i = (i + 320) % len(pcm) {
		time.Sleep(time.Until(next))
		next = next.Add(20 * ms)
		_ = e.Play(ctx, turnOf(1, "a"), ListenerRate, pcm[i:i+320]) // ends with ctx
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for ourselves
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
