package frames

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sightline/frames/internal/stilljpeg"
)

func realStill(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/stills", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// byFFmpeg decodes a still with FFmpeg's own decoders.
func byFFmpeg(t *testing.T, b []byte, w, h int) image.Image {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-noautorotate", "-i", "-", "-frames:v", "1", "-pix_fmt", "rgba", "-f", "rawvideo", "-")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil || len(out) != w*h*4 {
		t.Fatalf("ffmpeg: %d bytes, want %d: %v", len(out), w*h*4, err)
	}
	return &image.NRGBA{Pix: out, Stride: w * 4, Rect: image.Rect(0, 0, w, h)}
}

// onWhite is a picture without transparency, from 0,0 on.
func onWhite(m image.Image) *image.RGBA {
	out := image.NewRGBA(image.Rectangle{Max: m.Bounds().Size()})
	draw.Draw(out, out.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Over)
	return out
}

// rgbPSNR compares all three colours of two pictures on white.
func rgbPSNR(t *testing.T, got, want image.Image) float64 {
	t.Helper()
	a, b := onWhite(got), onWhite(want)
	if a.Rect != b.Rect {
		t.Fatalf("%v, want %v", a.Rect, b.Rect)
	}
	sum := 0.0
	for i := range a.Pix {
		d := float64(a.Pix[i]) - float64(b.Pix[i])
		sum += d * d
	}
	return 10 * math.Log10(255*255*float64(len(a.Pix))*3/4/max(sum, 1e-9))
}

// TestRealStills: every kind of file against a decoder that is not ours: the standard library's for JPEG (ours is libjpeg), FFmpeg's for
// what the standard library decodes for us. How close they can be depends on how each brings chroma up to size.
func TestRealStills(t *testing.T) {
	std := func(t *testing.T, b []byte, _, _ int) image.Image {
		m, err := jpeg.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		name  string
		ref   func(t *testing.T, b []byte, w, h int) image.Image
		w, h  int
		atPNG float64 // dB, at the still's own size
	}{
		{"video-001.221212.jpeg", std, 150, 103, 34},
		{"video-001.cmyk.jpeg", byFFmpeg, 150, 103, 40},
		{"video-001.q50.410.jpeg", std, 150, 103, 30},
		{"video-001.q50.411.jpeg", std, 150, 103, 30},
		{"video-001.restart2.jpeg", std, 150, 103, 40},
		{"video-001.rgb.jpeg", std, 150, 103, 27},                   // green and blue are sampled by two,
		{"video-001.progressive.truncated.jpeg", std, 150, 103, 40}, // scans are missing, its end is there
		{"video-005.gray.q50.2x2.jpeg", std, 150, 103, 45},
		{"flower_small.q85_420_non_interleaved.jpg", std, 510, 532, 40},
		{"flower_small.q85_444_partially_interleaved.jpg", std, 510, 532, 45},
		{"1x1_exif_xmp.jpg", std, 1, 1, 40},
		{"basn0g16.png", byFFmpeg, 32, 32, 48},
		{"basn6a16.png", byFFmpeg, 32, 32, 45},
		{"basn3p04-31i.png", byFFmpeg, 31, 31, 60},
		{"basn3p08-trns.png", byFFmpeg, 32, 32, 48},
		{"alpha-lossy.webp", byFFmpeg, 64, 48, 35},
		{"alpha-lossless.webp", byFFmpeg, 64, 48, 48},
		{"alpha16.png", byFFmpeg, 64, 48, 48},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := realStill(t, c.name)
			want := c.ref(t, b, c.w, c.h)
			if db := rgbPSNR(t, mustEncode(t, b, &EncodeOptions{Format: PNG}), want); db < c.atPNG {
				t.Errorf("PNG: %.1f dB", db)
			}
			if db := rgbPSNR(t, mustEncode(t, b, &EncodeOptions{Quality: 95}), want); db < 25 { // 4:2:0 of small, colourful pictures
				t.Errorf("JPEG: %.1f dB", db)
			}
		})
	}
}

// TestAdobeYCCK: the same four planes declared as YCCK are other colours; these are what Pillow 9.4 makes of them (FFmpeg's are others).
func TestAdobeYCCK(t *testing.T) {
	b := bytes.Clone(realStill(t, "video-001.cmyk.jpeg"))
	at := bytes.Index(b, []byte("Adobe"))
	if at < 0 || b[at+11] != 0 {
		t.Fatal("no Adobe segment that says CMYK")
	}
	b[at+11] = 2
	m := mustEncode(t, b, &EncodeOptions{Format: PNG})
	wantColour(t, m, 10, 10, color.RGBA{41, 0, 48, 255}, 3)
	wantColour(t, m, 75, 50, color.RGBA{66, 0, 48, 255}, 3)
	wantColour(t, m, 140, 90, color.RGBA{0, 10, 0, 255}, 3)
	copy(b[at:], "Other")
	if _, err := Encode(b, nil); err == nil || !strings.Contains(err.Error(), "Adobe") {
		t.Errorf("four components of which nobody says what they are: %v", err)
	}
}

// One photo stored in eight ways is eight times the same photo.
func TestRealOrientations(t *testing.T) {
	var first image.Image
	for o := range 8 {
		m := mustEncode(t, realStill(t, "orient-"+string(rune('1'+o))+".jpg"), &EncodeOptions{Quality: 95})
		if first == nil {
			first = m
			if r, g, b, _ := m.At(8, 8).RGBA(); m.Bounds().Dx() != 320 || r < 3*g || r < 3*b {
				t.Fatalf("upright: %v, %d %d %d", m.Bounds(), r, g, b)
			}
			continue
		}
		if db := rgbPSNR(t, m, first); db < 30 {
			t.Errorf("orientation %d: %.1f dB", o+1, db)
		}
	}
}

// largeJPEG enlarges a photo to four times its size, 4.3 megapixels.
func largeJPEG(t *testing.T, small []byte) []byte {
	m, _, err := stilljpeg.Decode(small)
	if err != nil {
		t.Fatal(err)
	}
	pic, err := turnedPicture(m, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Encode(pic, &EncodeOptions{Quality: 92, Sharp: true, Resize: &ResizeOptions{Width: 2040, Height: 2128}}) // in C: soon done
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withOrientation puts an EXIF segment behind the first marker.
func withOrientation(b []byte, o int) []byte {
	exif := append([]byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"), byte(o), 0, 0, 0, 0, 0, 0)
	seg := append([]byte{0xff, 0xe1, 0, byte(len(exif) + 2)}, exif...)
	return append(append(bytes.Clone(b[:2]), seg...), b[2:]...)
}

// TestLargeStillsAreScaledInTheDCT: the image of a large JPEG is as if all of it had been decoded, for a fraction of the memory, in every
// fit and orientation, by the seeds' filter (few pixels) and by the live path.
func TestLargeStillsAreScaledInTheDCT(t *testing.T) {
	small := realStill(t, "flower_small.q85_444_partially_interleaved.jpg")
	b := largeJPEG(t, small)
	for _, c := range []struct {
		r       ResizeOptions
		eighths int
	}{
		{ResizeOptions{Width: 200, Height: 240}, 2},
		{ResizeOptions{Width: 400, Height: 300}, 3},
		{ResizeOptions{Width: 400, Height: 300, Fit: Cover}, 3},
		{ResizeOptions{Width: 400, Height: 300, Fit: Contain}, 3},
		{ResizeOptions{Width: 400, Height: 300, Fit: Letterbox}, 3},
		{ResizeOptions{Width: 900, Height: 960}, 4},
		{ResizeOptions{Width: 1100, Height: 300}, 8},
	} {
		o := EncodeOptions{Quality: 95, Resize: &c.r}
		p, err := planStill(b, o)
		if err != nil || p.eighths != c.eighths {
			t.Fatalf("%+v: %d eighths, want %d; %v", c.r, p.eighths, c.eighths, err)
		}
		if full := p.bytes(8); c.eighths < 4 && p.bytes(c.eighths)*3 > full {
			t.Errorf("%+v: %d bytes, all of it %d", c.r, p.bytes(c.eighths), full)
		}
		if c.eighths == 8 {
			continue
		}
		if db := lumaPSNR(t, mustCoerce(t, b, o), mustCoerce(t, small, o), 1); db < 34 { // small is what b was made of
			t.Errorf("%+v: %.1f dB", c.r, db)
		}
	}
	for _, o := range []EncodeOptions{{Quality: 95, Resize: &ResizeOptions{Width: 200, Height: 200}}, {Quality: 95, Resize: &ResizeOptions{Width: 961, Height: 961}}} {
		upright := mustCoerce(t, b, o)
		for i := 2; i <= 8; i++ {
			if db := lumaPSNR(t, mustCoerce(t, withOrientation(b, i), o), upright, i); db < 34 {
				t.Errorf("%d, orientation %d: %.1f dB", o.Resize.Width, i, db)
			}
		}
	}
	o := EncodeOptions{Format: PNG, Resize: &ResizeOptions{Width: 120, Height: 120}}
	if db := rgbPSNR(t, mustEncode(t, withOrientation(b, 6), &o), turnedByHand(mustEncode(t, b, &o), 6)); db < 34 {
		t.Errorf("PNG, orientation 6: %.1f dB", db)
	}
}

// mustCoerce gives the planes of a JPEG image.
func mustCoerce(t *testing.T, frame any, o EncodeOptions) *image.YCbCr {
	t.Helper()
	b, err := Encode(frame, &o)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := stilljpeg.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*image.YCbCr)
}

// lumaPSNR compares every third pixel of every third row with that of a picture that is turned like it.
func lumaPSNR(t *testing.T, got, want *image.YCbCr, orientation int) float64 {
	t.Helper()
	w, h := want.Rect.Dx(), want.Rect.Dy()
	if orientation < 5 && got.Rect != want.Rect || orientation >= 5 && (got.Rect.Dx() != h || got.Rect.Dy() != w) {
		t.Fatalf("%v of %v", got.Rect, want.Rect)
	}
	sum, n := 0.0, 0.0
	for y := 0; y < got.Rect.Dy(); y += 3 {
		for x := 0; x < got.Rect.Dx(); x += 3 {
			sx, sy := storedAt(x, y, w, h, orientation)
			d := float64(got.Y[y*got.YStride+x]) - float64(want.Y[sy*want.YStride+sx])
			sum, n = sum+d*d, n+1
		}
	}
	return 10 * math.Log10(255*255*n/max(sum, 1e-9))
}

// Gray, and chroma that is sampled otherwise than 4:2:0, by the same way: the picture is that of the planes before.
func TestTurnedPicture(t *testing.T) {
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio440; ratio++ {
		for o := 1; o <= 8; o++ {
			m := image.NewYCbCr(image.Rect(0, 0, 46, 30), ratio)
			for y := range 30 {
				for x := range 46 {
					m.Y[m.YOffset(x, y)], m.Cb[m.COffset(x, y)], m.Cr[m.COffset(x, y)] = byte(x*5), byte(100+y), byte(100+x)
				}
			}
			want := onWhite(turnedByHand(m, o))
			p, err := turnedPicture(m, o)
			if err != nil {
				t.Fatal(err)
			}
			got := &image.YCbCr{Y: p.Y, Cb: p.U, Cr: p.V, YStride: p.YStride, CStride: p.CStride, Rect: image.Rect(0, 0, p.Width, p.Height), SubsampleRatio: image.YCbCrSubsampleRatio420}
			if db := rgbPSNR(t, got, want); db < 45 {
				t.Errorf("%v, orientation %d: %.1f dB", ratio, o, db)
			}
		}
	}
	gray := image.NewGray(image.Rect(0, 0, 31, 17))
	for i := range gray.Pix {
		gray.Pix[i] = byte(i)
	}
	for o := 1; o <= 8; o++ {
		p, err := turnedPicture(gray, o)
		if err != nil || p.Validate() != nil {
			t.Fatal(err, p.Validate())
		}
		want := turnedByHand(gray, o)
		for y := range p.Height {
			for x := range p.Width {
				if r, _, _, _ := want.At(x, y).RGBA(); p.Y[y*p.YStride+x] != byte(r>>8) {
					t.Fatalf("orientation %d: %d,%d is %d", o, x, y, p.Y[y*p.YStride+x])
				}
			}
		}
	}
}

// TestRowsAreThoseOfPackageDraw checks the loops that stand in for package draw against it.
func TestRowsAreThoseOfPackageDraw(t *testing.T) {
	r := image.Rect(3, 5, 43, 35)
	pal := color.Palette{color.NRGBA{200, 40, 60, 128}, color.NRGBA{20, 30, 220, 255}}
	alpha := image.NewNYCbCrA(image.Rect(0, 0, 46, 40), image.YCbCrSubsampleRatio420)
	for i := range alpha.Y {
		alpha.Y[i], alpha.A[i] = byte(i*7), byte(i*3)
	}
	for i := range alpha.Cb {
		alpha.Cb[i], alpha.Cr[i] = byte(90+i%60), byte(200-i%90)
	}
	for _, m := range []image.Image{painted(image.NewNRGBA(r)), painted(image.NewNRGBA64(r)), painted(image.NewRGBA64(r)), painted(image.NewGray16(r)),
		painted(image.NewPaletted(r, pal)), painted(image.NewCMYK(r)), alpha.SubImage(r)} {
		want := image.NewRGBA(image.Rect(0, 0, r.Dx(), r.Dy()))
		draw.Draw(want, want.Rect, m, r.Min, draw.Src)
		src := rowsOf(m)
		for y := range src.Height {
			for i, v := range src.Row(y)[:src.Width*4] {
				if d := int(v) - int(want.Pix[y*want.Stride+i]); d < -1 || d > 1 {
					t.Fatalf("%T: row %d, byte %d is %d, want %d", m, y, i, v, want.Pix[y*want.Stride+i])
				}
			}
		}
	}
}

// What decoding takes is counted with what is made of it, for every kind, and refused before it is asked for.
func TestStillsAreHeldToTheirMemory(t *testing.T) {
	huge := &blank{image.Rect(0, 0, 20000, 20)}
	for _, frame := range []any{huge, &Raw{Format: RawRGBA, Width: 8000, Height: 8000}, make([]byte, MaxStillBytes+1), stillFile(t, "scan-bomb-200.jpg")} {
		if _, err := Encode(frame, nil); err == nil || !strings.Contains(err.Error(), "allowed") {
			t.Errorf("%T: %v", frame, err)
		}
	}
	p, err := planStill(&blank{image.Rect(0, 0, 100, 100)}, EncodeOptions{Resize: &ResizeOptions{Width: 4096, Height: 4096}})
	if err != nil || p.need < 4096*4096*(3+4+4) || p.need > stilljpeg.MaxMemoryBytes {
		t.Errorf("%d bytes, %v", p.need, err)
	}
}

// blank is a picture of no memory.
type blank struct{ r image.Rectangle }

func (b *blank) ColorModel() color.Model { return color.GrayModel }
func (b *blank) Bounds() image.Rectangle { return b.r }
func (b *blank) At(int, int) color.Color { return color.Gray{77} }
