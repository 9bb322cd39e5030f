package sound

import (
	"fmt"
	"math"

	"sightline/gateway/sound/internal/opus"
)

const (
	taps       = 48 // per phase; the filter looks at 24 samples on either side
	rateStep   = 25 // Hz; rates are multiples of it, which bounds the filter's phases to 1920
	kaiserBeta = 8.0
	passBand   = 0.47 // of the input's rate: the middle of the filter's edge
)

// coderRate is the lowest rate opus takes that keeps all of a sound of this rate.
func coderRate(rate int) (int, error) {
	if rate < opus.Rates[0] || rate > opus.ClockRate || rate%rateStep != 0 {
		return 0, fmt.Errorf("sound of %d Hz cannot be played: rates are 8000 to 48000 Hz, multiples of %d", rate, rateStep)
	}
	for _, r := range opus.Rates {
		if r >= rate {
			return r, nil
		}
	}
	return opus.ClockRate, nil
}

// resampler raises the rate of a sound that comes in pieces, with linear phase: a polyphase filter whose state lasts
// from piece to piece. n samples become n*up/down, in time with the input.
type resampler struct {
	in, out  int // Hz
	up, down int
	filter   []float32 // up phases of taps each, each in the order of the samples
	past     []float32 // the samples the filter still needs
	phase    int       // of the next output, in 1/up of an input sample behind past[taps/2-1]
}

func newResampler(in, out int) *resampler {
	d := gcd(in, out)
	r := &resampler{in: in, out: out, up: out / d, down: in / d}
	r.filter = make([]float32, r.up*taps)
	for p := range r.up {
		var sum float64
		row := make([]float64, taps)
		for k := range row {
			// Sample k stands at k-(taps/2-1) input samples from the one that the phase counts from.
			x := float64(k-(taps/2-1)) - float64(p)/float64(r.up)
			row[k] = sinc(2*passBand*x) * kaiser(x/(taps/2))
			sum += row[k]
		}
		for k := range row {
			r.filter[p*taps+k] = float32(row[k] / sum) // no ripple between phases at 0 Hz
		}
	}
	r.reset()
	return r
}

// reset forgets the past: what comes next is the start of a sound.
func (r *resampler) reset() {
	r.past = append(r.past[:0], make([]float32, taps/2-1)...)
	r.phase = 0
}

// push gives what can be told of the sound up to the end of pcm, appended to out.
func (r *resampler) push(pcm []int16, out []int16) []int16 {
	for _, s := range pcm {
		r.past = append(r.past, float32(s))
	}
	for at := 0; ; r.phase += r.down {
		for ; r.phase >= r.up; r.phase -= r.up {
			at++
		}
		if at+taps > len(r.past) {
			r.past = append(r.past[:0], r.past[at:]...)
			return out
		}
		var sum float32
		window, row := r.past[at:at+taps], r.filter[r.phase*taps:][:taps]
		for k, w := range window {
			sum += w * row[k]
		}
		out = append(out, clip16(sum))
	}
}

// flush gives the rest of the sound, as if silence followed, and resets.
func (r *resampler) flush(out []int16) []int16 {
	var zeros [taps / 2]int16
	out = r.push(zeros[:], out)
	r.reset()
	return out
}

func clip16(x float32) int16 {
	return int16(math.RoundToEven(float64(max(-32768, min(32767, x)))))
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// kaiser is the window at x, -1 to 1.
func kaiser(x float64) float64 {
	if x < -1 || x > 1 {
		return 0
	}
	return bessel0(kaiserBeta*math.Sqrt(1-x*x)) / bessel0(kaiserBeta)
}

// bessel0 is the modified Bessel function of the first kind and order 0.
func bessel0(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1; term > sum*1e-12; k++ {
		term *= (x / 2 / float64(k)) * (x / 2 / float64(k))
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
