package frames

import "image"

// turnedPicture makes a full-range 4:2:0 picture of decoded planes, turned as the EXIF orientation says; nil of what is no planes. It takes
// m over: its chroma is averaged in place, its luma stays where it is if it need not be turned. Where a side of odd length is mirrored,
// chroma lies a pixel beside its place.
func turnedPicture(m image.Image, orientation int) (*Picture, error) {
	switch m := m.(type) {
	case *image.YCbCr:
		if err := checkYCbCr(m); err != nil {
			return nil, err
		}
		hx, hy := chromaSteps(m.SubsampleRatio)
		if hx > 2 || m.Rect.Min != (image.Point{}) {
			return nil, nil
		}
		w, h := m.Rect.Dx(), m.Rect.Dy()
		cw, ch := (w+1)/2, (h+1)/2
		cstride := m.CStride
		compact := hx == 1 || hy == 1
		if compact {
			halve(m.Cb, m.CStride, (w+hx-1)/hx, (h+hy-1)/hy, hx == 1, hy == 1)
			halve(m.Cr, m.CStride, (w+hx-1)/hx, (h+hy-1)/hy, hx == 1, hy == 1)
			cstride = cw
		}
		p := &Picture{Width: w, Height: h, YStride: m.YStride, CStride: cstride, Y: m.Y, U: m.Cb, V: m.Cr, FullRange: true, Matrix: BT601}
		if orientation > 1 {
			y, u, v := spare(m, w*h, cw*ch, compact)
			p.Y, p.YStride = turnedPlane(y, m.Y, m.YStride, w, h, orientation)
			p.U, _ = turnedPlane(u, m.Cb, cstride, cw, ch, orientation)
			p.V, p.CStride = turnedPlane(v, m.Cr, cstride, cw, ch, orientation)
		}
		if orientation >= 5 {
			p.Width, p.Height = h, w
		}
		return p, nil
	case *image.Gray:
		w, h := m.Rect.Dx(), m.Rect.Dy()
		none := make([]byte, (w+1)/2*((h+1)/2))
		fill(none, 128)
		p := &Picture{Width: w, Height: h, Y: m.Pix, YStride: m.Stride, U: none, V: none, CStride: (w + 1) / 2, FullRange: true, Matrix: BT601}
		if orientation > 1 {
			p.Y, p.YStride = turnedPlane(make([]byte, w*h), m.Pix, m.Stride, w, h, orientation)
		}
		if orientation >= 5 {
			p.Width, p.Height, p.CStride = h, w, (h+1)/2
		}
		return p, nil
	}
	return nil, nil
}

// spare finds memory for turned planes of luma and chroma samples: where chroma was averaged, that which it no longer takes has room for the
// luma, and the luma's for the chroma. It moves m.Cr, whose samples are compact like those of m.Cb, next to them.
func spare(m *image.YCbCr, luma, chroma int, compact bool) (y, u, v []byte) {
	both := m.Cb[:cap(m.Cb)]
	n := len(m.Cb)
	if compact && 2*chroma+luma <= len(both) && n < len(both) && 2*chroma <= n && &both[n] == &m.Cr[0] && 2*chroma <= len(m.Y) {
		m.Cr = both[chroma : 2*chroma : 2*chroma]
		copy(m.Cr, both[n:])
		return both[2*chroma : 2*chroma+luma], m.Y[:chroma], m.Y[chroma : 2*chroma]
	}
	return make([]byte, luma), make([]byte, chroma), make([]byte, chroma)
}

func turnedPlane(dst, src []byte, stride, w, h, orientation int) (turned []byte, turnedStride int) {
	turnedStride = w
	if orientation >= 5 {
		turnedStride = h
	}
	turn(dst, turnedStride, src, stride, w, h, 1, orientation)
	return dst, turnedStride
}

// halve averages a plane of w×h samples by two in place, across, down or both; its rows then follow each other without padding. A last
// sample without a second one stays as it is.
func halve(p []byte, stride, w, h int, across, down bool) {
	tw, th := w, h
	if across {
		tw = (w + 1) / 2
	}
	if down {
		th = (h + 1) / 2
	}
	for y := range th {
		a := p[y*stride:][:w]
		b := a
		if down {
			a = p[2*y*stride:][:w]
			b = p[min(2*y+1, h-1)*stride:][:w]
		}
		out := p[y*tw:][:tw] // never behind what is yet to be read
		if !across {
			for x := range out {
				out[x] = byte((uint(a[x]) + uint(b[x]) + 1) / 2)
			}
			continue
		}
		for x := range out[:w/2] {
			out[x] = byte((uint(a[2*x]) + uint(a[2*x+1]) + uint(b[2*x]) + uint(b[2*x+1]) + 2) / 4)
		}
		if w%2 == 1 {
			out[tw-1] = byte((uint(a[w-1]) + uint(b[w-1]) + 1) / 2)
		}
	}
}
