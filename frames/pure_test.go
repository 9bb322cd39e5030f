package frames

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestG9LatestUnderConcurrentUse(t *testing.T) {
	l := NewLatest[int]()
	const n = 10000
	var displaced, superseded, taken, newest int
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i <= n; i++ {
			if _, was := l.Put(i); was {
				displaced++
			}
		}
	})
	for newest < n {
		<-l.C()
		v, s, ok := l.Take()
		if !ok {
			continue
		}
		if v <= newest {
			t.Fatalf("%d came after %d", v, newest)
		}
		newest, taken, superseded = v, taken+1, superseded+int(s)
	}
	wg.Wait()
	if taken+superseded != n || displaced != superseded {
		t.Errorf("%d put, %d taken, %d displaced by the writer's count and %d by the reader's", n, taken, displaced, superseded)
	}
	l.Put(1)
	l.Close()
	if _, was := l.Put(2); was {
		t.Error("a closed mailbox displaces")
	}
	if _, _, ok := l.Take(); ok {
		t.Error("a closed mailbox gives something")
	}
}

func TestKeyRequester(t *testing.T) {
	var k keyRequester
	ms := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }
	var asked []int
	for i := range 20000 {
		if i == 9000 {
			k.answered()
		}
		if k.due(i != 0 && (i < 8000 || i >= 9000), ms(i)) {
			asked = append(asked, i)
		}
	}
	want := []int{1, 501, 1501, 3501, 7501, 9000, 9500, 10500, 12500, 16500}
	if !slices.Equal(asked, want) {
		t.Errorf("asked at %v ms, want %v", asked, want)
	}
	k = keyRequester{}
	k.answered()
	if !k.due(true, ms(0)) || k.due(true, ms(499)) || !k.due(true, ms(500)) {
		t.Error("the first request waits, or the second does not")
	}
}

func TestCaptureClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	// run feeds 30 frames/s for some time and returns the worst error of the capture time in the last half, against the true one.
	run := func(drift float64, jitter, delay time.Duration, seconds int) time.Duration {
		var c captureClock
		var worst time.Duration
		for i := range seconds * 30 {
			captured := t0.Add(time.Duration(i) * time.Second / 30)
			ts := uint32(4294000000) + uint32(int64(float64(i*3000)*(1+drift)))
			received := captured.Add(delay + time.Duration(rng.Int64N(int64(jitter)+1)))
			c.observe(ts, received)
			got := c.capturedAt(ts, received).at
			if got.After(received) {
				t.Fatalf("captured %v, received %v", got, received)
			}
			if e := got.Sub(captured.Add(delay)).Abs(); i > seconds*15 && e > worst {
				worst = e
			}
		}
		return worst
	}
	for _, tt := range []struct {
		name   string
		drift  float64
		jitter time.Duration
		limit  time.Duration
	}{
		{"steady", 0, 0, 20 * time.Microsecond},
		{"jitter of 100 ms", 0, 100 * time.Millisecond, 10 * time.Millisecond},
		{"sender 200 ppm fast", 200e-6, 0, 7 * time.Millisecond},
		{"sender 200 ppm slow", -200e-6, 0, 7 * time.Millisecond},
		{"both", 200e-6, 50 * time.Millisecond, 15 * time.Millisecond},
	} {
		if e := run(tt.drift, tt.jitter, 40*time.Millisecond, 600); e > tt.limit {
			t.Errorf("%s: off by %v, at most %v allowed", tt.name, e, tt.limit)
		}
	}
	t.Run("frames held up in the network are as old as they are", func(t *testing.T) {
		var c captureClock
		for i := range 60 {
			c.observe(uint32(i*3000), t0.Add(time.Duration(i)*time.Second/30))
		}
		late := t0.Add(5 * time.Second)
		c.observe(60*3000, late)
		if age := late.Sub(c.capturedAt(60*3000, late).at); age < 2900*time.Millisecond || age > 3*time.Second {
			t.Errorf("3 s in the network, said to be %v old", age)
		}
	})
	t.Run("a sender whose clock stood still is believed again", func(t *testing.T) {
		var c captureClock
		for i := range 3000 {
			at := t0.Add(time.Duration(i) * time.Second / 30)
			if i >= 300 {
				at = at.Add(8 * time.Second) // its timestamps went on where they had stopped
			}
			c.observe(uint32(i*3000), at)
			if age := at.Sub(c.capturedAt(uint32(i*3000), at).at); i > 300+31*30 && age > time.Millisecond {
				t.Fatalf("%v after the pause still %v too old", time.Duration(i-300)*time.Second/30, age)
			}
		}
	})
	if d := ticks(90000 * 3600 * 24 * 365 * 20); d != 20*365*24*time.Hour {
		t.Errorf("20 years of ticks are %v", d)
	}
}

func TestSequencer(t *testing.T) {
	at := t0
	feed := func(s *sequencer, seqs ...uint16) (vs []verdict) {
		for _, n := range seqs {
			_, v := s.observe(n, at)
			vs = append(vs, v)
			at = at.Add(time.Millisecond)
		}
		return vs
	}
	s := &sequencer{}
	got := feed(s, 65534, 65535, 1, 1, 0, 0, 65535, 40000, 2, 40001, 50000, 50001)
	want := []verdict{
		verdictFresh, verdictFresh, verdictFresh, verdictDuplicate, verdictFresh, verdictDuplicate, verdictDuplicate,
		verdictStray, verdictFresh, verdictStray, verdictStray, verdictRestart,
	}
	if !slices.Equal(got, want) || s.lost != 0 {
		t.Errorf("%v, %d lost; want %v, 0", got, s.lost, want)
	}
	if v := feed(s, 50000); v[0] != verdictDuplicate {
		t.Errorf("the confirmed stray again: %v", v)
	}

	// Every number is in the end received or lost, whatever the order: compare with a plain count.
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		s, base := &sequencer{}, uint16(rng.Uint32())
		missing := 0
		var order []uint16
		for i := range 20000 {
			if i > 0 && i < 19000 && rng.IntN(10) == 0 {
				missing++
				continue
			}
			order = append(order, base+uint16(i))
		}
		for i := 20; i+20 < len(order); i += 20 {
			rng.Shuffle(20, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
		}
		feed(s, order...)
		if int(s.lost) != missing {
			t.Fatalf("%d counted as lost, %d were", s.lost, missing)
		}
	}

	s = &sequencer{}
	feed(s, 1, 2, 4)
	at = at.Add(settleAfter)
	feed(s, 5)
	if s.lost != 1 {
		t.Errorf("%d lost half a second after the gap, want 1", s.lost)
	}
	if v := feed(s, 3); v[0] != verdictLate {
		t.Errorf("after that it is %v, want late", v)
	}
}

func TestG12FrameQueue(t *testing.T) {
	name := func(fs ...*frame) (s string) {
		for _, f := range fs {
			if f == nil {
				return "none"
			}
			s += fmt.Sprint(f.ts, " ")
		}
		return s
	}
	inter := func(n uint32) *frame { return &frame{ts: n, data: make([]byte, 10)} }
	key := func(n uint32) *frame { return &frame{ts: n, key: true, data: make([]byte, 10)} }
	var q frameQueue
	for i := range uint32(8) {
		if d, ok := q.push(inter(i)); !ok || d != nil {
			t.Fatal("no room for frame", i)
		}
	}
	if _, ok := q.push(inter(8)); ok {
		t.Error("a ninth inter frame finds room")
	}
	if f, d := q.pop(); f.ts != 0 || d != nil {
		t.Errorf("%s came, %s dropped", name(f), name(d...))
	}
	q.push(inter(9))
	if d, ok := q.push(key(10)); !ok || len(d) != 8 || q.n != 1 || q.bytes != 10 {
		t.Errorf("key frame into a full queue: %v, %d dropped, %d left", ok, len(d), q.n)
	}
	q.push(inter(11))
	q.push(key(12))
	q.push(inter(13))
	if f, d := q.pop(); f.ts != 12 || name(d...) != "10 11 " {
		t.Errorf("%s came, %s dropped; want 12, 10 11", name(f), name(d...))
	}
	q.push(inter(14))
	if d, found := q.toKey(); found || name(d...) != "13 14 " || q.n != 0 || q.bytes != 0 {
		t.Errorf("no key frame: %v, %s dropped", found, name(d...))
	}
	q.push(inter(15))
	q.push(key(16))
	q.push(inter(17))
	if d, found := q.toKey(); !found || name(d...) != "15 " || q.n != 2 {
		t.Errorf("a key frame: %v, %s dropped", found, name(d...))
	}
	q = frameQueue{}
	big := &frame{data: make([]byte, queueBytes)}
	if _, ok := q.push(big); !ok {
		t.Error("one frame always finds room")
	}
	if _, ok := q.push(inter(1)); ok {
		t.Error("over the queue's bytes")
	}
	if f, _ := q.pop(); f != big || q.bytes != 0 {
		t.Error("not emptied")
	}
	if f, _ := q.pop(); f != nil {
		t.Error("an empty queue gives", name(f))
	}
}

func TestNewTrackChecksItsConfig(t *testing.T) {
	for _, cfg := range []TrackConfig{{Codec: "H265"}, {StallAfter: -1}} {
		if _, err := NewTrack(cfg); err == nil {
			t.Errorf("%+v passes", cfg)
		}
	}
}
