package vadc

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomWeights are those of a net that nobody trained: about as large as a real one's.
func randomWeights() Weights {
	random := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int, size float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64() * size)
		}
		return x
	}
	w := Weights{Convs: Shapes(), Last: numbers(Units, 0.3), LastBias: 0.1,
		Input: numbers(4*Units*Units, 0.05), Hidden: numbers(4*Units*Units, 0.05), InputBias: numbers(4*Units, 0.2), HiddenBias: numbers(4*Units, 0.2)}
	for i := range w.Convs {
		c := &w.Convs[i]
		c.Weight, c.Bias = numbers(c.In*c.Out*Taps, 0.05), numbers(c.Out, 0.1)
	}
	return w
}

func net(tb testing.TB, simd bool) *Net {
	tb.Helper()
	n, err := newNet(randomWeights(), simd)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestSIMDAndPlainCAgree(t *testing.T) {
	if !hasSIMD() {
		t.Log("this machine has no AVX2: plain C is all there is")
	}
	fast, plain := net(t, hasSIMD()), net(t, false)
	var a, b State
	var past [Past]int16
	var pcm [Frame]int16
	random := rand.New(rand.NewPCG(3, 4))
	lowest, highest := float32(1), float32(0)
	for frame := range 400 {
		loud := math.Pow(2, float64(frame%100)/6)
		for i := range pcm {
			pcm[i] = int16(max(min(random.NormFloat64()*loud, math.MaxInt16), math.MinInt16))
		}
		x, y := fast.Judge(&past, &pcm, &a), plain.Judge(&past, &pcm, &b)
		if math.Abs(float64(x-y)) > 1e-5 || !(x >= 0 && x <= 1) {
			t.Fatalf("frame %d: SIMD says %v, plain C %v", frame, x, y)
		}
		for i := range a {
			if off := math.Abs(float64(a[i]-b[i])) / max(1, math.Abs(float64(b[i]))); off > 1e-4 {
				t.Fatalf("frame %d: state %d is %v by SIMD, %v by plain C", frame, i, a[i], b[i])
			}
		}
		lowest, highest = min(lowest, x), max(highest, x)
		copy(past[:], pcm[Frame-Past:])
	}
	if highest-lowest < 0.05 {
		t.Errorf("only likelihoods from %v to %v were compared", lowest, highest)
	}
}

func TestNetsOfAnotherShapeAreAnError(t *testing.T) {
	for words, change := range map[string]func(*Weights){
		"convolution 2": func(w *Weights) { w.Convs[2].Weight = w.Convs[2].Weight[1:] },
		"convolution 0": func(w *Weights) { w.Convs[0].In = 128 },
		"LSTM":          func(w *Weights) { w.Hidden = nil },
	} {
		w := randomWeights()
		change(&w)
		if _, err := New(w); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for name, simd := range map[string]bool{"simd": hasSIMD(), "plain": false} {
		b.Run(name, func(b *testing.B) {
			n, s := net(b, simd), State{}
			var past [Past]int16
			var pcm [Frame]int16
			for i := range pcm {
				pcm[i] = int16(i * 7919)
			}
			b.ReportAllocs()
			for b.Loop() {
				n.Judge(&past, &pcm, &s)
			}
		})
	}
}
