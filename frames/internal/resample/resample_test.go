package resample

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
)

// Pillow's own results, up and down, stretched, odd, to and from one pixel, with ringing.
func TestScaleEqualsPillowLanczos(t *testing.T) {
	b, err := os.ReadFile("testdata/lanczos.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name          string
		Width, Height int
		To            [2]int
		Pixels, Want  []byte
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 10 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		got := make([]byte, c.To[0]*c.To[1]*3)
		if err := Scale(got, c.To[0]*3, c.To[0], c.To[1], Source{Pix: c.Pixels, Stride: c.Width * 3, Width: c.Width, Height: c.Height, Channels: 3}); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if d := int(got[i]) - int(c.Want[i]); d < -1 || d > 1 {
				t.Fatalf("%s: sample %d is %d, Pillow has %d", c.Name, i, got[i], c.Want[i])
			}
		}
	}
}

// One, three and four channels agree with each other; rows may be padded.
func TestChannelsAgree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const w, h, tw, th = 37, 23, 19, 41
	four, one := make([]byte, w*h*4), make([]byte, (w+5)*h)
	for i := range four {
		four[i] = byte(rnd.Uint32())
	}
	for y := range h {
		for x := range w {
			one[y*(w+5)+x] = four[(y*w+x)*4+2]
		}
	}
	a, b := make([]byte, tw*th*4), make([]byte, tw*th)
	part := Source{X: 3.5, Y: 1.25, W: 30, H: 20, Width: w, Height: h}
	sa, sb := part, part
	sa.Pix, sa.Stride, sa.Channels = four, w*4, 4
	sb.Pix, sb.Stride, sb.Channels = one, w+5, 1
	if err := Scale(a, tw*4, tw, th, sa); err != nil {
		t.Fatal(err)
	}
	if err := Scale(b, tw, tw, th, sb); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if b[i] != a[i*4+2] {
			t.Fatalf("sample %d: %d and %d", i, b[i], a[i*4+2])
		}
	}
}

// A large source, averaged down first, stays within a level or two of the filter alone on a smooth picture.
func TestLargeSourceReducedFirst(t *testing.T) {
	const w, h = 3001, 2003
	src := Source{Pix: make([]byte, w*h), Stride: w, Width: w, Height: h, Channels: 1, W: w, H: h}
	for y := range h {
		for x := range w {
			src.Pix[y*w+x] = byte((x/12 + y/9) % 256)
			if (x/12+y/9)%512 > 255 {
				src.Pix[y*w+x] = 255 - src.Pix[y*w+x]
			}
		}
	}
	rowed := src
	rowed.Row = func(y int) []byte { return src.Pix[y*w:] }
	if r := reduce(rowed, 100, 100); r.Width >= w/5 {
		t.Fatalf("not reduced: %d wide", r.Width)
	}
	got, want := make([]byte, 100*100), make([]byte, 100*100)
	if err := Scale(got, 100, 100, 100, src); err != nil {
		t.Fatal(err)
	}
	across, down := build(w, 100, 0, w), build(h, 100, 0, h)
	rows := make([]byte, h*100)
	for y := range h {
		row(rows[y*100:(y+1)*100], src.Pix[y*w:], across, 1)
	}
	for y := range 100 {
		column(want[y*100:(y+1)*100], rows, h, down[y], make([]int32, 100))
	}
	for i := range got {
		if d := int(got[i]) - int(want[i]); d < -3 || d > 3 {
			t.Fatalf("sample %d: %d, filter alone %d", i, got[i], want[i])
		}
	}
}

func TestScaleRefusesShortMemory(t *testing.T) {
	ok := func() Source { return Source{Pix: make([]byte, 64), Stride: 8, Width: 8, Height: 8, Channels: 1} }
	for name, change := range map[string]func(*Source){
		"pixels": func(s *Source) { s.Pix = s.Pix[:63] }, "stride": func(s *Source) { s.Stride = 7 },
		"width": func(s *Source) { s.Width = 0 }, "channels": func(s *Source) { s.Channels = 5 },
	} {
		s := ok()
		change(&s)
		if Scale(make([]byte, 16), 4, 4, 4, s) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if Scale(make([]byte, 15), 4, 4, 4, ok()) == nil {
		t.Error("short destination: no error")
	}
	if err := Scale(make([]byte, 16), 4, 4, 4, ok()); err != nil {
		t.Error(err)
	}
}
