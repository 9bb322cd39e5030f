package frames

import "time"

const (
	clockWindow   = 15 * time.Second // how long one bucket of a minWindow collects
	reportWindow  = time.Minute      // the newest sender report is older: arrivals alone say what is known
	headerHold    = 10 * time.Second // likewise for the newest abs-capture-time
	mostProcess   = 2 * time.Second  // no sender takes longer from capture to sending: reports that say so are not believed
	reportSlack   = time.Second      // so late a report may be, against the quickest packet
	maxCaptureAge = timestampLeap + mostProcess
	clockDrift    = 3 * time.Millisecond // 100 ppm, over the 30 s that a minimum may be old
)

// CaptureClock says what a capture time is known by.
type CaptureClock string

// The ways to know a capture time, the best last. Arrival sees neither what the sender took to encode nor the way of its quickest packet.
const (
	CaptureByArrival CaptureClock = "arrival"
	CaptureByReport  CaptureClock = "report" // RTCP sender reports
	CaptureByHeader  CaptureClock = "header" // the abs-capture-time header extension, with sender reports
)

// capture is when a frame was captured, as far as that is known.
type capture struct {
	at    time.Time
	error time.Duration // how far off that may be; 0: not known
	by    CaptureClock
}

// SenderReport is one RTCP sender report (RFC 3550 §6.4.1) with how far away its sender is.
type SenderReport struct {
	SSRC uint32
	NTP  uint64        // its clock when it sent the report: seconds since 1900, 32.32 bits
	RTP  uint32        // the same instant in timestamps of its packets
	RTT  time.Duration // to the sender and back, measured lately; 0: not known
}

// captureClock maps RTP timestamps to our wall clock; pure, time is passed in. Durations are since base, in our time or in the sender's
// media time.
//
// The packet that came with the least delay of the last 15 to 30 s says how far the two are apart, but for the delay that even that packet
// had: encoding, pacing and the network. A sender report knows better: its RTP timestamp is the instant of its own sending, so that it is
// late by the network alone, and of that the round trip R is the bound: capture = media + min(arrival − media of reports) − R/2, ± R/2. Where
// the sender's RTP timestamps are not its capture times, abs-capture-time says how far from them those are, by the clock of the same reports.
//
// Nothing of that is believed that puts a picture later than its quickest packet, or more than mostProcess before that.
type captureClock struct {
	base   time.Time // arrival of the first packet; zero: not started
	lastTS uint32
	media  int64     // ticks since the first packet, at lastTS
	quick  minWindow // arrival − media, of packets

	reports  minWindow // the same, of sender reports
	rtt      minWindow
	reportAt time.Time     // of the newest report
	ntp      uint64        // what it said,
	ntpMedia time.Duration // and of when that was
	shift    time.Duration // capture − media by abs-capture-time
	shiftAt  time.Time     // zero: none came

	doubted uint64 // reports and header extensions that were not believed

	out      bool          // a frame has come out; time goes forward from there:
	outMedia time.Duration // the newest one's media time,
	outOff   time.Duration // and how long after that it was captured
}

// minWindow is the least of the values of the last 15 to 30 s.
type minWindow struct {
	cur, old time.Duration
	curAt    time.Time // when the bucket cur began; zero: there is none
}

// restart forgets all but the count.
func (c *captureClock) restart() { *c = captureClock{doubted: c.doubted} }

func (w *minWindow) add(v time.Duration, at time.Time) {
	d := at.Sub(w.curAt)
	switch {
	case w.curAt.IsZero() || d >= 2*clockWindow:
		w.cur, w.old, w.curAt = v, v, at
	case d >= clockWindow:
		w.old, w.cur, w.curAt = w.cur, v, at
	}
	w.cur = min(w.cur, v)
}

func (w *minWindow) known() bool          { return !w.curAt.IsZero() }
func (w *minWindow) least() time.Duration { return min(w.cur, w.old) }

// since extends ts by its signed distance to the newest one.
func (c *captureClock) since(ts uint32) (ticks int64) { return c.media + int64(int32(ts-c.lastTS)) }

func ticks(n int64) time.Duration { return time.Duration(n) * 100000 / 9 } // of 90 kHz; good for 30 years

// observe learns from a packet's timestamp and arrival.
func (c *captureClock) observe(ts uint32, at time.Time) {
	if c.base.IsZero() {
		c.base, c.lastTS = at, ts
	}
	media := c.since(ts)
	if media > c.media {
		c.media, c.lastTS = media, ts
	}
	c.quick.add(at.Sub(c.base)-ticks(media), at)
}

// report learns from a sender report that arrived at the given time.
func (c *captureClock) report(r SenderReport, at time.Time) {
	if c.base.IsZero() {
		return
	}
	media := ticks(c.since(r.RTP))
	off := at.Sub(c.base) - media
	if !c.believable(off) {
		c.doubted++
		return
	}
	if at.Sub(c.reportAt) > reportWindow { // nothing of before
		c.reports, c.rtt = minWindow{}, minWindow{}
	}
	c.reports.add(off, at)
	if r.RTT > 0 {
		c.rtt.add(r.RTT, at)
	}
	c.reportAt, c.ntp, c.ntpMedia = at, r.NTP, media
}

// believable: a report is late by the network, a packet by that and by encoding.
func (c *captureClock) believable(off time.Duration) bool {
	quick := c.quick.least()
	return off >= quick-mostProcess && off <= quick+reportSlack
}

// stamp learns from an abs-capture-time of a packet: the capture by the clock of who captured it, and how far that clock is ahead of the
// sender's (Q32.32 seconds).
func (c *captureClock) stamp(ts uint32, captured uint64, offset int64, at time.Time) {
	if c.base.IsZero() || !c.reported(at) {
		return
	}
	// All in Q32.32 seconds modulo 2^64, which the turn of an NTP era does not disturb.
	since, ok := q32(int64(captured - uint64(offset) - c.ntp))
	shift := c.ntpMedia + since - ticks(c.since(ts))
	if !ok || shift > reportSlack || shift < -mostProcess {
		c.doubted++
		return
	}
	c.shift, c.shiftAt = shift, at
}

// q32 turns signed Q32.32 seconds into a duration; false: more than an hour, which no difference of two times of a call is.
func q32(v int64) (time.Duration, bool) {
	const hour = int64(3600) << 32
	if v > hour || v < -hour {
		return 0, false
	}
	return time.Duration(v>>32)*time.Second + time.Duration((v&(1<<32-1))*int64(time.Second)>>32), true
}

func (c *captureClock) reported(at time.Time) bool {
	return c.reports.known() && at.Sub(c.reportAt) <= reportWindow
}

// capturedAt is the time of ts, never after received, never more than maxCaptureAge before it, and never before that of an earlier
// timestamp. Ask once a frame, and only for timestamps that were observed.
func (c *captureClock) capturedAt(ts uint32, received time.Time) capture {
	if c.base.IsZero() {
		return capture{at: received, by: CaptureByArrival}
	}
	media := ticks(c.since(ts))
	k := capture{by: CaptureByArrival}
	off := c.quick.least()
	if c.reported(received) {
		k.by = CaptureByReport
		known := c.reports.least()
		if !c.shiftAt.IsZero() && received.Sub(c.shiftAt) <= headerHold {
			k.by = CaptureByHeader
			known += c.shift
		}
		off = min(off, known)
		if c.rtt.known() {
			half := c.rtt.least() / 2
			off -= half
			k.error = half + clockDrift
		}
		off = max(off, c.quick.least()-mostProcess)
	}
	k = c.forward(media, off, k)
	age := min(max(received.Sub(k.at), 0), maxCaptureAge)
	k.at = received.Add(-age) // by our wall clock of now, should that have been set since base
	return k
}

// forward places a capture, off after its media time, so that no later picture is captured earlier: a step back of the clock is caught up
// with at half the speed of time, and counts as error until it is.
func (c *captureClock) forward(media, off time.Duration, k capture) capture {
	late := time.Duration(0)
	if d := media - c.outMedia; c.out && d >= 0 {
		late = max(0, c.outOff-off-d/2)
	}
	off += late
	k.at = c.base.Add(media + off)
	if k.error > 0 {
		k.error += late
	}
	if !c.out || media >= c.outMedia {
		c.out, c.outMedia, c.outOff = true, media, off
	}
	return k
}

// meter measures rates over windows of one second. Pure; time is passed in.
type meter struct {
	from          time.Time
	bytes, frames int
	bps, fps      float64
	last          time.Time
}

func (m *meter) add(bytes int, newFrame bool, at time.Time) {
	if m.from.IsZero() || at.Sub(m.last) > 5*time.Second {
		*m = meter{from: at}
	}
	if d := at.Sub(m.from); d >= time.Second {
		m.bps, m.fps = float64(m.bytes*8)/d.Seconds(), float64(m.frames)/d.Seconds()
		m.from, m.bytes, m.frames = at, 0, 0
	}
	m.bytes += bytes
	if newFrame {
		m.frames++
	}
	m.last = at
}

// rates gives frames and bits per second; 0 when nothing came for two seconds.
func (m *meter) rates(at time.Time) (fps, bps float64) {
	if at.Sub(m.last) > 2*time.Second {
		return 0, 0
	}
	return m.fps, m.bps
}
