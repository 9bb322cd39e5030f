package sound

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pion/rtp"
)

// line is a jitter buffer played each 20 ms, with the packets that are on their way to it. Packets are CELT ones (one frame
// of 2.5 to 20 ms), so that their length is in their first byte.
type line struct {
	t      *testing.T
	jitter *jitter
	now    time.Time
	length int // ticks rendered and not given
	seq    uint16
	ts     uint32
	ssrc   uint32
	way    []onTheWay

	steps []step // all
}

type onTheWay struct {
	packet *rtp.Packet
	at     time.Time
}

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newLine(t *testing.T) *line {
	return &line{t: t, jitter: newJitter(30*time.Millisecond, 80*time.Millisecond), now: dawn, seq: 65500, ts: 4_294_900_000, ssrc: 1}
}

// celt is a packet of so many ticks: 120, 240, 480, 960.
func celt(ticks int) []byte {
	config := map[int]byte{120: 28, 240: 29, 480: 30, 960: 31}[ticks]
	return []byte{config << 3, 1, 2}
}

// send puts the next packet of ticks on its way; it arrives delay after the present moment of the line.
func (l *line) send(ticks int, delay time.Duration) *rtp.Packet {
	p := &rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: 111, SSRC: l.ssrc, SequenceNumber: l.seq, Timestamp: l.ts}, Payload: celt(ticks)}
	l.seq++
	l.ts += uint32(ticks)
	if delay >= 0 {
		l.way = append(l.way, onTheWay{p, l.now.Add(delay)})
	}
	return p
}

// play lets 20 ms pass: what arrives in them is pushed, and a frame is given at their end.
func (l *line) play() {
	l.t.Helper()
	end := l.now.Add(FrameTime)
	var rest, due []onTheWay
	for _, w := range l.way {
		if w.at.After(end) {
			rest = append(rest, w)
		} else {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b onTheWay) int { return a.at.Compare(b.at) })
	for _, w := range due {
		l.jitter.push(w.packet, w.at)
	}
	l.way = rest
	l.now = end
	for l.length < opusFrame {
		want := opusFrame - l.length
		st := l.jitter.next(l.now.Add(span(int64(l.length))), want)
		if st.ticks <= 0 || st.ticks > maxTicks || st.ticks%grain != 0 || st.kind == stepSilence && st.ticks > want {
			l.t.Fatalf("step of %d ticks, %d wanted: %+v", st.ticks, want, st)
		}
		if st.kind != stepPacket && st.kind != stepSilence && st.ticks%concealUnit != 0 {
			l.t.Fatalf("%d ticks cannot be made up", st.ticks)
		}
		l.steps = append(l.steps, st)
		l.length += st.ticks
		if st.kind == stepPacket && st.excess > 0 { // as a quiet packet would be
			l.length -= min(down(st.excess, grain), st.ticks)
		}
	}
	l.length -= opusFrame
	l.check()
}

func (l *line) check() {
	l.t.Helper()
	c, j := l.jitter.counts, l.jitter
	if held := 0; true {
		for i := range j.ring {
			if j.ring[i].packet != nil {
				held++
			}
		}
		if held != j.held {
			l.t.Fatalf("%d packets wait, counted are %d", held, j.held)
		}
	}
	if c.Played+c.Late+c.Duplicates+c.Dropped+c.Stray > c.Packets {
		l.t.Fatalf("more became of packets than came: %+v", c)
	}
	if held := span(int64(l.length)); held > 140*time.Millisecond {
		l.t.Fatalf("%v rendered ahead", held)
	}
}

// talk sends packets of 20 ms for a time, each with a delay, and plays them.
func (l *line) talk(d time.Duration, delay func(i int) time.Duration) {
	l.t.Helper()
	for i := range int(d / FrameTime) {
		l.send(960, delay(i))
		l.play()
	}
}

func (l *line) counts() Counts { return l.jitter.counts }

func steady(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func (l *line) kinds(from int) (packets, repairs int, made, silent time.Duration) {
	for _, s := range l.steps[from:] {
		switch s.kind {
		case stepPacket:
			packets++
		case stepRepair:
			repairs++
		case stepConceal:
			made += span(int64(s.ticks))
		case stepSilence:
			silent += span(int64(s.ticks))
		}
	}
	return packets, repairs, made, silent
}

func TestJitterSteadyStreamIsHeldAsShortAsAllowed(t *testing.T) {
	l := newLine(t)
	l.talk(2*time.Second, steady(3*time.Millisecond))
	from := len(l.steps)
	l.talk(10*time.Second, steady(3*time.Millisecond))
	packets, repairs, made, silent := l.kinds(from)
	if packets != 500 || repairs != 0 || made != 0 || silent != 0 {
		t.Errorf("of a steady stream: %d packets, %d repairs, %v made up, %v silence", packets, repairs, made, silent)
	}
	if d := l.jitter.behind; d < 30*time.Millisecond || d > 31*time.Millisecond {
		t.Errorf("held for %v, want 30 ms", d)
	}
	if c := l.counts(); c.Lost+c.Late+c.Dropped+c.Duplicates != 0 {
		t.Errorf("%+v", c)
	}
}

func TestJitterReorderedAndRepeatedPackets(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(0))
	from := len(l.steps)
	for i := range 300 {
		p := l.send(960, time.Duration([]int{0, 25, 2}[i%3])*time.Millisecond)
		l.way = append(l.way, onTheWay{p, l.now.Add(40 * time.Millisecond)}) // again, later
		l.play()
	}
	l.talk(time.Second, steady(0))
	packets, _, _, _ := l.kinds(from)
	c := l.counts()
	if packets < 349 || c.Duplicates != 300 || c.Lost != 0 || c.Late != 0 {
		t.Errorf("%d of 350 packets played, %+v", packets, c)
	}
	if c.Concealed > 20*time.Millisecond {
		t.Errorf("%v made up, although nothing was lost", c.Concealed)
	}
}

func TestJitterLossIsFilledAndWallTimeHolds(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(0))
	start := l.jitter.counts
	from, lost := len(l.steps), 0
	for i := range 500 {
		if i%20 == 7 || i%100 == 50 || i%100 == 51 || i%100 == 52 {
			l.send(960, -1)
			lost++
		} else {
			l.send(960, 0)
		}
		l.play()
	}
	l.talk(200*time.Millisecond, steady(0))
	packets, _, made, silent := l.kinds(from)
	c := l.counts()
	if got := int(c.Lost - start.Lost); got != lost || packets != 510-lost {
		t.Errorf("%d lost and %d played, want %d and %d", got, packets, lost, 510-lost)
	}
	if want := time.Duration(lost) * FrameTime; made != want || silent != 0 {
		t.Errorf("%v made up and %v silence, want %v and none", made, silent, want)
	}
	if d := l.jitter.behind; d > 31*time.Millisecond {
		t.Errorf("held for %v after losses", d)
	}
}

func TestJitterRepairsFromThePacketBehind(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(0))
	l.send(960, -1)
	p := l.send(960, 0)
	p.Payload = []byte{9 << 3, 0b0100_0000, 0} // SILK wide band 20 ms, one frame, not voiced, LBRR
	l.play()
	l.play()
	l.talk(time.Second, steady(0))
	if _, repairs, made, _ := l.kinds(0); repairs != 1 || made != 0 {
		t.Errorf("%d repairs and %v made up, want one repair alone", repairs, made)
	}
	if c := l.counts(); c.Repaired != FrameTime || c.Lost != 1 {
		t.Errorf("%+v", c)
	}
}

// A sender that pauses stops sending; its timestamps go on. What it says afterwards comes when it would have anyway.
func TestJitterPauseOfTheSender(t *testing.T) {
	for _, pause := range []time.Duration{20 * time.Millisecond, 400 * time.Millisecond, 30 * time.Second} {
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			l := newLine(t)
			l.talk(time.Second, steady(time.Millisecond))
			l.ts += uint32(toTicks(pause))
			from := len(l.steps)
			for range int(pause / FrameTime) {
				l.play()
			}
			l.talk(time.Second, steady(time.Millisecond))
			_, _, made, silent := l.kinds(from)
			if got := made + silent; got != pause {
				t.Errorf("a pause of %v became %v", pause, got)
			}
			if made > maxConceal {
				t.Errorf("%v made up, at most %v may be", made, maxConceal)
			}
			if d := l.jitter.behind; d > 31*time.Millisecond {
				t.Errorf("held for %v after the pause", d)
			}
		})
	}
}

// Pauses shorter than what is held are as long as they were, too.
func TestJitterPausesWithinWhatIsHeld(t *testing.T) {
	l := newLine(t)
	late := func(i int) time.Duration { return time.Duration(i%2) * 60 * time.Millisecond } // target: 70 ms
	l.talk(3*time.Second, late)
	before := l.counts()
	for range 20 {
		l.ts += opusFrame
		l.play()
		l.talk(200*time.Millisecond, late)
	}
	c := l.counts()
	if filled := c.Silence + c.Concealed - before.Silence - before.Concealed; filled < 380*time.Millisecond || filled > 440*time.Millisecond {
		t.Errorf("20 pauses of 20 ms became %v", filled)
	}
	if d := l.jitter.behind; d < 60*time.Millisecond || d > 80*time.Millisecond {
		t.Errorf("held for %v", d)
	}
}

// Nothing at all, for long, then on with the timestamps that were next: a muted track of some senders.
func TestJitterStandstillOfTimestamps(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(time.Millisecond))
	for range 500 {
		l.play()
	}
	l.talk(3*time.Second, steady(time.Millisecond))
	if d := l.jitter.behind; d > 31*time.Millisecond {
		t.Errorf("held for %v", d)
	}
	if c := l.counts(); c.Lost+c.Dropped+c.Late != 0 {
		t.Errorf("%+v", c)
	}
}

func TestJitterGivesDelayBackAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{150 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			l := newLine(t)
			l.talk(3*time.Second, steady(time.Millisecond))
			l.talk(outage, func(i int) time.Duration { return outage - time.Duration(i)*FrameTime })
			l.talk(time.Second, steady(time.Millisecond))
			if d := l.jitter.behind; d > 95*time.Millisecond {
				t.Errorf("held for %v a second after an outage of %v", d, outage)
			}
			l.talk(8*time.Second, steady(time.Millisecond))
			if d := l.jitter.behind; d > 45*time.Millisecond {
				t.Errorf("held for %v nine seconds after an outage of %v", d, outage)
			}
			c := l.counts()
			if outage < maxHeld && c.Dropped+c.Lost != 0 {
				t.Errorf("sound of a short outage was thrown away: %+v", c)
			}
			if outage > maxHeld && (c.Dropped < 200 || c.Lost > 5) {
				t.Errorf("%+v, want the oldest of a long outage dropped and nothing lost", c)
			}
		})
	}
}

func TestJitterDelayGrowsWithJitterAndShrinks(t *testing.T) {
	l := newLine(t)
	random := rand.New(rand.NewPCG(1, 2))
	l.talk(2*time.Second, steady(0))
	l.talk(6*time.Second, func(int) time.Duration { return time.Duration(random.IntN(60)) * time.Millisecond })
	if d := l.jitter.delay.target(); d < 60*time.Millisecond || d > 80*time.Millisecond {
		t.Errorf("target of %v with 60 ms of jitter", d)
	}
	before := l.counts()
	l.talk(6*time.Second, func(int) time.Duration { return time.Duration(random.IntN(60)) * time.Millisecond })
	after := l.counts()
	if made := after.Concealed - before.Concealed; made > 60*time.Millisecond {
		t.Errorf("%v of 6 s made up, although jitter is within what is held", made)
	}
	if after.Lost != before.Lost {
		t.Errorf("%d lost", after.Lost-before.Lost)
	}
	l.talk(9*time.Second, steady(0))
	if d := l.jitter.delay.target(); d != 30*time.Millisecond {
		t.Errorf("target of %v after jitter is over", d)
	}
	if d := l.jitter.behind; d > 42*time.Millisecond {
		t.Errorf("held for %v after jitter is over", d)
	}
}

func TestJitterNewStream(t *testing.T) {
	for name, change := range map[string]func(*line){
		"another SSRC":             func(l *line) { l.ssrc, l.seq, l.ts = 2, 7, 123 },
		"sequence jumps":           func(l *line) { l.seq += 20000 },
		"timestamps jump on":       func(l *line) { l.ts += 1 << 30 },
		"timestamps jump back":     func(l *line) { l.ts -= 1 << 30 },
		"timestamps back a little": func(l *line) { l.ts -= 3 * clockRate },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			l.talk(time.Second, steady(2*time.Millisecond))
			change(l)
			l.talk(300*time.Millisecond, steady(2*time.Millisecond))
			if d := l.jitter.behind; d < 29*time.Millisecond || d > 45*time.Millisecond {
				t.Errorf("held for %v soon afterwards", d)
			}
			l.talk(4*time.Second, steady(2*time.Millisecond))
			c := l.counts()
			if c.Lost > 0 || c.Stray > 0 || c.Played < 261 {
				t.Errorf("%+v", c)
			}
			if d := l.jitter.behind; d > 45*time.Millisecond {
				t.Errorf("held for %v afterwards", d)
			}
			if at := l.jitter.came(l.now, l.length); l.now.Sub(at) > 60*time.Millisecond || at.After(l.now) {
				t.Errorf("the sound given at %v is said to be of %v", l.now, at)
			}
		})
	}
}

func TestJitterStrayPacketChangesNothing(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(0))
	for i := range 50 {
		l.jitter.push(&rtp.Packet{Header: rtp.Header{SSRC: 99, SequenceNumber: uint16(i * 77)}, Payload: celt(960)}, l.now)
		l.send(960, 0)
		l.play()
	}
	if c := l.counts(); c.Stray != 50 || c.Restarts != 0 || c.Lost != 0 || c.Played < 98 {
		t.Errorf("%+v", c)
	}
}

func TestJitterPacketsOfEveryLength(t *testing.T) {
	for _, ticks := range []int{120, 240, 480, 960} {
		for frames := 1; frames*ticks <= maxTicks; frames++ {
			l := newLine(t)
			size := ticks * frames
			payload := append([]byte{celt(ticks)[0] | 3, byte(frames)}, make([]byte, frames)...)
			sent := 0
			for wall := 0; wall < 3*clockRate; wall += opusFrame {
				for sent+size <= wall { // a packet leaves when its sound has ended
					p := l.send(120, 0)
					p.Payload = payload
					l.ts += uint32(size - 120)
					sent += size
				}
				l.play()
			}
			packets, _, made, _ := l.kinds(0)
			if c := l.counts(); c.Lost+c.Malformed+c.Dropped+c.Late != 0 || made > 200*time.Millisecond || packets < sent/size-6 {
				t.Errorf("packets of %v: %d of %d played, %v made up, %+v", span(int64(size)), packets, sent/size, made, c)
			}
		}
	}
}

func TestJitterMalformedAndEmptyPackets(t *testing.T) {
	l := newLine(t)
	l.talk(time.Second, steady(0))
	for i := range 100 {
		p := l.send(960, 0)
		switch i % 10 {
		case 3:
			p.Payload = []byte{3} // code 3 without its second byte
		case 6: // padding alone keeps the timestamp
			p.Payload = nil
			l.ts -= 960
		}
		l.play()
	}
	c := l.counts()
	if c.Malformed != 10 || c.Lost != 0 || c.Restarts != 0 || c.Played < 127 {
		t.Errorf("%+v", c)
	}
}

// Ten minutes of a sender whose clock is 0.03 % slow or fast: nothing adds up, little is made up or taken out.
func TestJitterClockDrift(t *testing.T) {
	for _, off := range []float64{-300e-6, 300e-6} {
		l := newLine(t)
		start := l.now
		for i := range 10 * 60 * 50 {
			leaves := start.Add(time.Duration(float64(i) * float64(FrameTime) * (1 + off)))
			l.send(960, max(leaves.Sub(l.now), 0))
			l.play()
			if i > 100 && (l.jitter.behind < 0 || l.jitter.behind > 60*time.Millisecond) {
				t.Fatalf("%v off, after %v: held for %v", off, l.now.Sub(start), l.jitter.behind)
			}
		}
		c := l.counts()
		if c.Lost+c.Dropped+c.Late > 0 || c.Concealed+c.Silence > 700*time.Millisecond {
			t.Errorf("%v off: %+v", off, c)
		}
		t.Logf("%v off: made up %v, silence %v, held for %v", off, c.Concealed, c.Silence, l.jitter.behind)
	}
}
