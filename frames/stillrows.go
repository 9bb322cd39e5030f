package frames

import (
	"image"
	"image/color"
	"image/draw"

	"github.com/pixiv/go-libjpeg/rgb"

	"sightline/frames/internal/resample"
)

// rowsOf gives a picture row by row as premultiplied RGBA, so that no second picture of its size is made of it.
func rowsOf(m image.Image) resample.Source {
	b := m.Bounds()
	src := resample.Source{Width: b.Dx(), Height: b.Dy(), Channels: 4}
	if m, ok := m.(*image.RGBA); ok {
		src.Pix, src.Stride = m.Pix, m.Stride
		return src
	}
	row := image.NewRGBA(image.Rect(0, 0, b.Dx(), 1))
	fill := fillerOf(m, row)
	src.Row = func(y int) []byte {
		fill(y)
		return row.Pix
	}
	return src
}

// fillerOf puts row y of a picture into row. What package draw does pixel by pixel through interfaces has a loop of its own.
func fillerOf(m image.Image, row *image.RGBA) func(y int) {
	b, dst := m.Bounds(), row.Pix
	switch m := m.(type) {
	case *rgb.Image:
		return func(y int) {
			for s, d := m.Pix[y*m.Stride:][:b.Dx()*3], dst; len(s) >= 3; s, d = s[3:], d[4:] {
				d[0], d[1], d[2], d[3] = s[0], s[1], s[2], 255
			}
		}
	case *image.Paletted:
		table := colours(m.Palette)
		return func(y int) {
			for x, i := range m.Pix[y*m.Stride:][:b.Dx()] {
				copy(dst[x*4:x*4+4], table[i][:])
			}
		}
	case *image.Gray16:
		return func(y int) {
			for s, d := m.Pix[y*m.Stride:][:b.Dx()*2], dst; len(s) >= 2; s, d = s[2:], d[4:] {
				d[0], d[1], d[2], d[3] = s[0], s[0], s[0], 255
			}
		}
	case *image.RGBA64:
		return func(y int) {
			for s, d := m.Pix[y*m.Stride:][:b.Dx()*8], dst; len(s) >= 8; s, d = s[8:], d[4:] {
				d[0], d[1], d[2], d[3] = s[0], s[2], s[4], s[6]
			}
		}
	case *image.NRGBA64:
		return func(y int) {
			for s, d := m.Pix[y*m.Stride:][:b.Dx()*8], dst; len(s) >= 8; s, d = s[8:], d[4:] {
				a := uint32(s[6])<<8 | uint32(s[7])
				for c := range 3 {
					d[c] = byte((uint32(s[2*c])<<8 | uint32(s[2*c+1])) * a / 0xffff >> 8)
				}
				d[3] = s[6]
			}
		}
	case *image.NYCbCrA:
		return func(y int) {
			at := image.Pt(b.Min.X, b.Min.Y+y)
			draw.Draw(row, row.Rect, &m.YCbCr, at, draw.Src)
			alpha := m.A[m.AOffset(at.X, at.Y):][:b.Dx()]
			for x, d := 0, dst; x < len(alpha); x, d = x+1, d[4:] {
				a := uint32(alpha[x])
				d[0], d[1], d[2], d[3] = byte(uint32(d[0])*a/255), byte(uint32(d[1])*a/255), byte(uint32(d[2])*a/255), alpha[x]
			}
		}
	}
	return func(y int) { draw.Draw(row, row.Rect, m, image.Pt(b.Min.X, b.Min.Y+y), draw.Src) }
}

// colours is a palette as premultiplied RGBA; an index beyond it is transparent.
func colours(p color.Palette) (table [256][4]byte) {
	for i, c := range p[:min(len(p), 256)] {
		r, g, b, a := c.RGBA()
		table[i] = [4]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8), byte(a >> 8)}
	}
	return table
}
