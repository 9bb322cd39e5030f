package sound

import (
	"time"

	"sightline/gateway/sound/vad"
)

const (
	windowTime = vad.FrameSamples * time.Second / vad.Rate // 32 ms
	inaudible  = -65                                       // dBFS: what is below is not even judged
	rise       = 6                                         // dB above the quietest of late that are worth a glance
	forgive    = 0.05                                      // dB that the quietest of late goes up with each piece of sound
	forgetting = 32                                        // inaudible windows, 1 s, after which the detector begins anew
)

// Listener hears the turns of a speaker in sound: a Turns with a voice activity detector before it. It is for one goroutine.
type Listener struct {
	turns    *Turns
	detector *vad.Detector

	recent [vad.GlanceContext + vad.FrameSamples]int16 // the newest sound
	window [vad.FrameSamples]int16
	have   int
	at     time.Time // of window's first sample
	silent int       // inaudible windows in a row
	likely float32
	floor  float64 // dBFS: the quietest of late
	events []Speech
}

// ListenerRate is the rate in Hz of the sound that a Listener hears.
const ListenerRate = vad.Rate

// NewListener makes a Listener. The model is shared with others.
func NewListener(model *vad.Model, policy TurnPolicy) *Listener {
	return &Listener{turns: NewTurns(policy), detector: model.Detector(), floor: inaudible}
}

// Hear takes the sound that follows, PCM16 mono at ListenerRate without gaps, and the time of its first sample. What it
// gives is good until the next call. It is best called with 20 ms at a time: speech that begins is looked for at the end of
// each piece.
func (l *Listener) Hear(pcm []int16, at time.Time) []Speech {
	l.events = l.events[:0]
	loud := l.louder(pcm)
	for len(pcm) > 0 {
		if l.have == 0 {
			l.at = at
		}
		n := copy(l.window[l.have:], pcm)
		l.have += n
		copy(l.recent[:], l.recent[n:])
		copy(l.recent[len(l.recent)-n:], pcm)
		pcm = pcm[n:]
		at = at.Add(time.Duration(n) * time.Second / vad.Rate)
		if l.have == len(l.window) {
			l.have = 0
			l.likely = l.judge()
			l.events = l.turns.Step(l.likely, l.at, l.at.Add(windowTime), l.events)
		}
	}
	if loud && l.have > 0 && !l.turns.Speaking() {
		likely := l.detector.Glance(&l.recent)
		l.events = l.turns.Glance(likely, at.Add(-windowTime), at, l.events)
	}
	return l.events
}

// louder says whether sound stands out of what was the quietest of late.
func (l *Listener) louder(pcm []int16) bool {
	rms := levelOf(pcm).RMS
	loud := rms > l.floor+rise
	l.floor = max(min(rms, l.floor+forgive), inaudible)
	return loud
}

// judge spares itself the work where there is nothing to hear, as most of the time on a line.
func (l *Listener) judge() float32 {
	if levelOf(l.window[:]).RMS >= inaudible {
		l.silent = 0
		return l.detector.Judge(&l.window)
	}
	if l.silent++; l.silent == forgetting {
		l.detector.Reset()
	}
	return 0
}

// Likely is how likely somebody spoke in the newest window, 0 to 1.
func (l *Listener) Likely() float32 { return l.likely }

// Speaking says whether the speaker is speaking.
func (l *Listener) Speaking() bool { return l.turns.Speaking() }
