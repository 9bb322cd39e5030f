package frames

import "time"

// sampler says which pictures a subscription gets. It keeps the mean rate where the pictures allow it and never catches up on what it
// missed. Pure; time is passed in.
type sampler struct {
	interval time.Duration
	next     time.Time // zero: the first picture is due
}

// newSampler takes 0 < fps <= MaxFPS; what is out of range is moved into it, NaN to the lowest.
func newSampler(fps float64) sampler { return sampler{interval: intervalOf(fps)} }

func intervalOf(fps float64) time.Duration {
	if !(fps > 0.01) {
		fps = 0.01
	}
	return time.Duration(float64(time.Second) / min(fps, MaxFPS))
}

// retime changes the rate, from the last picture taken on.
func (s *sampler) retime(fps float64) {
	interval := intervalOf(fps)
	if !s.next.IsZero() {
		s.next = s.next.Add(interval - s.interval)
	}
	s.interval = interval
}

func (s *sampler) fps() float64 { return float64(time.Second) / float64(s.interval) }

// due reports whether a picture of this time is wanted. Pictures come with jitter: up to a quarter of the interval early is on time.
func (s *sampler) due(at time.Time) bool { return s.dueWithin(at, s.interval/4) }

// dueWithin is due where a picture may be so early.
func (s *sampler) dueWithin(at time.Time, early time.Duration) bool {
	return s.next.IsZero() || !at.Before(s.next.Add(-early))
}

// took says that the picture of this time was taken.
func (s *sampler) took(at time.Time) {
	if s.next = s.next.Add(s.interval); !s.next.After(at) {
		s.next = at.Add(s.interval)
	}
}

// overdue is how long a picture has been due.
func (s *sampler) overdue(at time.Time) time.Duration {
	if s.next.IsZero() {
		return 0
	}
	return at.Sub(s.next)
}
