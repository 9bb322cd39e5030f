package stilljpeg

import (
	"bytes"
	"errors"
	"image"
	"image/draw"
	"io"
	"path/filepath"
	"strings"
	"testing"

	cjpeg "github.com/pixiv/go-libjpeg/jpeg"
	"github.com/pixiv/go-libjpeg/rgb"
)

// encoded is a JPEG of w×h, all of it nowhere dark.
func encoded(t testing.TB, w, h int, ratio image.YCbCrSubsampleRatio) []byte {
	t.Helper()
	m := cjpeg.NewYCbCrAligned(image.Rect(0, 0, w, h), ratio)
	for _, p := range [][]byte{m.Y, m.Cb, m.Cr} {
		for i := range p {
			p[i] = 200
		}
	}
	var out bytes.Buffer
	if err := cjpeg.Encode(&out, m, &cjpeg.EncoderOptions{Quality: 90, DCTMethod: cjpeg.DCTISlow}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// untouched is how many bytes at the end of a plane, and of its rows, are as they were made: libjpeg writes whole blocks.
func untouched(p []byte, stride int) (tail, right int) {
	for tail < len(p) && p[len(p)-1-tail] == 0 {
		tail++
	}
	right = stride
	for y := 0; y+stride <= len(p)-tail; y += stride {
		n := 0
		for n < right && p[y+stride-1-n] == 0 {
			n++
		}
		right = n
	}
	return tail, right
}

// TestScaledDecodesStayInsideThePlanes: go-libjpeg makes its planes 17 to 32 samples larger than the picture; libjpeg never reaches their
// ends, whatever the size, the sampling and the scale.
func TestScaledDecodesStayInsideThePlanes(t *testing.T) {
	sizes := [][2]int{{1, 1}, {255, 3}, {3, 255}}
	for i := 1; i <= 70; i++ {
		sizes = append(sizes, [2]int{i, 71 - i}, [2]int{i, 1 + i*29%70})
	}
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio440; ratio++ {
		for _, s := range sizes {
			b := encoded(t, s[0], s[1], ratio)
			info, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			for eighths := 1; eighths <= 8; eighths++ {
				got, err := DecodeScaled(b, info, eighths)
				if err != nil {
					t.Fatalf("%v %v %d/8: %v", s, ratio, eighths, err)
				}
				m, ok := got.(*image.YCbCr)
				if want := image.Rect(0, 0, (s[0]*eighths+7)/8, (s[1]*eighths+7)/8); !ok || m.Rect != want {
					t.Fatalf("%v %v %d/8: %T of %v, want %v", s, ratio, eighths, got, got.Bounds(), want)
				}
				for i, p := range [][]byte{m.Y, m.Cb, m.Cr} {
					stride := m.CStride
					if i == 0 {
						stride = m.YStride
					}
					if tail, right := untouched(p, stride); tail < 1 || right < 1 {
						t.Fatalf("%v %v %d/8: plane %d is written to its end: %d, %d", s, ratio, eighths, i, tail, right)
					}
				}
			}
		}
	}
}

// TestScaledControls: each sound file at each scale is the whole picture made smaller.
func TestScaledControls(t *testing.T) {
	files, err := filepath.Glob("testdata/control-*.jpg")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d controls (%v)", len(files), err)
	}
	for _, f := range append(files, "testdata/sampling-411.jpg", "testdata/sampling-mixed.jpg") {
		b := read(t, filepath.Base(f))
		whole, info, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for eighths := 1; eighths < 8; eighths++ {
			m, err := DecodeScaled(b, info, eighths)
			if err != nil {
				t.Fatalf("%s %d/8: %v", f, eighths, err)
			}
			if d := distance(m, nearest(whole, m.Bounds())); d > 12 { // sharp edges, of which one picture has the mean and the other a sample
				t.Errorf("%s %d/8: mean distance %.1f", f, eighths, d)
			}
		}
	}
	cmyk := read(t, "cmyk.jpg")
	info, err := Parse(cmyk)
	if err != nil || info.Scales() {
		t.Fatal(info, err)
	}
	for _, eighths := range []int{0, 4, 9} {
		if _, err := DecodeScaled(cmyk, info, eighths); err == nil {
			t.Errorf("%d/8 of four components: no error", eighths)
		}
	}
}

// nearest is m with the middle sample for each of the smaller picture.
func nearest(m image.Image, r image.Rectangle) image.Image {
	out, in := image.NewRGBA(r), image.NewRGBA(m.Bounds())
	draw.Draw(in, in.Rect, m, image.Point{}, draw.Src)
	for y := range r.Dy() {
		for x := range r.Dx() {
			out.SetRGBA(x, y, in.RGBAAt((2*x+1)*in.Rect.Dx()/(2*r.Dx()), (2*y+1)*in.Rect.Dy()/(2*r.Dy())))
		}
	}
	return out
}

// TestMarkersThatLibjpegReadsOtherwise: what one walk skips as a segment and another looks into may hide a hundred scans.
func TestMarkersThatLibjpegReadsOtherwise(t *testing.T) {
	b := read(t, "control-restart.jpg")
	eoi := len(b) - 2
	for _, m := range []byte{0x02, 0x40, 0xbf, 0xc8, 0xde, 0xdf, 0xf0, 0xfd} {
		for _, at := range []int{2, eoi} {
			odd := append(bytes.Clone(b[:at]), 0xff, m, 0, 6, 0xff, 0xda, 0, 8)
			odd = append(odd, b[at:]...)
			if _, _, err := Decode(odd); err == nil {
				t.Errorf("marker FF %02X at %d: no error", m, at)
			}
		}
	}
	at := bytes.Index(b, []byte{0xff, 0xda})
	long := bytes.Clone(b)
	long[at+3]++ // the scan header says 9 bytes... and would take one of the data's
	if _, err := Parse(long); err == nil || !strings.Contains(err.Error(), "scan header") {
		t.Errorf("%v", err)
	}
}

// TestLibjpegSeesNoEnd: the reader of the library neither ends nor fails, so that nothing of what crashes it there can happen, also when
// the header walk was passed by.
func TestLibjpegSeesNoEnd(t *testing.T) {
	for _, name := range []string{"empty.jpg", "soi-only.jpg", "truncated-baseline-50.jpg", "truncated-progressive-10.jpg", "truncated-in-header.jpg", "truncated-in-app.jpg"} {
		b := read(t, name)
		if _, err := cjpeg.DecodeConfig(&endless{b: b}); err != nil {
			continue
		}
		for _, into := range []func(io.Reader, *cjpeg.DecoderOptions) (*rgb.Image, error){cjpeg.DecodeIntoRGB} {
			_, _ = into(&endless{b: b}, &cjpeg.DecoderOptions{}) // ends, in a picture or an error
		}
		_, _ = cjpeg.Decode(&endless{b: b}, &cjpeg.DecoderOptions{ScaleTarget: image.Rect(0, 0, 30, 20)})
	}
	var p [5]byte
	e := endless{b: []byte{1, 2, 3}}
	for _, want := range [][]byte{{1, 2, 3}, {0xd9, 0xff, 0xd9, 0xff, 0xd9}, {0xff, 0xd9, 0xff, 0xd9, 0xff}} {
		if n, err := e.Read(p[:]); err != nil || !bytes.Equal(p[:n], want) {
			t.Errorf("% x, %v", p[:n], err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, name := range []string{"huge-20000.jpg", "wide-65500x16.jpg", "progressive-8000.jpg", "scan-bomb-200.jpg"} {
		if _, err := Parse(read(t, name)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse(read(t, "text.jpg")); errors.Is(err, ErrTooLarge) {
		t.Errorf("text: %v", err)
	}
}

// FuzzParse: the header walk ends, and what it lets through is within bounds.
func FuzzParse(f *testing.F) {
	for _, n := range []string{"control-progressive.jpg", "control-exif-6.jpg", "comment-flood.jpg", "frame-header-in-app.jpg", "scan-bomb-200.jpg", "app-length-1.jpg"} {
		f.Add(read(f, n))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := Parse(b)
		if err != nil {
			return
		}
		if CheckSize(info.Width, info.Height) != nil || info.Scans < 1 || info.Scans > MaxScans || info.Orientation < 1 || info.Orientation > 8 || info.Bytes > len(b) {
			t.Fatalf("%+v", info)
		}
		last := int64(0)
		for eighths := 1; eighths <= 7; eighths++ {
			n := info.Memory(eighths)
			if n < last || n < 1 {
				t.Fatalf("%d/8 takes %d bytes, less than a smaller part", eighths, n)
			}
			last = n
		}
	})
}
