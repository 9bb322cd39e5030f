package load

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run has shown; its JSON names are for scripts and do not change.
type Report struct {
	At         time.Time      `json:"at"` // when measuring began
	Asked      string         `json:"asked"`
	Seconds    float64        `json:"seconds"` // measured, without connecting and leaving
	Publishers Publishers     `json:"publishers"`
	Agents     Agents         `json:"agents"`
	Images     Images         `json:"images"`
	Context    Context        `json:"context"`
	Switches   Switches       `json:"switches"`
	Network    Network        `json:"network"`
	Gateway    Gateway        `json:"gateway"`
	Errors     map[string]int `json:"errors"`      // by kind, over the whole run
	CPUSeconds float64        `json:"cpu_seconds"` // of this program, while it measured
	Limits     []Verdict      `json:"limits"`
	Wrong      []string       `json:"wrong,omitempty"` // what makes the exit code another than 0, in sentences
	Samples    []Sample       `json:"samples"`
}

// Publishers is the sending side.
type Publishers struct {
	Wanted       int     `json:"wanted"`    // at once
	Sessions     int     `json:"sessions"`  // in all, with those that came and went
	Connected    int     `json:"connected"` // of those
	Failed       int     `json:"failed"`
	Left         int     `json:"left"` // sessions that could not be deleted
	ConnectMSMax float64 `json:"connect_ms_max"`
	Frames       uint64  `json:"frames"`
	KeyFrames    uint64  `json:"key_frames"`
	LateFrames   uint64  `json:"late_frames"` // sent more than an interval late: this machine is too busy to be believed
	Packets      uint64  `json:"packets"`
	PLI          uint64  `json:"pli"`
	KbitPerSec   float64 `json:"kbit_per_second"` // all publishers together
	SoundPackets uint64  `json:"sound_packets"`
	HeardPackets uint64  `json:"heard_packets"` // of agents' voices
	HeardMissing uint64  `json:"heard_missing"`
}

// Agents is the receiving side.
type Agents struct {
	Wanted     int    `json:"wanted"`    // at once
	Connected  int    `json:"connected"` // at the end
	Reconnects uint64 `json:"reconnects"`
	SlowWanted int    `json:"slow_wanted"`
	SlowImages uint64 `json:"slow_images"`
	SlowMissed uint64 `json:"slow_superseded"` // images that slow agents did not get, because a newer one came
}

// Images are those of agents that are not slow.
type Images struct {
	Received   uint64  `json:"received"`
	PerSecond  float64 `json:"per_second"`
	Wanted     float64 `json:"wanted_per_second"`
	BytesMean  float64 `json:"bytes_mean"`
	Superseded uint64  `json:"superseded"`
	Unmatched  uint64  `json:"unmatched"` // whose frame was sent too long ago to be found; they count as 15 s
	// SentToAgent: from the sending of the frame's last packet, as this program noted it, to the arrival.
	SentToAgent Times `json:"sent_to_agent_ms"`
	// CaptureToAgent: from the capture time in the header to the arrival; right only while both clocks agree, as on one machine.
	CaptureToAgent Times `json:"capture_to_agent_ms"`
	Request        Times `json:"request_ms"` // image.request to its image
}

// Context is what the checks of the logs have shown.
type Context struct {
	Checked     int      `json:"sessions_checked"`
	Exact       int      `json:"sessions_exact"`
	Entries     int      `json:"entries"`
	Digests     []string `json:"digests,omitempty"` // of the first sessions: session, entries, hash over them
	Differences []string `json:"differences,omitempty"`
	Append      Times    `json:"append_ms"` // message to acknowledgement
}

// Switches are those that this program asked for.
type Switches struct {
	Committed int   `json:"committed"` // over the whole run
	Took      Times `json:"took_ms"`   // request to the word that it was committed
}

// Network is what the relay did, both ways.
type Network struct {
	Passed  uint64 `json:"passed"`
	Lost    uint64 `json:"lost"`
	Dropped uint64 `json:"dropped"` // more were on their way than it holds
}

// Gateway is what its /metrics told, while it was measured where nothing else is said.
type Gateway struct {
	Known                bool    `json:"known"`
	Why                  string  `json:"why_not,omitempty"`
	FromEmpty            bool    `json:"from_empty"`  // no session was live before
	VideoKnown           bool    `json:"video_known"` // it tells of packets, frames and images
	CPUCores             float64 `json:"cpu_cores"`
	CPUPerSessionPercent float64 `json:"cpu_percent_per_session"`
	RSSBeforeMiB         float64 `json:"rss_before_mib"`
	RSSMaxMiB            float64 `json:"rss_max_mib"`
	RSSPerSessionMiB     float64 `json:"rss_mib_per_session"`
	Goroutines           float64 `json:"goroutines"`
	Packets              float64 `json:"rtp_packets"`
	Lost                 float64 `json:"rtp_packets_lost"`
	Decoded              float64 `json:"frames_decoded"`
	DroppedFrames        float64 `json:"frames_dropped"`
	Encoded              float64 `json:"images_encoded"`
	Superseded           float64 `json:"images_superseded"` // of all agents: by newer ones, before they were sent
	KeyFrameRequests     float64 `json:"key_frame_requests"`
}

// maxListed bounds the lists of a report.
const maxListed = 20

func (l *load) report(w *watch) *Report {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	o, m, c, d := &l.o, l.m, w.finish, w.finish
	d.sub(w.start)
	seconds := max(m.took.Seconds(), 0.001)
	wanted := 0.0
	for i := range o.agents {
		wanted += o.imageFPS[i%len(o.imageFPS)] * float64(o.publishers)
	}
	r := &Report{
		At: m.begun.UTC().Truncate(time.Second), Asked: o.asked(l.clips[len(l.clips)-1].Name), Seconds: seconds,
		Publishers: Publishers{
			Wanted: o.publishers, Sessions: l.begun, Connected: l.retired.connected, Failed: m.failed, Left: l.left,
			ConnectMSMax: float64(l.retired.slowest.Milliseconds()), Frames: d.frames, KeyFrames: d.keys, LateFrames: d.late,
			Packets: d.packets, PLI: d.pli, KbitPerSec: float64(d.bytes) * 8 / 1000 / seconds,
			SoundPackets: d.sound, HeardPackets: d.heard, HeardMissing: d.heardMissing,
		},
		Agents: Agents{Wanted: o.publishers * o.agents, Connected: c.attached, Reconnects: l.retired.reconnections,
			SlowWanted: o.slowAgents, SlowImages: m.slow.n, SlowMissed: m.slow.superseded},
		Images: Images{
			Received: m.images.n, PerSecond: float64(m.images.n) / seconds, Wanted: wanted, BytesMean: float64(m.images.bytes) / float64(max(m.images.n, 1)),
			Superseded: m.images.superseded, Unmatched: m.images.unmatched,
			SentToAgent: m.sent.times(), CaptureToAgent: m.captured.times(), Request: m.requests.times(),
		},
		Context:  l.contextReport(),
		Switches: Switches{Took: m.switches.times()},
		Network:  Network{Passed: d.relayed, Lost: d.lost, Dropped: d.dropped},
		Gateway:  w.gateway(seconds),
		Errors:   maps.Clone(m.errors), CPUSeconds: w.ownCPU, Samples: slices.Clone(w.samples),
	}
	for _, check := range l.checks {
		r.Switches.Committed += check.commits
	}
	r.Limits = o.judge(r)
	r.Wrong, _ = o.wrong(r)
	return r
}

func (l *load) contextReport() Context {
	c := Context{Checked: len(l.checks), Append: l.m.appends.times()}
	slices.SortFunc(l.checks, func(a, b checked) int { return strings.Compare(a.session, b.session) })
	for _, check := range l.checks {
		c.Entries += check.entries
		if len(check.differences) == 0 {
			c.Exact++
		}
		for _, difference := range check.differences {
			if len(c.Differences) < maxListed {
				c.Differences = append(c.Differences, check.session+": "+difference)
			}
		}
		if len(c.Digests) < maxListed {
			c.Digests = append(c.Digests, check.session+" "+number(check.entries)+" "+check.digest)
		}
	}
	return c
}

// gateway is the difference of the figures at the end and the beginning of measuring.
func (w *watch) gateway(seconds float64) Gateway {
	if w.before == nil || w.after == nil {
		g := Gateway{Why: "it told nothing"}
		if w.failure != nil {
			g.Why = w.failure.Error()
		}
		return g
	}
	grown := func(name string) float64 { return w.after[name] - w.before[name] }
	const mib = 1 << 20
	g := Gateway{
		Known: true, FromEmpty: w.empty != nil && w.empty[`sightline_sessions{state="live"}`]+w.empty[`sightline_sessions{state="connecting"}`] == 0,
		VideoKnown: hasKey(w.after, "sightline_rtp_packets_received_total"), CPUCores: grown("process_cpu_seconds_total") / seconds, RSSBeforeMiB: w.empty["process_resident_memory_bytes"] / mib,
		RSSMaxMiB: w.after["process_resident_memory_bytes"] / mib, Goroutines: w.after["go_goroutines"],
		Packets: grown("sightline_rtp_packets_received_total"), Lost: grown("sightline_rtp_packets_lost_total"),
		Decoded: grown("sightline_frames_decoded_total"), DroppedFrames: grown("sightline_frames_dropped_total"),
		Encoded: grown("sightline_images_encoded_total"), Superseded: grown("sightline_images_superseded_total"), KeyFrameRequests: grown("sightline_key_frame_requests_total"),
	}
	for _, s := range w.samples {
		g.RSSMaxMiB = max(g.RSSMaxMiB, s.RSS)
	}
	sessions := max(w.l.present(w), 1)
	g.CPUPerSessionPercent = 100 * g.CPUCores / sessions
	g.RSSPerSessionMiB = (g.RSSMaxMiB - g.RSSBeforeMiB) / sessions
	return g
}

func hasKey(f figures, name string) bool { _, ok := f[name]; return ok }

// present is how many sessions were live at once, on the average of the samples while it measured.
func (l *load) present(w *watch) float64 {
	sum, n := 0, 0
	for _, s := range w.samples {
		if s.Seconds >= 0 {
			sum, n = sum+s.Sessions, n+1
		}
	}
	if n == 0 {
		return float64(w.finish.connected)
	}
	return float64(sum) / float64(n)
}
