package frames

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"

	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/resample"
	"sightline/frames/internal/stilljpeg"
)

// still places a picture into an image, turned as its EXIF orientation says. It scales first and turns the smaller result: the crop is
// always centred, so that it is the same part of the picture either way, with its sides exchanged for orientations 5 to 8.
type still struct {
	jpegfast.Placement
	orientation int
}

// inner is the size to scale to, and the part of m to scale, both before turning.
func (s still) inner() (w, h int, x, y, cw, ch float64) {
	if s.orientation >= 5 {
		return s.InHeight, s.InWidth, s.CropY, s.CropX, s.CropHeight, s.CropWidth
	}
	return s.InWidth, s.InHeight, s.CropX, s.CropY, s.CropWidth, s.CropHeight
}

// rgba makes the whole image with premultiplied alpha, opaque black outside the picture.
func (s still) rgba(m image.Image) (*image.RGBA, error) {
	if p, ok := m.(*image.YCbCr); ok {
		if err := checkYCbCr(p); err != nil {
			return nil, err
		}
	}
	src := rowsOf(m)
	w, h, x, y, cw, ch := s.inner()
	src.X, src.Y, src.W, src.H = x, y, cw, ch
	in := image.NewRGBA(image.Rect(0, 0, w, h))
	if err := resample.Scale(in.Pix, in.Stride, w, h, src); err != nil {
		return nil, err
	}
	for p := in.Pix; len(p) > 0; p = p[4:] { // the filter overshoots: a colour is never more than its alpha
		p[0], p[1], p[2] = min(p[0], p[3]), min(p[1], p[3]), min(p[2], p[3])
	}
	if s.orientation == 1 && s.InWidth == s.Width && s.InHeight == s.Height {
		return in, nil
	}
	out := image.NewRGBA(image.Rect(0, 0, s.Width, s.Height))
	if s.InWidth != s.Width || s.InHeight != s.Height {
		draw.Draw(out, out.Rect, image.NewUniform(color.Black), image.Point{}, draw.Src)
	}
	turn(out.Pix[s.InY*out.Stride+s.InX*4:], out.Stride, in.Pix, in.Stride, w, h, 4, s.orientation)
	return out, nil
}

// ycbcr makes the whole image as padded 4:2:0, full range. Pictures that come as planes stay planes: half the samples, no detour.
func (s still) ycbcr(m image.Image) (*image.YCbCr, error) {
	out := stilljpeg.NewPadded(s.Width, s.Height)
	fill(out.Cb, 128) // with luma 0: black
	fill(out.Cr, 128)
	switch m := m.(type) {
	case *image.YCbCr:
		if err := checkYCbCr(m); err != nil {
			return nil, err
		}
		hx, hy := chromaSteps(m.SubsampleRatio)
		r := m.Rect
		cx, cy := float64(r.Min.X)/float64(hx)-float64(r.Min.X/hx), float64(r.Min.Y)/float64(hy)-float64(r.Min.Y/hy)
		luma := resample.Source{Pix: m.Y[m.YOffset(r.Min.X, r.Min.Y):], Stride: m.YStride, Width: r.Dx(), Height: r.Dy(), Channels: 1}
		if err := s.plane(out.Y, out.YStride, luma, 1, 1, 0, 0, 1); err != nil {
			return nil, err
		}
		for _, p := range [...]struct{ dst, src []byte }{{out.Cb, m.Cb}, {out.Cr, m.Cr}} {
			c := resample.Source{Pix: p.src[m.COffset(r.Min.X, r.Min.Y):], Stride: m.CStride, Channels: 1,
				Width: (r.Max.X-1)/hx - r.Min.X/hx + 1, Height: (r.Max.Y-1)/hy - r.Min.Y/hy + 1}
			if err := s.plane(p.dst, out.CStride, c, hx, hy, cx, cy, 2); err != nil {
				return nil, err
			}
		}
	case *image.Gray:
		luma := resample.Source{Pix: m.Pix, Stride: m.Stride, Width: m.Rect.Dx(), Height: m.Rect.Dy(), Channels: 1}
		if err := s.plane(out.Y, out.YStride, luma, 1, 1, 0, 0, 1); err != nil {
			return nil, err
		}
	default:
		rgba, err := s.rgba(m)
		if err != nil {
			return nil, err
		}
		toYCbCr(out, rgba)
	}
	stilljpeg.PadEdges(out)
	return out, nil
}

// plane scales one plane into its place. The source's samples are hx×hy pixels large and begin px, py samples before the picture; the
// image's are div×div pixels large.
func (s still) plane(dst []byte, stride int, src resample.Source, hx, hy int, px, py float64, div int) error {
	w, h, x, y, cw, ch := s.inner()
	w, h = (w+div-1)/div, (h+div-1)/div
	src.X, src.Y, src.W, src.H = px+x/float64(hx), py+y/float64(hy), cw/float64(hx), ch/float64(hy)
	in := make([]byte, w*h)
	if err := resample.Scale(in, w, w, h, src); err != nil {
		return err
	}
	turn(dst[s.InY/div*stride+s.InX/div:], stride, in, w, w, h, 1, s.orientation)
	return nil
}

// turn copies a w×h block of 1 or 4 channels, turned and mirrored as the EXIF orientation says, in squares: one of source and target is
// always read or written across its rows.
func turn(dst []byte, ds int, src []byte, ss, w, h, channels, orientation int) {
	at, dx, dy := 0, channels, ds // where source pixel 0,0 goes, and how far apart its right and lower neighbours do
	switch orientation {
	case 2:
		at, dx = (w-1)*channels, -channels
	case 3:
		at, dx, dy = (h-1)*ds+(w-1)*channels, -channels, -ds
	case 4:
		at, dy = (h-1)*ds, -ds
	case 5:
		dx, dy = ds, channels
	case 6:
		at, dx, dy = (h-1)*channels, ds, -channels
	case 7:
		at, dx, dy = (w-1)*ds+(h-1)*channels, -ds, -channels
	case 8:
		at, dx, dy = (w-1)*ds, -ds, channels
	}
	if dx == channels {
		for y := range h {
			copy(dst[at+y*dy:], src[y*ss:y*ss+w*channels])
		}
		return
	}
	const square = 32
	for y0 := 0; y0 < h; y0 += square {
		for x0 := 0; x0 < w; x0 += square {
			for y := y0; y < min(y0+square, h); y++ {
				to, row := at+y*dy+x0*dx, src[y*ss+x0*channels:y*ss+min(x0+square, w)*channels]
				if channels == 1 {
					for _, v := range row {
						dst[to] = v
						to += dx
					}
					continue
				}
				for ; len(row) >= 4; row = row[4:] {
					*(*[4]byte)(dst[to:]) = [4]byte(row)
					to += dx
				}
			}
		}
	}
}

// chromaSteps is how many pixels a chroma sample is wide and high.
func chromaSteps(r image.YCbCrSubsampleRatio) (x, y int) {
	switch r {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 1, 1
}

// checkYCbCr refuses planes that are shorter than the rectangle says, before anything indexes them.
func checkYCbCr(m *image.YCbCr) error {
	r := m.Rect
	if r.Min.X < 0 || r.Min.Y < 0 {
		return fmt.Errorf("picture %v: must not begin left of or above 0", r)
	}
	last := image.Pt(r.Max.X-1, r.Max.Y-1)
	if m.YOffset(last.X, last.Y) >= len(m.Y) || m.COffset(last.X, last.Y) >= min(len(m.Cb), len(m.Cr)) {
		return errors.New("picture: planes are shorter than its rectangle says")
	}
	return nil
}

// toYCbCr lays the image on white and turns it into 4:2:0: chroma is that of the mean of four pixels.
func toYCbCr(out *image.YCbCr, m *image.RGBA) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	for cy := range (h + 1) / 2 {
		for cx := range (w + 1) / 2 {
			r, g, b, n := 0, 0, 0, 0
			for y := cy * 2; y < min(cy*2+2, h); y++ {
				for x := cx * 2; x < min(cx*2+2, w); x++ {
					p := m.Pix[y*m.Stride+x*4 : y*m.Stride+x*4+4]
					white := int(255 - p[3])
					pr, pg, pb := int(p[0])+white, int(p[1])+white, int(p[2])+white
					out.Y[y*out.YStride+x] = byte((19595*pr + 38470*pg + 7471*pb + 1<<15) >> 16)
					r, g, b, n = r+pr, g+pg, b+pb, n+1
				}
			}
			i := cy*out.CStride + cx
			out.Cb[i] = chroma((-11056*r-21712*g+32768*b)/n + 128<<16 + 1<<15)
			out.Cr[i] = chroma((32768*r-27440*g-5328*b)/n + 128<<16 + 1<<15)
		}
	}
}

func chroma(v int) byte { return byte(min(v>>16, 255)) }

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}
