package sound

import (
	"slices"
	"time"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

// plainChunk is how much sound is queued in one go, so that the clock never waits long for it.
const plainChunk = opus.ClockRate

// push queues as much of the sound as there is room for and says how much of pcm that was; all of it when it is too late
// for it.
func (p *playout) push(now time.Time, id switcher.TurnID, rate int, pcm []int16) (int, error) {
	out, err := coderRate(rate)
	if err != nil {
		return 0, err
	}
	t, over := p.open(id)
	if over {
		p.stats.LateSound++
		p.stats.LateTime += ticksOf(len(pcm), 1).duration() / time.Duration(rate)
		return len(pcm), nil
	}
	room := p.limit - p.queue.length
	if t == nil || room <= 0 {
		return 0, nil
	}
	if p.queue.n == 0 {
		p.since = now
	}
	if out != rate {
		n := min(len(pcm), rate/50) // the filter takes its time
		p.scratch = p.filter(t, rate, out).push(pcm[:n], p.scratch[:0])
		p.queue.push(t, out, p.scratch)
		return n, nil
	}
	p.flush(nil)
	n := min(len(pcm), plainChunk, max(1, int(room*ticks(rate)/ticksPerSecond)))
	p.queue.push(t, rate, pcm[:n])
	return n, nil
}

// filter gives the resampler of a turn's sound. What another sound left in it goes into the queue first.
func (p *playout) filter(t *turn, in, out int) *resampler {
	if p.resampled == t && p.resample.in == in {
		return p.resample
	}
	p.flush(nil)
	if p.resample == nil || p.resample.in != in {
		p.resample = newResampler(in, out)
	}
	p.resampled = t
	return p.resample
}

// flush queues the end of the sound that is in the resampler, of only or of any turn.
func (p *playout) flush(only *turn) {
	if p.resampled == nil || only != nil && p.resampled != only {
		return
	}
	p.scratch = p.resample.flush(p.scratch[:0])
	p.queue.push(p.resampled, p.resample.out, p.scratch)
	p.resampled = nil
}

// open finds a turn or begins it, unless it is over; nil when too many turns wait. A newer epoch ends what is left of an
// older one.
func (p *playout) open(id switcher.TurnID) (t *turn, over bool) {
	for _, t := range p.turns {
		if t.id == id {
			return t, t.ended
		}
	}
	if id.Epoch < p.epoch || slices.Contains(p.over, id) {
		return nil, true
	}
	if id.Epoch > p.epoch {
		p.advance(id.Epoch)
	}
	if len(p.turns) >= maxTurns && !p.retire() {
		return nil, false
	}
	t = &turn{id: id}
	p.turns = append(p.turns, t)
	return t, false
}

// advance makes an epoch the oldest that is played.
func (p *playout) advance(epoch uint64) {
	for _, h := range p.stop() {
		p.report(&report{HeardTurn: h})
	}
	p.epoch = epoch
}

// retire takes the oldest turn that has no sound waiting as heard to its end, for want of anybody who ends it.
func (p *playout) retire() bool {
	at := slices.IndexFunc(p.turns, func(t *turn) bool { return t.queued == 0 && t != p.resampled && !t.ended && t.played > 0 })
	if at >= 0 {
		p.end(p.turns[at].id)
	}
	return at >= 0
}

// end says that a turn is complete. One without sound keeps its place among the others, if there is any.
func (p *playout) end(id switcher.TurnID) {
	t, over := p.open(id)
	switch {
	case over:
		return
	case t == nil:
		p.report(&report{HeardTurn: switcher.HeardTurn{TurnID: id, Done: true}})
		p.forget(id)
		return
	}
	p.flush(t)
	t.ended = true
	p.settle()
}

// stop ends every turn and says what was heard of each. What was being heard fades out in one more packet, which does
// not count as heard.
func (p *playout) stop() []switcher.HeardTurn {
	unheard := p.queue.length
	if p.pending {
		unheard += p.owns
	}
	p.stats.StoppedTime += unheard.duration()
	p.fadeOut()
	heard := make([]switcher.HeardTurn, 0, len(p.turns))
	for _, t := range p.turns {
		h := t.heard()
		h.Stopped = true
		heard = append(heard, h)
		p.forget(t.id)
		p.reports = slices.DeleteFunc(p.reports, func(r *report) bool { return r.TurnID == t.id })
	}
	clear(p.turns)
	p.turns = p.turns[:0]
	p.queue.clear()
	if p.resampled != nil {
		p.resample.reset()
		p.resampled = nil
	}
	p.pending, p.owner, p.last, p.dry = false, nil, nil, false
	return heard
}

// forget remembers a turn as over.
func (p *playout) forget(id switcher.TurnID) {
	if len(p.over) >= maxOver {
		p.over = append(p.over[:0], p.over[1:]...)
	}
	p.over = append(p.over, id)
}
