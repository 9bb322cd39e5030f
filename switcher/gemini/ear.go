package gemini

import (
	"context"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/socket"
)

// Sizes of the caller's sound.
const (
	batchLeast = 40 * time.Millisecond // sent at once
	batchMost  = 60 * time.Millisecond
	heldMost   = 20 * time.Second       // from before the floor, or while an answer is made
	preRoll    = 300 * time.Millisecond // before the beginning that the session's detector found
	quietMost  = 3 * time.Second        // kept for a beginning
	streamGap  = time.Second            // without sound the provider is told that none comes
)

// activity is where a turn of the caller stands, where the session finds the turns.
type activity int

const (
	idle    activity = iota
	waiting          // begun; the provider is told when the answer that it makes is over, or interrupted by the session
	open             // activityStart is sent
)

// ear is the caller's sound on its way to the provider.
type ear struct {
	state    activity
	final    bool               // the turn that waits is over already
	speaking bool               // by the session's detector
	kept     []switcher.SoundIn // sound that may belong to a turn
	pending  []int16            // not sent yet
	bytes    []byte             // scratch

	streaming bool      // sound was sent, and the provider expects more
	lastSound time.Time // was given to us
}

func span(d time.Duration) int { return int(d.Seconds() * live.InRate) }

func duration(samples int) time.Duration { return time.Duration(samples) * time.Second / live.InRate }

// hold keeps what the caller says before the provider may hear it.
func (r *run) hold(i switcher.Input) {
	if s, ok := i.(switcher.SoundIn); ok {
		r.earlyPCM += len(s.PCM)
	}
	r.early = append(r.early, i)
	for n := 0; r.earlyPCM > span(heldMost) && n < len(r.early); n++ {
		if s, ok := r.early[n].(switcher.SoundIn); ok {
			r.earlyPCM -= len(s.PCM)
			r.early = append(r.early[:n], r.early[n+1:]...)
			r.counts.earlySound.Add(1)
			n--
		}
	}
	if len(r.early) > 4*socket.MostWords { // beginnings and ends without sound between
		r.early = r.early[1:]
	}
}

// caller takes what the caller says while the leg has the floor.
func (r *run) caller(i switcher.Input, now time.Time) {
	e := &r.ear
	switch i := i.(type) {
	case switcher.SoundIn:
		e.lastSound = now
		if r.cfg.TheirTurns || e.state == open {
			r.hear(i.PCM)
			return
		}
		most := quietMost
		if e.state == waiting {
			most = heldMost
		}
		e.kept = append(e.kept, i)
		for len(e.kept) > 1 && i.At.Sub(e.kept[0].At) > most {
			e.kept = e.kept[1:]
			if e.state == waiting {
				r.counts.earlySound.Add(1)
			}
		}
	case switcher.CallerSpeechIn:
		switch {
		case i.Started && !e.speaking:
			e.speaking = true
			r.begins(i.At)
		case i.Final && e.speaking:
			e.speaking = false
			r.ends(i.At, now)
		}
	}
}

// begins: the caller has begun a turn.
func (r *run) begins(at time.Time) {
	r.newTurn()
	if r.cfg.TheirTurns {
		r.heard.begin = at
		return
	}
	e := &r.ear
	if e.state == idle {
		e.state = waiting
		for len(e.kept) > 0 && e.kept[0].At.Add(duration(len(e.kept[0].PCM))).Before(at.Add(-preRoll)) {
			e.kept = e.kept[1:]
		}
		r.utter(at)
	}
	e.final = false
}

// ends: the turn is over.
func (r *run) ends(at, now time.Time) {
	switch {
	case r.cfg.TheirTurns:
		for _, u := range r.heard.open {
			r.spoken(u, at)
		}
	case r.ear.state == waiting:
		r.ear.final = true
	case r.ear.state == open:
		r.closeActivity(now)
	}
}

// openActivity tells the provider of the turn that waits: what it has to know first, then the sound so far.
func (r *run) openActivity(ctx context.Context, now time.Time) {
	e := &r.ear
	if r.p.History == HistoryAnyTime {
		r.tell(ctx)
	}
	r.realtime(live.RealtimeInput{ActivityStart: &live.Empty{}})
	if r.p.History != HistoryAnyTime {
		r.tell(ctx)
	}
	e.state, r.gate.wants = open, false // the answer to this turn is the answer to what was asked before it, too
	for _, s := range e.kept {
		r.hear(s.PCM)
	}
	e.kept = nil
	if e.final {
		r.closeActivity(now)
	}
}

func (r *run) closeActivity(now time.Time) {
	r.flush(1)
	r.realtime(live.RealtimeInput{ActivityEnd: &live.Empty{}})
	r.ear.state, r.ear.final, r.gate.asked = idle, false, now
	if n := len(r.heard.open); n > 0 {
		r.heard.open[n-1].ended = now
	}
}

// hear sends sound, in batches.
func (r *run) hear(pcm []int16) {
	r.ear.pending = append(r.ear.pending, pcm...)
	r.ear.streaming = true
	r.flush(span(batchLeast))
}

// flush sends what is pending while there are at least so many samples.
func (r *run) flush(least int) {
	e := &r.ear
	for len(e.pending) >= least && len(e.pending) > 0 {
		n := min(len(e.pending), span(batchMost))
		var data []byte
		data, e.bytes = live.AppendAudio(nil, e.bytes, e.pending[:n])
		r.put(socket.Message{Data: data, Samples: n})
		e.pending = append(e.pending[:0], e.pending[n:]...)
	}
}

// listen tells the provider, where it finds the turns, that the caller's sound has stopped coming, and looks while they speak.
func (r *run) listen(now time.Time) {
	e := &r.ear
	if r.cfg.TheirTurns && e.streaming && now.Sub(e.lastSound) > streamGap && r.phase == serving {
		r.flush(1)
		r.realtime(live.RealtimeInput{AudioStreamEnd: true})
		e.streaming = false
	}
	if e.speaking && now.Sub(r.eyes.looked) >= r.p.FramePause {
		r.lookAround(now)
	}
}
