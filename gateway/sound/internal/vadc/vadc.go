// Package vadc computes the Silero net on one frame of sound, in C with the vectors that the machine has; it knows no files and no
// streams.
package vadc

// #cgo CFLAGS: -O3 -Wall -Wextra -Wno-psabi
// #cgo LDFLAGS: -lm
// #cgo noescape slvad_judge
// #cgo nocallback slvad_judge
// #include "net.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Sizes of the net, in samples and numbers.
const (
	Past  = C.SL_PAST  // samples before the frame
	Frame = C.SL_FRAME // samples of the frame
	Units = C.SL_UNITS // of the LSTM cell
	Bins  = C.SL_BINS  // of a spectrum
	Taps  = 3          // of a convolution
	fft   = C.SL_POINTS
)

// Conv is a convolution along time with a margin of one step of zeros, followed by a ReLU.
type Conv struct {
	In, Out int
	Weight  []float32 // [Out][In][Taps]
	Bias    []float32 // [Out]
}

// Shapes are those of the four convolutions: Weight and Bias are nil.
func Shapes() [4]Conv {
	return [4]Conv{{In: Bins, Out: 128}, {In: 128, Out: 64}, {In: 64, Out: 64}, {In: 64, Out: 128}}
}

// Weights are the numbers of a net as its file has them. Gates lie in the order input, forget, cell, output.
type Weights struct {
	Convs                 [4]Conv   // as Shapes
	Input, Hidden         []float32 // [4*Units][Units]
	InputBias, HiddenBias []float32 // [4*Units]
	Last                  []float32 // [Units]
	LastBias              float32
}

// Net is a net that is ready to judge, for any number of goroutines at a time. It does not change.
type Net struct {
	packed []float32
	simd   C.int
}

// State is what the net remembers of one stream: hidden, then cell.
type State [2 * Units]float32

// New lays the weights out as the machine wants them.
func New(w Weights) (*Net, error) { return newNet(w, hasSIMD()) }

func newNet(w Weights, simd bool) (*Net, error) {
	for i, shape := range Shapes() {
		c := w.Convs[i]
		if c.In != shape.In || c.Out != shape.Out || len(c.Weight) != c.In*c.Out*Taps || len(c.Bias) != c.Out {
			return nil, fmt.Errorf("vadc: convolution %d of %d to %d with %d weights, must be %d to %d", i, c.In, c.Out, len(c.Weight), shape.In, shape.Out)
		}
	}
	if square := 4 * Units * Units; len(w.Input) != square || len(w.Hidden) != square || len(w.InputBias) != 4*Units || len(w.HiddenBias) != 4*Units || len(w.Last) != Units {
		return nil, fmt.Errorf("vadc: the LSTM's weights are not those of %d units", Units)
	}

	n := &Net{packed: tables()}
	if simd {
		n.simd = 1
	}
	for i, firstTap := range [4]int{0, 0, 1, 1} {
		c, block, lastTap := w.Convs[i], []int{C.SL_BLOCK_0, C.SL_BLOCK_1, C.SL_BLOCK, C.SL_BLOCK}[i], []int{2, 2, 2, 1}[i]
		n.layer(c.Out, (lastTap-firstTap+1)*c.In, block, c.Bias, func(out, in int) float32 {
			return c.Weight[(out*c.In+in%c.In)*Taps+firstTap+in/c.In]
		})
	}
	bias := make([]float32, 4*Units)
	for i := range bias {
		bias[i] = w.InputBias[i] + w.HiddenBias[i]
	}
	n.layer(4*Units, 2*Units, C.SL_BLOCK, bias, func(out, in int) float32 {
		if in < Units {
			return w.Input[out*Units+in]
		}
		return w.Hidden[out*Units+in-Units]
	})
	n.packed = append(append(n.packed, w.Last...), w.LastBias)
	if len(n.packed) != C.SL_NET {
		return nil, fmt.Errorf("vadc: a net of %d numbers, want %d", len(n.packed), C.SL_NET)
	}
	return n, nil
}

// tables are those of the Fourier transform: a periodic Hann window, and the turns of point (row, column) of 16 by 16.
func tables() []float32 {
	t := make([]float32, 3*fft, C.SL_NET)
	for i := range fft {
		t[i] = float32(0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/fft))
		sin, cos := math.Sincos(2 * math.Pi * float64(i/16*(i%16)) / fft)
		t[fft+i], t[2*fft+i] = float32(cos), float32(sin)
	}
	return t
}

// layer appends a matrix in the order of net.c.
func (n *Net) layer(outs, ins, block int, bias []float32, weight func(out, in int) float32) {
	for first := 0; first < outs; first += block {
		n.packed = append(n.packed, bias[first:first+block]...)
		for in := range ins {
			for out := first; out < first+block; out++ {
				n.packed = append(n.packed, weight(out, in))
			}
		}
	}
}

// Judge says how likely it is, 0 to 1, that somebody speaks in pcm (PCM16 mono, 16 kHz), which follows past, and moves the state
// on. It allocates nothing.
func (n *Net) Judge(past *[Past]int16, pcm *[Frame]int16, s *State) float32 {
	return float32(C.slvad_judge((*C.float)(unsafe.Pointer(&n.packed[0])), (*C.int16_t)(unsafe.Pointer(past)), (*C.int16_t)(unsafe.Pointer(pcm)),
		(*C.float)(unsafe.Pointer(s)), n.simd))
}

func hasSIMD() bool { return C.slvad_has_simd() != 0 }
