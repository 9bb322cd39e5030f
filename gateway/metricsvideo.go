package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"sightline/frames"
	"sightline/gateway/rtc"
)

type videoStats = frames.TrackStats

// videoFigures are the counters of tracks, summed over live and ended ones.
var videoFigures = join(
	[]figure[videoStats]{
		counter("rtp_packets_received_total", "RTP packets of video tracks.", func(s *videoStats) uint64 { return s.Packets }),
		counter("rtp_packets_lost_total", "RTP packets of video tracks that had not arrived 500 ms after their turn; those that come later still are dropped as late, too.", func(s *videoStats) uint64 { return s.Lost }),
		counter("frames_assembled_total", "Complete frames in an unbroken chain.", func(s *videoStats) uint64 { return s.Frames }),
		counter("key_frames_total", "Key frames among the complete frames.", func(s *videoStats) uint64 { return s.KeyFrames }),
		counter("frames_decoded_total", "Pictures decoded.", func(s *videoStats) uint64 { return s.Decoded }),
		counter("images_encoded_total", "Images made; one may go to many agents.", func(s *videoStats) uint64 { return s.Encoded }),
		counter("image_encode_errors_total", "Pictures of which no image could be made.", func(s *videoStats) uint64 { return s.EncodeErrors }),
		counter("images_delivered_total", "Images given to subscriptions and requests.", func(s *videoStats) uint64 { return s.Delivered }),
		counter("images_unchanged_total", "Images withheld from wishes for changes, because their pictures showed none.", func(s *videoStats) uint64 { return s.Unchanged }),
		counter("capture_reports_doubted_total", "Sender reports and capture times that cannot be.", func(s *videoStats) uint64 { return s.ReportsDoubted }),
		counter("images_superseded_total", "Images replaced by a newer one before a slow agent took them.", func(s *videoStats) uint64 { return s.Superseded }),
		counter("key_frame_requests_total", "Key frames asked for.", func(s *videoStats) uint64 { return s.PLIs }),
		counter("key_frame_requests_answered_total", "Key frames that came for it; several requests may have one answer.", func(s *videoStats) uint64 { return s.PLIsAnswered }),
		counter("key_frame_requests_ignored_total", "Requests for key frames that had no answer for a second.", func(s *videoStats) uint64 { return s.PLIsIgnored }),
		counter("frames_skipped_total", "Whole frames that the policy left undecoded; they are not among the dropped.", func(s *videoStats) uint64 { return s.PolicySkipped }),
		counter("layer_switches_total", "Times that images went on from another layer of a source.", func(s *videoStats) uint64 { return s.LayerSwitches }),
		counter("video_resets_total", "Jumps of sequence numbers or timestamps after which a track began anew.", func(s *videoStats) uint64 { return s.Resets }),
		gauge("image_subscriptions", "Wishes for images of a source.", func(s *videoStats) float64 { return float64(s.Subscriptions) }),
		gauge("image_requests_waiting", "Requests that wait for an image.", func(s *videoStats) float64 { return float64(s.Waiting) }),
		gauge("c_memory_bytes", "C memory of decoders and encoders.", func(s *videoStats) float64 { return float64(s.CBytes) }),
	},
	byLabel("rtp_packets_dropped_total", "RTP packets of video tracks thrown away, by cause.", "cause", []labelled[videoStats]{
		of("duplicate", func(s *videoStats) uint64 { return s.PacketDrops.Duplicate }),
		of("late", func(s *videoStats) uint64 { return s.PacketDrops.Late }),
		of("malformed", func(s *videoStats) uint64 { return s.PacketDrops.Malformed }),
		of("stray", func(s *videoStats) uint64 { return s.PacketDrops.Stray }),
	}),
	byLabel("frames_dropped_total", "Frames thrown away, by cause.", "cause", []labelled[videoStats]{
		of("incomplete", func(s *videoStats) uint64 { return s.FrameDrops.Incomplete }),
		of("need_key", func(s *videoStats) uint64 { return s.FrameDrops.NeedKey }),
		of("too_big", func(s *videoStats) uint64 { return s.FrameDrops.TooBig }),
		of("refused", func(s *videoStats) uint64 { return s.FrameDrops.Refused }),
		of("queue_full", func(s *videoStats) uint64 { return s.FrameDrops.QueueFull }),
		of("skipped", func(s *videoStats) uint64 { return s.FrameDrops.Skipped }),
		of("decode", func(s *videoStats) uint64 { return s.FrameDrops.Decode }),
		of("corrupt", func(s *videoStats) uint64 { return s.FrameDrops.Corrupt }),
	}),
)

func join[T any](lists ...[]figure[T]) (all []figure[T]) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var descSources = describe("sources", "Running video tracks, by codec, state, and the policy of decoding in effect.", "codec", "policy", "state")

// running counts a track in.
func (m *metrics) running(t *frames.Track) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tracks[t] = struct{}{}
}

// retire keeps the counters of a track that has ended.
func (m *metrics) retire(t *frames.Track) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tracks, t)
	s := t.Stats()
	s.Width, s.Height, s.Subscriptions, s.Waiting, s.CBytes = 0, 0, 0, 0, 0 // of a moment that is over
	addUp(&m.retired, s)
}

// sourceKind is what running tracks are told apart by.
type sourceKind struct{ codec, policy, state string }

// totals is the sum over all tracks that ever ran, and how many of which kind run.
func (m *metrics) totals() (sum frames.TrackStats, kinds map[sourceKind]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, kinds = m.retired, map[sourceKind]int{}
	for t := range m.tracks {
		s := t.Stats()
		addUp(&sum, s)
		kinds[sourceKind{string(s.Codec), string(s.InEffect), string(s.State)}]++
	}
	return sum, kinds
}

// mediaFigures are those of the media engine.
var mediaFigures = []figure[rtc.EngineStats]{
	gauge("peers", "Peer connections.", func(s *rtc.EngineStats) float64 { return float64(s.Peers) }),
	gauge("peers_unconnected", "Peer connections that have no path yet.", func(s *rtc.EngineStats) float64 { return float64(s.Unconnected) }),
	counter("peer_closes_stuck_total", "Peer connections whose goroutines did not end in time.", func(s *rtc.EngineStats) uint64 { return uint64(s.StuckCloses) }),
	counter("peers_over_limit_total", "Peer connections closed for more SSRCs or addresses than allowed.", func(s *rtc.EngineStats) uint64 { return uint64(s.OverLimit) }),
	counter("flood_packets_dropped_total", "Packets thrown away unread: of sources that send more than one source may, of a second SSRC as the same simulcast layer, and DTLS that no peer may send.", func(s *rtc.EngineStats) uint64 { return s.FloodDrops }),
}

// trafficStats is what came over peer connections, with all that is read of no track.
type trafficStats struct {
	Packets, Bytes, Unreadable uint64
}

var trafficFigures = []figure[trafficStats]{
	counter("media_packets_received_total", "RTP packets of all tracks, sound and those that nobody reads too.", func(s *trafficStats) uint64 { return s.Packets }),
	counter("media_bytes_received_total", "Bytes of all media received.", func(s *trafficStats) uint64 { return s.Bytes }),
	counter("media_packets_unreadable_total", "Packets that are no RTP, or of an unknown payload type.", func(s *trafficStats) uint64 { return s.Unreadable }),
}

func trafficOf(p *rtc.Peer) trafficStats {
	s := p.Stats()
	t := trafficStats{Packets: s.PacketsReceived, Bytes: s.BytesReceived}
	for _, track := range s.Tracks {
		t.Unreadable += track.Unreadable
	}
	return t
}

// peerBegins and peerEnds keep what came over peers that have ended.
func (m *metrics) peerBegins(p *rtc.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peers[p] = struct{}{}
}

func (m *metrics) peerEnds(p *rtc.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.peers, p)
	addUp(&m.traffic, trafficOf(p))
}

type mediaCollector struct {
	metrics *metrics
	engine  *rtc.Engine
}

// watchMedia adds the figures of the media engine.
func (m *metrics) watchMedia(e *rtc.Engine) { m.registry.MustRegister(mediaCollector{m, e}) }

// Describe implements prometheus.Collector.
func (c mediaCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c mediaCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.engine.Stats()
	emit(ch, mediaFigures, &s)
	c.metrics.mu.Lock()
	sum := c.metrics.traffic
	for p := range c.metrics.peers {
		addUp(&sum, trafficOf(p))
	}
	c.metrics.mu.Unlock()
	emit(ch, trafficFigures, &sum)
}

// stillFigures are those of images that are made smaller.
var stillFigures = join(
	byLabel("stills_total", "Images that were to be made smaller, by what became of them.", "result", []labelled[frames.StillsStats]{
		of("made", func(s *frames.StillsStats) uint64 { return s.Made }),
		of("bad", func(s *frames.StillsStats) uint64 { return s.Bad }),
		of("too_large", func(s *frames.StillsStats) uint64 { return s.TooLarge }),
		of("full", func(s *frames.StillsStats) uint64 { return s.Full }),
		of("late", func(s *frames.StillsStats) uint64 { return s.Late }),
	}),
	[]figure[frames.StillsStats]{
		gauge("stills_working", "Images that are being made smaller.", func(s *frames.StillsStats) float64 { return float64(s.Working) }),
		gauge("stills_waiting", "Images that wait to be made smaller.", func(s *frames.StillsStats) float64 { return float64(s.Waiting) }),
		gauge("stills_waiting_bytes", "Bytes of the images that wait to be made smaller.", func(s *frames.StillsStats) float64 { return float64(s.WaitingBytes) }),
		gauge("stills_memory_bytes", "Memory, C memory included, that the images being made smaller take at most.", func(s *frames.StillsStats) float64 { return float64(s.Bytes) }),
		gauge("stills_memory_most_bytes", "The largest stills_memory_bytes there has been.", func(s *frames.StillsStats) float64 { return float64(s.MostBytes) }),
	},
)

type stillCollector struct{ stills *frames.Stills }

// watchStills adds the figures of stills.
func (m *metrics) watchStills(s *frames.Stills) { m.registry.MustRegister(stillCollector{s}) }

// Describe implements prometheus.Collector.
func (c stillCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c stillCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stills.Stats()
	emit(ch, stillFigures, &s)
}
