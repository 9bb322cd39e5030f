package gateway

import (
	"strings"
	"testing"
)

// TestMetricsOfStoreAndCluster: what an operator is to be alarmed by is there, and says what is.
func TestMetricsOfStoreAndCluster(t *testing.T) {
	a, _ := twoNodes(t, nil)
	a.createSession("s")
	a.say("s", "one")
	metric := func(line string) func() string {
		return func() string {
			_, body, _ := a.do("GET", "/metrics", "")
			if !strings.Contains(string(body), "\nsightline_"+line) {
				return "no sightline_" + line
			}
			return ""
		}
	}
	for _, line := range []string{
		"engine_up 1\n", "engine_rtt_seconds ", "append_seconds_count 1\n", `append_seconds_bucket{le="10"} 1`, "store_appends_total 1\n",
		`append_retries_total{cause="wrong_last"} 0`, "fenced_total 0\n", "chain_errors_total 0\n", "store_bytes ", "store_limit_bytes ", "store_free_bytes ",
		"cluster_nodes 2\n", "drain_state 0\n", "follower_lag_entries 0\n",
	} {
		eventually(t, metric(line))
	}
}
