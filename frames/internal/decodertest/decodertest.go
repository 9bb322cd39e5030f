// Package decodertest is the conformance suite of a video decoder: what it must do with hostile frames, sizes and its own end. Every
// decoder that frames uses passes it. It is used by tests only.
package decodertest

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sightline/frames/internal/cmem"
	"sightline/frames/internal/coded"
	"sightline/frames/internal/yuv"
)

// Decoder is what is tested.
type Decoder interface {
	Decode(frame []byte) (yuv.Picture, error)
	Close() error
}

// Suite names how to make a decoder and the clips it is tested with, by their names in testdata. The errors it must answer with are
// coded's.
type Suite struct {
	New       func() (Decoder, error)
	Large     string // 320×240, one key frame and at least five frames that need it
	Small     string // 160×120, likewise
	Odd       string // of a size that fills no macroblocks
	OddWidth  int
	OddHeight int
	Other     string            // a clip of another codec
	Huge      []byte            // a key frame that claims a size over the bounds
	Streams   map[string]string // hostile clips, and what each frame must come to, see streams
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	t.Run("close twice, decode after close", s.life)
	t.Run("garbage, then a key frame", s.garbage)
	t.Run("empty and oversized frames", s.frameSizes)
	t.Run("pictures are FFmpeg's to the bit", s.exact)
	t.Run("odd size", s.oddSize)
	t.Run("size change", s.sizeChange)
	t.Run("truncated frames", s.truncated)
	t.Run("frame left out", s.leftOut)
	t.Run("another codec", s.otherCodec)
	t.Run("mutants", s.mutants)
	t.Run("hostile streams", s.streams)
	t.Run("huge dimensions cost nothing", s.huge)
	t.Run("1,000 decoders leave no memory", s.leak)
}

func (s Suite) decoder(t testing.TB) Decoder {
	t.Helper()
	d, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// key is a sound key frame of 320×240.
func (s Suite) key(t testing.TB) []byte { return Frames(t, s.Large)[0] }

func good(t testing.TB, d Decoder, frame []byte, w, h int) yuv.Picture {
	t.Helper()
	p, err := d.Decode(frame)
	if err != nil {
		t.Fatalf("sound frame: %v", err)
	}
	if p.Width != w || p.Height != h {
		t.Fatalf("picture of %d×%d, want %d×%d", p.Width, p.Height, w, h)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (s Suite) life(t *testing.T) {
	d := s.decoder(t)
	good(t, d, s.key(t), 320, 240)
	for range 3 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Decode(s.key(t)); !errors.Is(err, coded.ErrClosed) {
		t.Errorf("decode after close: %v, want %v", err, coded.ErrClosed)
	}
}

func (s Suite) garbage(t *testing.T) {
	d := s.decoder(t)
	junk := bytes.Repeat([]byte{0xa5, 0x11, 0x9d}, 400)
	for i := range 64 { // before any key frame, and after one
		junk[0] = byte(i * 4)
		if p, err := d.Decode(junk); err == nil {
			t.Fatalf("junk gave a picture of %d×%d", p.Width, p.Height)
		}
		if i%2 == 1 {
			good(t, d, s.key(t), 320, 240)
		}
	}
}

func (s Suite) frameSizes(t *testing.T) {
	d := s.decoder(t)
	good(t, d, s.key(t), 320, 240)
	for _, n := range []int{0, 4<<20 + 1} {
		if _, err := d.Decode(make([]byte, n)); !errors.Is(err, coded.ErrRefused) {
			t.Errorf("%d bytes: %v, want %v", n, err, coded.ErrRefused)
		}
	}
	if _, err := d.Decode(nil); !errors.Is(err, coded.ErrRefused) {
		t.Errorf("nil: %v, want %v", err, coded.ErrRefused)
	}
	good(t, d, s.key(t), 320, 240)
}

func (s Suite) exact(t *testing.T) {
	for _, name := range []string{s.Large, s.Small, s.Odd} {
		sums, err := clips.ReadFile("testdata/" + name + ".md5")
		if err != nil {
			t.Fatal(err)
		}
		d := s.decoder(t)
		want := strings.Fields(string(sums))
		frames := Frames(t, name)
		if len(want) != len(frames) {
			t.Fatalf("%s: %d frames, %d sums", name, len(frames), len(want))
		}
		for i, f := range frames {
			p, err := d.Decode(f)
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			q, h := p.Clone(), md5.New()
			h.Write(q.Y)
			h.Write(q.U)
			h.Write(q.V)
			if got := hex.EncodeToString(h.Sum(nil)); got != want[i] {
				t.Errorf("%s: frame %d: sum %s, want %s", name, i, got, want[i])
			}
		}
	}
}

// The last column and row of an odd picture are real: the test pattern there is not the green of zero chroma.
func (s Suite) oddSize(t *testing.T) {
	d := s.decoder(t)
	for _, f := range Frames(t, s.Odd) {
		p := good(t, d, f, s.OddWidth, s.OddHeight)
		cw, ch := p.ChromaSize()
		if cw != (s.OddWidth+1)/2 || ch != (s.OddHeight+1)/2 {
			t.Fatalf("chroma of %d×%d", cw, ch)
		}
		for y := range ch {
			if u, v := p.U[y*p.CStride+cw-1], p.V[y*p.CStride+cw-1]; u < 10 && v < 10 {
				t.Fatalf("row %d: last chroma column is %d, %d", y, u, v)
			}
		}
		for x := range cw {
			if u, v := p.U[(ch-1)*p.CStride+x], p.V[(ch-1)*p.CStride+x]; u < 10 && v < 10 {
				t.Fatalf("column %d: last chroma row is %d, %d", x, u, v)
			}
		}
	}
}

func (s Suite) sizeChange(t *testing.T) {
	d := s.decoder(t)
	large, small := Frames(t, s.Large), Frames(t, s.Small)
	for range 2 {
		for _, f := range large[:5] {
			good(t, d, f, 320, 240)
		}
		for _, f := range small[:5] {
			good(t, d, f, 160, 120)
		}
	}
}

// A frame that was cut gives an error and no picture, or (cut where its codec cannot tell) one; whatever follows it without a key frame
// gives none after an error.
func (s Suite) truncated(t *testing.T) {
	frames := Frames(t, s.Large)
	for which := range 2 {
		for part := 1; part < 8; part++ {
			d := s.decoder(t)
			broken := false
			for i, f := range frames {
				if i == which {
					f = f[:len(f)*part/8]
				}
				_, err := d.Decode(f)
				if broken && err == nil {
					t.Fatalf("frame %d cut to %d/8: frame %d gave a picture without a key frame", which, part, i)
				}
				broken = broken || err != nil
			}
			if !broken && which == 0 {
				t.Errorf("key frame cut to %d/8: no error", part)
			}
			good(t, d, frames[0], 320, 240)
			good(t, d, frames[1], 320, 240)
		}
	}
}

// Without the frames it refers to, the first frame gives no picture. (That a frame in the middle was left out only the assembler can tell.)
func (s Suite) leftOut(t *testing.T) {
	d, frames := s.decoder(t), Frames(t, s.Large)
	for _, f := range frames[1:] {
		if _, err := d.Decode(f); !errors.Is(err, coded.ErrNeedKey) {
			t.Errorf("got %v, want %v", err, coded.ErrNeedKey)
		}
	}
	good(t, d, frames[0], 320, 240)
}

// mutantRounds is how many damaged streams each decoder gets; the fuzz targets try more.
const mutantRounds = 200

// Frames with flipped bits, overwritten and cut, end in an error or a picture, in little time; a sound key frame behind them gives its
// picture, and none after an error does without one.
func (s Suite) mutants(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	small, sound := Frames(t, s.Small), s.key(t)
	d := s.decoder(t)
	var worst time.Duration
	for range mutantRounds {
		which, broken := rng.IntN(3), false
		for i, f := range small[:4] {
			if i == which {
				f = mutate(rng, f)
			}
			begun := time.Now()
			p, err := d.Decode(f)
			worst = max(worst, time.Since(begun))
			if err == nil && p.Validate() != nil {
				t.Fatal(p.Validate())
			}
			if broken && err == nil && i > which {
				t.Fatalf("frame %d gave a picture behind an error", i)
			}
			broken = broken || err != nil && !errors.Is(err, coded.ErrNoPicture)
		}
		good(t, d, sound, 320, 240)
	}
	if worst > time.Second {
		t.Errorf("one frame took %v", worst)
	}
}

func mutate(rng *rand.Rand, f []byte) []byte {
	f = bytes.Clone(f)
	for range 1 + rng.IntN(8) {
		at := rng.IntN(len(f))
		if rng.IntN(2) == 0 {
			at = rng.IntN(min(len(f), 60)) // headers
		}
		switch rng.IntN(4) {
		case 0:
			f[at] = byte(rng.Uint32())
		case 1:
			f[at] ^= 1 << rng.IntN(8)
		case 2:
			for k := at; k < min(len(f), at+rng.IntN(16)); k++ {
				f[k] = byte(rng.Uint32())
			}
		case 3:
			if rng.IntN(3) == 0 {
				f = f[:1+at]
			}
		}
	}
	return f
}

func (s Suite) otherCodec(t *testing.T) {
	d := s.decoder(t)
	for _, f := range Frames(t, s.Other) {
		if p, err := d.Decode(f); err == nil {
			t.Errorf("picture of %d×%d", p.Width, p.Height)
		}
	}
	good(t, d, s.key(t), 320, 240)
}

// streams are hostile clips, one letter a frame: p picture, c corrupt, d refused by the decoder, r refused before it, k without the
// key frame it needs, ? any error. After each the same decoder must give a right picture of a sound key frame.
func (s Suite) streams(t *testing.T) {
	for name, want := range s.Streams {
		t.Run(name, func(t *testing.T) {
			d := s.decoder(t)
			var got []byte
			for _, f := range Frames(t, name) {
				got = append(got, s.letter(t, d, f))
			}
			if !match(string(got), want) {
				t.Errorf("got %s, want %s", got, want)
			}
			good(t, d, s.key(t), 320, 240)
		})
	}
}

func match(got, want string) bool {
	for i := range min(len(got), len(want)) {
		if want[i] == '?' && got[i] == 'p' || want[i] != '?' && got[i] != want[i] {
			return false
		}
	}
	return len(got) == len(want)
}

func (s Suite) letter(t *testing.T, d Decoder, f []byte) byte {
	p, err := d.Decode(f)
	switch {
	case err == nil:
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		return 'p'
	case errors.Is(err, coded.ErrCorrupt):
		return 'c'
	case errors.Is(err, coded.ErrRefused):
		return 'r'
	case errors.Is(err, coded.ErrNeedKey):
		return 'k'
	case errors.Is(err, coded.ErrDecode):
		return 'd'
	case errors.Is(err, coded.ErrNoPicture):
		return 'n'
	}
	t.Errorf("error of no known kind: %v", err)
	return '!'
}

func (s Suite) huge(t *testing.T) {
	d := s.decoder(t)
	frame := s.Huge
	before := cmem.InUse()
	for range 20 {
		if _, err := d.Decode(frame); !errors.Is(err, coded.ErrRefused) {
			t.Fatalf("got %v, want %v", err, coded.ErrRefused)
		}
	}
	if grown := cmem.InUse() - before; grown > 1<<20 {
		t.Errorf("%d bytes of C memory were taken", grown)
	}
}

func (s Suite) leak(t *testing.T) {
	frames := Frames(t, s.Large)
	round := func(n int) {
		for range n {
			d, err := s.New()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames[:2] {
				good(t, d, f, 320, 240)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(300) // the allocator's own arenas
	before := cmem.InUse()
	round(1000)
	if grown := cmem.InUse() - before; grown > 2<<20 { // one leaked decoder in a hundred would be 15 MB
		t.Errorf("%d bytes of C memory are left of 1,000 decoders", grown)
	}
}
