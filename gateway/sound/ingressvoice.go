package sound

import (
	"math"

	"sightline/gateway/sound/internal/opus"
)

const (
	opusFrame   = 960           // ticks of FrameTime
	slack       = opusFrame     // room for what concealment gives beyond what was asked
	quiet       = -50           // dBFS; below it a packet may go as a whole
	shortLeast  = 120           // ticks, 2.5 ms: the shortest stretch that is taken out of a voice: a period of 400 Hz
	shortMost   = 480           // ticks, 10 ms: the longest: a period of 100 Hz
	soundBefore = 2 * opusFrame // of what is heard at least between two such stretches: at most a quarter goes
	blockFrames = 10            // frames that are allocated together
)

// voice is the sound at one rate.
type voice struct {
	rate    int
	decoder *opus.Decoder
	pcm     []int16 // decoded and not given yet, then room
	have    int     // samples of pcm that stand
	block   []int16 // memory of the next frames
}

// render writes the sound of a step behind what stands; the caller moves have on.
func (v *voice) render(st step) {
	n := st.ticks / (clockRate / v.rate)
	room := v.pcm[v.have:][:n]
	var err error
	switch st.kind {
	case stepPacket:
		_, err = v.decoder.Decode(st.payload, room)
	case stepRepair:
		err = v.decoder.DecodeFEC(st.payload, room)
	case stepConceal:
		err = v.decoder.Conceal(room)
	default:
		clear(room)
	}
	if err != nil { // framing was sound, its content is not
		clear(room)
	}
}

// give takes the oldest 20 ms off.
func (v *voice) give() []int16 {
	n := opusFrame / (clockRate / v.rate)
	if len(v.block) < n {
		v.block = make([]int16, blockFrames*n)
	}
	frame := v.block[:n:n]
	v.block = v.block[n:]
	copy(frame, v.pcm[:n])
	copy(v.pcm, v.pcm[n:v.have])
	v.have -= n
	return frame
}

// shorten takes sound out of what was just rendered, where the step allows it: all that is quiet, otherwise a stretch after
// which the voice goes on as it did before it, now and then. It gives the ticks that are gone.
func (in *Ingress) shorten(st step) int {
	if st.excess == 0 || len(in.voices) == 0 {
		return 0
	}
	first := in.voices[0]
	unit := clockRate / first.rate
	pcm := first.pcm[first.have:][:st.ticks/unit]
	if levelOf(pcm).RMS < quiet {
		return min(down(st.excess, grain), st.ticks)
	}
	most := min(shortMost, st.excess, st.ticks/2)
	if most < shortLeast || in.sound < soundBefore {
		return 0
	}
	in.sound = 0
	lag := periodOf(pcm, shortLeast/unit, most/unit, grain/unit)
	for _, v := range in.voices {
		v.cut(st.ticks/(clockRate/v.rate), lag*unit/(clockRate/v.rate))
	}
	return lag * unit
}

// periodOf is the shift between least and most after which the sound is most like its beginning.
func periodOf(pcm []int16, least, most, step int) int {
	best, lag := -2.0, least
	for l := least; l <= most; l += step {
		n := min(l, len(pcm)-l)
		var cross, a, b float64
		for i := range n {
			x, y := float64(pcm[i]), float64(pcm[i+l])
			cross += x * y
			a += x * x
			b += y * y
		}
		if like := cross / (math.Sqrt(a*b) + 1); like > best {
			best, lag = like, l
		}
	}
	return lag
}

// cut takes lag samples out of the n behind what stands: the sound fades over into itself, lag later.
func (v *voice) cut(n, lag int) {
	pcm := v.pcm[v.have:][:n]
	fade := min(lag, n-lag)
	for i := range n - lag {
		if i < fade {
			pcm[i] = int16((int(pcm[i])*(fade-i) + int(pcm[i+lag])*i) / fade)
		} else {
			pcm[i] = pcm[i+lag]
		}
	}
}
