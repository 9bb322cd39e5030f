package frames

// Demand is what a track's subscribers want together.
type Demand struct {
	Subscribers   int
	FPS           float64 // the highest rate wanted
	Width, Height int     // the box that holds the largest image wanted, pixels; 0: the picture's own size is wanted
}

// Demand tells what the subscribers want now. Requests for one image do not count: they end by themselves.
func (t *Track) Demand() Demand {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := Demand{Subscribers: len(t.subs)}
	whole := false
	for _, s := range t.subs {
		d.FPS = max(d.FPS, min(max(s.want.FPS, s.want.SpeakingFPS), MaxFPS)) // a sender need not follow each turn of speech
		whole = whole || !s.key.resize
		d.Width, d.Height = max(d.Width, s.key.width), max(d.Height, s.key.height)
	}
	if whole {
		d.Width, d.Height = 0, 0
	}
	return d
}
