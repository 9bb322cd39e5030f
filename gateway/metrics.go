package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sightline/frames"
	"sightline/gateway/problem"
)

// metrics are the gateway's counters. Those of tracks are summed over live and ended ones, so that they only grow.
type metrics struct {
	registry   *prometheus.Registry
	appends    *prometheus.CounterVec
	appendTime prometheus.Histogram
	refusals   *prometheus.CounterVec
	turned     *prometheus.CounterVec
	images     prometheus.Counter
	imageBytes prometheus.Counter
	superseded prometheus.Counter
	imageAge   prometheus.Histogram
	imageDelay prometheus.Histogram
	voice      *voiceMetrics
	sound      *soundFigures

	mu      sync.Mutex
	tracks  map[*frames.Track]struct{} // running
	retired frames.TrackStats          // counters of tracks that have ended
}

var delayBuckets = []float64{.002, .005, .01, .015, .02, .03, .05, .075, .1, .2, .5, 1, 5}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), tracks: map[*frames.Track]struct{}{}}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sightline_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sightline_" + name, Help: help, Buckets: delayBuckets})
	}
	m.appends = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sightline_context_appends_total", Help: "Operations sent to conversations, by result."}, []string{"result"})
	m.appendTime = histogram("context_append_seconds", "From an operation's arrival to its entry being durable.")
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sightline_agent_errors_total", Help: "Error messages sent to agents, by code."}, []string{"code"})
	m.turned = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sightline_requests_refused_total", Help: "Requests turned away before they were served, for want of a token, its rights or its rate, by code."}, []string{"code"})
	m.images = counter("images_sent_total", "Images written to agent sockets.")
	m.imageBytes = counter("image_bytes_sent_total", "Bytes of these images.")
	m.superseded = counter("images_superseded_total", "Images replaced by a newer one before a slow agent took them.")
	m.imageAge = histogram("image_age_seconds", "Age of an image's picture when it was written to an agent.")
	m.imageDelay = histogram("image_delay_seconds", "From a frame's last packet to its image being written to an agent.")
	m.registry.MustRegister(m.appends, m.appendTime, m.refusals, m.turned, m.images, m.imageBytes, m.superseded, m.imageAge, m.imageDelay,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.voice, m.sound = newVoiceMetrics(m.registry), newSoundFigures()
	m.registry.MustRegister(m.sound)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func (m *metrics) appended(took time.Duration, err error) {
	if err != nil {
		m.appends.WithLabelValues(string(problem.From(contextProblem(err)).Code)).Inc()
		return
	}
	m.appends.WithLabelValues("ok").Inc()
	m.appendTime.Observe(took.Seconds())
}

func (m *metrics) refused(code problem.Code) { m.refusals.WithLabelValues(string(code)).Inc() }

func (m *metrics) turnedAway(code problem.Code) { m.turned.WithLabelValues(string(code)).Inc() }

func (m *metrics) sentImage(img *frames.Image, age time.Duration, now time.Time, superseded uint64) {
	m.images.Inc()
	m.imageBytes.Add(float64(len(img.Data)))
	m.superseded.Add(float64(superseded))
	m.imageAge.Observe(age.Seconds())
	m.imageDelay.Observe(now.Sub(img.ReceivedAt).Seconds())
}

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
	addCounters(&m.retired, t.Stats())
	m.retired.CBytes = 0
}

// totals is the sum over all tracks that ever ran.
func (m *metrics) totals() frames.TrackStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.retired
	for t := range m.tracks {
		addCounters(&sum, t.Stats())
	}
	return sum
}

func addCounters(sum *frames.TrackStats, s frames.TrackStats) {
	sum.Packets += s.Packets
	sum.Lost += s.Lost
	sum.Frames += s.Frames
	sum.KeyFrames += s.KeyFrames
	sum.Decoded += s.Decoded
	sum.Encoded += s.Encoded
	sum.PLIs += s.PLIs
	sum.FrameDrops.Incomplete += s.FrameDrops.Total() // one number here; the session's state has them by cause
	sum.CBytes += s.CBytes
}

// watch adds the figures that are read from the sessions at each scrape.
func (m *metrics) watch(r *registry) { m.registry.MustRegister(&sessionCollector{m, r}) }

type sessionCollector struct {
	metrics  *metrics
	registry *registry
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sightline_"+name, help, labels, nil)
}

var (
	descSessions = describe("sessions", "Sessions by state.", "state")
	descAgents   = describe("agents", "Agent sockets attached.")
	descLag      = describe("follower_lag_entries", "Entries that the agent furthest behind has yet to be sent.")
	descPackets  = describe("rtp_packets_received_total", "RTP packets of video tracks.")
	descLost     = describe("rtp_packets_lost_total", "RTP packets of video tracks that never arrived.")
	descFrames   = describe("frames_assembled_total", "Complete frames in an unbroken chain.")
	descDropped  = describe("frames_dropped_total", "Frames thrown away; a session's state tells the causes.")
	descDecoded  = describe("frames_decoded_total", "Pictures decoded.")
	descEncoded  = describe("images_encoded_total", "Images made; one may go to many agents.")
	descPLIs     = describe("key_frame_requests_total", "Key frames asked for.")
	descCBytes   = describe("c_memory_bytes", "C memory of decoders and encoders.")
)

// Describe implements prometheus.Collector.
func (c *sessionCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *sessionCollector) Collect(ch chan<- prometheus.Metric) {
	states := map[string]int{stateConnecting: 0, stateLive: 0, stateStalled: 0, stateEnded: 0}
	agents, lag := 0, uint64(0)
	sum := c.metrics.totals()
	live, _ := c.registry.list(false)
	states[stateStalled], states[stateEnded] = c.registry.countResting()
	for _, s := range live {
		d := s.detail()
		states[d.State]++
		agents += len(d.Agents)
		lag = max(lag, s.lag())
	}
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(n), state)
	}
	draining := 0.0
	if c.registry.isDraining() {
		draining = 1
	}
	ch <- prometheus.MustNewConstMetric(descDraining, prometheus.GaugeValue, draining)
	ch <- prometheus.MustNewConstMetric(descAgents, prometheus.GaugeValue, float64(agents))
	ch <- prometheus.MustNewConstMetric(descLag, prometheus.GaugeValue, float64(lag))
	ch <- prometheus.MustNewConstMetric(descCBytes, prometheus.GaugeValue, float64(sum.CBytes))
	for desc, n := range map[*prometheus.Desc]uint64{
		descPackets: sum.Packets, descLost: sum.Lost, descFrames: sum.Frames, descDropped: sum.FrameDrops.Incomplete,
		descDecoded: sum.Decoded, descEncoded: sum.Encoded, descPLIs: sum.PLIs,
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
}
