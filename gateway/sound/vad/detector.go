package vad

// Rate is the sampling rate in Hz that a Detector wants, FrameSamples how many samples one judgement is about (32 ms).
const (
	Rate         = 16000
	FrameSamples = frameLen
	// GlanceContext is how many samples before its frame Glance wants.
	GlanceContext = context
	inputEnd      = context + frameLen
)

// Detector judges one stream of sound. It is for one goroutine.
type Detector struct {
	model *Model

	input        [inputEnd + mirrored]float32
	hidden, cell [units]float32

	// room for what happens inside a frame
	re, im [fftSize]float32
	a      [steps * bins]float32
	b      [steps * units]float32
	both   [2 * units]float32
	gates  [4 * units]float32
}

// Detector makes a detector that has heard nothing yet.
func (m *Model) Detector() *Detector { return &Detector{model: m} }

// Reset forgets what was heard.
func (d *Detector) Reset() {
	d.hidden, d.cell, d.input = [units]float32{}, [units]float32{}, [len(d.input)]float32{}
}

// Judge takes the next FrameSamples of the sound (PCM16 mono at Rate) and says how likely it is that somebody speaks in
// them, 0 to 1. It allocates nothing.
func (d *Detector) Judge(pcm *[FrameSamples]int16) float32 {
	copy(d.input[:context], d.input[frameLen:inputEnd])
	scale(d.input[context:], pcm[:])
	return d.run(&d.hidden, &d.cell)
}

// Glance says how likely it is that somebody speaks in the newest FrameSamples of the sound, whose ends need not be those of
// what Judge was given and some of which Judge may have had. recent begins GlanceContext samples before them. It forgets what
// it saw: what Judge says does not change.
func (d *Detector) Glance(recent *[GlanceContext + FrameSamples]int16) float32 {
	kept := d.input
	scale(d.input[:], recent[:])
	hidden, cell := d.hidden, d.cell
	likely := d.run(&hidden, &cell)
	d.input = kept
	return likely
}

func scale(to []float32, pcm []int16) {
	for i, v := range pcm {
		to[i] = float32(v) / 32768
	}
}

// run judges what is in input, and moves hidden and cell on.
func (d *Detector) run(hidden, cell *[units]float32) float32 {
	for i := range mirrored {
		d.input[inputEnd+i] = d.input[inputEnd-2-i]
	}
	m, x := d.model, d.input[:]
	for t := 0; t < steps; t += 2 {
		m.spectrum.magnitudes(x[t*hop:], x[(t+1)*hop:], d.a[t*bins:], d.a[(t+1)*bins:], &d.re, &d.im)
	}
	n := m.convs[0].run(d.a[:steps*bins], d.b[:])
	n = m.convs[1].run(d.b[:n*128], d.a[:])
	n = m.convs[2].run(d.a[:n*64], d.b[:])
	m.convs[3].run(d.b[:n*64], d.a[:])
	m.lstm.run(d.a[:units], hidden[:], cell[:], d.both[:], d.gates[:])

	sum := m.lastBias
	for i, h := range hidden {
		sum += m.last[i] * max(h, 0)
	}
	return logistic(sum)
}
