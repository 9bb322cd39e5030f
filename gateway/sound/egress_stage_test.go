package sound

import (
	"math"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

// stage is a playout with a clock of its own and a recorder behind it.
type stage struct {
	t       testing.TB
	p       *playout
	now     time.Time
	begun   time.Time
	packets []sent
	refuse  error // what the writer answers
}

type sent struct {
	rtp.Packet
	at time.Time
}

func newStage(t testing.TB) *stage {
	t.Helper()
	e, err := NewEgress(EgressConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, p: &e.p, now: time.Unix(1e9, 0)}
	s.begun = s.now
	s.p.write = s.write
	t.Cleanup(s.p.close)
	return s
}

func (s *stage) write(p *rtp.Packet) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.packets = append(s.packets, sent{rtp.Packet{Header: p.Header, Payload: append([]byte(nil), p.Payload...)}, s.now})
	return nil
}

// wait lets time pass, waking the clock when it asks for it, late by lateness().
func (s *stage) wait(d time.Duration, lateness func() time.Duration) {
	s.t.Helper()
	end := s.now.Add(d)
	for idle := 0; ; idle++ {
		sent := len(s.packets)
		s.step()
		next := s.p.wake()
		if len(s.packets) > sent || next.After(s.now) {
			idle = 0
		}
		if idle > 2 {
			s.t.Fatal("the clock wakes for nothing again and again")
		}
		if next.IsZero() || next.After(end) {
			s.now = end
			return
		}
		if lateness != nil {
			next = next.Add(lateness())
		}
		if next.After(s.now) {
			s.now = next
		}
	}
}

func (s *stage) step() {
	s.t.Helper()
	if err := s.p.step(s.now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) play(id switcher.TurnID, rate int, pcm []int16) {
	s.t.Helper()
	for len(pcm) > 0 {
		n, err := s.p.push(s.now, id, rate, pcm)
		if err != nil || n == 0 {
			s.t.Fatalf("%d of %d samples queued, %v", n, len(pcm), err)
		}
		pcm = pcm[n:]
	}
}

// heard takes the reports that wait.
func (s *stage) heard() []switcher.HeardTurn {
	var all []switcher.HeardTurn
	for _, r := range s.p.reports {
		all = append(all, r.HeardTurn)
	}
	s.p.reports = nil
	return all
}

// listen decodes what was sent onto one time line at 48 kHz, silence where nothing was sent, and checks what must hold of
// every stream: sequence numbers without gap, no packet over another, markers exactly where timestamps jump.
func (s *stage) listen() []int16 {
	s.t.Helper()
	return listen(s.t, s.packets)
}

func listen(t testing.TB, packets []sent) []int16 {
	t.Helper()
	d, err := opus.NewDecoder(opus.ClockRate)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var line []int16
	pcm := make([]int16, opus.MaxSamples)
	for i, p := range packets {
		n, err := d.Decode(p.Payload, pcm)
		if err != nil || n != slotTicks {
			t.Fatalf("packet %d: %d samples, %v", i, n, err)
		}
		if i == 0 {
			if !p.Marker {
				t.Error("the first packet has no marker")
			}
			line = append(line, pcm[:n]...)
			continue
		}
		gap := int32(p.Timestamp - packets[i-1].Timestamp - slotTicks)
		if gap < 0 || p.SequenceNumber != packets[i-1].SequenceNumber+1 || p.SSRC != packets[0].SSRC {
			t.Fatalf("packet %d: seq %d after %d, %d ticks after the end of the one before", i, p.SequenceNumber, packets[i-1].SequenceNumber, gap)
		}
		if gap > 0 && !p.Marker {
			t.Errorf("packet %d: a jump of %d ticks without marker", i, gap)
		}
		line = append(append(line, make([]int16, gap)...), pcm[:n]...)
	}
	return line
}

func tone(hz float64, rate int, d time.Duration) []int16 {
	pcm := make([]int16, int(int64(rate)*int64(d)/int64(time.Second)))
	for i := range pcm {
		pcm[i] = int16(12000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return pcm
}

// strength is the amplitude of one tone in a sound at 48 kHz.
func strength(hz float64, pcm []int16) float64 {
	var re, im float64
	for i, s := range pcm {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / opus.ClockRate)
		re, im = re+cos*float64(s), im+sin*float64(s)
	}
	return 2 * math.Hypot(re, im) / float64(max(len(pcm), 1))
}

func loudness(pcm []int16) float64 {
	var sum float64
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return math.Sqrt(sum / float64(max(len(pcm), 1)))
}

// at cuts milliseconds out of a sound at 48 kHz.
func at(line []int16, from, to int) []int16 {
	return line[min(len(line), from*48):min(len(line), to*48)]
}

func turnOf(epoch uint64, item string) switcher.TurnID {
	return switcher.TurnID{Epoch: epoch, Item: item}
}

const ms = time.Millisecond
