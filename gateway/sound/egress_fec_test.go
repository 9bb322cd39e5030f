package sound

import (
	"math"
	"testing"
	"time"

	"sightline/gateway/sound/internal/opus"
)

// FEC is made for what is lost: by the setting until there is a report, at once when packets are lost, and ever less when none are.
func TestFECFollowsWhatIsLost(t *testing.T) {
	s := newStage(t)
	speech := jfk(t)
	second := speech[samples(500*time.Millisecond):samples(1500*time.Millisecond)]
	with := func() (n int) {
		t.Helper()
		from := len(s.packets)
		s.play(turnOf(1, "a"), 16000, second)
		s.wait(990*ms, nil)
		for _, p := range s.packets[from:] {
			if opus.HasFEC(p.Payload) {
				n++
			}
		}
		if sent := len(s.packets) - from; sent < 40 {
			t.Fatalf("%d packets of a second", sent)
		}
		return n
	}
	if n := with(); n < 20 {
		t.Errorf("%d packets with FEC before any report", n)
	}
	for range 10 {
		s.p.lost(0)
	}
	with() // what was queued may have it
	if n := with(); n != 0 || s.p.loss != 0 {
		t.Errorf("%d packets with FEC where nothing is lost; made for %d %%", n, s.p.loss)
	}
	s.p.lost(0.075)
	if n := with(); n < 20 || s.p.loss != 8 {
		t.Errorf("%d packets with FEC where 7.5 %% are lost; made for %d %%", n, s.p.loss)
	}
	s.p.lost(0)
	if s.p.loss != 6 {
		t.Errorf("made for %d %% after 8 %% and then nothing was lost", s.p.loss)
	}
	for _, share := range []float64{math.NaN(), -3, 17} {
		s.p.lost(share)
	}
	if s.p.loss != 100 {
		t.Errorf("made for %d %% where more than all is said to be lost", s.p.loss)
	}
	s.listen()
	never, err := NewEgress(EgressConfig{ExpectedLoss: -1})
	if err != nil {
		t.Fatal(err)
	}
	if never.Lost(0.5); never.p.loss != 0 {
		t.Error("FEC where none was wanted")
	}
}
