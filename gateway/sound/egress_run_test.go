package sound

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"

	"sightline/switcher"
)

var _ switcher.Speaker = (*Egress)(nil)

// tape records packets with their times.
type tape struct {
	mu      sync.Mutex
	packets []sent
}

func (r *tape) write(p *rtp.Packet) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packets = append(r.packets, sent{rtp.Packet{Header: p.Header, Payload: append([]byte(nil), p.Payload...)}, time.Now()})
	return nil
}

func (r *tape) all() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sent(nil), r.packets...)
}

// running is an Egress under its Run, inside a bubble of synctest.
func running(t *testing.T, cfg EgressConfig) (e *Egress, r *tape, stop func()) {
	t.Helper()
	e, err := NewEgress(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r = &tape{}
	e.SetWriter(r.write)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestRunPlaysOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r, stop := running(t, EgressConfig{})
		defer stop()
		id := turnOf(1, "a")
		begun := time.Now()
		if err := e.Play(t.Context(), id, 24000, tone(440, 24000, time.Second)); err != nil {
			t.Fatal(err)
		}
		e.EndTurn(id)
		var reports []switcher.HeardTurn
		for h := range e.Heard() {
			reports = append(reports, h)
			if h.Done {
				break
			}
		}
		if d := time.Since(begun); d != 980*ms { // the fiftieth packet goes out then
			t.Errorf("done after %v", d)
		}
		if n := len(reports); n < 10 || n > 12 || reports[n-1].Played != time.Second || !reports[0].Started.Equal(begun) {
			t.Errorf("%d reports, %+v", n, reports)
		}
		time.Sleep(time.Second)
		packets := r.all()
		listen(t, packets)
		for i, p := range packets {
			if d := p.at.Sub(begun); d != time.Duration(i)*20*ms {
				t.Fatalf("packet %d at %v", i, d)
			}
		}
		if st := e.Stats(); st.Packets != 51 || st.MaxLate != 0 || st.LateAtMost(0.99) != ms || !st.Connected || st.OpenTurns != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestG12PlayWaitsWhileTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, stop := running(t, EgressConfig{Queue: time.Second})
		defer stop()
		begun := time.Now()
		if err := e.Play(t.Context(), turnOf(1, "a"), 16000, tone(440, 16000, 5*time.Second)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < 3900*ms || d > 4100*ms {
			t.Errorf("five seconds went into a queue of one within %v", d)
		}
		// Until its context ends, and a second one that waits for its turn too.
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		var wg sync.WaitGroup
		for _, item := range []string{"b", "c"} {
			wg.Go(func() {
				if err := e.Play(ctx, turnOf(1, item), 16000, tone(440, 16000, 5*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", item, err)
				}
			})
		}
		wg.Wait()
		// Until Stop: what was to come is late then.
		wg.Go(func() {
			if err := e.Play(t.Context(), turnOf(1, "d"), 16000, tone(440, 16000, 10*time.Second)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		before := time.Now()
		e.Stop()
		wg.Wait()
		if time.Since(before) != 0 || e.Stats().Queued != 0 || e.Stats().LateSound == 0 {
			t.Errorf("after Stop: %v, %+v", time.Since(before), e.Stats())
		}
	})
}

func TestStopIsHeardWithinOnePacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r, stop := running(t, EgressConfig{})
		defer stop()
		if err := e.Play(t.Context(), turnOf(1, "a"), 24000, tone(440, 24000, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1234 * ms)
		before := len(r.all())
		heard := e.Stop()
		at := time.Now()
		time.Sleep(time.Second)
		packets := r.all()
		if len(heard) != 1 || heard[0].Played != time.Duration(before)*20*ms || len(packets) != before+1 || packets[before].at.Sub(at) > 20*ms {
			t.Errorf("heard %+v, %d packets before and %d after", heard, before, len(packets)-before)
		}
		if again := e.Stop(); len(again) != 0 {
			t.Errorf("stopped twice: %+v", again)
		}
	})
}

func TestG5CommitEndsOlderEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r, stop := running(t, EgressConfig{})
		defer stop()
		old, young := turnOf(3, "old"), turnOf(4, "young")
		if err := e.Play(t.Context(), old, 24000, tone(440, 24000, 2*time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(410 * ms)
		heard := e.Commit(4)
		if len(heard) != 1 || heard[0].TurnID != old || !heard[0].Stopped || heard[0].Played != 420*ms {
			t.Errorf("heard %+v", heard)
		}
		if again := e.Commit(4); again != nil {
			t.Errorf("a second commit stopped %+v", again)
		}
		for _, id := range []switcher.TurnID{old, turnOf(3, "another"), young} {
			if err := e.Play(t.Context(), id, 24000, tone(880, 24000, 400*ms)); err != nil {
				t.Fatal(err)
			}
		}
		e.EndTurn(turnOf(3, "another"))
		e.EndTurn(young)
		for h := range e.Heard() {
			if h.TurnID == young && h.Done {
				break
			}
			if h.Epoch != 4 && h.Started.After(time.Now().Add(-ms)) {
				t.Errorf("%+v", h)
			}
		}
		time.Sleep(time.Second)
		line := listen(t, r.all())
		if a, b := strength(440, at(line, 460, 820)), strength(880, at(line, 460, 820)); a > 200 || b < 9000 || len(line) > 48*900 {
			t.Errorf("of the old leg %.0f, of the new one %.0f, %d ms", a, b, len(line)/48)
		}
		if st := e.Stats(); st.LateSound != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestANewPublisherHearsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, first, stop := running(t, EgressConfig{})
		defer stop()
		if err := e.Play(t.Context(), turnOf(1, "a"), 24000, tone(440, 24000, 2*time.Second)); err != nil {
			t.Fatal(err)
		}
		e.EndTurn(turnOf(1, "a"))
		time.Sleep(1010 * ms)
		e.SetWriter(nil)
		time.Sleep(7 * time.Second)
		second := &tape{}
		e.SetWriter(second.write)
		time.Sleep(3 * time.Second)
		a, b := first.all(), second.all()
		if len(a) != 51 || len(b) != 50 || !b[0].Marker || e.Stats().Played != 2*time.Second {
			t.Fatalf("%d packets, then %d, %+v", len(a), len(b), e.Stats())
		}
		if jump := b[0].Timestamp - a[0].Timestamp; jump != 8010*48 || b[0].SequenceNumber != a[50].SequenceNumber+1 || b[0].SSRC != a[0].SSRC {
			t.Errorf("a jump of %d ticks, seq %d after %d", jump, b[0].SequenceNumber, a[50].SequenceNumber)
		}
		if s := strength(440, at(listen(t, b), 20, 900)); s < 9000 {
			t.Errorf("the new publisher hears %.0f", s)
		}
	})
}

func TestG13NothingIsLeftAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, stop := running(t, EgressConfig{Queue: time.Second})
		var wg sync.WaitGroup
		for range 3 { // one waits for room, two for their turn
			wg.Go(func() {
				if err := e.Play(t.Context(), turnOf(1, "a"), 24000, tone(440, 24000, 5*time.Second)); !errors.Is(err, ErrEgressOver) {
					t.Errorf("Play: %v", err)
				}
			})
		}
		time.Sleep(100 * ms)
		stop()
		wg.Wait()
		if e.p.enc != nil {
			t.Error("the encoder is still there")
		}
		if err := e.Play(t.Context(), turnOf(1, "b"), 24000, make([]int16, 480)); !errors.Is(err, ErrEgressOver) {
			t.Errorf("Play: %v", err)
		}
		e.EndTurn(turnOf(1, "b")) // these do no harm
		e.Stop()
		e.SetWriter(nil)
		e.Commit(9)
	})
}

func TestConfigErrorsSayWhatIsAllowed(t *testing.T) {
	for words, cfg := range map[string]EgressConfig{
		"must be 1s to 10m":      {Queue: time.Millisecond},
		"must be 6000 to 128000": {Bitrate: 1},
		"must be at most 100":    {ExpectedLoss: 101},
	} {
		if _, err := NewEgress(cfg); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	e, err := NewEgress(EgressConfig{ExpectedLoss: -1})
	if err != nil || e.p.loss != 0 {
		t.Errorf("no FEC: %v", err)
	}
	if err := e.Play(t.Context(), turnOf(1, "a"), 44101, make([]int16, 10)); err == nil || !strings.Contains(err.Error(), "multiples of 25") {
		t.Errorf("rate: %v", err)
	}
}

// Many hands at once; the race detector and the invariants of listen judge.
func TestManyHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r, stop := running(t, EgressConfig{Queue: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id := turnOf(uint64(n/5), string(rune('a'+i))+string(rune('0'+n%10)))
					_ = e.Play(ctx, id, []int{8000, 16000, 22050, 24000, 44100, 48000}[n%6], tone(440, 8000, time.Duration(n%7)*50*ms)) // ends with ctx
					e.EndTurn(id)
					time.Sleep(time.Duration(n%5) * 13 * ms)
				}
			})
		}
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				time.Sleep(time.Duration(37+n%400) * ms)
				switch n % 3 {
				case 0:
					e.Stop()
				case 1:
					e.SetWriter(nil)
					time.Sleep(50 * ms)
					e.SetWriter(r.write)
				case 2:
					e.Stats()
				}
			}
		})
		var ended []switcher.TurnID
		wg.Go(func() {
			for {
				select {
				case h := <-e.Heard():
					if slices.Contains(ended, h.TurnID) {
						t.Errorf("%+v after its end", h)
					}
					if h.Done || h.Stopped {
						ended = append(ended, h.TurnID)
					}
				case <-ctx.Done():
					return
				}
			}
		})
		time.Sleep(20 * time.Second)
		cancel()
		wg.Wait()
		stop()
		packets := r.all()
		listen(t, packets)
		if len(packets) < 100 || len(ended) < 5 {
			t.Errorf("%d packets, %d turns ended", len(packets), len(ended))
		}
		for i, p := range packets[1:] {
			clock := time.Duration(p.Timestamp-packets[0].Timestamp) * time.Second / 48000
			if d := p.at.Sub(packets[0].at) - clock; d.Abs() > 20*ms {
				t.Fatalf("packet %d: clock and timestamp %v apart", i+1, d)
			}
		}
	})
}
