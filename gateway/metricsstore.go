package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"sightline/context/jetstream"
)

// watchStore adds the figures of the store, where it is one that has some, and of the cluster.
func (m *metrics) watchStore(cfg Config) {
	store, _ := cfg.Store.(*jetstream.Store)
	if cfg.Cluster != nil {
		store = cfg.Cluster.Store()
	}
	if store != nil {
		m.registry.MustRegister(&storeCollector{store: store, cfg: cfg})
	}
}

// watchRelays adds the figures of agent sockets whose session is on another node.
func (m *metrics) watchRelays(n *nodes) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sightline_relayed_agents", Help: "Agent sockets here whose session is, or was, on another node."},
			func() float64 { return float64(n.relayed.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sightline_relays_moved_total", Help: "Times that such a socket went on with another node."},
			func() float64 { return float64(n.moved.Load()) }))
}

type storeCollector struct {
	store *jetstream.Store
	cfg   Config
}

var (
	descEngineUp     = describe("engine_up", "1 while the store takes entries.")
	descEngineRTT    = describe("engine_rtt_seconds", "Round trip to the store's server, at the last look; 0 with the server inside.")
	descAppendTime   = describe("append_seconds", "From an entry's arrival at the store to its being durable.")
	descStoreAppends = describe("store_appends_total", "Entries made durable.")
	descRetries      = describe("append_retries_total", "Writes that were sent again, by cause.", "cause")
	descReadRetries  = describe("store_read_retries_total", "Reads that were sent again.")
	descFenced       = describe("fenced_total", "Appends refused because another node owned the session by then.")
	descFull         = describe("store_full_total", "Writes refused because the store had reached its bound.")
	descChainErrors  = describe("chain_errors_total", "Holes, broken chains and spoiled images found.")
	descSwept        = describe("store_swept_total", "Conversations deleted because of their age.")
	descRestarts     = describe("engine_restarts_total", "Restarts of the server inside, or new connections to the cluster.")
	descStoreBytes   = describe("store_bytes", "Bytes of the store.")
	descStoreLimit   = describe("store_limit_bytes", "Bound of the store.")
	descStoreFree    = describe("store_free_bytes", "Free bytes of the store's disk; with a cluster, of its bound.")
	descLogs         = describe("store_logs", "Conversations in the store that this process knows of.")
	descNodes        = describe("cluster_nodes", "Gateways of the cluster that are alive, this one too.")
	descDraining     = describe("drain_state", "1 while no new session is taken.")
)

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.store.Stats()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	up := 0.0
	if c.store.Health() == nil {
		up = 1
	}
	gauge(descEngineUp, up)
	gauge(descEngineRTT, st.RoundTrip.Seconds())
	gauge(descStoreBytes, float64(st.StoredBytes))
	gauge(descStoreLimit, float64(st.LimitBytes))
	gauge(descStoreFree, float64(st.FreeBytes))
	gauge(descLogs, float64(st.Logs))
	count(descStoreAppends, st.Appends)
	ch <- prometheus.MustNewConstHistogram(descAppendTime, st.AppendTime.Count, st.AppendTime.Seconds, st.AppendTime.Buckets)
	count(descReadRetries, st.ReadRetries)
	count(descFenced, st.Fenced)
	count(descFull, st.Full)
	count(descChainErrors, st.Damaged)
	count(descSwept, st.Swept)
	count(descRestarts, st.Restarts)
	for cause, n := range map[string]uint64{"wrong_last": st.Retries.WrongLast, "timeout": st.Retries.Timeout, "gone": st.Retries.Gone, "other": st.Retries.Other} {
		count(descRetries, n, cause)
	}
	if c.cfg.Cluster != nil {
		gauge(descNodes, float64(len(c.cfg.Cluster.Peers())+1))
	}
}

// lag is how many entries the agent furthest behind has yet to be sent.
func (s *Session) lag() (most uint64) {
	head := s.log.Head()
	for _, a := range s.allAgents() {
		if at := a.seq.Load(); a.wantsContext() && at < head {
			most = max(most, head-at)
		}
	}
	return most
}
