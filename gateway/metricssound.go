package gateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sightline/gateway/sound"
	"sightline/switcher"
)

// soundFigures sums what sessions' sound and legs count, over those that talk and those that have ended, so that they only grow.
type soundFigures struct {
	mu      sync.Mutex
	running map[*voice]struct{}
	retired map[*prometheus.Desc]float64
}

var (
	descSoundIn     = describe("sound_packets_received_total", "Opus packets of microphones.")
	descSoundLost   = describe("sound_packets_lost_total", "Opus packets of microphones that never arrived, or too late.")
	descSoundOut    = describe("sound_packets_sent_total", "Opus packets of agents' voices.")
	descPlayed      = describe("sound_played_seconds_total", "Sound of agents that callers have heard.")
	descUnderruns   = describe("sound_underruns_total", "Turns that went on after their sound had run out while it was heard.")
	descSkipped     = describe("sound_slots_skipped_total", "Packets given up because the clock came more than three of them late.")
	descLateSound   = describe("sound_late_dropped_total", "Pieces of sound of turns that were over.")
	descLateOutputs = describe("leg_outputs_late_dropped_total", "Outputs of legs that did not have the floor any more, or not yet (G5).")
	descUnreadSound = describe("leg_sound_unread_dropped_total", "Pieces of callers' sound that legs did not read in time.")
	descRepeats     = describe("tool_repeats_total", "Tool calls that were asked for again and not executed again (G4).")
	descLoops       = describe("switch_loops_refused_total", "Switches by a model that were answered as no-ops (G7).")
	descInterrupted = describe("playback_interruptions_total", "Times that playback was stopped.")
)

func newSoundFigures() *soundFigures {
	return &soundFigures{running: map[*voice]struct{}{}, retired: map[*prometheus.Desc]float64{}}
}

func (f *soundFigures) begin(v *voice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[v] = struct{}{}
}

func (f *soundFigures) end(v *voice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, v)
	v.addFigures(f.retired)
}

// addFigures adds what the voice has counted.
func (v *voice) addFigures(sum map[*prometheus.Desc]float64) {
	out, legs := v.egress.Stats(), v.switcher.Counters()
	v.mu.Lock()
	in := v.heard
	if v.mic != nil {
		in = addCounts(in, v.mic.Counts())
	}
	v.mu.Unlock()
	for desc, n := range map[*prometheus.Desc]float64{
		descSoundIn: float64(in.Packets), descSoundLost: float64(in.Lost),
		descSoundOut: float64(out.Packets), descPlayed: out.Played.Seconds(), descUnderruns: float64(out.Underruns),
		descSkipped: float64(out.SkippedSlots), descLateSound: float64(out.LateSound),
		descLateOutputs: float64(legs.LateOutputs), descUnreadSound: float64(legs.InboxDropped), descRepeats: float64(legs.ToolRepeats),
		descLoops: float64(legs.LoopGuards), descInterrupted: float64(legs.Interruptions),
	} {
		sum[desc] += n
	}
}

func addCounts(a, b sound.Counts) sound.Counts {
	a.Packets += b.Packets
	a.Lost += b.Lost
	a.Late += b.Late
	a.Unread += b.Unread
	return a
}

// micBegins and micEnds keep what microphones count over reconnects of the publisher.
func (v *voice) micBegins(in *sound.Ingress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mic = in
}

func (v *voice) micEnds(in *sound.Ingress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard = addCounts(v.heard, in.Counts())
	if v.mic == in {
		v.mic = nil
	}
}

// Describe implements prometheus.Collector.
func (f *soundFigures) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(f, ch) }

// Collect implements prometheus.Collector.
func (f *soundFigures) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	sum := map[*prometheus.Desc]float64{}
	for _, desc := range []*prometheus.Desc{descSoundIn, descSoundLost, descSoundOut, descPlayed, descUnderruns, descSkipped,
		descLateSound, descLateOutputs, descUnreadSound, descRepeats, descLoops, descInterrupted} {
		sum[desc] = f.retired[desc]
	}
	for v := range f.running {
		v.addFigures(sum)
	}
	f.mu.Unlock()
	for desc, n := range sum {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, n)
	}
}

// soundDetail is the sound of a session, for /debug/sessions.
type soundDetail struct {
	Egress   sound.EgressStats `json:"egress"`
	Ingress  sound.Counts      `json:"ingress"`
	Delay    sound.Delay       `json:"delay"`
	Switcher switcher.Counters `json:"switcher"`
}

func (v *voice) soundDetail() *soundDetail {
	if v == nil {
		return nil
	}
	d := &soundDetail{Egress: v.egress.Stats(), Switcher: v.switcher.Counters()}
	v.mu.Lock()
	defer v.mu.Unlock()
	d.Ingress = v.heard
	if v.mic != nil {
		d.Ingress, d.Delay = addCounts(v.mic.Counts(), v.heard), v.mic.Delay()
	}
	return d
}
