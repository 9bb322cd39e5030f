package gateway

import (
	"math"
	"time"

	"sightline/frames"
	"sightline/gateway/rtc"
)

// Bit rates that a publisher is asked to keep to, in bits per second (docs/frames.md has the measurements behind them).
const (
	DefaultMaxVideoBitrate = 2_500_000 // of one source, whatever is wanted
	MinVideoBitrate        = 100_000   // an encoder does not go below

	cameraBPS    = 1_200_000 // for images of modelPixels
	screenBPS    = 2_000_000 // the same of text and lines
	modelPixels  = 1280 * 720
	sizeExponent = 0.6     // bits grow slower than pixels; a small picture may come of a large one that is still sent
	fastFPS      = 10      // from here on an agent follows motion, and every frame counts
	readyShare   = 0.75    // of the above, while somebody is there who may ask for an image at any moment; with less, browsers send a smaller picture
	cameraFloor  = 150_000 // nobody is there
	screenFloor  = 250_000 // the same
	audioBPS     = 64_000  // REMB counts all media of a connection
	layersShare  = 1.5     // of simulcast the smaller layers are sent too
	quietFPS     = 5       // frames that a page sends when nobody is there
	readyFPS     = 10      // and the least when somebody may ask: an image waits at most 100 ms for its frame
	framesWanted = 3       // frames sent for each image wanted, at least

	askedHold   = 30 * time.Second // a request for one image counts as watching for so long
	lowerAfter  = 10 * time.Second // less is asked for only when less has been wanted for so long
	repeatAsk   = 2 * time.Second  // REMB may be lost
	pageMinSide = 16
)

// demand is what everybody together wants of one video source.
type demand struct {
	watched       bool // images are streamed, or one was asked for lately
	ready         bool // somebody is there who may ask
	fps           float64
	width, height int // the box that holds the largest image wanted; 0: the picture as it is
	sourceW       int // size of the picture now, 0: not known
	sourceH       int
	screen        bool
	layers        bool // simulcast
	policy        frames.Policy
}

// videoAsk is what one source is asked for.
type videoAsk struct {
	bps           int
	fps           float64
	width, height int // 0: its own size
}

// ask turns a demand into what the sender is asked for; pure. Never more than ceiling, and for the images wanted never less than they
// need: rate and size of the picture stay above what is wanted of them.
func (d demand) ask(ceiling int) videoAsk {
	full, floor := float64(cameraBPS), float64(cameraFloor)
	if d.screen {
		full, floor = screenBPS, screenFloor
	}
	a := videoAsk{fps: frames.MaxFPS}
	switch {
	case d.watched:
		a.width, a.height = d.width, d.height
		bps := full * math.Pow(d.pixels()/modelPixels, sizeExponent)
		if d.screen && d.policy == frames.PolicyKeyframe { // key frames of screen content cost: ~60 % more bits for the same picture at 0.7 Mbit/s
			bps *= 1 + 0.1*min(d.fps, 3)
		}
		if d.fps >= fastFPS {
			bps *= 1.25
		}
		a.bps = int(max(bps, MinVideoBitrate))
		a.fps = min(max(readyFPS, framesWanted*math.Ceil(d.fps)), frames.MaxFPS)
	case d.ready:
		a.bps, a.fps = int(full*readyShare), readyFPS
	default:
		a.bps, a.fps = int(floor), quietFPS
	}
	a.bps = min(a.bps, ceiling)
	if d.layers {
		a.bps = int(float64(a.bps) * layersShare)
	}
	return a
}

// pixels of the largest image wanted. What the sender sends now says nothing of it where it is less: it may be so small for want of bits.
func (d demand) pixels() float64 {
	if d.width > 0 && d.height > 0 {
		return float64(d.width) * float64(d.height)
	}
	return max(float64(d.sourceW)*float64(d.sourceH), modelPixels)
}

// easing keeps what is asked for from going up and down: up at once, down when less has been wanted for lowerAfter.
type easing struct {
	now  videoAsk
	peak videoAsk  // of what was wanted since less
	less time.Time // since when less is wanted; zero: it is not
}

// next takes what is wanted now and gives what to ask for; pure but for itself.
func (e *easing) next(want videoAsk, at time.Time) videoAsk {
	before := e.now
	e.now = e.now.join(want)
	switch {
	case e.now == want:
		e.less = time.Time{}
	case e.less.IsZero(), e.now != before:
		e.less, e.peak = at, want
	default:
		if e.peak = e.peak.join(want); at.Sub(e.less) >= lowerAfter {
			e.now, e.less = e.peak, time.Time{}
		}
	}
	return e.now
}

// join is the larger of each.
func (a videoAsk) join(b videoAsk) videoAsk {
	j := videoAsk{bps: max(a.bps, b.bps), fps: max(a.fps, b.fps)}
	if a.bounded() && b.bounded() {
		j.width, j.height = max(a.width, b.width), max(a.height, b.height)
	}
	return j
}

func (a videoAsk) bounded() bool { return a.width >= pageMinSide && a.height >= pageMinSide }

// asker decides for one publication; only its goroutine uses it.
type asker struct {
	sources map[*source]*easing
}

// asked are the requests for single images of the last askedHold to twice that: the box that holds them all. Each half of it forgets on its
// own, so that one large image does not stay wanted for as long as small ones are asked for.
type asked struct {
	at       time.Time // the latest
	cur, old videoAsk
	curAt    time.Time // when cur began; zero: nothing was asked for yet
}

func (a *asked) add(box videoAsk, at time.Time) {
	switch d := at.Sub(a.curAt); {
	case a.curAt.IsZero() || d >= 2*askedHold || at.Sub(a.at) >= askedHold:
		a.cur, a.old, a.curAt = box, box, at
	case d >= askedHold:
		a.old, a.cur, a.curAt = a.cur, box, at
	}
	a.cur, a.at = a.cur.join(box), at
}

// box is what is still wanted; ok is false when nothing is.
func (a *asked) box(now time.Time) (box videoAsk, ok bool) {
	return a.cur.join(a.old), !a.curAt.IsZero() && now.Sub(a.at) < askedHold
}

// askNow tells the publisher what is wanted of it now.
func (p *publication) askNow(k *asker, peer *rtc.Peer, now time.Time) {
	ceiling := p.session.cfg.MaxVideoBitrate
	if ceiling <= 0 {
		return
	}
	var a rtc.Ask
	ready := p.session.mayBeAsked()
	for _, src := range p.session.allSources() {
		d, in, ok := src.demand(p, now)
		if !ok {
			continue
		}
		d.ready = ready
		ease := k.sources[src]
		if ease == nil { // what comes next is not known yet: an agent often attaches right after the publisher
			start := d
			start.ready = true
			ease = &easing{now: start.ask(ceiling)}
			k.sources[src] = ease
		}
		v := ease.next(d.ask(ceiling), now)
		src.setCap(v.bps)
		a.BitrateBPS += v.bps
		a.Sources = append(a.Sources, rtc.SourceAsk{Name: src.name, MID: in.MID, BitrateBPS: v.bps, FPS: v.fps, Width: v.width, Height: v.height})
	}
	if len(a.Sources) > 0 {
		a.BitrateBPS += audioBPS
		peer.Ask(a)
	}
}

// mayBeAsked says whether somebody is there who may want an image at any moment: an agent, or a pipeline that looks.
func (s *Session) mayBeAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.agents) > 0 || s.voice != nil
}

// demand is what is wanted of the source, if p's track is in it.
func (src *source) demand(p *publication, now time.Time) (d demand, in *rtc.InTrack, ok bool) {
	src.mu.Lock()
	track, in, asked, screen := src.track, src.in, src.asked, src.state.Screen
	own := src.of == p
	src.mu.Unlock()
	if track == nil || in == nil || !own {
		return d, nil, false
	}
	wanted, st := track.Demand(), track.Stats()
	d = demand{
		watched: wanted.Subscribers > 0, fps: wanted.FPS, width: wanted.Width, height: wanted.Height,
		sourceW: st.FullWidth, sourceH: st.FullHeight, // the layer in use may be a small one because of what was asked for
		screen: screen, layers: in.RID != "",
		policy: st.InEffect,
	}
	if one, ok := asked.box(now); ok {
		if d.watched {
			one = one.join(videoAsk{width: d.width, height: d.height})
		}
		d.watched, d.width, d.height, d.fps = true, one.width, one.height, max(d.fps, 1)
	}
	return d, in, true
}

// askFor notes a request for one image of options.
func (src *source) askFor(o frames.EncodeOptions, at time.Time) {
	var box videoAsk
	if o.Resize != nil {
		box.width, box.height = o.Resize.Width, o.Resize.Height
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	src.asked.add(box, at)
}

func (src *source) setCap(bps int) {
	src.mu.Lock()
	defer src.mu.Unlock()
	src.capBPS = bps
}

func (src *source) bitrateCap() int {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.capBPS
}

// wantsChanged lets the publisher be asked for more at once, or for less soon.
func (s *Session) wantsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wantsChangedLocked()
}

func (s *Session) wantsChangedLocked() {
	for _, p := range s.publishersLocked() {
		select {
		case p.wants <- struct{}{}:
		default:
		}
	}
}
