package jpegfast

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sightline/frames/internal/dav1d"
	"sightline/frames/internal/openh264"
	"sightline/frames/internal/vpx"
	"sightline/frames/internal/yuv"
	"sightline/frames/ivf"
)

// first is the first picture of a clip of testdata/colour, in its own memory.
func first(t *testing.T, name string) *yuv.Picture {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/colour", name))
	if err != nil {
		t.Fatal(err)
	}
	var d interface {
		io.Closer
		Decode([]byte) (yuv.Picture, error)
	}
	codec, _, _ := strings.Cut(name, "-")
	switch codec {
	case "vp9":
		d, err = vpx.NewVP9()
	case "av1":
		d, err = dav1d.New()
	default:
		d, err = openh264.New()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if strings.HasSuffix(name, ".ivf") {
		_, fs, err := ivf.ReadAll(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		b = fs[0].Data
	}
	p, err := d.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return p.Clone()
}

// farthest is how far the middles of the 24 fields are from what they should be, in any channel.
func farthest(m image.Image, want []int) (worst int) {
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	for i := range 24 {
		c := color.RGBAModel.Convert(m.At(w*(2*(i%8)+1)/16, h*(2*(i/8)+1)/6)).(color.RGBA)
		for j, v := range []uint8{c.R, c.G, c.B} {
			worst = max(worst, int(v)-want[i*3+j], want[i*3+j]-int(v))
		}
	}
	return worst
}

// Real encoders' bars of every matrix and range that a stream can tell, against FFmpeg's RGB of the same clip: planes of every kind of
// loops, at the same size and scaled, and JPEG.
func TestG11MatrixAndRangeOfTheStream(t *testing.T) {
	list, err := os.ReadFile("testdata/colour/ffmpeg.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, clips := kinds(t), 0
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		want := make([]int, 72)
		for i := range want {
			fmt.Sscan(f[i+1], &want[i])
		}
		clips++
		p := first(t, f[0])
		for k, e := range all {
			for _, o := range []Options{{Quality: 95}, {Width: 512, Height: 512, Quality: 75}, {Width: 200, Height: 333}} {
				out, err := e.Scale(p, o)
				if err != nil {
					t.Fatal(err)
				}
				if worst := farthest(picture(out), want); worst > 2 {
					t.Errorf("%s kind %d %+v: planes are %d from FFmpeg", f[0], k, o, worst)
				}
				if o.Quality == 0 || k != best() {
					continue
				}
				if worst := farthest(decoded(t, e, p, o), want); worst > 3 {
					t.Errorf("%s kind %d %+v: JPEG is %d from FFmpeg", f[0], k, o, worst)
				}
			}
		}
		wrong := *p
		wrong.Matrix = yuv.BT601
		if worst := farthest(decoded(t, all[plainC], &wrong, Options{Quality: 95}), want); worst < 10 && !strings.Contains(f[0], "smpte170m") {
			t.Errorf("%s: only %d from FFmpeg when its matrix is ignored: this test shows nothing", f[0], worst)
		}
	}
	if clips < 18 {
		t.Errorf("%d clips", clips)
	}
}

func picture(p *yuv.Picture) *image.YCbCr {
	return &image.YCbCr{Y: p.Y, Cb: p.U, Cr: p.V, YStride: p.YStride, CStride: p.CStride,
		SubsampleRatio: image.YCbCrSubsampleRatio420, Rect: image.Rect(0, 0, p.Width, p.Height)}
}

// Edges between strong colours: a pixel's luma takes the chroma of its own block of 2×2, as FFmpeg's RGB does when told to interpolate nothing.
func TestPictureInBT709(t *testing.T) {
	f, err := os.Open("testdata/colour/drawn.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	p, e := first(t, "h264-drawn.h264"), encoder(t)
	distance := func() float64 {
		out, err := e.Scale(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, sum := picture(out), 0.0
		for y := range 120 {
			for x := range 160 {
				a, b := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA), color.RGBAModel.Convert(want.At(x, y)).(color.RGBA)
				for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
					sum += float64(d * d)
				}
			}
		}
		return 10 * math.Log10(255*255*160*120*3/sum)
	}
	right := distance()
	p.Matrix = yuv.BT601
	wrong := distance()
	t.Logf("%.1f dB from FFmpeg's RGB, %.1f as BT.601", right, wrong)
	if right < 45 || wrong > right-10 {
		t.Errorf("%.1f dB from FFmpeg's RGB (wanted 45), %.1f as BT.601", right, wrong)
	}
}
