package frames

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/yuv"
)

// ntpOf is a wall clock's time as NTP has it: seconds since 1900, modulo 2^32, and 32 bits of fraction.
func ntpOf(at time.Time) uint64 {
	return uint64(at.Unix()+2208988800)<<32 | uint64(at.Nanosecond())<<32/1e9
}

// callee plays a sender: frames that take time to encode and to travel, reports that only travel, and what goes wrong.
type callee struct {
	drift       float64       // of its media clock
	ahead       time.Duration // its wall clock, against ours
	encode      time.Duration // least time from capture to sending
	jitter      time.Duration // at most, of encoding and of the network, each
	way         time.Duration // least one
	rtt         time.Duration // told with each report
	reportEvery time.Duration
	mediaLate   time.Duration // its timestamps are of so long after the capture
	header      bool          // tells so by abs-capture-time, each second
	wrong       func(i int, r *SenderReport)
}

// run gives the worst error of the capture times in the second half, and how many were outside their own bound.
func (s callee) run(t *testing.T, seconds int) (worst time.Duration, outside int, last capture, c *captureClock) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() time.Duration { return time.Duration(rng.Int64N(int64(s.jitter) + 1)) }
	media := func(at time.Time) uint32 {
		return uint32(4294000000) + uint32(int64(at.Sub(t0).Seconds()*90000*(1+s.drift)))
	}
	c = &captureClock{}
	var before time.Time
	report, reports := time.Duration(0), 0
	for i := range seconds * 30 {
		captured := t0.Add(time.Duration(i) * time.Second / 30)
		sent := captured.Add(s.encode + some())
		received := sent.Add(s.way + some())
		ts := media(captured.Add(s.mediaLate))
		c.observe(ts, received)
		if s.header && i%30 == 5 { // captured by a clock an hour ahead of the sender's
			c.stamp(ts, ntpOf(captured.Add(s.ahead+time.Hour)), int64(3600)<<32, received)
		}
		if s.reportEvery > 0 && captured.Sub(t0) >= report {
			report += s.reportEvery
			r := SenderReport{NTP: ntpOf(sent.Add(s.ahead)), RTP: media(sent), RTT: s.rtt}
			if s.wrong != nil {
				s.wrong(reports, &r)
			}
			reports++
			c.report(r, sent.Add(s.way+some()))
		}
		got := c.capturedAt(ts, received)
		switch {
		case got.at.After(received):
			t.Fatalf("frame %d: captured %v after it came", i, got.at.Sub(received))
		case received.Sub(got.at) > maxCaptureAge:
			t.Fatalf("frame %d: %v old when it came", i, received.Sub(got.at))
		case got.at.Before(before):
			t.Fatalf("frame %d: captured %v before the frame before it", i, before.Sub(got.at))
		}
		before, last = got.at, got
		if off := got.at.Sub(captured).Abs(); i > seconds*15 {
			worst = max(worst, off)
			if got.error > 0 && off > got.error {
				outside++
			}
		}
	}
	return worst, outside, last, c
}

func TestCaptureTimeByReports(t *testing.T) {
	const ms = time.Millisecond
	lan := callee{encode: 60 * ms, way: 20 * ms, rtt: 40 * ms, reportEvery: time.Second}
	with := func(change func(*callee)) callee {
		s := lan
		change(&s)
		return s
	}
	jump := func(n int, by uint32) func(i int, r *SenderReport) {
		return func(i int, r *SenderReport) {
			if i%n == n-1 {
				r.RTP += by
			}
		}
	}
	const years = 30 * 365 * 24 * time.Hour // over the NTP era of 2036
	for _, tt := range []struct {
		name  string
		s     callee
		by    CaptureClock
		limit time.Duration
		bound bool // every error is in the told bound
	}{
		{"no reports: encoding and network are not seen", with(func(s *callee) { s.reportEvery = 0 }), CaptureByArrival, 81 * ms, true},
		{"reports", lan, CaptureByReport, ms, true},
		{"every 5 s", with(func(s *callee) { s.reportEvery = 5 * time.Second }), CaptureByReport, ms, true},
		{"the ways differ: 20 of 60 ms", with(func(s *callee) { s.rtt = 60 * ms }), CaptureByReport, 11 * ms, true},
		{"round trip not known", with(func(s *callee) { s.rtt = 0 }), CaptureByReport, 21 * ms, true},
		{"jitter", with(func(s *callee) { s.jitter = 30 * ms }), CaptureByReport, 12 * ms, true},
		{"media clock 100 ppm fast", with(func(s *callee) { s.drift = 100e-6 }), CaptureByReport, 5 * ms, true},
		{"and slow", with(func(s *callee) { s.drift = -100e-6 }), CaptureByReport, 5 * ms, true},
		{"its wall clock is years ahead", with(func(s *callee) { s.ahead = years }), CaptureByReport, ms, true},
		{"its wall clock is set each 3 s", with(func(s *callee) {
			s.wrong = func(i int, r *SenderReport) { r.NTP += uint64(i/3) * 7777 << 32 }
		}), CaptureByReport, ms, true},
		{"its timestamps are of when it sends", with(func(s *callee) { s.mediaLate = 60 * ms }), CaptureByReport, 61 * ms, false},
		{"and abs-capture-time says so", with(func(s *callee) { s.mediaLate, s.header = 60*ms, true }), CaptureByHeader, ms, true},
		{"over an era", with(func(s *callee) { s.mediaLate, s.header, s.ahead = 60*ms, true, years }), CaptureByHeader, ms, true},
		{"abs-capture-time says what timestamps do", with(func(s *callee) { s.header = true }), CaptureByHeader, ms, true},
		// Hostile: what cannot be is not believed; what could be is within 2 s.
		{"each third report is of an hour later", with(func(s *callee) { s.wrong = jump(3, 3600*90000) }), CaptureByReport, ms, true},
		{"each third of half a round of timestamps", with(func(s *callee) { s.wrong = jump(3, 1<<31) }), CaptureByReport, ms, true},
		{"all of ten seconds ago", with(func(s *callee) { s.wrong = func(_ int, r *SenderReport) { r.RTP -= 900000 } }), CaptureByArrival, 81 * ms, true},
		{"each third of a second later", with(func(s *callee) { s.wrong = jump(3, 90000) }), CaptureByReport, time.Second + ms, false},
		{"a round trip of an hour", with(func(s *callee) { s.rtt = time.Hour }), CaptureByReport, mostProcess, true},
		{"a negative round trip", with(func(s *callee) { s.rtt = -time.Hour }), CaptureByReport, 21 * ms, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			worst, outside, last, c := tt.s.run(t, 120)
			if worst > tt.limit || last.by != tt.by {
				t.Errorf("off by %v, known by %s; want at most %v, %s (%d doubted)", worst, last.by, tt.limit, tt.by, c.doubted)
			}
			if tt.bound && outside > 0 {
				t.Errorf("%d capture times are outside the bound that is told with them; the last is %v", outside, last.error)
			}
			if (last.error > 0) != (tt.by != CaptureByArrival && tt.s.rtt > 0) {
				t.Errorf("the bound is %v", last.error)
			}
		})
	}
}

// TestABetterClockTakesOverWithoutAStepBack: the first report comes when pictures have been told by arrival for a while.
func TestABetterClockTakesOverWithoutAStepBack(t *testing.T) {
	var c captureClock
	var before time.Time
	const encode = 400 * time.Millisecond
	for i := range 300 {
		captured := t0.Add(time.Duration(i) * time.Second / 30)
		ts := uint32(i * 3000)
		c.observe(ts, captured.Add(encode))
		if i == 100 {
			c.report(SenderReport{RTP: ts + 36000, RTT: 2 * time.Millisecond}, captured.Add(encode+time.Millisecond))
		}
		got := c.capturedAt(ts, captured.Add(encode))
		if !got.at.After(before) {
			t.Fatalf("frame %d: captured %v, the one before %v", i, got.at.Sub(t0), before.Sub(t0))
		}
		before = got.at
		off := got.at.Sub(captured)
		switch {
		case i < 100 && off != encode, i > 100+2*30 && off > 2*time.Millisecond:
			t.Fatalf("frame %d: off by %v", i, off)
		case i > 100 && (got.error == 0 || off > got.error):
			t.Fatalf("frame %d: off by %v, the bound is %v", i, off, got.error)
		}
	}
	late := t0.Add(3 * time.Minute) // no report for long
	c.observe(3*60*90000, late)
	if got := c.capturedAt(3*60*90000, late); got.by != CaptureByArrival || got.error != 0 {
		t.Errorf("without reports for minutes: %+v", got)
	}
}

func TestHeaderExtensions(t *testing.T) {
	const captureID, colourID, contentID = 1, 2, 3
	var c captureClock
	s := saying{ids: Extensions{AbsCaptureTime: captureID, ColorSpace: colourID, ContentType: contentID}}
	ts := uint32(1<<32 - 3000)
	packet := func(marker bool, ext map[uint8][]byte) *rtp.Packet {
		p := &rtp.Packet{Header: rtp.Header{Version: 2, Timestamp: ts, Marker: marker}}
		for id, v := range ext {
			if err := p.SetExtension(id, v); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	hd := map[uint8][]byte{colourID: {1, 1, 1, 2<<4 | 1}, contentID: {1}}
	s.read(packet(false, nil), true, &c, t0)
	s.read(packet(true, hd), false, &c, t0)
	want := yuv.Colour{Matrix: yuv.BT709, FullRange: true}
	if got := s.colourFor(ts); got != want || !s.screen {
		t.Errorf("colour %+v, screen %v", got, s.screen)
	}
	if got := s.colourFor(ts - 3000); got != (yuv.Colour{}) {
		t.Errorf("a frame before has colour %+v", got)
	}
	ts += 3000 // wraps; frames that are no key frames say nothing
	s.read(packet(true, nil), false, &c, t0)
	if got := s.colourFor(ts); got != want || !s.screen {
		t.Errorf("a frame later: colour %+v, screen %v", got, s.screen)
	}
	s.read(packet(true, map[uint8][]byte{colourID: {1, 1, 1}, contentID: {0, 0}, captureID: {1, 2, 3}}), false, &c, t0) // malformed
	if got := s.colourFor(ts); got != want || !s.screen {
		t.Errorf("malformed extensions: colour %+v, screen %v", got, s.screen)
	}
	ts += 3000
	s.read(packet(true, nil), true, &c, t0) // a key frame without them: another track was put in its place
	if got := s.colourFor(ts); got != (yuv.Colour{}) || s.screen {
		t.Errorf("a key frame without extensions: colour %+v, screen %v", got, s.screen)
	}
	for b, full := range map[byte]bool{0: false, 1 << 4: false, 2 << 4: true, 3 << 4: false, 2<<4 | 0xf: true} {
		if got := colourOf([]byte{2, 2, 6, b, 9, 9}); got.FullRange != full || got.Matrix != yuv.BT601 {
			t.Errorf("range byte %#x: %+v", b, got)
		}
	}
	none := saying{} // not negotiated: nothing is read
	none.read(packet(true, hd), true, &c, t0)
	if none.screen || none.colour != (yuv.Colour{}) {
		t.Errorf("%+v", none)
	}
}
