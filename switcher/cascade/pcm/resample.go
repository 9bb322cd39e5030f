package pcm

import "math"

// Resampler changes the rate of a stream of PCM16 mono, piece by piece, by a windowed sinc whose pass band ends at the lower of
// the two Nyquist rates. It delays by halfTaps input samples, and gives the rest at Flush. For one goroutine.
type Resampler struct {
	from, to int
	scale    float64 // of the cut-off: 1 when going up
	half     int     // taps on each side, in input samples
	table    []float64
	buf      []float64 // input from position base on
	base     int64
	next     int64 // output samples made so far
	seen     int64 // input samples taken so far
}

const (
	halfTaps   = 12
	tableSteps = 256 // kernel values for one input sample
)

// NewResampler makes one for rates in Hz, both above 0. Equal rates are passed through untouched.
func NewResampler(from, to int) *Resampler {
	r := &Resampler{from: from, to: to, scale: math.Min(1, float64(to)/float64(from))}
	if from == to {
		return r
	}
	r.half = int(math.Ceil(halfTaps / r.scale))
	r.table = make([]float64, r.half*tableSteps+2)
	for i := range r.table {
		x := float64(i) / tableSteps
		if x < float64(r.half) {
			window := 0.5 + 0.5*math.Cos(math.Pi*x/float64(r.half)) // Hann
			r.table[i] = sinc(x*r.scale) * r.scale * window
		}
	}
	r.buf = make([]float64, r.half) // silence before the first sample
	r.base = -int64(r.half)
	return r
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// Push takes input and gives what output is due. The result of equal rates is the input itself.
func (r *Resampler) Push(in []int16) []int16 {
	if r.from == r.to {
		return in
	}
	for _, s := range in {
		r.buf = append(r.buf, float64(s))
	}
	r.seen += int64(len(in))
	return r.drain(r.seen - int64(r.half))
}

// Flush gives the last output; the stream is then over.
func (r *Resampler) Flush() []int16 {
	if r.from == r.to {
		return nil
	}
	r.buf = append(r.buf, make([]float64, r.half+1)...)
	return r.drain(r.seen)
}

// drain makes the output samples that lie before an input position.
func (r *Resampler) drain(until int64) []int16 {
	var out []int16
	for r.next*int64(r.from) < until*int64(r.to) {
		at := float64(r.next) * float64(r.from) / float64(r.to) // input position
		first := int64(math.Floor(at)) - int64(r.half) + 1
		sum := 0.0
		for i := range 2 * r.half {
			k := int(first-r.base) + i
			if k < 0 || k >= len(r.buf) {
				continue
			}
			sum += r.buf[k] * r.kernel(math.Abs(at-float64(first+int64(i))))
		}
		out = append(out, int16(math.Round(min(max(sum, math.MinInt16), math.MaxInt16))))
		r.next++
	}
	if keep := r.next*int64(r.from)/int64(r.to) - int64(r.half); keep > r.base {
		n := min(int(keep-r.base), len(r.buf))
		r.buf = r.buf[:copy(r.buf, r.buf[n:])]
		r.base += int64(n)
	}
	return out
}

func (r *Resampler) kernel(x float64) float64 {
	p := x * tableSteps
	i := int(p)
	if i+1 >= len(r.table) {
		return 0
	}
	return r.table[i] + (p-float64(i))*(r.table[i+1]-r.table[i])
}
