package frames

import "time"

// clockWindow is how long one bucket of captureClock collects its minimum.
const clockWindow = 15 * time.Second

// captureClock maps RTP timestamps to our wall clock. The packet that came with the least delay of the last 15 to 30 s says how far the
// two are apart; dropping older ones follows the sender's clock where it drifts. Network and encoder delay that even that packet had
// cannot be seen. Pure; time is passed in.
type captureClock struct {
	base     time.Time // arrival of the first packet; zero: not started
	lastTS   uint32
	media    int64 // ticks since the first packet, at lastTS
	cur, old time.Duration
	curAt    time.Time // when the bucket cur began
}

// since extends ts by its signed distance to the newest one.
func (c *captureClock) since(ts uint32) (ticks int64) { return c.media + int64(int32(ts-c.lastTS)) }

func ticks(n int64) time.Duration { return time.Duration(n) * 100000 / 9 } // of 90 kHz; good for 30 years

// observe learns from a packet's timestamp and arrival.
func (c *captureClock) observe(ts uint32, at time.Time) {
	if c.base.IsZero() {
		*c = captureClock{base: at, lastTS: ts, curAt: at}
		return
	}
	media := c.since(ts)
	if media > c.media {
		c.media, c.lastTS = media, ts
	}
	off := at.Sub(c.base) - ticks(media)
	if d := at.Sub(c.curAt); d >= clockWindow {
		c.old, c.cur, c.curAt = c.cur, off, at
		if d >= 2*clockWindow {
			c.old = off
		}
	}
	c.cur = min(c.cur, off)
}

// capturedAt is the time of ts, never after received. Ask only for timestamps that were observed.
func (c *captureClock) capturedAt(ts uint32, received time.Time) time.Time {
	t := c.base.Add(ticks(c.since(ts)) + min(c.cur, c.old))
	if c.base.IsZero() || t.After(received) {
		return received
	}
	return t
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
