package yuv

import (
	"math"
	"testing"
)

// Every corner of the colour cube, by way of its own matrix and To601, is what BT.601 makes of it.
func TestTo601(t *testing.T) {
	encode := func(m Matrix, r, g, b float64) (y, cb, cr float64) {
		kr, kb := m.weights()
		y = kr*r + (1-kr-kb)*g + kb*b
		return y, (b - y) / (2 * (1 - kb)), (r - y) / (2 * (1 - kr))
	}
	for _, m := range []Matrix{MatrixUnknown, BT601, BT709, BT2020, SMPTE240} {
		k, same := m.To601()
		if same != (m <= BT601) {
			t.Errorf("%v: same %v", m, same)
		}
		for i := range 8 {
			r, g, b := float64(i&1), float64(i>>1&1), float64(i>>2)
			y, cb, cr := encode(m, r, g, b)
			wy, wb, wr := encode(BT601, r, g, b)
			got := [3]float64{y + k[0]*cb + k[1]*cr, k[2]*cb + k[3]*cr, k[4]*cb + k[5]*cr}
			for j, want := range []float64{wy, wb, wr} {
				if math.Abs(got[j]-want) > 1e-9 {
					t.Errorf("%v %d: %v, want %v %v %v", m, i, got, wy, wb, wr)
					break
				}
			}
		}
	}
}

func TestMatrixOf(t *testing.T) {
	for code, want := range map[int]Matrix{0: MatrixUnknown, 1: BT709, 2: MatrixUnknown, 4: BT601, 5: BT601, 6: BT601, 7: SMPTE240, 8: MatrixUnknown, 9: BT2020, 10: MatrixUnknown, 255: MatrixUnknown} {
		if got := MatrixOf(code); got != want {
			t.Errorf("%d: %v, want %v", code, got, want)
		}
	}
}

// What the stream says goes before what its carrier says.
func TestAssume(t *testing.T) {
	for _, c := range []struct {
		stream, carrier, want Colour
	}{
		{Colour{}, Colour{}, Colour{}},
		{Colour{}, Colour{BT709, true}, Colour{BT709, true}},
		{Colour{FullRange: true}, Colour{BT709, false}, Colour{BT709, true}},
		{Colour{BT601, false}, Colour{BT709, true}, Colour{BT601, false}},
		{Colour{BT2020, true}, Colour{BT709, false}, Colour{BT2020, true}},
	} {
		p := Picture{Matrix: c.stream.Matrix, FullRange: c.stream.FullRange}
		p.Assume(c.carrier)
		if p.Matrix != c.want.Matrix || p.FullRange != c.want.FullRange {
			t.Errorf("%+v: %v %v", c, p.Matrix, p.FullRange)
		}
	}
}
