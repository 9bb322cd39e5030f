package vad

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The net (Silero VAD v6, 16 kHz): magnitude spectra of four windows, four convolutions along time, one LSTM cell, one
// logistic unit. Rows of a time series lie one behind the other, so that a convolution is a dot product of neighbours.
const (
	fftSize  = 256
	taps     = 3 // of a convolution
	bins     = fftSize/2 + 1
	hop      = 128
	steps    = 4 // windows of a frame
	units    = 128
	frameLen = 512 // new samples of a frame: 32 ms
	context  = 64  // samples of the frame before
	mirrored = 64  // samples mirrored behind the end
)

// conv is a convolution along time with three taps and a margin of one step of zeros, followed by a ReLU.
type conv struct {
	in, out, stride int
	weight          []float32 // [out][tap][in]
	bias            []float32
}

// run gives the number of steps written to y.
func (c *conv) run(x []float32, y []float32) int {
	count := len(x) / c.in
	n := (count-1)/c.stride + 1
	for t := range n {
		first := t*c.stride - 1
		from, to := max(first, 0), min(first+taps, count)
		out := y[t*c.out:][:c.out]
		rows(out, c.weight[(from-first)*c.in:], taps*c.in, x[from*c.in:to*c.in])
		for o := range out {
			out[o] = max(out[o]+c.bias[o], 0)
		}
	}
	return n
}

// rows sets y to the products of x with the rows of a matrix, whose starts are stride apart.
func rows(y, matrix []float32, stride int, x []float32) {
	for r := range y {
		var sum float64
		for i, w := range matrix[r*stride:][:len(x)] {
			sum += float64(w) * float64(x[i])
		}
		y[r] = float32(sum)
	}
}

// lstm is one LSTM cell; gates lie in the order input, forget, cell, output.
type lstm struct {
	weight []float32 // [gate][unit][input, then hidden]
	bias   []float32 // [gate][unit], both biases added
}

// run takes x in, and moves hidden and cell on. both is room for input and hidden, gates for 4*units.
func (l *lstm) run(x, hidden, cell, both, gates []float32) {
	copy(both, x)
	copy(both[units:], hidden)
	rows(gates, l.weight, 2*units, both)
	for i := range gates {
		gates[i] += l.bias[i]
	}
	for i := range units {
		in, forget := logistic(gates[i]), logistic(gates[units+i])
		candidate, out := tanh(gates[2*units+i]), logistic(gates[3*units+i])
		cell[i] = forget*cell[i] + in*candidate
		hidden[i] = out * tanh(cell[i])
	}
}

func logistic(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
func tanh(x float32) float32     { return float32(math.Tanh(float64(x))) }

// spectrum holds the tables of the windowed Fourier transform. Two real windows share one complex transform.
type spectrum struct {
	window [fftSize]float32
	cos    [fftSize / 2]float32
	sin    [fftSize / 2]float32
}

func newSpectrum() *spectrum {
	s := &spectrum{}
	for i := range s.window {
		s.window[i] = float32(0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/fftSize)) // Hann, periodic
	}
	for i := range s.cos {
		s.cos[i] = float32(math.Cos(2 * math.Pi * float64(i) / fftSize))
		s.sin[i] = float32(math.Sin(2 * math.Pi * float64(i) / fftSize))
	}
	return s
}

// magnitudes writes the magnitudes of the windows a and b, bins each. re and im are room.
func (s *spectrum) magnitudes(a, b []float32, ya, yb []float32, re, im *[fftSize]float32) {
	for i := range fftSize {
		j := bits.Reverse8(uint8(i))
		re[j], im[j] = a[i]*s.window[i], b[i]*s.window[i]
	}
	for size := 2; size <= fftSize; size *= 2 {
		half, stride := size/2, fftSize/size
		for start := 0; start < fftSize; start += size {
			for k := range half {
				c, d := s.cos[k*stride], s.sin[k*stride]
				p, q := start+k, start+k+half
				u := re[q]*c + im[q]*d
				v := im[q]*c - re[q]*d
				re[q], im[q] = re[p]-u, im[p]-v
				re[p], im[p] = re[p]+u, im[p]+v
			}
		}
	}
	for k := range bins {
		m := (fftSize - k) % fftSize
		ar, ai := (re[k]+re[m])/2, (im[k]-im[m])/2
		br, bi := (im[k]+im[m])/2, (re[m]-re[k])/2
		ya[k] = float32(math.Sqrt(float64(ar*ar + ai*ai)))
		yb[k] = float32(math.Sqrt(float64(br*br + bi*bi)))
	}
}

// reference is the net in plain Go, for one stream: what package vadc computes is measured against it.
type reference struct {
	spectrum *spectrum
	convs    [4]conv
	lstm     lstm
	last     []float32
	lastBias float32

	input        [context + frameLen + mirrored]float32
	hidden, cell [units]float32
}

func newReference(tb testing.TB) *reference {
	tb.Helper()
	w, err := read(weights)
	if err != nil {
		tb.Fatal(err)
	}
	r := &reference{spectrum: newSpectrum(), last: w.Last, lastBias: w.LastBias}
	for i, c := range w.Convs {
		r.convs[i] = conv{in: c.In, out: c.Out, stride: []int{1, 2, 2, 1}[i], weight: tapsFirst(c.Weight, c.In), bias: c.Bias}
	}
	for row := range 4 * units {
		r.lstm.weight = append(append(r.lstm.weight, w.Input[row*units:][:units]...), w.Hidden[row*units:][:units]...)
		r.lstm.bias = append(r.lstm.bias, w.InputBias[row]+w.HiddenBias[row])
	}
	return r
}

// tapsFirst turns [out][in][tap] into [out][tap][in].
func tapsFirst(w []float32, in int) []float32 {
	turned := make([]float32, len(w))
	for o := range len(w) / (taps * in) {
		for i := range in {
			for tap := range taps {
				turned[(o*taps+tap)*in+i] = w[(o*in+i)*taps+tap]
			}
		}
	}
	return turned
}

func (r *reference) judge(pcm *[FrameSamples]int16) float32 {
	const end = context + frameLen
	copy(r.input[:context], r.input[frameLen:end])
	for i, v := range pcm {
		r.input[context+i] = float32(v) / 32768
	}
	for i := range mirrored {
		r.input[end+i] = r.input[end-2-i]
	}
	var re, im [fftSize]float32
	a, b := make([]float32, steps*units+steps*bins), make([]float32, steps*units)
	for t := 0; t < steps; t += 2 {
		r.spectrum.magnitudes(r.input[t*hop:], r.input[(t+1)*hop:], a[t*bins:], a[(t+1)*bins:], &re, &im)
	}
	n := r.convs[0].run(a[:steps*bins], b)
	n = r.convs[1].run(b[:n*128], a)
	n = r.convs[2].run(a[:n*64], b)
	r.convs[3].run(b[:n*64], a)
	r.lstm.run(a[:units], r.hidden[:], r.cell[:], make([]float32, 2*units), make([]float32, 4*units))
	sum := r.lastBias
	for i, h := range r.hidden {
		sum += r.last[i] * max(h, 0)
	}
	return logistic(sum)
}

// The C net says what the plain one says: on speech, and on noise that grows from nothing to the loudest there is.
func TestJudgesAsPlainGoDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([][FrameSamples]int16, 100)
	for i := range noise {
		loud := math.Pow(2, float64(i)/6)
		for k := range noise[i] {
			noise[i][k] = int16(max(min(random.NormFloat64()*loud, math.MaxInt16), math.MinInt16))
		}
	}
	for name, frames := range map[string][][FrameSamples]int16{"speech": speech(t)[:150], "noise": noise} {
		d, r, most := load(t).Detector(), newReference(t), 0.0
		for i := range frames {
			got, want := d.Judge(&frames[i]), r.judge(&frames[i])
			if off := math.Abs(float64(got - want)); off > 1e-5 {
				t.Fatalf("%s, frame %d: %v, plain Go says %v", name, i, got, want)
			} else {
				most = max(most, off)
			}
		}
		t.Logf("%s: off by %.1e at most", name, most)
	}
}
