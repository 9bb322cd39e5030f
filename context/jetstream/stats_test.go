package jetstream

import (
	"testing"
	"time"
)

// TestStats: what was written is counted and timed, each bound of the histogram with all that took no longer.
func TestStats(t *testing.T) {
	s := open(t, Config{})
	appendN(t, s, "a", 1, 5)
	st := s.Stats()
	if st.Appends != 5 || st.AppendTime.Count != 5 || st.AppendTime.Seconds <= 0 || st.Logs != 1 || st.StoredBytes == 0 || st.FreeBytes == 0 {
		t.Errorf("%+v", st)
	}
	var at timings
	for _, took := range []time.Duration{0, 500 * time.Microsecond, 3 * time.Millisecond, time.Minute} {
		at.observe(took)
	}
	h := at.histogram()
	if h.Buckets[.0005] != 2 || h.Buckets[.002] != 2 || h.Buckets[.005] != 3 || h.Buckets[10] != 3 || h.Count != 4 || h.Seconds < 60 {
		t.Errorf("%+v", h)
	}
}
