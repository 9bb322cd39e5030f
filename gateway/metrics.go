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
	"sightline/gateway/rtc"
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
	imageAge   prometheus.Histogram
	imageDelay prometheus.Histogram
	lost       prometheus.Counter
	lostSound  prometheus.Counter
	http       *prometheus.CounterVec
	httpTime   *prometheus.HistogramVec
	voice      *voiceMetrics
	sound      *soundFigures

	mu      sync.Mutex
	tracks  map[*frames.Track]struct{} // running
	retired frames.TrackStats          // counters of tracks that have ended
	peers   map[*rtc.Peer]struct{}     // that have not ended
	traffic trafficStats               // of those that have
}

var delayBuckets = []float64{.002, .005, .01, .015, .02, .03, .05, .075, .1, .2, .5, 1, 5}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), tracks: map[*frames.Track]struct{}{}, peers: map[*rtc.Peer]struct{}{}}
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
	m.appends.WithLabelValues("ok")
	for _, code := range []problem.Code{problem.Unauthenticated, problem.Forbidden, problem.NotFound, problem.RateLimited, problem.EngineUnavailable} {
		m.turned.WithLabelValues(string(code)) // a rate needs a beginning
	}
	m.images = counter("images_sent_total", "Images written to agent sockets.")
	m.imageBytes = counter("image_bytes_sent_total", "Bytes of these images.")
	m.lost = counter("agent_messages_dropped_total", "Messages thrown away because an agent did not take them.")
	m.lostSound = counter("agent_sound_dropped_total", "Pieces of 20 ms of sound thrown away because an agent did not take them.")
	m.http = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sightline_http_requests_total", Help: "HTTP requests answered, by route and status; 101: a socket that has ended."}, []string{"route", "status"})
	m.httpTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sightline_http_request_seconds", Help: "How long HTTP requests took that were no sockets, by route.", Buckets: delayBuckets}, []string{"route"})
	m.imageAge = histogram("image_age_seconds", "Age of an image's picture when it was written to an agent.")
	m.imageDelay = histogram("image_delay_seconds", "From a frame's last packet to its image being written to an agent.")
	m.registry.MustRegister(m.appends, m.appendTime, m.refusals, m.turned, m.images, m.imageBytes, m.imageAge, m.imageDelay,
		m.lost, m.lostSound, m.http, m.httpTime,
		collectors.NewBuildInfoCollector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

func (m *metrics) sentImage(img *frames.Image, age time.Duration, now time.Time) {
	m.images.Inc()
	m.imageBytes.Add(float64(len(img.Data)))
	m.imageAge.Observe(age.Seconds())
	m.imageDelay.Observe(now.Sub(img.ReceivedAt).Seconds())
}

// watch adds the figures that are read from the sessions at each scrape.
func (m *metrics) watch(r *registry, b *frames.Budget) {
	m.registry.MustRegister(&sessionCollector{m, r, b})
}

type sessionCollector struct {
	metrics  *metrics
	registry *registry
	budget   *frames.Budget
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sightline_"+name, help, labels, nil)
}

var (
	descSessions = describe("sessions", "Sessions by state.", "state")
	descAgents   = describe("agents", "Agent sockets attached.")
	descRealtime = describe("realtime_sockets", "Sockets of /v1/realtime.")
	descLag      = describe("follower_lag_entries", "Entries that the agent furthest behind has yet to be sent.")
	descQueue    = describe("agent_messages_queued", "Messages that wait for agents to take them.")
	descActive   = describe("pipelines_active", "Sessions by the pipeline that has the floor; remote: a leg of an agent.", "pipeline")
	descPooled   = describe("c_memory_pooled_bytes", "C memory of decoders that wait for another track.")
)

// Describe implements prometheus.Collector.
func (c *sessionCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *sessionCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states := map[string]int{stateConnecting: 0, stateLive: 0, stateStalled: 0, stateEnded: 0}
	active := map[string]int{pipelineRemote: 0}
	for _, p := range c.registry.cfg.Pipelines.Builtin {
		active[p.Name] = 0
	}
	agents, sockets, queued, lag := 0, 0, 0, uint64(0)
	live, _ := c.registry.list(false)
	states[stateStalled], states[stateEnded] = c.registry.countResting()
	for _, s := range live {
		states[s.detail().State]++
		all := s.allAgents()
		agents += len(all)
		for _, a := range all {
			queued += a.outbox.waiting()
		}
		sockets += s.dialectCount()
		lag = max(lag, s.lag())
		if name, talks := s.activePipeline(); talks {
			if _, builtin := active[name]; !builtin {
				name = pipelineRemote
			}
			active[name]++
		}
	}
	for state, n := range states {
		gauge(descSessions, float64(n), state)
	}
	for name, n := range active {
		gauge(descActive, float64(n), name)
	}
	draining := 0.0
	if c.registry.isDraining() {
		draining = 1
	}
	gauge(descDraining, draining)
	gauge(descAgents, float64(agents))
	gauge(descRealtime, float64(sockets))
	gauge(descQueue, float64(queued))
	gauge(descLag, float64(lag))
	gauge(descPooled, float64(c.budget.PooledBytes()))
	sum, kinds := c.metrics.totals()
	emit(ch, videoFigures, &sum)
	for k, n := range kinds {
		gauge(descSources, float64(n), k.codec, k.policy, k.state)
	}
}

// pipelineRemote stands for the legs of agents, whose names are theirs to choose.
const pipelineRemote = "remote"

// activePipeline is the pipeline that has the floor.
func (s *Session) activePipeline() (name string, ok bool) {
	v := s.currentVoice()
	if v == nil {
		return "", false
	}
	leg, ok := v.switcher.Active()
	return leg.Name, ok
}

func (s *Session) dialectCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dialects)
}
