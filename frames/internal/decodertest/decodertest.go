// Package decodertest is the conformance suite of a VP8 decoder: what it must do with hostile frames, sizes and its own end. Every
// decoder that frames uses passes it. It is used by tests only.
package decodertest

import (
	"bytes"
	"embed"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"sightline/frames/internal/yuv"
	"sightline/frames/ivf"
)

//go:embed testdata/*.ivf
var clips embed.FS

// Decoder is what is tested.
type Decoder interface {
	Decode(frame []byte) (yuv.Picture, error)
	Close() error
}

// Suite names how to make a decoder and the errors it must answer with.
type Suite struct {
	New                                   func() (Decoder, error)
	Closed, Refused, NeedKey, Undecodable error
	Corrupt                               error
	NoPicture                             error // nothing to show, chain intact
}

// Frames are the frames of a clip in testdata.
func Frames(t testing.TB, name string) [][]byte {
	t.Helper()
	b, err := clips.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, fs, err := ivf.ReadAll(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, f := range fs {
		out = append(out, f.Data)
	}
	return out
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	t.Run("close twice, decode after close", s.life)
	t.Run("garbage, then a key frame", s.garbage)
	t.Run("empty and oversized frames", s.frameSizes)
	t.Run("odd size", s.oddSize)
	t.Run("size change", s.sizeChange)
	t.Run("hostile streams", s.streams)
	t.Run("huge dimensions cost nothing", s.huge)
	t.Run("300 decoders leave no memory", s.leak)
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
func key(t testing.TB) []byte { return Frames(t, "vp8-truncated.ivf")[0] }

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
	good(t, d, key(t), 320, 240)
	for range 3 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Decode(key(t)); !errors.Is(err, s.Closed) {
		t.Errorf("decode after close: %v, want %v", err, s.Closed)
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
			good(t, d, key(t), 320, 240)
		}
	}
}

func (s Suite) frameSizes(t *testing.T) {
	d := s.decoder(t)
	good(t, d, key(t), 320, 240)
	for _, n := range []int{0, 4<<20 + 1} {
		if _, err := d.Decode(make([]byte, n)); !errors.Is(err, s.Refused) {
			t.Errorf("%d bytes: %v, want %v", n, err, s.Refused)
		}
	}
	if _, err := d.Decode(nil); !errors.Is(err, s.Refused) {
		t.Errorf("nil: %v, want %v", err, s.Refused)
	}
	good(t, d, key(t), 320, 240)
}

// The last column and row of an odd picture are real: the test pattern there is not the green of zero chroma.
func (s Suite) oddSize(t *testing.T) {
	d := s.decoder(t)
	for _, f := range Frames(t, "odd-641x481.ivf") {
		p := good(t, d, f, 641, 481)
		cw, ch := p.ChromaSize()
		if cw != 321 || ch != 241 {
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
	var sizes []string
	for _, f := range Frames(t, "vp8-size-change.ivf") {
		p, err := d.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if size := strconv.Itoa(p.Width) + "x" + strconv.Itoa(p.Height); len(sizes) == 0 || sizes[len(sizes)-1] != size {
			sizes = append(sizes, size)
		}
	}
	if got := strings.Join(sizes, " "); got != "320x240 160x120 320x240" {
		t.Errorf("sizes %s", got)
	}
}

// streams are hostile clips, one letter a frame: p picture, c corrupt, d refused by the decoder, r refused before it, k without the
// key frame it needs, ? any error. After each the same decoder must give a right picture of a sound key frame.
func (s Suite) streams(t *testing.T) {
	for name, want := range map[string]string{
		"vp8-key-16383":          "rkk",
		"vp8-key-16383-10-bytes": "rkk",
		"vp8-key-0x0":            "rkk",
		"vp8-truncated":          "pckkkkkkkkkk",
		"vp8-garbage":            "p???????????",
		"vp8-no-key":             "kkkkkkkkkkk",
		"vp8-empty-frame":        "prppp",
		"vp8-2-byte-frame":       "prkkk",
		"vp8-bad-start-code":     "rkkk",
		"vp8-version-7":          "rkkk",
		"vp8-is-vp9":             "????",
		"vp8-size-change":        "pppppppppppp",
	} {
		t.Run(name, func(t *testing.T) {
			d := s.decoder(t)
			var got []byte
			for _, f := range Frames(t, name+".ivf") {
				got = append(got, s.letter(t, d, f))
			}
			if !match(string(got), want) {
				t.Errorf("got %s, want %s", got, want)
			}
			good(t, d, key(t), 320, 240)
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
	case errors.Is(err, s.Corrupt):
		return 'c'
	case errors.Is(err, s.Refused):
		return 'r'
	case errors.Is(err, s.NeedKey):
		return 'k'
	case errors.Is(err, s.Undecodable):
		return 'd'
	case errors.Is(err, s.NoPicture):
		return 'n'
	}
	t.Errorf("error of no known kind: %v", err)
	return '!'
}

func (s Suite) huge(t *testing.T) {
	d := s.decoder(t)
	frame := Frames(t, "vp8-key-16383.ivf")[0]
	before := resident(t)
	for range 20 {
		if _, err := d.Decode(frame); !errors.Is(err, s.Refused) {
			t.Fatalf("got %v, want %v", err, s.Refused)
		}
	}
	if grown := resident(t) - before; grown > 4<<20 {
		t.Errorf("resident memory grew by %d bytes", grown)
	}
}

func (s Suite) leak(t *testing.T) {
	frames := Frames(t, "odd-641x481.ivf")
	round := func(n int) {
		for range n {
			d := s.decoder(t)
			for _, f := range frames[:2] {
				good(t, d, f, 641, 481)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(30) // the allocator's own arenas
	runtime.GC()
	before := resident(t)
	round(300)
	runtime.GC()
	if grown := resident(t) - before; grown > 8<<20 { // one leaked decoder in ten would be 60 MB
		t.Errorf("resident memory grew by %d bytes over 300 decoders", grown)
	}
}

// resident is the memory of the process that is in RAM.
func resident(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
