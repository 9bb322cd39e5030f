package jpegfast

import (
	"math/rand/v2"
	"testing"

	"sightline/frames/internal/yuv"
)

// FuzzSizes: any size, stride, placement and colour; planes end at a forbidden page. Every kind of loops makes the same planes, and a
// JPEG comes of them.
func FuzzSizes(f *testing.F) {
	f.Add(uint16(1280), uint16(720), uint8(64), uint8(0), uint16(1024), uint16(1024), uint16(0), uint8(75), uint64(1))
	f.Add(uint16(641), uint16(481), uint8(0), uint8(31), uint16(640), uint16(480), uint16(0x12f), uint8(0), uint64(2))
	f.Add(uint16(1), uint16(1), uint8(1), uint8(1), uint16(4096), uint16(1), uint16(0x5b), uint8(100), uint64(3))
	f.Add(uint16(4096), uint16(3), uint8(0), uint8(0), uint16(17), uint16(33), uint16(0x173), uint8(30), uint64(4))
	all := map[kind]*Encoder{}
	for k := plainC; k <= best(); k++ {
		e, err := newEncoder(k)
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { e.Close() })
		all[k] = e
	}
	f.Fuzz(func(t *testing.T, w, h uint16, ypad, cpad uint8, dw, dh, bits uint16, quality uint8, seed uint64) {
		w, h, dw, dh = 1+w%4096, 1+h%4096, 1+dw%4096, 1+dh%4096
		if int(w)*int(h) > 1<<20 {
			h = 1 + h%256
		}
		if int(dw)*int(dh) > 1<<20 {
			dh = 1 + dh%256
		}
		p := fenced(t, int(w), int(h), int(ypad), int(cpad), rand.New(rand.NewPCG(seed, 1)))
		c := yuv.Colour{Matrix: yuv.Matrix(bits >> 5 & 7), FullRange: bits&16 != 0}
		o := Options{Width: int(dw), Height: int(dh), Fit: Fit(bits & 3), Upscale: bits&4 != 0, Optimize: bits&8 != 0, Sharp: bits&256 != 0, Quality: int(quality % 101)}
		agree(t, all, p, c, o)
		encodeOK(t, all[best()], p, o)
	})
}
