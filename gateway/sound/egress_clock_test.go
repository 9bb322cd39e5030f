package sound

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

func TestTimestampsFollowTheClockAcrossSilence(t *testing.T) {
	s := newStage(t)
	first := s.p.packet.SequenceNumber
	s.play(turnOf(1, "a"), 24000, tone(440, 24000, 100*ms))
	s.p.end(turnOf(1, "a"))
	s.wait(1234567*time.Microsecond, nil)
	s.play(turnOf(1, "b"), 24000, tone(440, 24000, 100*ms))
	s.p.end(turnOf(1, "b"))
	s.wait(time.Second, nil)
	line := s.listen()
	if len(s.packets) != 12 || s.packets[0].SequenceNumber != first { // five each, and one that empties the encoder
		t.Fatalf("%d packets", len(s.packets))
	}
	if got := s.packets[6].Timestamp - s.packets[0].Timestamp; got != 1234567*48/1000 {
		t.Errorf("the second spurt is %d ticks after the first, want %d", got, 1234567*48/1000)
	}
	for i, p := range s.packets {
		if p.Marker != (i == 0 || i == 6) {
			t.Errorf("packet %d: marker %v", i, p.Marker)
		}
	}
	if a := strength(440, at(line, 20, 100)); a < 9000 {
		t.Errorf("amplitude %.0f", a)
	}
}

func TestTenMinutesWithoutDrift(t *testing.T) {
	s := newStage(t)
	random := rand.New(rand.NewPCG(1, 2))
	late := func() time.Duration { return time.Duration(random.IntN(15000)) * time.Microsecond }
	id, piece := turnOf(1, "long"), tone(440, 8000, 500*ms)
	for range 2 * 60 * 10 {
		s.play(id, 8000, piece)
		s.wait(500*ms, late)
	}
	s.p.end(id)
	s.wait(time.Second, nil)
	worst := time.Duration(0)
	for _, p := range s.packets {
		clock := time.Duration(p.Timestamp-s.packets[0].Timestamp) * time.Second / opus.ClockRate
		worst = max(worst, (p.at.Sub(s.packets[0].at) - clock).Abs())
	}
	t.Logf("%d packets, timestamps and clock at most %v apart", len(s.packets), worst)
	if st := s.p.stats; worst > 20*ms || st.Played != 10*time.Minute || st.Underruns != 0 || st.SkippedSlots != 0 {
		t.Errorf("apart %v, %+v", worst, st)
	}
}

func TestStopFadesWithinOnePacket(t *testing.T) {
	s := newStage(t)
	s.play(turnOf(1, "a"), 24000, tone(440, 24000, 2*time.Second))
	s.play(turnOf(1, "b"), 24000, tone(880, 24000, 2*time.Second))
	s.wait(509*ms, nil)
	sentBefore := len(s.packets)
	heard := s.p.stop()
	s.wait(time.Second, nil)
	if len(heard) != 2 || !heard[0].Stopped || heard[0].Done || heard[0].Played != 520*ms || heard[0].Started != s.begun ||
		!heard[1].Stopped || heard[1].Played != 0 || !heard[1].Started.IsZero() {
		t.Errorf("heard %+v", heard)
	}
	if len(s.packets) != sentBefore+1 || s.packets[sentBefore].at.Sub(s.begun) != 520*ms {
		t.Fatalf("%d packets after Stop", len(s.packets)-sentBefore)
	}
	line := s.listen()
	whole, faded, rest := loudness(at(line, 480, 520)), loudness(at(line, 520, 530)), loudness(at(line, 538, 540))
	if faded < whole/10 || faded > whole || rest > whole/50 || strength(880, line) > 50 {
		t.Errorf("loudness %.0f, in the fade %.0f, at its end %.0f", whole, faded, rest)
	}
	// No sample of the fade's packet jumps more than the tone itself does.
	for i := 520*48 + 1; i < len(line); i++ {
		if step := math.Abs(float64(line[i]) - float64(line[i-1])); step > 1500 {
			t.Fatalf("a click of %.0f at %.1f ms", step, float64(i)/48)
		}
	}
	if r := s.heard(); len(r) != 0 {
		t.Errorf("reports of stopped turns are left: %+v", r)
	}
	if st := s.p.stats; st.StoppedTime < 3*time.Second || s.p.queue.n != 0 {
		t.Errorf("%+v", st)
	}
}

func TestG5LateSoundOfWhatIsOverIsDropped(t *testing.T) {
	s := newStage(t)
	sound := tone(440, 16000, 200*ms)
	s.play(turnOf(1, "stopped"), 16000, sound)
	s.wait(50*ms, nil)
	s.p.stop()
	s.play(turnOf(1, "stopped"), 16000, sound)
	s.p.end(turnOf(1, "stopped"))
	s.play(turnOf(1, "next"), 16000, sound)
	s.p.end(turnOf(1, "next"))
	s.play(turnOf(1, "next"), 16000, sound)
	s.wait(time.Second, nil)
	played := s.p.stats.Played
	if played != 60*ms+200*ms || s.p.stats.LateSound != 2 || s.p.stats.LateTime != 400*ms {
		t.Errorf("played %v, %+v", played, s.p.stats)
	}
	s.heard()
	// An epoch's first sound ends the older one.
	s.play(turnOf(1, "old"), 16000, tone(440, 16000, 5*time.Second))
	s.wait(500*ms, nil)
	before := len(s.packets)
	s.play(turnOf(2, "new"), 16000, tone(880, 16000, 500*ms))
	s.play(turnOf(1, "old"), 16000, sound)
	s.play(turnOf(1, "older still"), 16000, sound)
	s.p.end(turnOf(1, "unheard of"))
	s.p.end(turnOf(2, "new"))
	s.wait(time.Second, nil)
	reports := s.heard()
	if n := len(reports); n < 3 || !reports[0].Stopped || reports[0].Item != "old" || !reports[n-1].Done || reports[n-1].Played != 500*ms || s.p.stats.LateSound != 4 {
		t.Errorf("%+v, %+v", reports, s.p.stats)
	}
	for _, r := range reports[1:] {
		if r.Epoch != 2 {
			t.Errorf("%+v is reported after its end", r)
		}
	}
	line := s.listen()
	from := int(s.packets[before].Timestamp-s.packets[0].Timestamp) / 48 // the fade's packet
	if a, b := strength(440, at(line, from+22, from+700)), strength(880, at(line, from+50, from+500)); a > 100 || b < 9000 {
		t.Errorf("of the old epoch %.0f after the fade, of the new one %.0f", a, b)
	}
}

// From one turn to the next, of another leg and at another rate too: packet after packet, no gap, no overlap.
func TestG5TurnsMeetBetweenTwoPackets(t *testing.T) {
	for _, c := range []struct {
		rateA, rateB int
		lengthA      time.Duration
		silence      int // ms that may lie between: the rest of a packet, and one that empties the old encoder
	}{
		{24000, 24000, 400 * ms, 0}, {24000, 24000, 391 * ms, 20}, {24000, 16000, 400 * ms, 20}, {22050, 24000, 390 * ms, 20}, {48000, 44100, 399 * ms, 40},
	} {
		s := newStage(t)
		s.play(turnOf(1, "a"), c.rateA, tone(500, c.rateA, c.lengthA))
		s.p.end(turnOf(1, "a"))
		s.play(turnOf(1, "b"), c.rateB, tone(1500, c.rateB, 400*ms))
		s.p.end(turnOf(1, "b"))
		s.wait(2*time.Second, nil)
		line := s.listen()
		for i := 1; i < len(s.packets); i++ {
			if s.packets[i].Timestamp-s.packets[i-1].Timestamp != slotTicks {
				t.Errorf("%+v: a gap at packet %d", c, i)
			}
		}
		endA := int(c.lengthA / ms)
		startB := endA + c.silence
		if a, b := strength(500, at(line, 20, endA)), strength(1500, at(line, 20, endA)); a < 9000 || b > 300 {
			t.Errorf("%+v: in the first turn %.0f of it, %.0f of the second", c, a, b)
		}
		if a, b := strength(500, at(line, startB+20, startB+390)), strength(1500, at(line, startB+20, startB+390)); a > 300 || b < 9000 {
			t.Errorf("%+v: in the second turn %.0f of the first, %.0f of it", c, a, b)
		}
		if d := s.p.stats.Played; (d - c.lengthA - 400*ms).Abs() > ms {
			t.Errorf("%+v: played %v", c, d)
		}
		var done []string
		for _, r := range s.heard() {
			if r.Done {
				done = append(done, r.Item)
			}
		}
		if len(done) != 2 || done[0] != "a" || done[1] != "b" {
			t.Errorf("%+v: done %v", c, done)
		}
	}
}

func TestSoundAFewMillisecondsLateKeepsItsSlot(t *testing.T) {
	s := newStage(t)
	id, piece := turnOf(1, "live"), tone(440, 16000, 20*ms)
	s.play(id, 16000, piece)
	s.wait(20*ms, nil) // the cushion: no second piece came
	for range 50 {
		s.wait(17*ms, nil)
		s.play(id, 16000, piece)
		s.wait(3*ms, nil)
	}
	s.p.end(id)
	s.wait(100*ms, nil)
	s.listen()
	for i, p := range s.packets {
		if p.Marker != (i == 0) {
			t.Errorf("packet %d: marker %v", i, p.Marker)
		}
	}
	if st := s.p.stats; st.Underruns != 0 || st.Played != 51*20*ms || st.MaxLate != 0 {
		t.Errorf("%+v", st)
	}
}

func TestUnderrunIsCountedOnceItGoesOn(t *testing.T) {
	s := newStage(t)
	id := turnOf(1, "slow")
	s.play(id, 16000, tone(440, 16000, 110*ms)) // five packets and a half
	s.wait(500*ms, nil)
	if s.p.stats.Underruns != 0 || s.p.stats.Played != 110*ms {
		t.Errorf("nothing is missing before more comes: %+v", s.p.stats)
	}
	s.play(id, 16000, tone(440, 16000, 100*ms))
	s.p.end(id)
	s.wait(500*ms, nil)
	s.listen()
	if st := s.p.stats; st.Underruns != 1 || st.Played != 210*ms {
		t.Errorf("%+v", st)
	}
	// A turn whose end is told late is none.
	s.play(turnOf(1, "b"), 16000, tone(440, 16000, 100*ms))
	s.wait(time.Second, nil)
	s.p.end(turnOf(1, "b"))
	s.wait(time.Second, nil)
	if r := s.heard(); s.p.stats.Underruns != 1 || !r[len(r)-1].Done {
		t.Errorf("%+v, %+v", s.p.stats, r)
	}
}

// The end of a sound that nobody tells to be one is heard a little later, at the start of a spurt too.
func TestLessThanAPacketIsHeard(t *testing.T) {
	s := newStage(t)
	s.play(turnOf(1, "a"), 16000, tone(440, 16000, 5*ms))
	s.wait(100*ms, nil)
	if len(s.packets) == 0 || s.packets[0].at.Sub(s.begun) != cushion+grace || s.p.stats.Played != 5*ms {
		t.Errorf("%d packets, %+v", len(s.packets), s.p.stats)
	}
	s.p.end(turnOf(1, "a"))
	s.wait(100*ms, nil)
	if r := s.heard(); len(r) != 2 || !r[1].Done || s.p.stats.Underruns != 0 {
		t.Errorf("%+v, %+v", r, s.p.stats)
	}
	s.listen()
}

func TestLateClockCatchesUpByThreePacketsAtMost(t *testing.T) {
	s := newStage(t)
	s.play(turnOf(1, "a"), 16000, tone(440, 16000, 2*time.Second))
	s.wait(100*ms, nil)
	for _, c := range []struct {
		stall         time.Duration
		sent, skipped int
	}{{45 * ms, 3, 0}, {59 * ms, 3, 0}, {200 * ms, 3, 8}} {
		s.wait(s.p.slot.Sub(s.now)-1, nil)
		before, skipped := len(s.packets), s.p.stats.SkippedSlots
		s.now = s.p.slot.Add(c.stall)
		s.step()
		if n := len(s.packets) - before; n != c.sent && c.stall > 40*ms || int(s.p.stats.SkippedSlots-skipped) != c.skipped {
			t.Errorf("after %v: %d packets at once, %d slots given up", c.stall, n, s.p.stats.SkippedSlots-skipped)
		}
	}
	s.p.end(turnOf(1, "a"))
	s.wait(3*time.Second, nil)
	s.listen()
	last := s.packets[len(s.packets)-1]
	clock := time.Duration(last.Timestamp-s.packets[0].Timestamp) * time.Second / opus.ClockRate
	if d := last.at.Sub(s.packets[0].at) - clock; d.Abs() > 20*ms || s.p.stats.Played != 2*time.Second {
		t.Errorf("clock and timestamps %v apart, %+v", d, s.p.stats)
	}
	if s.p.stats.MaxLate != 200*ms || s.p.stats.Late[len(lateBounds)] != 1 {
		t.Errorf("lateness %+v", s.p.stats)
	}
}

func TestNothingIsHeardWithoutAWriter(t *testing.T) {
	s := newStage(t)
	s.play(turnOf(1, "a"), 16000, tone(440, 16000, time.Second))
	s.wait(199*ms, nil)
	s.p.write = nil
	s.wait(3*time.Second, nil)
	if s.p.stats.Played != 200*ms || !s.p.wake().IsZero() {
		t.Errorf("%+v", s.p.stats)
	}
	s.p.write, s.p.fresh = s.write, true
	s.p.end(turnOf(1, "a"))
	s.wait(90*ms, nil)
	s.refuse = errors.New("no connection")
	s.wait(500*ms, nil)
	if s.p.stats.Played != 300*ms || s.p.stats.WriteErrors < 20 {
		t.Errorf("%+v", s.p.stats)
	}
	s.refuse = nil
	s.wait(2*time.Second, nil)
	if line := s.listen(); s.p.stats.Played != time.Second || len(line) < 48*4500 {
		t.Errorf("%+v", s.p.stats)
	}
	if r := s.heard(); !r[len(r)-1].Done || r[len(r)-1].Played != time.Second {
		t.Errorf("%+v", r)
	}
}

func TestG8ReportsAreFirstProgressAndEnd(t *testing.T) {
	s := newStage(t)
	s.p.end(turnOf(1, "silent"))
	s.play(turnOf(1, "a"), 24000, tone(440, 24000, 1010*ms))
	s.p.end(turnOf(1, "a"))
	s.p.end(turnOf(1, "silent too"))
	var all []switcher.HeardTurn
	for range 150 {
		s.wait(10*ms, nil)
		all = append(all, s.heard()...)
	}
	if len(all) < 5 || all[0].Item != "silent" || !all[0].Done || !all[0].Started.IsZero() || all[1].Item != "a" || all[1].Played != 20*ms ||
		!all[1].Started.Equal(s.begun) || all[1].Done {
		t.Fatalf("%+v", all)
	}
	end := all[len(all)-2]
	if !end.Done || end.Played != 1010*ms || all[len(all)-1].Item != "silent too" {
		t.Errorf("%+v", all[len(all)-2:])
	}
	progress := all[2 : len(all)-2]
	for i, r := range progress {
		if r.Done || r.Stopped || i > 0 && r.Played-progress[i-1].Played < 100*ms {
			t.Errorf("progress %+v after %+v", r, progress[max(i-1, 0)])
		}
	}
	if len(progress) < 9 || len(progress) > 10 {
		t.Errorf("%d reports of progress in a second", len(progress))
	}
	// Nobody reads: one report of progress waits, not ten.
	s.play(turnOf(1, "b"), 24000, tone(440, 24000, time.Second))
	s.wait(900*ms, nil)
	if r := s.heard(); len(r) != 2 || r[1].Played < 800*ms {
		t.Errorf("%+v", r)
	}
}

func TestG12EverythingIsBounded(t *testing.T) {
	s := newStage(t)
	s.p.write = nil
	pcm := tone(440, 48000, time.Second)
	for i := range 40 {
		n, err := s.p.push(s.now, turnOf(1, "a"), 48000, pcm)
		if full := i >= 30; err != nil || full != (n == 0) {
			t.Fatalf("second %d: %d samples taken, %v", i, n, err)
		}
	}
	if cap(s.p.queue.ring) > 48000*31*2 {
		t.Errorf("a ring of %d samples", cap(s.p.queue.ring))
	}
	s.p.stop()
	if len(s.p.queue.ring) > keepRing {
		t.Errorf("an empty queue keeps %d samples", len(s.p.queue.ring))
	}
	for i := range 5000 {
		id := turnOf(1, strconv.Itoa(i))
		if _, err := s.p.push(s.now, id, 8000, pcm[:8]); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			s.p.end(id)
		}
		s.p.end(turnOf(1, strconv.Itoa(-i)))
	}
	if len(s.p.turns) > maxTurns || len(s.p.over) > maxOver || len(s.p.reports) > maxReports {
		t.Errorf("%d turns, %d over, %d reports", len(s.p.turns), len(s.p.over), len(s.p.reports))
	}
	for _, rate := range []int{0, -1, 7999, 48001, 44101, 96000} {
		if _, err := s.p.push(s.now, turnOf(1, "x"), rate, pcm); err == nil {
			t.Errorf("%d Hz taken", rate)
		}
	}
}

func TestOneAllocationAPacketAtMost(t *testing.T) {
	s := newStage(t)
	s.p.write = func(*rtp.Packet) error { return nil }
	id, piece := turnOf(1, "a"), tone(440, 24000, 20*ms)
	tick := func() {
		s.play(id, 24000, piece)
		s.wait(20*ms, nil)
		s.p.reports = s.p.reports[:0]
	}
	for range 100 {
		tick()
	}
	if n := testing.AllocsPerRun(500, tick); n > 1 {
		t.Errorf("%v allocations a packet", n)
	}
}

func BenchmarkEgressPacket(b *testing.B) {
	s := newStage(b)
	s.p.write = func(*rtp.Packet) error { return nil }
	id, piece := turnOf(1, "a"), tone(440, 24000, 20*ms)
	b.ReportAllocs()
	for b.Loop() {
		s.play(id, 24000, piece)
		s.wait(20*ms, nil)
		s.p.reports = s.p.reports[:0]
	}
}
