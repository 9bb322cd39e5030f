package frames

import "time"

const (
	layerSilent  = time.Second      // a layer that sends nothing for so long while others go on …
	silentFrames = 4                // … for this many frames is one that its sender has left out
	layerDwell   = 3 * time.Second  // from one switch to the next, but for those that cannot wait
	layerLower   = 3 * time.Second  // how long a smaller layer must have been enough before it is switched to
	layerTrial   = 3 * time.Second  // how long a layer that came back must live before it is switched up to; doubles when it dies again soon
	longestTrial = 24 * time.Second // and at most
)

// pulse tells whether a layer is being sent. Frames of all layers are its second clock: a sender of one picture a second, or of none because
// nothing moves, leaves out no layer. Pure; time is passed in.
type pulse struct {
	last   time.Time     // newest packet with payload; zero: none yet
	frames uint64        // of all layers, then
	silent bool          // told by look
	back   time.Time     // when it came back from its last silence; zero: it was never silent
	trial  time.Duration // how long it must have lived since
}

// beat notes a packet; frames counts those of all layers, this one's included.
func (p *pulse) beat(at time.Time, frames uint64) {
	p.look(at, frames)
	if p.silent {
		p.silent, p.back = false, at
	}
	p.last, p.frames = at, frames
}

// look reports whether the layer is sent.
func (p *pulse) look(at time.Time, frames uint64) (alive bool) {
	if p.last.IsZero() {
		return false
	}
	if !p.silent && at.Sub(p.last) >= layerSilent && frames-p.frames >= silentFrames {
		p.silent = true
		if lived := p.last.Sub(p.back); !p.back.IsZero() && lived < 2*p.trial {
			p.trial = min(2*p.trial, longestTrial)
		} else {
			p.trial = layerTrial
		}
	}
	return !p.silent
}

// steady reports whether the layer, which is alive, may be trusted to stay.
func (p *pulse) steady(at time.Time) bool { return p.back.IsZero() || at.Sub(p.back) >= p.trial }

// layerView is what the choice is made from.
type layerView struct {
	side   int  // the longer side of its newest key frame, pixels; 0: none was seen
	alive  bool // it is being sent
	steady bool // and has been for long enough
	used   bool // it was decoded before
}

// layerChooser says which layer of a simulcast is to be decoded: the smallest whose longer side is at least the wanted one, else the largest;
// sizes are those of key frames, names say nothing. Its patience keeps it from going to and fro when wishes, sizes or the sender's bandwidth do:
// two switches are layerDwell apart, unless the layer in use is sent no more or a larger one is seen for the first time. Pure; time is passed in.
type layerChooser struct {
	switched time.Time // when the layer in use began to be
	lower    time.Time // since when a smaller one would have been enough; zero: it would not be
}

// choose gives the index of the layer to decode; cur is that of the one in use, -1 when nothing is decoded. It gives cur where there is no
// better one.
func (c *layerChooser) choose(layers []layerView, cur, side int, at time.Time) int {
	if cur < 0 || !layers[cur].alive {
		c.lower = time.Time{}
		best := bestLayer(layers, cur, side, func(_ int, l layerView) bool { return l.alive && l.side > 0 })
		if best < 0 {
			best = bestLayer(layers, cur, side, func(_ int, l layerView) bool { return l.alive })
		}
		if best < 0 {
			return cur
		}
		return best
	}
	best := bestLayer(layers, cur, side, func(i int, l layerView) bool { return i == cur || l.alive && l.steady && l.side > 0 })
	if layers[best].side == layers[cur].side {
		c.lower = time.Time{}
		return cur
	}
	rested := at.Sub(c.switched) >= layerDwell
	switch l := layers[best]; {
	case l.side > layers[cur].side:
		c.lower = time.Time{}
		if layers[cur].side < side && (rested || !l.used) {
			return best
		}
	case c.lower.IsZero():
		c.lower = at
	case rested && at.Sub(c.lower) >= layerLower:
		return best
	}
	return cur
}

// took says that the layer chosen has come into use.
func (c *layerChooser) took(at time.Time) { c.switched, c.lower = at, time.Time{} }

// bestLayer is the smallest of those that are taken whose side is enough, else the largest; of equal ones cur, else the first; -1: none is taken.
func bestLayer(layers []layerView, cur, side int, take func(int, layerView) bool) int {
	best := -1
	for i, l := range layers {
		if !take(i, l) {
			continue
		}
		if best < 0 || better(l.side, layers[best].side, side) || l.side == layers[best].side && i == cur {
			best = i
		}
	}
	return best
}

// better reports whether a side of a is better than one of b when side is wanted.
func better(a, b, side int) bool {
	if a >= side && b >= side {
		return a < b
	}
	return a > b
}
