package vad

import "sightline/gateway/sound/internal/vadc"

// Rate is the sampling rate in Hz that a Detector wants, FrameSamples how many samples one judgement is about (32 ms).
const (
	Rate         = 16000
	FrameSamples = vadc.Frame
	// GlanceContext is how many samples before its frame Glance wants.
	GlanceContext = vadc.Past
)

// Detector judges one stream of sound. It is for one goroutine.
type Detector struct {
	model *Model

	past  [GlanceContext]int16
	state vadc.State
	room  vadc.State // for what a glance forgets
}

// Detector makes a detector that has heard nothing yet.
func (m *Model) Detector() *Detector { return &Detector{model: m} }

// Reset forgets what was heard.
func (d *Detector) Reset() { d.past, d.state = [GlanceContext]int16{}, vadc.State{} }

// Judge takes the next FrameSamples of the sound (PCM16 mono at Rate) and says how likely it is that somebody speaks in
// them, 0 to 1. It allocates nothing.
func (d *Detector) Judge(pcm *[FrameSamples]int16) float32 {
	likely := d.model.net.Judge(&d.past, pcm, &d.state)
	copy(d.past[:], pcm[FrameSamples-GlanceContext:])
	return likely
}

// Glance says how likely it is that somebody speaks in the newest FrameSamples of the sound, whose ends need not be those of
// what Judge was given and some of which Judge may have had. recent begins GlanceContext samples before them. It forgets what
// it saw: what Judge says does not change.
func (d *Detector) Glance(recent *[GlanceContext + FrameSamples]int16) float32 {
	d.room = d.state
	return d.model.net.Judge((*[GlanceContext]int16)(recent[:GlanceContext]), (*[FrameSamples]int16)(recent[GlanceContext:]), &d.room)
}
