package frames

import (
	"bytes"
	"image"
	"image/color"
	"strings"
	"testing"

	"sightline/frames/internal/guard"
)

// scene is a picture of 45×31 whose rows are padded, with the same samples as its clone without.
func scenePicture() (p *Picture) {
	p = NewPicture(45, 31)
	for i := range p.Y {
		p.Y[i] = byte(40 + i%45*4)
	}
	for i := range p.U {
		p.U[i], p.V[i] = byte(90+i%60), byte(180-i%70)
	}
	p.Matrix = BT709
	return p
}

// rows lays a plane of w×h out with a stride, in memory that ends at a forbidden page behind the last row's last byte.
func rows(t *testing.T, p []byte, w, h, stride int) []byte {
	out := guard.Tail(t, stride*(h-1)+w)
	for y := range h {
		copy(out[y*stride:], p[y*w:(y+1)*w])
	}
	return out
}

// TestRawFrames: I420 and NV12, padded and not, are the picture of the same samples byte for byte, and no byte behind the planes is read.
func TestRawFrames(t *testing.T) {
	p := scenePicture()
	o := EncodeOptions{Quality: 90, Resize: &ResizeOptions{Width: 33, Height: 40}}
	want, err := Encode(p, &o)
	if err != nil {
		t.Fatal(err)
	}
	uv := make([]byte, 0, 46*16)
	for i := range p.U {
		uv = append(uv, p.U[i], p.V[i])
	}
	y := rows(t, p.Y, 45, 31, 64)
	for _, r := range []*Raw{
		{Format: RawI420, Planes: [3][]byte{p.Y, p.U, p.V}},
		{Format: RawI420, Planes: [3][]byte{y, rows(t, p.U, 23, 16, 30), rows(t, p.V, 23, 16, 30)}, Strides: [3]int{64, 30, 30}},
		{Format: RawI420, Planes: [3][]byte{y, rows(t, p.U, 23, 16, 30), rows(t, p.V, 23, 16, 41)}, Strides: [3]int{64, 30, 41}},
		{Format: RawNV12, Planes: [3][]byte{p.Y, uv}},
		{Format: RawNV12, Planes: [3][]byte{y, rows(t, uv, 46, 16, 64)}, Strides: [3]int{64, 64}},
	} {
		r.Width, r.Height, r.Matrix = 45, 31, BT709
		for _, frame := range []any{r, *r} {
			if got, err := Encode(frame, &o); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s with strides %v: %d bytes, want %d; %v", r.Format, r.Strides, len(got), len(want), err)
			}
		}
		full := *r
		full.FullRange = true
		if got, err := CoerceImageToJPEGBytes(full, &o); err != nil || bytes.Equal(got, want) {
			t.Errorf("%s in full range: %v", r.Format, err)
		}
	}
	m := painted(image.NewNRGBA(image.Rect(0, 0, 40, 30))).(*image.NRGBA)
	got := mustEncode(t, &Raw{Format: RawRGBA, Width: 40, Height: 30, Planes: [3][]byte{rows(t, m.Pix, 160, 30, 200)}, Strides: [3]int{200}}, &EncodeOptions{Quality: 95})
	wantColour(t, got, 10, 15, color.RGBA{228, 147, 157, 255}, 3)
	wantColour(t, got, 30, 15, color.RGBA{20, 30, 220, 255}, 3)
}

func TestRawFramesAreValidated(t *testing.T) {
	ok := func() *Raw {
		return &Raw{Format: RawI420, Width: 45, Height: 31, Planes: [3][]byte{make([]byte, 45*31), make([]byte, 23*16), make([]byte, 23*16)}}
	}
	if err := ok().Validate(); err != nil {
		t.Fatal(err)
	}
	for words, change := range map[string]func(*Raw){
		"picture of 0×31":                     func(r *Raw) { r.Width = 0 },
		"picture of 45×-1":                    func(r *Raw) { r.Height = -1 },
		"picture of 16385×31":                 func(r *Raw) { r.Width = 16385 },
		"picture of 16000×16000":              func(r *Raw) { r.Width, r.Height = 16000, 16000 },
		`format "YV12": must be "I420"`:       func(r *Raw) { r.Format = "YV12" },
		"plane 0: 1394 bytes, needs 1395":     func(r *Raw) { r.Planes[0] = r.Planes[0][:1394] },
		"plane 2: 0 bytes, needs 368":         func(r *Raw) { r.Planes[2] = nil },
		"plane 1: stride 22: must be 23 to":   func(r *Raw) { r.Strides[1] = 22 },
		"plane 1: stride -23":                 func(r *Raw) { r.Strides[1] = -23 },
		"plane 0: stride 4611686018427387904": func(r *Raw) { r.Strides[0] = 1 << 62 },
		"plane 2: NV12 has none":              func(r *Raw) { r.Format, r.Planes[1] = RawNV12, make([]byte, 46*16) },
		"plane 1: RGBA has none":              func(r *Raw) { r.Format, r.Planes[0] = RawRGBA, make([]byte, 45*31*4) },
		"matrix 77 is not known":              func(r *Raw) { r.Matrix = 77 },
	} {
		r := ok()
		change(r)
		if _, err := Encode(r, nil); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", words, err)
		}
	}
	if _, err := Encode((*Raw)(nil), nil); err == nil {
		t.Error("nil: no error")
	}
}

// FuzzRaw: whatever a raw frame claims, nothing outside its planes is read.
func FuzzRaw(f *testing.F) {
	f.Add(uint8(0), 45, 31, 0, 0, 0, 2131)
	f.Add(uint8(1), 2, 2, 64, 64, 0, 256)
	f.Add(uint8(2), 16, 16, 64, 0, 0, 1024)
	f.Fuzz(func(t *testing.T, kind uint8, w, h, s0, s1, s2, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		b := guard.Tail(t, n)
		r := &Raw{Format: []RawFormat{RawI420, RawNV12, RawRGBA, "?"}[kind%4], Width: w, Height: h, Strides: [3]int{s0, s1, s2}}
		for i := range map[RawFormat]int{RawI420: 3, RawNV12: 2, RawRGBA: 1}[r.Format] {
			r.Planes[i] = b
		}
		out, err := Encode(r, &tiny)
		if (err == nil) != (r.Validate() == nil) || err == nil && len(out) == 0 {
			t.Fatalf("%+v: %v", r, err)
		}
	})
}

// FuzzEncode: bytes of any kind end in an image or an error.
func FuzzEncode(f *testing.F) {
	for _, name := range []string{"control-progressive.jpg", "control-exif-6.jpg", "cmyk.jpg", "sampling-mixed.jpg", "control-arithmetic.jpg", "black-white.webp"} {
		f.Add(stillFile(f, name), uint8(0))
	}
	for _, name := range []string{"alpha-lossy.webp", "alpha-lossless.webp", "basn6a16.png", "basn3p04-31i.png"} {
		f.Add(realStill(f, name), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		o := EncodeOptions{Format: []Format{JPEG, PNG}[kind&1], Quality: 75, Resize: &ResizeOptions{Width: 20, Height: 24, Fit: []Fit{Stretch, Contain, Cover, Letterbox}[kind>>1&3]}}
		p, err := planStill(b, o)
		if err != nil || p.size.X*p.size.Y > 1<<20 {
			return // time, not safety
		}
		if p.scales = len(b) > 2 && b[0] == 0xff; p.scales && kind&8 != 0 { // what only larger ones go through
			p.eighths = 1 + int(kind>>4)%8
		}
		out, err := p.make()
		if err == nil && ImageKind(out) != o.Format.MIME() {
			t.Fatalf("%d bytes are no %s", len(out), o.Format)
		}
	})
}
