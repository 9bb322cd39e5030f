package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
)

// measure is what agents and publishers have seen. Errors count over the whole run, everything else while it measures.
type measure struct {
	mu       sync.Mutex
	on       bool
	begun    time.Time
	took     time.Duration
	captured *histogram // capture, as the gateway says it, to agent
	sent     *histogram // last packet of the frame sent, as this program knows it, to agent
	window   *histogram // of sent, since the last sample
	appends  *histogram
	switches *histogram
	requests *histogram
	images   imageCounts
	slow     imageCounts // of slow agents
	failed   int         // publishers
	errors   map[string]int
}

type imageCounts struct {
	n, bytes, superseded uint64
	unmatched            uint64 // whose frame was sent too long ago to be found
}

func newMeasure() *measure {
	return &measure{captured: newHistogram(), sent: newHistogram(), window: newHistogram(), appends: newHistogram(),
		switches: newHistogram(), requests: newHistogram(), errors: map[string]int{}}
}

func (m *measure) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.begun = true, time.Now()
}

func (m *measure) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.took = false, time.Since(m.begun)
}

// forgotten stands for the age of an image whose frame was sent before anything that is remembered: no less than that.
const forgotten = 15 * time.Second

func (m *measure) image(image agentclient.Image, sent time.Time, known, slow bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on {
		return
	}
	c := &m.images
	if slow {
		c = &m.slow
	}
	c.n++
	c.bytes += uint64(len(image.Data))
	c.superseded += image.Superseded
	if !known {
		c.unmatched++
	}
	if slow {
		return // its images wait for it, not for the gateway
	}
	age := image.ReceivedAt.Sub(sent)
	if !known {
		age = forgotten
	}
	m.sent.add(age)
	m.window.add(age)
	m.captured.add(image.ReceivedAt.Sub(image.CapturedAt.Time))
}

// time adds to a histogram of m.
func (m *measure) time(h *histogram, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on {
		h.add(d)
	}
}

// maxKinds bounds the table of errors; kinds are few by construction.
const maxKinds = 50

func (m *measure) fail(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.errors[kind]; !known && len(m.errors) >= maxKinds {
		kind = "other"
	}
	m.errors[kind]++
}

func (m *measure) publisherFailed(kind string) {
	m.fail(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed++
}

func countAll(errors map[string]int) int {
	n := 0
	for _, count := range errors {
		n += count
	}
	return n
}

// kind names an error without what differs from one to the next.
func kind(err error) string {
	var publishing *whipclient.HTTPError
	var attaching *agentclient.HTTPError
	var asking *httpError
	var operating *agentclient.Refused
	switch {
	case errors.As(err, &publishing):
		return or(publishing.Code, fmt.Sprintf("HTTP %d", publishing.Status))
	case errors.As(err, &attaching):
		return or(string(attaching.Code), fmt.Sprintf("HTTP %d %s", attaching.Status, http.StatusText(attaching.Status)))
	case errors.As(err, &asking):
		return or(asking.code, fmt.Sprintf("HTTP %d", asking.status))
	case errors.As(err, &operating):
		return string(operating.Answer.Code)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	text := []rune(err.Error())
	return string(text[:min(len(text), 80)])
}

// counts are the counters of publishers and agents together.
type counts struct {
	connected, agents, attached           int
	frames, keys, late, packets, pli      uint64
	bytes, sound, heard, heardMissing     uint64
	relayed, lost, dropped, reconnections uint64
	slowest                               time.Duration
}

func (c *counts) add(d counts) {
	c.connected += d.connected
	c.agents += d.agents
	c.attached += d.attached
	c.frames += d.frames
	c.keys += d.keys
	c.late += d.late
	c.packets += d.packets
	c.pli += d.pli
	c.bytes += d.bytes
	c.sound += d.sound
	c.heard += d.heard
	c.heardMissing += d.heardMissing
	c.relayed += d.relayed
	c.lost += d.lost
	c.dropped += d.dropped
	c.reconnections += d.reconnections
	c.slowest = max(c.slowest, d.slowest)
}

// sub takes what was counted before away.
func (c *counts) sub(d counts) {
	c.frames -= d.frames
	c.keys -= d.keys
	c.late -= d.late
	c.packets -= d.packets
	c.pli -= d.pli
	c.bytes -= d.bytes
	c.sound -= d.sound
	c.heard -= d.heard
	c.heardMissing -= d.heardMissing
	c.relayed -= d.relayed
	c.lost -= d.lost
	c.dropped -= d.dropped
}

func (s *session) counts() counts {
	st := s.publisher.Stats()
	up, down := s.publisher.Relayed()
	c := counts{frames: st.Frames, keys: st.KeyFrames, late: st.Late, packets: st.Packets, pli: st.PLI, bytes: st.Bytes,
		sound: st.SoundPackets, heard: st.HeardPackets, heardMissing: st.HeardMissing, slowest: st.ConnectedIn,
		relayed: up.Passed + down.Passed, lost: up.Lost + down.Lost, dropped: up.Dropped + down.Dropped}
	if st.ConnectedIn == 0 {
		return c
	}
	c.connected, c.agents = 1, len(s.agents)
	for _, a := range s.agents {
		if a.client.Connected() {
			c.attached++
		}
		c.reconnections += max(a.client.Stats().Attached, 1) - 1
	}
	return c
}

// sum is everything so far; agents and attached are of sessions that are live.
func (l *load) sum() counts {
	l.mu.Lock()
	live := make([]*session, 0, len(l.live))
	for s := range l.live {
		live = append(live, s)
	}
	c := l.retired
	l.mu.Unlock()
	for _, s := range live {
		c.add(s.counts())
	}
	return c
}
