package sound

import (
	"math"
	"time"
)

// Floor is the level of digital silence in dBFS, and the lowest there is.
const Floor = -100

// Level is how loud sound is, in dBFS: 0 is the loudest that there is, for RMS a square wave of it.
type Level struct {
	RMS, Peak float64
}

// Meter measures the level of sound in pieces of 100 ms. Its zero value is ready. It is for one goroutine.
type Meter struct {
	sum, peak float64
	samples   int
	at        time.Time
}

// MeterTime is the length of the pieces that a Meter measures.
const MeterTime = 100 * time.Millisecond

// Add takes the sound that follows. When it completes a piece, that piece's level and the time of its first sample come
// back, and ok.
func (m *Meter) Add(rate int, pcm []int16, at time.Time) (l Level, began time.Time, ok bool) {
	if m.samples == 0 {
		m.at = at
	}
	sum, peak := measure(pcm)
	m.sum, m.peak, m.samples = m.sum+sum, max(m.peak, peak), m.samples+len(pcm)
	if m.samples < rate/int(time.Second/MeterTime) {
		return Level{}, time.Time{}, false
	}
	l, began = toLevel(m.sum, m.peak, m.samples), m.at
	*m = Meter{}
	return l, began, true
}

func levelOf(pcm []int16) Level {
	sum, peak := measure(pcm)
	return toLevel(sum, peak, len(pcm))
}

func measure(pcm []int16) (sum, peak float64) {
	var squares, high int64
	for _, v := range pcm {
		x := int64(v)
		squares += x * x
		high = max(high, x, -x)
	}
	return float64(squares), float64(high)
}

func toLevel(sum, peak float64, samples int) Level {
	return Level{RMS: decibels(math.Sqrt(sum / float64(max(samples, 1)))), Peak: decibels(peak)}
}

func decibels(amplitude float64) float64 {
	return max(20*math.Log10(amplitude/32768), Floor)
}
