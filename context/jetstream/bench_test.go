package jetstream

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
)

// fsyncTime is what this disk takes for 700 bytes and a sync, measured as long as the benchmark's machine is as it is now.
func fsyncTime(b *testing.B, dir string) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 700)
	var times []time.Duration
	for range 200 {
		at := time.Now()
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	return quantile(times, 0.5)
}

func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[int(float64(len(times)-1)*q)]
}

func openBench(b *testing.B, dir string) *Store {
	b.Helper()
	s, err := Open(b.Context(), Config{Dir: dir, MaxStoreBytes: 16 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkAppend: entries of about 600 bytes, each writer with a session of its own.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			dir := b.TempDir()
			fsync := fsyncTime(b, dir)
			s := openBench(b, filepath.Join(dir, "store"))
			text := string(make([]byte, 70)) // six bytes each as JSON
			each := b.N/writers + 1
			times := make([][]time.Duration, writers)
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					name := fmt.Sprint("s", w)
					for seq := range uint64(each) {
						e := entry(seq+1, text)
						at := time.Now()
						if err := s.Append(b.Context(), name, e); err != nil {
							b.Error(err)
							return
						}
						times[w] = append(times[w], time.Since(at))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(times...)
			p50, p99 := quantile(all, 0.5), quantile(all, 0.99)
			report(b, fsync, p50, p99)
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkPutBlob: images of 75 KB, one after the other.
func BenchmarkPutBlob(b *testing.B) {
	dir := b.TempDir()
	fsync := fsyncTime(b, dir)
	s := openBench(b, filepath.Join(dir, "store"))
	data := make([]byte, 75_000)
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		data[0], data[1], data[2] = byte(i), byte(i>>8), byte(i>>16)
		at := time.Now()
		if err := s.PutBlob(b.Context(), "a", sumOf(data), chatctx.Blob{MIME: "image/jpeg", Data: data}); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	report(b, fsync, quantile(times, 0.5), quantile(times, 0.99))
}

func report(b *testing.B, fsync, p50, p99 time.Duration) {
	b.ReportMetric(float64(fsync.Microseconds()), "fsync-µs")
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(p99.Microseconds()), "p99-µs")
	b.ReportMetric(float64(p50)/float64(fsync), "p50/fsync")
}

// BenchmarkReplay: all 2,000 entries of a session among 20,000 others, from the disk, chain checked; and its last ten.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(b.Context(), Config{Dir: dir, MaxStoreBytes: 4 << 30, UnsafeSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	text := string(make([]byte, 70))
	for seq := uint64(1); seq <= 2000; seq++ {
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
			if err := s.Append(b.Context(), name, entry(seq, text)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			s.forgetAll()
			if all, err := readAll(b, s, "a"); err != nil || len(all) != 2000 {
				b.Fatal(len(all), err)
			}
		}
	})
	b.Run("last 10 of a log that was read before", func(b *testing.B) {
		m := s.enter("a")
		defer m.leave()
		for b.Loop() {
			m.mu.Lock()
			m.known = false
			m.mu.Unlock()
			if got, err := s.Read(b.Context(), "a", 1990, 100); err != nil || len(got) != 10 {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("last 10 from memory", func(b *testing.B) {
		if err := s.Append(b.Context(), "b", entry(2001, text)); err != nil {
			b.Fatal(err)
		}
		for seq := uint64(2002); seq <= 2010; seq++ {
			if err := s.Append(b.Context(), "b", entry(seq, text)); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			if got, err := s.Read(b.Context(), "b", 2000, 100); err != nil || len(got) != 10 {
				b.Fatal(len(got), err)
			}
		}
	})
}

func (s *Store) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// BenchmarkManySessions is run by hand (it writes more than a GB): 100,000 sessions of 20 entries, what memory they take, and
// how long it takes to open the store again after a close and after its index was lost, as by kill -9.
func BenchmarkManySessions(b *testing.B) {
	sessions := 100_000
	if os.Getenv("SIGHTLINE_MANY_SESSIONS") == "" {
		sessions = 1600
	}
	figures := map[string]float64{}
	note := func(v float64, unit string) { figures[unit] = v }
	dir := b.TempDir()
	s, err := Open(b.Context(), Config{Dir: dir, MaxStoreBytes: 16 << 30, UnsafeSync: true})
	if err != nil {
		b.Fatal(err)
	}
	text := string(make([]byte, 70))
	var wg sync.WaitGroup
	const writers = 16
	for w := range writers {
		wg.Go(func() {
			const together = 100 // of one writer are under way at a time
			for first := w * together; first < sessions; first += writers * together {
				for seq := uint64(1); seq <= 20; seq++ {
					for i := range together {
						if err := s.Append(b.Context(), fmt.Sprint("session-", first+i), entry(seq, text)); err != nil {
							b.Error(err)
							return
						}
					}
				}
			}
		})
	}
	wg.Wait()
	s.forgetAll()
	note(heapMiB(), "MiB-after-writing")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for _, how := range []string{"clean", "no-index"} {
		if how == "no-index" {
			for _, index := range must(filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*", "msgs", "index.db"))) {
				_ = os.Remove(index)
			}
		}
		at := time.Now()
		s, err := Open(b.Context(), Config{Dir: dir, MaxStoreBytes: 16 << 30})
		if err != nil {
			b.Fatal(err)
		}
		note(float64(time.Since(at).Milliseconds()), "ms-"+how)
		note(heapMiB(), "MiB-"+how)
		at = time.Now()
		if all, err := readAll(b, s, fmt.Sprint("session-", sessions/2)); err != nil || len(all) != 20 {
			b.Fatal(len(all), err)
		}
		note(float64(time.Since(at).Microseconds())/1000, "ms-first-read-"+how)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() { // the figures are what counts
	}
	for unit, v := range figures {
		b.ReportMetric(v, unit)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
