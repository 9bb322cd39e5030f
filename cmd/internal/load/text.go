package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func number(n int) string { return strconv.Itoa(n) }

// asked says in words what the run was to do.
func (o *options) asked(video string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d publishers of %s", o.publishers, video)
	if o.simulcast {
		b.WriteString(" (simulcast)")
	}
	if o.speech != "" {
		b.WriteString(" and speech")
	}
	fmt.Fprintf(&b, ", %d agents each at %s images/s of %s", o.agents, o.imageFPS.String(), o.imageSize)
	for _, more := range []struct {
		is   bool
		text string
	}{
		{o.slowAgents > 0, fmt.Sprintf(", %d slow agents", o.slowAgents)},
		{o.churn > 0, fmt.Sprintf(", sessions of about %v", o.churn)},
		{o.switchEvery > 0, fmt.Sprintf(", a switch every %v in each", o.switchEvery)},
		{o.loss > 0, fmt.Sprintf(", %g %% loss each way", 100*float64(o.loss))},
		{o.delay > 0, fmt.Sprintf(", %v delay each way", o.delay)},
		{o.jitter > 0, fmt.Sprintf(", %v jitter", o.jitter)},
	} {
		if more.is {
			b.WriteString(more.text)
		}
	}
	fmt.Fprintf(&b, ", for %v", o.duration)
	return b.String()
}

// String is one line.
func (t Times) String() string {
	if t.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %.1f  p95 %.1f  p99 %.1f  max %.1f ms  (%d)", t.P50, t.P95, t.P99, t.Max, t.Count)
}

// rows are the report's lines, in order: a name and what there is to say.
func (r *Report) rows() (rows [][2]string) {
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	p, i, g := r.Publishers, r.Images, r.Gateway
	add("asked", "%s", r.Asked)
	add("measured", "%.1f s, with %.2f cores of CPU in this program", r.Seconds, r.CPUSeconds/r.Seconds)
	add("publishers", "%d of %d sessions connected, %d failed, slowest connect %.0f ms", p.Connected, p.Sessions, p.Failed, p.ConnectMSMax)
	add("sent", "%d frames (%d key, %d late), %d packets, %.0f kbit/s, %d key frames asked for", p.Frames, p.KeyFrames, p.LateFrames, p.Packets, p.KbitPerSec, p.PLI)
	if p.SoundPackets > 0 {
		add("sound", "%d packets said, %d heard, %d of those missing", p.SoundPackets, p.HeardPackets, p.HeardMissing)
	}
	if n := r.Network; n.Passed+n.Lost > 0 {
		add("network", "%d packets passed, %d lost on purpose, %d dropped", n.Passed, n.Lost, n.Dropped)
	}
	if r.Agents.Wanted > 0 {
		add("agents", "%d of %d attached, %d reconnects", r.Agents.Connected, r.Agents.Wanted+r.Agents.SlowWanted, r.Agents.Reconnects)
		add("images", "%d, %.2f/s of %.2f/s asked for, %.1f KB each, %d superseded", i.Received, i.PerSecond, i.Wanted, i.BytesMean/1000, i.Superseded)
		add("last packet→agent", "%v", i.SentToAgent)
		add("capture→agent", "%v", i.CaptureToAgent)
	}
	if i.Unmatched > 0 {
		add("old images", "%d, of frames sent 15 s ago and longer", i.Unmatched)
	}
	if i.Request.Count > 0 {
		add("image.request", "%v", i.Request)
	}
	if r.Agents.SlowWanted > 0 {
		add("slow agents", "%d images, told of %d superseded", r.Agents.SlowImages, r.Agents.SlowMissed)
	}
	if c := r.Context; c.Checked > 0 {
		add("context", "exact in %d of %d sessions, %d entries", c.Exact, c.Checked, c.Entries)
		add("append→ack", "%v", c.Append)
	}
	if r.Switches.Committed > 0 {
		add("switches", "%d committed, %v", r.Switches.Committed, r.Switches.Took)
	}
	if !g.Known {
		add("gateway", "tells no figures: %s", g.Why)
		return rows
	}
	add("gateway", "%.2f cores, %.2f %% of a core a session; %.0f goroutines", g.CPUCores, g.CPUPerSessionPercent, g.Goroutines)
	if g.FromEmpty {
		add("memory", "%.0f MiB at most, %.0f before, %.2f for a session", g.RSSMaxMiB, g.RSSBeforeMiB, g.RSSPerSessionMiB)
	} else {
		add("memory", "%.0f MiB at most; other sessions were there before", g.RSSMaxMiB)
	}
	if !g.VideoKnown {
		return rows
	}
	add("received", "%.0f RTP packets, %.0f lost; %.0f frames decoded, %.0f dropped; %.0f images made, %.0f superseded, %.0f key frames asked for",
		g.Packets, g.Lost, g.Decoded, g.DroppedFrames, g.Encoded, g.Superseded, g.KeyFrameRequests)
	return rows
}

func (r *Report) print(out io.Writer) {
	fmt.Fprintln(out)
	for _, row := range r.rows() {
		fmt.Fprintf(out, "%-18s %s\n", row[0], row[1])
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "%-18s %d × %s\n", "error", r.Errors[kind], kind)
	}
	for _, difference := range r.Context.Differences {
		fmt.Fprintf(out, "%-18s %s\n", "context differs", difference)
	}
	for _, doubt := range r.doubts() {
		fmt.Fprintf(out, "%-18s %s\n", "careful", doubt)
	}
	for _, v := range r.Limits {
		state := "limit kept"
		if v.Broken {
			state = "limit broken"
		}
		fmt.Fprintf(out, "%-18s %s\n", state, v.Sentence)
	}
}

// doubts say why figures may not be the gateway's.
func (r *Report) doubts() (doubts []string) {
	if p := r.Publishers; p.LateFrames*100 > p.Frames {
		doubts = append(doubts, fmt.Sprintf("%.1f %% of the frames were sent late: this machine was too busy, and the delays are its as much as the gateway's", 100*float64(p.LateFrames)/float64(p.Frames)))
	}
	if r.Network.Dropped > 0 {
		doubts = append(doubts, "the network of --delay held more packets than it can: it dropped some beyond --loss")
	}
	return doubts
}
