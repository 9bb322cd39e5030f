package frames

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func stillFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("internal/stilljpeg/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustEncode(t *testing.T, frame any, o *EncodeOptions) image.Image {
	t.Helper()
	b, err := Encode(frame, o)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantColour(t *testing.T, m image.Image, x, y int, want color.RGBA, within int) {
	t.Helper()
	got := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA)
	for _, d := range []int{int(got.R) - int(want.R), int(got.G) - int(want.G), int(got.B) - int(want.B), int(got.A) - int(want.A)} {
		if d < -within || d > within {
			t.Errorf("%d,%d is %v, want %v", x, y, got, want)
			return
		}
	}
}

// painted is a 40×30 picture with its left half red at the given opacity and its right half solid blue.
func painted(m draw.Image) draw.Image {
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			m.Set(x, y, color.NRGBA{200, 40, 60, 128})
			if x-m.Bounds().Min.X >= 20 {
				m.Set(x, y, color.NRGBA{20, 30, 220, 255})
			}
		}
	}
	return m
}

// Every image type of the standard library, as a part of a larger picture where the type allows it.
func TestEncodeTakesEveryImageType(t *testing.T) {
	r := image.Rect(3, 5, 43, 35)
	onWhite, blue := color.RGBA{228, 147, 157, 255}, color.RGBA{20, 30, 220, 255}
	solid := func(c color.Color) color.RGBA { return color.RGBAModel.Convert(c).(color.RGBA) }
	pal := color.Palette{color.NRGBA{200, 40, 60, 128}, color.NRGBA{20, 30, 220, 255}}
	for _, c := range []struct {
		m           image.Image
		left, right color.RGBA
	}{
		{painted(image.NewRGBA(r)), onWhite, blue},
		{painted(image.NewNRGBA(r)), onWhite, blue},
		{painted(image.NewRGBA64(r)), onWhite, blue},
		{painted(image.NewNRGBA64(r)), onWhite, blue},
		{painted(image.NewPaletted(r, pal)), onWhite, blue},
		{painted(image.NewAlpha(r)), color.RGBA{255, 255, 255, 255}, color.RGBA{255, 255, 255, 255}},
		{painted(image.NewAlpha16(r)), color.RGBA{255, 255, 255, 255}, color.RGBA{255, 255, 255, 255}},
		{painted(image.NewGray(r)), solid(color.Gray{45}), solid(color.Gray{49})},
		{painted(image.NewGray16(r)), solid(color.Gray{45}), solid(color.Gray{49})},
		{painted(image.NewCMYK(r)), color.RGBA{100, 20, 30, 255}, blue},
	} {
		t.Run(fmt.Sprintf("%T", c.m), func(t *testing.T) {
			for _, o := range []EncodeOptions{{Quality: 95}, {Quality: 95, Resize: &ResizeOptions{Width: 101, Height: 77}}} {
				m := mustEncode(t, c.m, &o)
				w, h := m.Bounds().Dx(), m.Bounds().Dy()
				wantColour(t, m, w/4, h/2, c.left, 3)
				wantColour(t, m, w*3/4, h/2, c.right, 3)
			}
		})
	}
}

// Planes of every subsampling, whole and as a part that begins at odd pixels.
func TestEncodeTakesEverySubsampling(t *testing.T) {
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		m := image.NewYCbCr(image.Rect(0, 0, 97, 61), ratio)
		for y := range 61 {
			for x := range 97 {
				m.Y[m.YOffset(x, y)], m.Cb[m.COffset(x, y)], m.Cr[m.COffset(x, y)] = 90, 90, 200
				if x >= 48 {
					m.Y[m.YOffset(x, y)], m.Cb[m.COffset(x, y)], m.Cr[m.COffset(x, y)] = 160, 170, 60
				}
			}
		}
		left, right := color.RGBAModel.Convert(color.YCbCr{90, 90, 200}).(color.RGBA), color.RGBAModel.Convert(color.YCbCr{160, 170, 60}).(color.RGBA)
		for _, part := range []image.Image{m, m.SubImage(image.Rect(1, 3, 96, 60))} {
			for _, o := range []EncodeOptions{{Quality: 95}, {Quality: 95, Resize: &ResizeOptions{Width: 64, Height: 64}}, {Format: PNG}, {Quality: 90, Resize: &ResizeOptions{Width: 201, Height: 99, Fit: Cover}}} {
				got := mustEncode(t, part, &o)
				w, h := got.Bounds().Dx(), got.Bounds().Dy()
				wantColour(t, got, w/4, h/2, left, 3)
				wantColour(t, got, w*3/4, h/2, right, 3)
			}
		}
	}
}

func TestEncodeDefaults(t *testing.T) {
	m := painted(image.NewRGBA(image.Rect(0, 0, 40, 30)))
	b, err := Encode(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := jpeg.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width != 320 || c.Height != 240 {
		t.Errorf("nil options: %d×%d, %v", c.Width, c.Height, err)
	}
	if b, err = CoerceImageToJPEGBytes(m, nil); err != nil {
		t.Fatal(err)
	}
	if c, err := jpeg.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width != 1024 || c.Height != 1024 {
		t.Errorf("coerce with nil options: %d×%d, %v", c.Width, c.Height, err)
	}
}

func TestCoercePassesBytesThrough(t *testing.T) {
	for _, b := range [][]byte{[]byte("anything"), {}, stillFile(t, "control-gray.jpg")} {
		got, err := CoerceImageToJPEGBytes(b, &EncodeOptions{Format: "no format"})
		if err != nil || !bytes.Equal(got, b) || len(b) > 0 && &got[0] != &b[0] {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		got, err = CoerceImageToJPEGBytes(&Image{Data: b}, nil)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("Image of %d bytes: %v", len(b), err)
		}
	}
	if b, err := CoerceImageToJPEGBytes(nil, nil); err == nil {
		t.Errorf("nil: %d bytes", len(b))
	}
}

func TestEncodeFits(t *testing.T) {
	wide := painted(image.NewRGBA(image.Rect(0, 0, 40, 20)))
	pic := NewPicture(640, 320)
	fill(pic.Y, 120)
	fill(pic.U, 128)
	fill(pic.V, 128)
	for _, c := range []struct {
		r    ResizeOptions
		w, h int
		bars bool
	}{
		{ResizeOptions{Width: 1000, Height: 1000}, 1000, 1000, false},
		{ResizeOptions{Width: 1000, Height: 1000, Fit: Cover}, 1000, 1000, false},
		{ResizeOptions{Width: 1000, Height: 1000, Fit: Letterbox}, 1000, 1000, true},
		{ResizeOptions{Width: 1000, Height: 1000, Fit: Contain, Upscale: true}, 1000, 500, false},
		{ResizeOptions{Width: 10, Height: 10, Fit: Contain}, 10, 5, false},
	} {
		for _, frame := range []any{wide, pic} {
			for _, f := range []Format{JPEG, PNG} {
				m := mustEncode(t, frame, &EncodeOptions{Format: f, Quality: 90, Resize: &c.r})
				if m.Bounds().Dx() != c.w || m.Bounds().Dy() != c.h {
					t.Errorf("%T %s %+v: %v", frame, f, c.r, m.Bounds())
				}
				if c.bars {
					wantColour(t, m, 500, 3, color.RGBA{0, 0, 0, 255}, 0)
					wantColour(t, m, 500, 996, color.RGBA{0, 0, 0, 255}, 0)
				}
			}
		}
	}
	for _, frame := range []any{wide, pic} { // contain does not enlarge unless asked to
		m := mustEncode(t, frame, &EncodeOptions{Quality: 90, Resize: &ResizeOptions{Width: 4000, Height: 4000, Fit: Contain}})
		if want := map[bool]int{true: 40, false: 640}[frame == any(wide)]; m.Bounds().Dx() != want {
			t.Errorf("%T contained: %v", frame, m.Bounds())
		}
	}
}

func TestPNGKeepsTransparencyJPEGIsOnWhite(t *testing.T) {
	m := painted(image.NewNRGBA(image.Rect(0, 0, 40, 30)))
	got := mustEncode(t, m, &EncodeOptions{Format: PNG})
	if c := color.NRGBAModel.Convert(got.At(5, 5)).(color.NRGBA); c.A != 128 || c.R < 198 || c.R > 202 {
		t.Errorf("PNG: %v", c)
	}
	wantColour(t, mustEncode(t, m, &EncodeOptions{Quality: 95}), 5, 5, color.RGBA{228, 147, 157, 255}, 3)
}

func TestEncodeDecodesPNGGIFAndWebP(t *testing.T) {
	m := painted(image.NewPaletted(image.Rect(0, 0, 40, 30), color.Palette{color.NRGBA{200, 40, 60, 128}, color.NRGBA{20, 30, 220, 255}}))
	var p, g bytes.Buffer
	if err := png.Encode(&p, m); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&g, m, nil); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{p.Bytes(), g.Bytes()} {
		got := mustEncode(t, b, &EncodeOptions{Quality: 95})
		wantColour(t, got, 30, 15, color.RGBA{20, 30, 220, 255}, 3)
	}
	got := mustEncode(t, stillFile(t, "black-white.webp"), &EncodeOptions{Quality: 95}) // video range inside
	wantColour(t, got, 10, 20, color.RGBA{0, 0, 0, 255}, 2)
	wantColour(t, got, 54, 20, color.RGBA{255, 255, 255, 255}, 2)
	for _, b := range [][]byte{p.Bytes()[:60], g.Bytes()[:20], stillFile(t, "black-white.webp")[:40]} {
		if _, err := Encode(b, nil); err == nil {
			t.Error("cut short: no error")
		}
	}
}

// A PNG header of 57 bytes may claim any size: refused before memory of that size is asked for.
func TestEncodeRefusesPNGBombEarly(t *testing.T) {
	var p bytes.Buffer
	if err := png.Encode(&p, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		w, h        int
		depth, kind byte
		words       string
	}{{20000, 20000, 8, 2, "picture of 20000×20000"}, {16385, 1, 8, 2, "picture of 16385×1"}, {7000, 7000, 16, 6, "needs 374 MB of memory, at most 256 are allowed"}} {
		b := bytes.Clone(p.Bytes())
		b[18], b[19], b[22], b[23], b[24], b[25] = byte(c.w>>8), byte(c.w), byte(c.h>>8), byte(c.h), c.depth, c.kind
		crc := crc32PNG(b[12:29])
		b[29], b[30], b[31], b[32] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
		start := time.Now()
		if _, err := Encode(b, nil); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%d×%d: %v, want %q", c.w, c.h, err, c.words)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
	}
}

func crc32PNG(b []byte) uint32 {
	c := ^uint32(0)
	for _, v := range b {
		c ^= uint32(v)
		for range 8 {
			c = c>>1 ^ 0xedb88320*(c&1)
		}
	}
	return ^c
}

// Every hostile still gives an error or a JPEG that decodes, soon.
func TestEvilStillsThroughEncode(t *testing.T) {
	files, err := filepath.Glob("internal/stilljpeg/testdata/*.jpg")
	if err != nil || len(files) < 35 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		t.Run(name, func(t *testing.T) {
			b, err := Encode(stillFile(t, name), &EncodeOptions{Quality: 75, Resize: &ResizeOptions{Width: 128, Height: 96}})
			if err != nil {
				if strings.HasPrefix(name, "control-") {
					t.Fatal(err)
				}
				return
			}
			if c, err := jpeg.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width != 128 || c.Height != 96 {
				t.Errorf("%d×%d, %v", c.Width, c.Height, err)
			}
		})
	}
}

// All eight orientations against the picture turned by hand, as planes and as RGB.
func TestEncodeTurnsByEXIF(t *testing.T) {
	b := stillFile(t, "control-exif-6.jpg")
	at := bytes.Index(b, []byte{0x01, 0x12, 0x00, 0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x06})
	step := 9
	if at < 0 {
		at, step = bytes.Index(b, []byte{0x12, 0x01, 0x03, 0x00, 0x01, 0x00, 0x00, 0x00, 0x06, 0x00}), 8
	}
	if at < 0 {
		t.Fatal("no orientation tag in the control")
	}
	plain, err := jpeg.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for o := 1; o <= 8; o++ {
		turned := bytes.Clone(b)
		turned[at+step] = byte(o)
		for _, f := range []Format{JPEG, PNG} {
			got := mustEncode(t, turned, &EncodeOptions{Format: f, Quality: 95})
			want := turnedByHand(plain, o)
			if got.Bounds() != want.Bounds() {
				t.Fatalf("orientation %d: %v, want %v", o, got.Bounds(), want.Bounds())
			}
			sum := 0
			for y := 2; y < want.Bounds().Dy(); y += 5 {
				for x := 2; x < want.Bounds().Dx(); x += 5 {
					a, b := color.GrayModel.Convert(got.At(x, y)).(color.Gray), color.GrayModel.Convert(want.At(x, y)).(color.Gray)
					d := int(a.Y) - int(b.Y)
					sum += max(d, -d)
				}
			}
			if mean := sum * 25 / (256 * 192); mean > 3 {
				t.Errorf("orientation %d as %s: mean distance %d", o, f, mean)
			}
		}
	}
}

func turnedByHand(m image.Image, o int) image.Image {
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if o >= 5 {
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			out.Set(x, y, m.At(storedAt(x, y, w, h, o)))
		}
	}
	return out
}

// storedAt is where the pixel shown at x, y is stored in a picture of w×h.
func storedAt(x, y, w, h, o int) (sx, sy int) {
	return [9]int{0, x, w - 1 - x, w - 1 - x, x, y, y, w - 1 - y, w - 1 - y}[o], [9]int{0, y, y, h - 1 - y, h - 1 - y, x, h - 1 - x, h - 1 - x, x}[o]
}

// Every quality works; more quality is never fewer bytes by much, and the ends are far apart.
func TestEncodeEveryQuality(t *testing.T) {
	b := stillFile(t, "control-baseline.jpg")
	size := map[int]int{}
	for q := 0; q <= 100; q += 5 {
		out, err := Encode(b, &EncodeOptions{Quality: q, Optimize: true})
		if err != nil {
			t.Fatal(err)
		}
		if size[q] = len(out); q > 0 && size[q]*100 < size[q-5]*98 {
			t.Errorf("quality %d: %d bytes, %d: %d", q-5, size[q-5], q, size[q])
		}
	}
	if size[100] < 4*size[0] {
		t.Errorf("%d bytes at 0, %d at 100", size[0], size[100])
	}
}

// TestEncodeStripsMetadata: what a camera wrote beside the picture, the place above all, does not go on to a model.
func TestEncodeStripsMetadata(t *testing.T) {
	b := stillFile(t, "control-exif-6.jpg")
	if !bytes.Contains(b, []byte("Exif")) {
		t.Fatal("no metadata in the control")
	}
	for _, f := range []Format{JPEG, PNG} {
		out, err := Encode(b, &EncodeOptions{Format: f, Quality: 75})
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"Exif", "eXIf", "http://ns.adobe.com", "Photoshop"} {
			if bytes.Contains(out, []byte(mark)) {
				t.Errorf("%s still has %q", f, mark)
			}
		}
	}
}
