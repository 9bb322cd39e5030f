package stilljpeg

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	stdjpeg "image/jpeg"

	"sightline/frames/internal/guard"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Each hostile file with the words its error must have, or "" for a picture, or "any" where both are right.
var evil = map[string]string{
	"empty.jpg":                    "empty",
	"soi-only.jpg":                 "data ends early",
	"text.jpg":                     "does not start with FF D8",
	"truncated-baseline-50.jpg":    "data ends early",
	"truncated-progressive-10.jpg": "data ends early",
	"truncated-in-header.jpg":      "data ends early",
	"truncated-in-app.jpg":         "data ends early",
	"missing-eoi.jpg":              "data ends early",
	"garbage-tail.jpg":             "",
	"flipped-scan.jpg":             "any",
	"restart-disordered.jpg":       "any",
	"app-length-1.jpg":             "length 1, at least 2",
	"huge-20000.jpg":               "picture of 20000×20000: allowed are 1 to 16384 a side and 50000000 pixels",
	"huge-65500.jpg":               "picture of 65500×65500",
	"wide-65500x16.jpg":            "picture of 65500×16",
	"zero-size.jpg":                "picture of 0×0",
	"progressive-8000.jpg":         "picture of 8000×8000",
	"scan-bomb-200.jpg":            "picture of 8000×8000",
	"cmyk.jpg":                     "",
	"sampling-411.jpg":             "",
	"sampling-410.jpg":             "",
	"sampling-mixed.jpg":           "",
	"lossless-sof3.jpg":            "process 3 is not supported",
	"two-frame-headers.jpg":        "two frame headers",
	"frame-header-in-app.jpg":      "",
	"comment-flood.jpg":            "",
	"exif-orientation-9.jpg":       "",
}

func TestEvilFiles(t *testing.T) {
	for name, words := range evil {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			m, info, err := Decode(read(t, name))
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			switch {
			case words == "any":
			case words == "" && err != nil:
				t.Fatal(err)
			case words == "":
				likeControl(t, m)
				if info.Orientation != 1 {
					t.Errorf("orientation %d", info.Orientation)
				}
			case err == nil || !strings.Contains(err.Error(), words):
				t.Errorf("got %v, want %q", err, words)
			}
		})
	}
}

// likeControl compares with the sound baseline file, coarsely: right colours in right places.
func likeControl(t *testing.T, m image.Image) {
	t.Helper()
	want, err := stdjpeg.Decode(bytes.NewReader(read(t, "control-baseline.jpg")))
	if err != nil {
		t.Fatal(err)
	}
	if m.Bounds() != want.Bounds() {
		t.Fatalf("%v, want %v", m.Bounds(), want.Bounds())
	}
	if d := distance(m, want); d > 6 {
		t.Errorf("mean distance to the control is %.1f levels", d)
	}
}

// distance is the mean difference of the channels over every third pixel.
func distance(a, b image.Image) float64 {
	sum, n := 0, 0
	for y := 0; y < a.Bounds().Dy(); y += 3 {
		for x := 0; x < a.Bounds().Dx(); x += 3 {
			p := color.RGBAModel.Convert(a.At(a.Bounds().Min.X+x, a.Bounds().Min.Y+y)).(color.RGBA)
			q := color.RGBAModel.Convert(b.At(b.Bounds().Min.X+x, b.Bounds().Min.Y+y)).(color.RGBA)
			for _, d := range []int{int(p.R) - int(q.R), int(p.G) - int(q.G), int(p.B) - int(q.B)} {
				sum += max(d, -d)
				n++
			}
		}
	}
	return float64(sum) / float64(n)
}

func TestControlsDecode(t *testing.T) {
	files, err := filepath.Glob("testdata/control-*.jpg")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d controls (%v)", len(files), err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		t.Run(name, func(t *testing.T) {
			m, info, err := Decode(read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			switch name {
			case "control-1x1.jpg":
				if m.Bounds().Dx() != 1 || m.Bounds().Dy() != 1 {
					t.Errorf("%v", m.Bounds())
				}
			case "control-gray.jpg":
				if _, ok := m.(*image.Gray); !ok || m.Bounds().Dx() != 256 {
					t.Errorf("%T of %v", m, m.Bounds())
				}
			case "control-exif-6.jpg":
				if info.Orientation != 6 {
					t.Errorf("orientation %d", info.Orientation)
				}
				likeControl(t, m)
			default:
				likeControl(t, m)
			}
		})
	}
}

// A header may claim what would take gigabytes: memory is counted before anything is decoded.
func TestMemoryIsCountedFromTheHeader(t *testing.T) {
	b := bytes.Clone(read(t, "control-progressive.jpg"))
	at := bytes.Index(b, []byte{0xff, 0xc2})
	of := func(w, h, eighths int) int64 {
		b[at+5], b[at+6], b[at+7], b[at+8] = byte(h>>8), byte(h), byte(w>>8), byte(w)
		info, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		return info.Memory(eighths)
	}
	if n := of(7000, 7000, 8) >> 20; n < 210 || n > 212 { // 49 Mpx × 1.5 samples × 3 bytes
		t.Errorf("7000×7000: %d MB", n)
	}
	if n := of(7000, 7000, 3) >> 20; n < 160 || n > 162 { // the coefficients are all kept, the planes are 9/64 of 4:4:4
		t.Errorf("3/8 of 7000×7000: %d MB", n)
	}
	b[at+11], b[at+14], b[at+17] = 0x11, 0x11, 0x11 // 4:4:4: twice the samples
	if n := of(7000, 7000, 8); n <= MaxMemoryBytes {
		t.Errorf("4:4:4 of 7000×7000: %d bytes", n)
	}
	if _, _, err := Decode(b); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "at most 256 are allowed") {
		t.Errorf("4:4:4 of 7000×7000: %v", err)
	}
	b[at+1] = 0xc1 // one scan, but of a single component: the coefficients are kept all the same
	first := bytes.Index(b, []byte{0xff, 0xda})
	one := append(bytes.Clone(b[:first]), 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0xff, 0xd9)
	if info, err := Parse(one); err != nil || info.Scans != 1 || !info.Buffered || info.Memory(8) <= MaxMemoryBytes {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestScansAreCounted(t *testing.T) {
	b := read(t, "control-progressive.jpg")
	at := bytes.LastIndex(b, []byte{0xff, 0xda})
	scan := b[at : len(b)-2]
	for _, n := range []int{40, 70} {
		many := bytes.Clone(b[:len(b)-2])
		for range n {
			many = append(many, scan...)
		}
		_, err := Parse(append(many, 0xff, 0xd9))
		if want := n == 70; want != (err != nil && strings.Contains(err.Error(), "more than 64 scans are not allowed")) {
			t.Errorf("%d scans more: %v", n, err)
		}
	}
}

// Every size 1–70 with planes that end at a forbidden page: go-libjpeg reads whole MCUs and no more.
func TestEncodeStaysInsideThePlanes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 2))
	sizes := [][2]int{{640, 360}, {1920, 1080}, {641, 481}, {320, 180}, {426, 240}}
	for i := 1; i <= 70; i++ {
		sizes = append(sizes, [2]int{i, 71 - i}, [2]int{i, 1 + rnd.IntN(70)})
	}
	for _, s := range sizes {
		t.Run("", func(t *testing.T) {
			m := NewPadded(s[0], s[1])
			for _, p := range []*[]byte{&m.Y, &m.Cb, &m.Cr} {
				*p = guard.Tail(t, len(*p))
				for i := range *p {
					(*p)[i] = byte(rnd.Uint32())
				}
			}
			PadEdges(m)
			b, err := Encode(m, 75, false)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := stdjpeg.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width != s[0] || c.Height != s[1] {
				t.Errorf("%v: JPEG of %d×%d, %v", s, c.Width, c.Height, err)
			}
		})
	}
}

func TestEncodeRefusesWhatCMustNotSee(t *testing.T) {
	short := NewPadded(17, 17)
	short.Cr = short.Cr[:len(short.Cr)-1]
	for name, m := range map[string]*image.YCbCr{
		"not padded": image.NewYCbCr(image.Rect(0, 0, 17, 17), image.YCbCrSubsampleRatio420), "short": short, "empty": NewPadded(0, 4),
		"4:2:2": image.NewYCbCr(image.Rect(0, 0, 32, 32), image.YCbCrSubsampleRatio422),
	} {
		if _, err := Encode(m, 75, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, q := range []int{0, 101} {
		if _, err := Encode(NewPadded(8, 8), q, false); err == nil {
			t.Errorf("quality %d: no error", q)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []string{"control-baseline.jpg", "control-progressive.jpg", "control-exif-6.jpg", "control-1x1.jpg", "cmyk.jpg", "app-length-1.jpg"} {
		f.Add(read(f, n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if info, err := Parse(b); err != nil || info.Width*info.Height > 1<<20 {
			return // time, not safety
		}
		m, info, err := Decode(b)
		if err == nil && (m.Bounds().Dx() != info.Width || m.Bounds().Dy() != info.Height) {
			t.Fatalf("%v, header %d×%d", m.Bounds(), info.Width, info.Height)
		}
	})
}
