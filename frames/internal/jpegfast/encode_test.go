package jpegfast

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"testing"

	cjpeg "github.com/pixiv/go-libjpeg/jpeg"

	"sightline/frames/internal/yuv"
)

func encoder(t testing.TB) *Encoder {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// flat is a picture of one colour.
func flat(w, h int, y, u, v byte) *yuv.Picture {
	p := yuv.New(w, h)
	fill := func(b []byte, x byte) {
		for i := range b {
			b[i] = x
		}
	}
	fill(p.Y, y)
	fill(p.U, u)
	fill(p.V, v)
	return p
}

// noise is a picture smooth enough to be one and rough enough that no two samples agree by chance.
func noise(w, h int, seed uint64) *yuv.Picture {
	p := yuv.New(w, h)
	scatter(rand.New(rand.NewPCG(seed, 7)), p.Y, p.U, p.V)
	return p
}

// scatter fills planes with runs out of one random block: quick under the race detector too.
func scatter(rnd *rand.Rand, planes ...[]byte) {
	block := make([]byte, 8192)
	for i := range block {
		block[i] = byte(128 + 60*math.Sin(float64(i)/37) + float64(rnd.IntN(100)) - 50)
	}
	for _, p := range planes {
		for len(p) > 0 {
			from := rnd.IntN(len(block) - 1000)
			p = p[copy(p, block[from:from+1000-rnd.IntN(300)]):]
		}
	}
}

// kinds has an encoder of every kind of inner loops that this machine can run, plain C first.
func kinds(t testing.TB) map[kind]*Encoder {
	t.Helper()
	m := map[kind]*Encoder{}
	for k := plainC; k <= best(); k++ {
		e, err := newEncoder(k)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		m[k] = e
	}
	if best() < avx2 {
		t.Logf("this machine has no AVX2: tested are the kinds up to %d", best())
	}
	return m
}

var colours = []yuv.Colour{{}, {FullRange: true}, {Matrix: yuv.BT709}, {Matrix: yuv.BT2020, FullRange: true}}

func TestAllKindsAgree(t *testing.T) {
	all := kinds(t)
	for _, s := range [][4]int{{1280, 720, 1024, 1024}, {640, 480, 1024, 1024}, {1920, 1080, 1024, 1024}, {641, 481, 320, 240},
		{1920, 1080, 1000, 557}, {1280, 720, 641, 371}, {3840, 2160, 1024, 1024}, {1280, 720, 640, 360}, {1280, 720, 640, 720},
		{1280, 720, 1280, 360}, {4096, 2176, 7, 5}, {17, 17, 16, 16}, {15, 9, 31, 33}, {16, 2, 2048, 4096}, {1000, 1000, 501, 502}} {
		p := noise(s[0], s[1], uint64(s[0]+s[3]))
		for i, fit := range []Fit{Stretch, Contain, Cover, Letterbox} {
			for j, c := range colours {
				if (i+j)%2 == 0 {
					agree(t, all, p, c, Options{Width: s[2], Height: s[3], Fit: fit, Upscale: true, Sharp: (i+j)%4 == 0})
				}
			}
		}
	}
}

func agree(t *testing.T, all map[kind]*Encoder, p *yuv.Picture, c yuv.Colour, o Options) {
	t.Helper()
	p.Matrix, p.FullRange = c.Matrix, c.FullRange
	want, err := all[plainC].Scale(p, o)
	if err != nil {
		t.Fatal(err)
	}
	for k, e := range all {
		got, err := e.Scale(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Y, want.Y) || !bytes.Equal(got.U, want.U) || !bytes.Equal(got.V, want.V) {
			t.Errorf("%d×%d %+v %+v: planes of kind %d are not those of plain C", p.Width, p.Height, c, o, k)
		}
		if got, want := e.Luma(), all[plainC].Luma(); got != want {
			t.Errorf("%d×%d: luma %v of kind %d, %v of plain C", p.Width, p.Height, got, k, want)
		}
	}
}

// All 256 values of both kinds of plane, copied (same size) and through the taps (enlarged), by every kind of loops.
func TestVideoRangeBecomesFullRangeExactly(t *testing.T) {
	for k, e := range kinds(t) {
		for v := range 256 {
			for _, w := range []int{32, 48} {
				out, err := e.Scale(flat(32, 32, byte(v), byte(v), byte(255-v)), Options{Width: w, Height: 32, Sharp: v%2 == 0 || w == 32})
				if err != nil {
					t.Fatal(err)
				}
				y, u, x := full(v, 16, 219, 0), full(v, 128, 224, 128), full(255-v, 128, 224, 128)
				if out.Y[5] != y || out.U[5] != u || out.V[5] != x {
					t.Fatalf("kind %d width %d value %d: got %d %d %d, want %d %d %d", k, w, v, out.Y[5], out.U[5], out.V[5], y, u, x)
				}
			}
		}
	}
}

// A pixel's luma takes the chroma of its own block of 2×2: flat pictures of 4913 colours all over the cube come out as the
// exact matrix rounded, whatever the odd size, and grey stays grey.
func TestOtherMatricesBecome601(t *testing.T) {
	for k, e := range kinds(t) {
		for _, m := range []yuv.Matrix{yuv.BT709, yuv.BT2020, yuv.SMPTE240} {
			f, _ := m.To601()
			for i := range 17 * 17 * 17 {
				y, u, v := min(i%17*16, 255), min(i/17%17*16, 255), min(i/289*16, 255)
				p := flat(1+i%37, 1+i%3, byte(y), byte(u), byte(v))
				p.FullRange, p.Matrix = true, m
				out, err := e.Scale(p, Options{})
				if err != nil {
					t.Fatal(err)
				}
				cb, cr := float64(u-128), float64(v-128)
				want := [3]float64{float64(y) + f[0]*cb + f[1]*cr, 128 + f[2]*cb + f[3]*cr, 128 + f[4]*cb + f[5]*cr}
				for j, plane := range [][]byte{out.Y, out.U, out.V} {
					for _, got := range plane {
						if d := float64(got) - min(max(want[j], 0), 255); d > .51 || d < -.51 {
							t.Fatalf("kind %d %v %d %d %d: plane %d has %d, want %.2f", k, m, y, u, v, j, got, want[j])
						}
					}
				}
			}
		}
	}
}

func full(v, zero, span, offset int) byte {
	return byte(min(max(math.Floor(float64(v-zero)*255/float64(span)+float64(offset)+.5), 0), 255))
}

func TestG11BlackIs0AndWhiteIs255(t *testing.T) {
	e := encoder(t)
	for _, c := range []struct {
		y         byte
		fullRange bool
		want      uint8
	}{{16, false, 0}, {235, false, 255}, {0, true, 0}, {255, true, 255}, {16, true, 16}, {0, false, 0}, {255, false, 255}} {
		p := flat(1280, 720, c.y, 128, 128)
		p.FullRange = c.fullRange
		m := decoded(t, e, p, Options{Width: 1024, Height: 1024, Quality: 75})
		for _, at := range []image.Point{{0, 0}, {1023, 1023}, {500, 7}} {
			r, g, b, _ := m.At(at.X, at.Y).RGBA()
			if uint8(r>>8) != c.want || uint8(g>>8) != c.want || uint8(b>>8) != c.want {
				t.Errorf("luma %d full range %v at %v: %d %d %d, want %d", c.y, c.fullRange, at, r>>8, g>>8, b>>8, c.want)
			}
		}
	}
}

func decoded(t *testing.T, e *Encoder, p *yuv.Picture, o Options) image.Image {
	t.Helper()
	b, _, _, err := e.Encode(p, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := jpeg.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Eight bars of 160 columns, in video range as a camera sends them.
func TestG11ColourBarsWithin3(t *testing.T) {
	e, p := encoder(t), yuv.New(1280, 720)
	bars := []color.RGBA{{255, 255, 255, 255}, {255, 255, 0, 255}, {0, 255, 255, 255}, {0, 255, 0, 255}, {255, 0, 255, 255}, {255, 0, 0, 255}, {0, 0, 255, 255}, {0, 0, 0, 255}}
	for y := range 720 {
		for x := range 1280 {
			c := bars[x/160]
			r, g, b := float64(c.R), float64(c.G), float64(c.B)
			p.Y[y*1280+x] = byte(16 + (65.481*r+128.553*g+24.966*b)/255 + .5)
			p.U[y/2*640+x/2] = byte(128 + (-37.797*r-74.203*g+112*b)/255 + .5)
			p.V[y/2*640+x/2] = byte(128 + (112*r-93.786*g-18.214*b)/255 + .5)
		}
	}
	for _, o := range []Options{{Width: 1024, Height: 1024, Quality: 90}, {Quality: 75}, {Width: 320, Height: 240, Quality: 90}, {Width: 1024, Height: 1024, Fit: Letterbox, Quality: 90}} {
		m := decoded(t, e, p, o)
		for i, want := range bars {
			x, y := m.Bounds().Dx()*(2*i+1)/16, m.Bounds().Dy()/2
			got := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
			for _, d := range []int{int(got.R) - int(want.R), int(got.G) - int(want.G), int(got.B) - int(want.B)} {
				if d < -3 || d > 3 {
					t.Errorf("%+v bar %d: %v, want %v", o, i, got, want)
				}
			}
		}
	}
}

// The raw data path writes what libjpeg writes for the same planes through go-libjpeg, byte for byte.
func TestBytesEqualGoLibjpeg(t *testing.T) {
	e := encoder(t)
	for _, s := range [][2]int{{1024, 1024}, {640, 480}, {641, 481}, {16, 16}, {17, 33}, {1, 1}} {
		p := noise(s[0], s[1], 3)
		p.FullRange = true
		m := padded(p)
		for _, q := range []int{1, 30, 75, 100} {
			for _, optimize := range []bool{false, true, false} {
				got, _, _, err := e.Encode(p, Options{Quality: q, Optimize: optimize})
				if err != nil {
					t.Fatal(err)
				}
				var want bytes.Buffer
				opt := &cjpeg.EncoderOptions{Quality: q, OptimizeCoding: optimize, DCTMethod: cjpeg.DCTISlow}
				if err := cjpeg.Encode(&want, m, opt); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want.Bytes()) {
					t.Errorf("%v quality %d optimize %v: %d bytes, go-libjpeg %d, not the same", s, q, optimize, len(got), want.Len())
				}
			}
		}
	}
}

// padded is the picture with its edges repeated to whole MCUs: go-libjpeg reads that far.
func padded(p *yuv.Picture) *image.YCbCr {
	w, h := (p.Width+15)&^15, (p.Height+15)&^15
	m := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio420)
	cw, ch := p.ChromaSize()
	grow := func(d []byte, ds int, s []byte, ss, sw, sh int) {
		for i := range d {
			d[i] = s[min(i/ds, sh-1)*ss+min(i%ds, sw-1)]
		}
	}
	grow(m.Y, m.YStride, p.Y, p.YStride, p.Width, p.Height)
	grow(m.Cb, m.CStride, p.U, p.CStride, cw, ch)
	grow(m.Cr, m.CStride, p.V, p.CStride, cw, ch)
	m.Rect = image.Rect(0, 0, p.Width, p.Height)
	return m
}

// After an optimised image the compressor's tables must not leak into a plain one: that one would decode to garbage, without an error.
func TestPlainAfterOptimisedIsSound(t *testing.T) {
	e, fresh := encoder(t), encoder(t)
	small, rough := flat(64, 64, 90, 128, 128), noise(64, 64, 1)
	for range 3 {
		if _, _, _, err := e.Encode(small, Options{Quality: 75, Optimize: true}); err != nil {
			t.Fatal(err)
		}
		got, _, _, err := e.Encode(rough, Options{Quality: 75})
		if err != nil {
			t.Fatal(err)
		}
		want, _, _, _ := fresh.Encode(rough, Options{Quality: 75})
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes after an optimised image, %d from a fresh encoder", len(got), len(want))
		}
	}
}

func TestEncodeAllocatesTheBytesOnly(t *testing.T) {
	e, p := encoder(t), noise(1280, 720, 2)
	for _, o := range []Options{{Width: 1024, Height: 1024, Quality: 75}, {Width: 320, Height: 240, Fit: Cover, Quality: 75, Optimize: true}} {
		if n := testing.AllocsPerRun(20, func() {
			if _, _, _, err := e.Encode(p, o); err != nil {
				t.Fatal(err)
			}
		}); n != 1 {
			t.Errorf("%+v: %v allocations, want 1", o, n)
		}
	}
}

func TestClosedEncoder(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := e.Encode(flat(16, 16, 1, 1, 1), Options{Quality: 75}); err != ErrClosed {
		t.Errorf("encode: %v", err)
	}
	if _, err := e.Scale(flat(16, 16, 1, 1, 1), Options{}); err != ErrClosed {
		t.Errorf("scale: %v", err)
	}
	if e.Bytes() != 0 {
		t.Errorf("%d bytes of C memory after Close", e.Bytes())
	}
}

func TestRefusesWhatCMustNotSee(t *testing.T) {
	e, good := encoder(t), func() *yuv.Picture { return yuv.New(64, 48) }
	for name, change := range map[string]func(*yuv.Picture, *Options){
		"short Y":         func(p *yuv.Picture, _ *Options) { p.Y = p.Y[:len(p.Y)-1] },
		"short U":         func(p *yuv.Picture, _ *Options) { p.U = p.U[:len(p.U)-1] },
		"no V":            func(p *yuv.Picture, _ *Options) { p.V = nil },
		"stride":          func(p *yuv.Picture, _ *Options) { p.YStride-- },
		"negative stride": func(p *yuv.Picture, _ *Options) { p.CStride = -32 },
		"width 0":         func(p *yuv.Picture, _ *Options) { p.Width = 0 },
		"huge":            func(p *yuv.Picture, _ *Options) { p.Width, p.Height = 1<<20, 1<<20 },
		"image width 0":   func(_ *yuv.Picture, o *Options) { o.Height = 5 },
		"image 4097":      func(_ *yuv.Picture, o *Options) { o.Width, o.Height = 4097, 5 },
		"quality 101":     func(_ *yuv.Picture, o *Options) { o.Quality = 101 },
		"quality -1":      func(_ *yuv.Picture, o *Options) { o.Quality = -1 },
		"fit 4":           func(_ *yuv.Picture, o *Options) { o.Width, o.Height, o.Fit = 5, 5, 4 },
	} {
		p, o := good(), Options{Quality: 75}
		change(p, &o)
		if _, _, _, err := e.Encode(p, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	encodeOK(t, e, good(), Options{Quality: 75}) // and none of it hurt the encoder
}

// A large image must not keep its memory once small ones follow.
func TestBuffersShrinkAgain(t *testing.T) {
	e := encoder(t)
	encodeOK(t, e, noise(64, 64, 1), Options{Quality: 75})
	before := e.Bytes()
	if before > 4<<20 {
		t.Errorf("%d bytes for a small image", before)
	}
	encodeOK(t, e, noise(1024, 1024, 1), Options{Width: 4096, Height: 4096, Quality: 100})
	large := e.Bytes()
	for range 2 {
		encodeOK(t, e, noise(64, 64, 1), Options{Quality: 75})
	}
	if after := e.Bytes(); after > before+(1<<20) || large <= after {
		t.Errorf("%d bytes at first, %d for a large image, %d after small ones", before, large, after)
	}
}

func TestLumaTellsBlack(t *testing.T) {
	e := encoder(t)
	dot, fullBlack := flat(640, 480, 16, 128, 128), flat(640, 480, 0, 128, 128)
	fullBlack.FullRange = true
	for y := 200; y < 260; y++ { // a small bright field on black is a picture
		for x := 300; x < 360; x++ {
			dot.Y[y*640+x] = 200
		}
	}
	noisy := flat(640, 480, 16, 128, 128)
	for i := range noisy.Y {
		noisy.Y[i] += byte(i % 3) // what coding leaves of black
	}
	for name, c := range map[string]struct {
		p     *yuv.Picture
		black bool
	}{"black": {flat(640, 480, 16, 128, 128), true}, "coded black": {noisy, true}, "full range black": {fullBlack, true}, "grey": {flat(640, 480, 30, 128, 128), false}, "dot": {dot, false}, "1×1": {flat(1, 1, 16, 128, 128), true}} {
		encodeOK(t, e, c.p, Options{Width: 64, Height: 64, Quality: 75})
		if got := e.Luma(); got.Black() != c.black {
			t.Errorf("%s: %+v black %v", name, got, got.Black())
		}
	}
	encodeOK(t, e, flat(320, 240, 100, 128, 128), Options{Quality: 75})
	if l := e.Luma(); l.Mean != 100 || l.Variance != 0 {
		t.Errorf("flat 100: %+v", l)
	}
}
