package faultnet

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// wayUp is a relay's way to the gateway, with send in the place of the gateway.
func wayUp(t *testing.T, cfg Config, send func([]byte)) (*Relay, *way) {
	t.Helper()
	relay, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	relay.up.send = func(_ *flow, packet []byte) { send(packet) }
	return relay, &relay.up
}

// releasing releases what the way holds until stop is called.
func releasing(t *testing.T, w *way) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.release(ctx) }()
	return func() { cancel(); <-done }
}

func TestLossIsTheWantedShareAndTheSameForASeed(t *testing.T) {
	lost := func(seed uint64) (lost []int) {
		_, up := wayUp(t, Config{Faults: Faults{LossUp: 0.05}, Seed: seed}, func([]byte) {})
		for i := range 20000 {
			before := up.counts().Lost
			up.take(&flow{}, []byte{1}, time.Time{})
			if up.counts().Lost > before {
				lost = append(lost, i)
			}
		}
		return lost
	}
	first := lost(7)
	if len(first) < 900 || len(first) > 1100 {
		t.Errorf("%d of 20000 were lost, want about 1000", len(first))
	}
	if !slices.Equal(first, lost(7)) || slices.Equal(first, lost(8)) {
		t.Error("the seed does not decide which are lost")
	}
}

func TestDelayIsExactAndTheQueueBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		_, up := wayUp(t, Config{Faults: Faults{Delay: 100 * time.Millisecond}}, func([]byte) { at = append(at, time.Since(begun)) })
		stop := releasing(t, up)
		for range 3 {
			up.take(&flow{}, []byte{1}, time.Now())
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop()
		if !slices.Equal(at, []time.Duration{100e6, 110e6, 120e6}) {
			t.Errorf("sent at %v", at)
		}
		for range maxHeld + 5 {
			up.take(&flow{}, []byte{1}, time.Now())
		}
		if c := up.counts(); c != (Counts{Passed: 3 + maxHeld, Dropped: 5}) {
			t.Errorf("%+v, want 5 dropped", c)
		}
	})
}

func TestRateIsOfEachClientWithAQuarterOfASecondOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		relay, up := wayUp(t, Config{Faults: Faults{Rate: 8000}}, func([]byte) { at = append(at, time.Since(begun)) })
		stop := releasing(t, up)
		for _, f := range []*flow{{}, {}} {
			for range 5 {
				up.take(f, make([]byte, 72), time.Now()) // 100 bytes with the headers: 100 ms
			}
		}
		time.Sleep(time.Second)
		stop()
		slices.Sort(at)
		if !slices.Equal(at, []time.Duration{0, 0, 100e6, 100e6, 200e6, 200e6}) {
			t.Errorf("sent at %v", at)
		}
		if c := up.counts(); c != (Counts{Passed: 6, OverRate: 4}) {
			t.Errorf("%+v", c)
		}
		if relay.down.faults.rate != 0 {
			t.Error("the way to the clients has a rate, too")
		}
	})
}

func TestFaultsComeAndGo(t *testing.T) {
	sent := 0
	relay, up := wayUp(t, Config{Faults: Faults{Duplicate: 1}}, func([]byte) { sent++ })
	for _, step := range []struct {
		faults Faults
		sent   int
		up     Counts
	}{
		{Faults{Duplicate: 1}, 2, Counts{Passed: 1, Duplicated: 1}},
		{Faults{Down: true}, 2, Counts{Passed: 1, Duplicated: 1, Lost: 1}},
		{Faults{LossDown: 1}, 3, Counts{Passed: 2, Duplicated: 1, Lost: 1}},
		{Faults{LossUp: 1}, 3, Counts{Passed: 2, Duplicated: 1, Lost: 2}},
		{Faults{}, 4, Counts{Passed: 3, Duplicated: 1, Lost: 2}},
	} {
		if err := relay.Set(step.faults); err != nil {
			t.Fatal(err)
		}
		up.take(&flow{}, []byte{1}, time.Time{})
		if up.counts() != step.up || sent != step.sent {
			t.Errorf("with %+v: %+v, %d sent; want %+v, %d", step.faults, up.counts(), sent, step.up, step.sent)
		}
	}
	if relay.Set(Faults{LossUp: 2}) == nil || up.faults.loss != 0 {
		t.Error("nonsense is put in force")
	}
}
