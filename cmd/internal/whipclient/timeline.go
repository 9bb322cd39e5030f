package whipclient

import (
	"sync"
	"time"
)

// timeline remembers when the last frames were sent, by their RTP timestamp.
type timeline struct {
	mu   sync.Mutex
	sent [512]struct {
		timestamp   uint32
		first, last time.Time
	}
	next int
}

func (t *timeline) add(timestamp uint32, first, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.sent[t.next%len(t.sent)]
	slot.timestamp, slot.first, slot.last = timestamp, first, last
	t.next++
}

func (t *timeline) find(timestamp uint32) (first, last time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sent {
		if s := &t.sent[i]; s.timestamp == timestamp && !s.last.IsZero() {
			return s.first, s.last, true
		}
	}
	return time.Time{}, time.Time{}, false
}
