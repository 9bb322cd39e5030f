package gateway

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sightline/context/recorder"
	"sightline/context/window"
	"sightline/gateway/sound"
	"sightline/switcher"
)

// soundFigures sums what sessions' sound and legs count, over those that talk and those that have ended, so that they only grow.
type soundFigures struct {
	mu      sync.Mutex
	running map[*voice]struct{}
	retired voiceStats
}

// voiceStats is all that is counted of a session that talks.
type voiceStats struct {
	In       sound.Counts
	Out      sound.EgressStats
	Legs     switcher.Counters
	Provider switcher.LegCounters
	Notes    recorder.Stats
	Refused  uint64 // operations that the log did not take: somebody else had recorded or removed the same
	Window   window.Stats
	Hearing  int // sessions whose caller hears
	Speaking int // that talk
}

var voiceFigures = join(soundInFigures, soundOutFigures, legFigures, providerFigures, wordFigures)

var soundInFigures = join(
	[]figure[voiceStats]{
		counter("sound_packets_received_total", "Opus packets of microphones.", func(s *voiceStats) uint64 { return s.In.Packets }),
		counter("sound_packets_played_total", "Opus packets of microphones that became sound.", func(s *voiceStats) uint64 { return s.In.Played }),
		counter("sound_packets_lost_total", "Opus packets of microphones that never arrived, or too late.", func(s *voiceStats) uint64 { return s.In.Lost }),
		counter("sound_packets_late_total", "Opus packets of microphones that came after they had been given up; they are among the lost.", func(s *voiceStats) uint64 { return s.In.Late }),
		counter("sound_restarts_total", "Times that a microphone went on with another SSRC or other sequence numbers.", func(s *voiceStats) uint64 { return s.In.Restarts }),
		counter("sound_frames_unread_dropped_total", "Pieces of 20 ms of microphones left out because decoding could not keep up.", func(s *voiceStats) uint64 { return s.In.Unread }),
	},
	byLabel("sound_packets_dropped_total", "Opus packets of microphones thrown away, by cause.", "cause", []labelled[voiceStats]{
		of("duplicate", func(s *voiceStats) uint64 { return s.In.Duplicates }),
		of("overflow", func(s *voiceStats) uint64 { return s.In.Dropped }),
		of("malformed", func(s *voiceStats) uint64 { return s.In.Malformed }),
		of("stray", func(s *voiceStats) uint64 { return s.In.Stray }),
		of("foreign", func(s *voiceStats) uint64 { return s.In.Foreign }),
	}),
	byLabel("sound_mended_seconds_total", "Sound of microphones that is not what was sent: repaired by FEC, concealed, silence in a gap, shortened to give delay back.", "how", []labelled[voiceStats]{
		{"repaired", func(s *voiceStats) float64 { return s.In.Repaired.Seconds() }},
		{"concealed", func(s *voiceStats) float64 { return s.In.Concealed.Seconds() }},
		{"silence", func(s *voiceStats) float64 { return s.In.Silence.Seconds() }},
		{"shortened", func(s *voiceStats) float64 { return s.In.Shortened.Seconds() }},
	}),
)

var soundOutFigures = []figure[voiceStats]{
	counter("sound_packets_sent_total", "Opus packets of agents' voices.", func(s *voiceStats) uint64 { return s.Out.Packets }),
	counter("sound_bytes_sent_total", "Bytes of these packets' payload.", func(s *voiceStats) uint64 { return s.Out.Bytes }),
	counter("sound_packets_sent_late_total", "Opus packets sent more than 20 ms after their time.", func(s *voiceStats) uint64 {
		return s.Out.Late[5] + s.Out.Late[6] + s.Out.Late[7]
	}),
	seconds("sound_played_seconds_total", "Sound of agents that callers have heard.", func(s *voiceStats) float64 { return s.Out.Played.Seconds() }),
	counter("sound_underruns_total", "Turns that went on after their sound had run out while it was heard.", func(s *voiceStats) uint64 { return s.Out.Underruns }),
	counter("sound_slots_skipped_total", "Packets given up because the clock came more than three of them late.", func(s *voiceStats) uint64 { return s.Out.SkippedSlots }),
	counter("sound_late_dropped_total", "Pieces of sound of turns that were over.", func(s *voiceStats) uint64 { return s.Out.LateSound }),
	seconds("sound_late_dropped_seconds_total", "Sound of these pieces.", func(s *voiceStats) float64 { return s.Out.LateTime.Seconds() }),
	seconds("sound_stopped_seconds_total", "Sound that was made and thrown away because its turn was stopped.", func(s *voiceStats) float64 { return s.Out.StoppedTime.Seconds() }),
	counter("sound_write_errors_total", "Packets that could not be sent.", func(s *voiceStats) uint64 { return s.Out.WriteErrors }),
	counter("sound_reports_dropped_total", "Reports of what was heard that nobody read.", func(s *voiceStats) uint64 { return s.Out.ReportsDropped }),
	gauge("sound_queued_seconds", "Sound of agents that waits to be heard.", func(s *voiceStats) float64 { return s.Out.Queued.Seconds() }),
	gauge("sound_turns_open", "Turns of agents that are being heard, or wait for it.", func(s *voiceStats) float64 { return float64(s.Out.OpenTurns) }),
	gauge("sessions_talking", "Sessions that have a voice.", func(s *voiceStats) float64 { return float64(s.Speaking) }),
	gauge("sessions_hearing", "Sessions whose caller can hear.", func(s *voiceStats) float64 { return float64(s.Hearing) }),
}

var legFigures = []figure[voiceStats]{
	counter("pipeline_rollovers_total", "Switches to a fresh leg of the same pipeline because a connection was about to end.", func(s *voiceStats) uint64 { return s.Legs.Rollovers }),
	counter("leg_outputs_late_dropped_total", "Outputs of legs that did not have the floor any more, or not yet (G5).", func(s *voiceStats) uint64 { return s.Legs.LateOutputs }),
	counter("leg_outputs_refused_total", "Outputs of legs that were none: ids that are no ids, rates that are no rates.", func(s *voiceStats) uint64 { return s.Legs.BadOutputs }),
	counter("leg_sound_unread_dropped_total", "Pieces of callers' sound that legs did not read in time.", func(s *voiceStats) uint64 { return s.Legs.InboxDropped }),
	counter("leg_sound_stopped_dropped_total", "Pieces of legs' sound that came after their turn had been stopped.", func(s *voiceStats) uint64 { return s.Legs.StoppedSound }),
	counter("leg_sound_mute_dropped_total", "Pieces of legs' sound that there was no speaker for.", func(s *voiceStats) uint64 { return s.Legs.MuteSound }),
	counter("replay_sound_dropped_total", "Oldest pieces of callers' turns that were too long to be given to the next leg.", func(s *voiceStats) uint64 { return s.Legs.ReplayDropped }),
	counter("seeds_refused_total", "Legs whose provider refused what it was told of the conversation, tried again with instructions.", func(s *voiceStats) uint64 { return s.Legs.Reseeds }),
	counter("seed_items_stale_total", "Items that changed between a leg's seed and its commit.", func(s *voiceStats) uint64 { return s.Legs.StaleItems }),
	counter("tools_executed_total", "Tool calls that were executed.", func(s *voiceStats) uint64 { return s.Legs.ToolCalls }),
	counter("tool_repeats_total", "Tool calls that were asked for again and not executed again (G4).", func(s *voiceStats) uint64 { return s.Legs.ToolRepeats }),
	counter("tool_same_total", "Tool calls that were given the result of the same call before in the turn.", func(s *voiceStats) uint64 { return s.Legs.ToolSame }),
	counter("switch_loops_refused_total", "Switches by a model that were answered as no-ops (G7).", func(s *voiceStats) uint64 { return s.Legs.LoopGuards }),
	counter("playback_interruptions_total", "Times that playback was stopped.", func(s *voiceStats) uint64 { return s.Legs.Interruptions }),
	counter("texts_read_aloud_total", "Turns of legs that came without their sound, spoken by the gateway's voice.", func(s *voiceStats) uint64 { return s.Legs.ReadAloud }),
	counter("apologies_total", "Apologies for answers that a leg said will not come.", func(s *voiceStats) uint64 { return s.Legs.Apologies }),
	counter("control_events_dropped_total", "Events of speech and playback that found a session's queue full.", func(s *voiceStats) uint64 { return s.Legs.Posts }),
}

// providerFigures are of legs whose model is somebody else's.
var providerFigures = byLabel("leg_events_total", "What realtime legs passed over or threw away, by kind; frames: images that they sent.", "event", []labelled[voiceStats]{
	of("early_sound", func(s *voiceStats) uint64 { return s.Provider.EarlySound }),
	of("unsent_sound", func(s *voiceStats) uint64 { return s.Provider.UnsentSound }),
	of("stopped_sound", func(s *voiceStats) uint64 { return s.Provider.StoppedSound }),
	of("early_answer", func(s *voiceStats) uint64 { return s.Provider.EarlyAnswers }),
	of("late_words", func(s *voiceStats) uint64 { return s.Provider.LateWords }),
	of("repeated_call", func(s *voiceStats) uint64 { return s.Provider.RepeatedCalls }),
	of("frames", func(s *voiceStats) uint64 { return s.Provider.Frames }),
	of("benign_error", func(s *voiceStats) uint64 { return s.Provider.Benign }),
	of("unknown", func(s *voiceStats) uint64 { return s.Provider.Unknown }),
	of("malformed", func(s *voiceStats) uint64 { return s.Provider.Malformed }),
})

// wordFigures are of what is written down.
var wordFigures = join(
	[]figure[voiceStats]{
		counter("summaries_total", "Summaries that took the place of the oldest part of a conversation.", func(s *voiceStats) uint64 { return s.Window.Summaries }),
		counter("summaries_failed_total", "Summaries that could not be had.", func(s *voiceStats) uint64 { return s.Window.Failures }),
		counter("summaries_void_total", "Summaries not used because what they stand for had changed.", func(s *voiceStats) uint64 { return s.Window.Void }),
		counter("context_items_forgotten_total", "Items removed from conversations that were too long, without a summary.", func(s *voiceStats) uint64 { return s.Window.Dropped }),
	},
	byLabel("speech_reports_total", "What legs said and heard, on its way into the conversation, by what became of it.", "outcome", []labelled[voiceStats]{
		of("written", func(s *voiceStats) uint64 { return s.Notes.Written }),
		of("duplicate", func(s *voiceStats) uint64 { return s.Notes.Duplicates }),
		of("ignored", func(s *voiceStats) uint64 { return s.Notes.Ignored }),
		of("late", func(s *voiceStats) uint64 { return s.Notes.Late }),
		of("provisional", func(s *voiceStats) uint64 { return s.Notes.Provisional }),
		of("vanished", func(s *voiceStats) uint64 { return s.Notes.Vanished }),
		of("unheard", func(s *voiceStats) uint64 { return s.Notes.Unheard }),
		of("generated_id", func(s *voiceStats) uint64 { return s.Notes.Generated }),
		of("orphan", func(s *voiceStats) uint64 { return s.Notes.Orphans }),
		of("nameless", func(s *voiceStats) uint64 { return s.Notes.Nameless }),
		of("cut", func(s *voiceStats) uint64 { return s.Notes.Cut }),
		of("forced", func(s *voiceStats) uint64 { return s.Notes.Forced }),
		of("error", func(s *voiceStats) uint64 { return s.Notes.Errors }),
		of("refused", func(s *voiceStats) uint64 { return s.Refused }),
	}),
)

func newSoundFigures() *soundFigures { return &soundFigures{running: map[*voice]struct{}{}} }

func (f *soundFigures) begin(v *voice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[v] = struct{}{}
}

func (f *soundFigures) end(v *voice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, v)
	s := v.stats()
	s.Out.Queued, s.Out.OpenTurns, s.Out.MaxLate, s.Hearing, s.Speaking = 0, 0, 0, 0, 0 // of a moment that is over
	addUp(&f.retired, s)
}

// stats is what the voice has counted.
func (v *voice) stats() voiceStats {
	s := voiceStats{Out: v.egress.Stats(), Legs: v.switcher.Counters(), Provider: v.switcher.LegCounters(), Speaking: 1}
	s.Notes, s.Refused = v.switcher.Recorded()
	if v.window != nil {
		s.Window = v.window.Stats()
	}
	if s.Out.Connected {
		s.Hearing = 1
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s.In = v.heard
	if v.mic != nil {
		addUp(&s.In, v.mic.Counts())
	}
	return s
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
	addUp(&v.heard, in.Counts())
	if v.mic == in {
		v.mic = nil
	}
}

// Describe implements prometheus.Collector.
func (f *soundFigures) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(f, ch) }

// Collect implements prometheus.Collector.
func (f *soundFigures) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	sum := f.retired
	for v := range f.running {
		addUp(&sum, v.stats())
	}
	f.mu.Unlock()
	emit(ch, voiceFigures, &sum)
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
	s := v.stats()
	d := &soundDetail{Egress: s.Out, Ingress: s.In, Switcher: s.Legs}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mic != nil {
		d.Delay = v.mic.Delay()
	}
	return d
}
