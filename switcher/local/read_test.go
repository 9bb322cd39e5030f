package local

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// sign is a JPEG of 640×480 with a line of dark text on white and one of white text on blue.
func sign(t testing.TB, dark, light string) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 640, 480))
	draw.Draw(img, img.Bounds(), image.NewUniform(color.RGBA{150, 160, 150, 255}), image.Point{}, draw.Src)
	draw.Draw(img, image.Rect(60, 60, 580, 220), image.White, image.Point{}, draw.Src)
	draw.Draw(img, image.Rect(60, 260, 580, 420), image.NewUniform(color.RGBA{20, 40, 140, 255}), image.Point{}, draw.Src)
	f, err := opentype.Parse(gobold.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: 56, DPI: 72})
	if err != nil {
		t.Fatal(err)
	}
	for y, line := range map[int]string{160: dark, 360: light} {
		src := image.Image(image.Black)
		if y > 240 {
			src = image.White
		}
		d := font.Drawer{Dst: img, Src: src, Face: face, Dot: fixed.P(100, y)}
		d.DrawString(line)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 80}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestASignIsRead(t *testing.T) {
	got, err := NewReader(ReaderConfig{}).Read(t.Context(), sign(t, "EXIT ONLY", "Platform 9"))
	if err != nil {
		t.Fatal(err)
	}
	if got != "EXIT ONLY\nPlatform 9" {
		t.Errorf("read %q", got)
	}
}

func TestAnEmptyImageHasNoText(t *testing.T) {
	got, err := NewReader(ReaderConfig{}).Read(t.Context(), sign(t, "", ""))
	if err != nil || got != "" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestG12WhatIsNoImageIsRefused(t *testing.T) {
	r := NewReader(ReaderConfig{})
	for _, data := range [][]byte{nil, []byte("hello"), append([]byte("\xff\xd8\xff"), make([]byte, MaxImage)...)} {
		_, err := r.Read(t.Context(), data)
		engineError(t, err, "invalid")
	}
	_, err := r.Read(t.Context(), []byte("\xff\xd8\xff and nothing more"))
	engineError(t, err, "unreachable")
}

func TestTablesOfAnyKind(t *testing.T) {
	row := "5\t1\t1\t1\t%\t1\t0\t0\t9\t9\t96.5\tword\n"
	long := readTable(strings.Repeat(strings.Replace(row, "%", "1", 1), 5000))
	if len(long) > MaxRead || len(long) < MaxRead/2 {
		t.Errorf("%d bytes", len(long))
	}
	for table, want := range map[string]string{
		strings.Replace(row, "%", "1", 1) + strings.Replace(row, "%", "2", 1): "word\nword", "": "", "5\t1": "", "level\tpage\n": "",
		strings.Replace(row, "96.5", "20", 1): "", strings.Replace(row, "word", "—", 1): "",
	} {
		if got := readTable(table); got != want {
			t.Errorf("%q gives %q, want %q", table, got, want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	r, img := NewReader(ReaderConfig{}), sign(b, "EXIT ONLY", "Platform 9")
	for b.Loop() {
		if _, err := r.Read(b.Context(), img); err != nil {
			b.Fatal(err)
		}
	}
}
