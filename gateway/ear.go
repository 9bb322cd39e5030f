package gateway

import (
	"math"
	"time"

	"sightline/gateway/sound"
)

// ear is what listens to a microphone: the switcher, agents that want sound, and the detector of turns. It is for the
// ingress' goroutine.
type ear struct {
	voice    *voice
	listener *sound.Listener
	meter    sound.Meter
	speaking bool
}

func newEar(v *voice) *ear {
	return &ear{voice: v, listener: sound.NewListener(v.session.shared.speech, v.session.cfg.Pipelines.Turns)}
}

// frame is given each 20 ms of sound at each wanted rate; it must not wait.
func (e *ear) frame(rate int, pcm []int16, at time.Time) {
	v := e.voice
	v.switcher.Hear(rate, pcm, at)
	for _, a := range v.session.allAgents() {
		if a.soundRate() == rate {
			a.hearCaller(pcm, rate, v.switcher.Epoch(), v.session.soundTime(at))
		}
	}
	if rate != micRate {
		return
	}
	for _, s := range e.listener.Hear(pcm, at) {
		e.speaking = !s.Final
		v.callerSpeaks(e.speaking)
		v.switcher.CallerSpeech(s.Started, s.Final, s.At)
	}
	if level, _, ok := e.meter.Add(rate, pcm, at); ok {
		v.level.Store(math.Float64bits(level.RMS))
	}
}

// callerSpeaks is told of each turn's begin and end; agents' wishes for images may follow it.
func (v *voice) callerSpeaks(speaking bool) {
	if v.speaking.Swap(speaking) == speaking {
		return
	}
	for _, a := range v.session.allAgents() {
		a.poke()
	}
}

// callerSpeaks says whether the caller has a turn at the moment.
func (s *Session) callerSpeaks() bool {
	v := s.currentVoice()
	return v != nil && v.speaking.Load()
}

// close is told when the microphone has gone: whoever was speaking has ended.
func (e *ear) close() {
	if e.speaking {
		e.voice.callerSpeaks(false)
		e.voice.switcher.CallerSpeech(false, true, time.Now())
	}
}
