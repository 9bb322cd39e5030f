package switcher

import (
	"sync"
	"time"
)

// ear is where the caller's sound comes in: it goes to the leg that has the floor, and the sound of the turn that is being spoken
// is kept for the next. All of it happens under one lock, so that at a commit no sound is missed and none comes twice.
type ear struct {
	preRoll, bound time.Duration

	mu      sync.Mutex
	streams map[int]*stream // by rate
	marked  bool
	from    time.Time   // what is kept is from then on
	ends    []time.Time // when the caller's speech ended, the newest maxEnds
	inbox   *Inbox      // of the leg with the floor, nil none
	rate    int
	own     bool // it finds the turns itself
	dropped uint64
}

// stream is the kept sound of one rate, with what the detector found in it.
type stream struct {
	kept  []keptInput
	sound time.Duration
}

type keptInput struct {
	at   time.Time
	in   Input
	long time.Duration // of sound
}

// unmarkedWindow is how much is kept while the caller does not speak: the detector finds a beginning late.
const unmarkedWindow = 1500 * time.Millisecond

func newEar(preRoll, bound time.Duration) *ear {
	return &ear{preRoll: preRoll, bound: bound, streams: map[int]*stream{}}
}

// setRates says which rates are kept.
func (e *ear) setRates(rates []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.streams
	e.streams = map[int]*stream{}
	for _, r := range rates {
		if e.streams[r] = was[r]; e.streams[r] == nil {
			e.streams[r] = &stream{}
		}
	}
}

func (e *ear) hear(rate int, pcm []int16, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := SoundIn{PCM: pcm, At: at}
	if s := e.streams[rate]; s != nil {
		long := time.Duration(len(pcm)) * time.Second / time.Duration(max(rate, 1))
		s.kept = append(s.kept, keptInput{at, in, long})
		s.sound += long
		e.trim(s)
	}
	if e.inbox != nil && e.rate == rate {
		_ = e.inbox.Put(in) // sound is never refused
	}
}

func (e *ear) speech(in CallerSpeechIn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		s.kept = append(s.kept, keptInput{at: in.At, in: in})
		e.trim(s)
	}
	if e.inbox != nil && !e.own {
		_ = e.inbox.Put(in) // a leg that is too far behind for it is given up for what follows
	}
}

// ended: until then the caller has spoken.
func (e *ear) ended(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(at)
}

const maxEnds = 64

func (e *ear) end(at time.Time) {
	if e.ends = append(e.ends, at); len(e.ends) > maxEnds {
		e.ends = e.ends[1:]
	}
}

// trim forgets what is too old.
func (e *ear) trim(s *stream) {
	bound := e.bound + e.preRoll
	if !e.marked {
		bound = unmarkedWindow + e.preRoll
	}
	n := 0
	for n < len(s.kept) && (s.sound > bound || e.marked && s.kept[n].at.Before(e.from)) {
		if e.marked && s.sound > bound && s.kept[n].long > 0 {
			e.dropped++
		}
		s.sound -= s.kept[n].long
		n++
	}
	clear(s.kept[:n])
	s.kept = s.kept[n:]
}

// mark keeps the sound from at, and a little before, on.
func (e *ear) mark(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marked, e.from = true, at.Add(-e.preRoll)
	for _, end := range e.ends { // what was said before is understood
		if !end.After(at) {
			e.from = later(e.from, end)
		}
	}
	for _, s := range e.streams {
		e.trim(s)
	}
}

func (e *ear) unmark(upTo time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marked = false
	e.end(upTo)
	for _, s := range e.streams {
		e.trim(s)
	}
}

// undetected is how late a detector may find that the caller has begun to speak: at a commit in that time the next leg is given the
// sound of it too.
const undetected = 500 * time.Millisecond

// turnTo gives the caller's sound to a leg from now on, after what is kept when replay is set; when nothing is, after the newest
// sound in which nobody was found to speak. nil: to nobody.
func (e *ear) turnTo(b *Inbox, rate int, own, replay bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inbox, e.rate, e.own = b, rate, own
	if b == nil || e.marked && !replay {
		return
	}
	from, s := rate, e.streams[rate]
	if s == nil {
		for r, other := range e.streams {
			if s == nil || r > from {
				from, s = r, other
			}
		}
	}
	if s == nil {
		return
	}
	begin := e.from
	if !e.marked && len(s.kept) > 0 {
		k := s.kept[len(s.kept)-1]
		begin = k.at.Add(k.long - undetected)
		for _, end := range e.ends {
			begin = later(begin, end)
		}
	}
	began := false // of a turn, its beginning has been told
	for _, k := range s.kept {
		switch in := k.in.(type) {
		case SoundIn:
			if !k.at.Before(begin) {
				_ = b.Put(SoundIn{PCM: resample(in.PCM, from, rate), At: in.At})
			}
		case CallerSpeechIn:
			if began = began || in.Started && !k.at.Before(begin); e.marked && !own && began {
				_ = b.Put(in)
			}
		}
	}
}

func (e *ear) lost() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// resample brings sound to another rate by straight lines between its samples: for the one turn that was begun before anybody
// knew that its sound would be wanted at that rate.
func resample(pcm []int16, from, to int) []int16 {
	if from == to || len(pcm) == 0 {
		return pcm
	}
	out := make([]int16, len(pcm)*to/from)
	for i := range out {
		at := float64(i) * float64(from) / float64(to)
		n := int(at)
		a, b := float64(pcm[n]), float64(pcm[min(n+1, len(pcm)-1)])
		out[i] = int16(a + (b-a)*(at-float64(n)))
	}
	return out
}
