package vad

import (
	"math"
	"math/bits"
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

// rows sets y to the products of x with the rows of a matrix, whose starts are stride apart. Four rows go together: each
// number of x is read once for them, and their sums do not wait for each other. len(y) is a multiple of four.
func rows(y, matrix []float32, stride int, x []float32) {
	for r := 0; r+4 <= len(y); r += 4 {
		w0 := matrix[r*stride:][:len(x)]
		w1 := matrix[(r+1)*stride:][:len(x)]
		w2 := matrix[(r+2)*stride:][:len(x)]
		w3 := matrix[(r+3)*stride:][:len(x)]
		var a0, a1, a2, a3, b0, b1, b2, b3 float32
		i := 0
		for ; i+1 < len(x); i += 2 {
			u, v := x[i], x[i+1]
			a0 += w0[i] * u
			a1 += w1[i] * u
			a2 += w2[i] * u
			a3 += w3[i] * u
			b0 += w0[i+1] * v
			b1 += w1[i+1] * v
			b2 += w2[i+1] * v
			b3 += w3[i+1] * v
		}
		if i < len(x) {
			a0 += w0[i] * x[i]
			a1 += w1[i] * x[i]
			a2 += w2[i] * x[i]
			a3 += w3[i] * x[i]
		}
		y[r], y[r+1], y[r+2], y[r+3] = a0+b0, a1+b1, a2+b2, a3+b3
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
