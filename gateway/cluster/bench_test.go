package cluster

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkImageToAnotherNode: an image of 100 KB to ten agents on another node, each with a stream of its own, until the last has it.
func BenchmarkImageToAnotherNode(b *testing.B) {
	const agents, size = 10, 100_000
	url := startServer(b)
	from, _ := startNode(b, url, "from")
	to, _ := startNode(b, url, "to")
	until(b, "the nodes to see each other", sees(from, "to"))
	var out, in []net.Conn
	for range agents {
		c, err := from.Dial(b.Context(), "to")
		if err != nil {
			b.Fatal(err)
		}
		other, err := to.Listener().Accept()
		if err != nil {
			b.Fatal(err)
		}
		out, in = append(out, c), append(in, other)
	}
	image := make([]byte, size)
	var times []time.Duration
	for b.Loop() {
		at := time.Now()
		var received sync.WaitGroup
		for i := range agents {
			go func() { _, _ = out[i].Write(image) }()
			received.Go(func() {
				if _, err := io.ReadFull(in[i], make([]byte, size)); err != nil {
					b.Error(err)
				}
			})
		}
		received.Wait()
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	ms := func(q float64) float64 { return float64(times[int(float64(len(times)-1)*q)].Microseconds()) / 1000 }
	b.ReportMetric(ms(.5), "p50-ms")
	b.ReportMetric(ms(.99), "p99-ms")
	b.ReportMetric(float64(len(times))*agents/b.Elapsed().Seconds(), "images/s")
}
