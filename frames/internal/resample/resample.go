// Package resample scales 8-bit samples by Lanczos (three lobes), the filter of the seeds' own image path: for stills and PNG, where
// quality counts more than time. Live pictures go through jpegfast.
package resample

import (
	"fmt"
	"math"
)

// Source is interleaved samples and the part of them that is wanted.
type Source struct {
	Pix           []byte
	Stride        int
	Row           func(y int) []byte // instead of Pix and Stride: gives one row, good until the next; asked in rising order
	Width, Height int
	Channels      int     // samples of one pixel, 1 to 4
	X, Y, W, H    float64 // the part; W and H 0: all of it
}

// precision is the weights' fraction, in bits: 8-bit samples and a few bits for overshoot fit beside it in 32.
const precision = 32 - 8 - 2

// reduceAbove is how many pixels a source, and bytes the rows under the filter may have before large ratios are first averaged down: below,
// the filter alone is fast.
const reduceAbove = 4 << 20

// taps of one output sample: n source samples from first on, with their weights.
type taps struct {
	first, n int
	weight   []int32
}

// Scale fills dst, w×h pixels with the source's channels, rows stride bytes apart.
func Scale(dst []byte, stride, w, h int, s Source) error {
	if s.Width < 1 || s.Height < 1 || s.Channels < 1 || s.Channels > 4 || w < 1 || h < 1 {
		return fmt.Errorf("resample: %d×%d with %d channels to %d×%d: sides must be 1 or more, channels 1 to 4", s.Width, s.Height, s.Channels, w, h)
	}
	if s.Row == nil && (s.Stride < s.Width*s.Channels || len(s.Pix) < s.Stride*(s.Height-1)+s.Width*s.Channels) {
		return fmt.Errorf("resample: %d bytes with stride %d are too few for %d×%d with %d channels", len(s.Pix), s.Stride, s.Width, s.Height, s.Channels)
	}
	if stride < w*s.Channels || len(dst) < stride*(h-1)+w*s.Channels {
		return fmt.Errorf("resample: %d bytes with stride %d are too few to hold %d×%d with %d channels", len(dst), stride, w, h, s.Channels)
	}
	if s.W == 0 || s.H == 0 {
		s.X, s.Y, s.W, s.H = 0, 0, float64(s.Width), float64(s.Height)
	}
	if s.Row == nil {
		pix, stride := s.Pix, s.Stride
		s.Row = func(y int) []byte { return pix[y*stride:] }
	}
	s = reduce(s, w, h)
	across, down := build(s.Width, w, s.X, s.W), build(s.Height, h, s.Y, s.H)
	most := 0
	for _, t := range down {
		most = max(most, t.n)
	}
	line := w * s.Channels
	ring := make([]byte, most*line) // the rows that one row of the result is made of
	acc := make([]int32, line)
	next := down[0].first
	for y, t := range down {
		for ; next < t.first+t.n; next++ {
			row(ring[next%most*line:][:line], s.Row(next), across, s.Channels)
		}
		column(dst[y*stride:y*stride+line], ring, most, t, acc)
	}
	return nil
}

func lanczos(x float64) float64 {
	if x == 0 {
		return 1
	}
	if x <= -3 || x >= 3 {
		return 0
	}
	return 3 * math.Sin(math.Pi*x) * math.Sin(math.Pi*x/3) / (math.Pi * math.Pi * x * x)
}

// build makes the taps of n outputs over span samples from origin on, of a line of size samples.
func build(size, n int, origin, span float64) []taps {
	scale := span / float64(n)
	wide := max(scale, 1) // going down, the filter widens to cover every sample
	out := make([]taps, n)
	for i := range out {
		c := origin + (float64(i)+.5)*scale
		first, end := max(int(c-3*wide+.5), 0), min(int(c+3*wide+.5), size)
		k, sum := make([]float64, end-first), 0.0
		for j := range k {
			k[j] = lanczos((float64(first+j) - c + .5) / wide)
			sum += k[j]
		}
		w := make([]int32, len(k))
		for j := range k {
			w[j] = int32(math.Round(k[j] / sum * (1 << precision)))
		}
		out[i] = taps{first, len(w), w}
	}
	return out
}

func clip(v int32) byte { return byte(min(max(v>>precision, 0), 255)) }

func row(dst, src []byte, across []taps, channels int) {
	const half = 1 << (precision - 1)
	switch channels {
	case 1:
		for i, t := range across {
			a := int32(half)
			for j, p := range src[t.first : t.first+t.n] {
				a += int32(p) * t.weight[j]
			}
			dst[i] = clip(a)
		}
	case 4:
		for i, t := range across {
			a, b, c, d := int32(half), int32(half), int32(half), int32(half)
			p := src[t.first*4 : (t.first+t.n)*4]
			for _, w := range t.weight {
				a += int32(p[0]) * w
				b += int32(p[1]) * w
				c += int32(p[2]) * w
				d += int32(p[3]) * w
				p = p[4:]
			}
			dst[i*4], dst[i*4+1], dst[i*4+2], dst[i*4+3] = clip(a), clip(b), clip(c), clip(d)
		}
	default:
		for i, t := range across {
			for ch := range channels {
				a := int32(half)
				for j, w := range t.weight {
					a += int32(src[(t.first+j)*channels+ch]) * w
				}
				dst[i*channels+ch] = clip(a)
			}
		}
	}
}

// column blends whole rows, of which the ring has the newest: one pass over a row for each tap, so that memory is read in order.
func column(dst, ring []byte, rows int, t taps, acc []int32) {
	for i := range acc {
		acc[i] = 1 << (precision - 1)
	}
	n := len(acc)
	for j, w := range t.weight {
		at := (t.first + j) % rows * n
		for i, p := range ring[at : at+n] {
			acc[i] += int32(p) * w
		}
	}
	for i, a := range acc {
		dst[i] = clip(a)
	}
}

// reduce averages a large source down by whole factors, as far as the filter still sees three samples for each output: what it then
// does to the rest hides the difference, at a fraction of the time.
func reduce(s Source, w, h int) Source {
	fx, fy := max(int(s.W/float64(w)/3), 1), max(int(s.H/float64(h)/3), 1)
	if s.Width*s.Height < reduceAbove && int(6*s.H/float64(h))*w*s.Channels < reduceAbove || fx*fy == 1 {
		return s
	}
	r := Source{Width: (s.Width + fx - 1) / fx, Height: (s.Height + fy - 1) / fy, Channels: s.Channels}
	r.X, r.W, r.Y, r.H = s.X/float64(fx), s.W/float64(fx), s.Y/float64(fy), s.H/float64(fy)
	line := make([]byte, r.Width*r.Channels)
	acc := make([]uint32, len(line))
	r.Row = func(y int) []byte {
		clear(acc)
		last := min((y+1)*fy, s.Height)
		for sy := y * fy; sy < last; sy++ {
			sum(acc, s.Row(sy)[:s.Width*s.Channels], fx, s.Channels)
		}
		for x := range r.Width {
			n := uint32((last - y*fy) * (min((x+1)*fx, s.Width) - x*fx))
			for c := range s.Channels {
				line[x*s.Channels+c] = byte((acc[x*s.Channels+c] + n/2) / n)
			}
		}
		return line
	}
	return r
}

// sum adds each run of fx pixels of a row to one of acc.
func sum(acc []uint32, row []byte, fx, channels int) {
	for x := 0; len(row) > 0; x++ {
		run := row[:min(fx*channels, len(row))]
		row = row[len(run):]
		for len(run) > 0 {
			for c := range channels {
				acc[x*channels+c] += uint32(run[c])
			}
			run = run[channels:]
		}
	}
}
