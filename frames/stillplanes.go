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
		if hx == 1 || hy == 1 {
			halve(m.Cb, m.CStride, (w+hx-1)/hx, (h+hy-1)/hy, hx == 1, hy == 1)
			halve(m.Cr, m.CStride, (w+hx-1)/hx, (h+hy-1)/hy, hx == 1, hy == 1)
			cstride = cw
		}
		p := &Picture{Width: w, Height: h, YStride: m.YStride, CStride: cstride, Y: m.Y, U: m.Cb, V: m.Cr, FullRange: true, Matrix: BT601}
		if orientation > 1 {
			p.Y, p.YStride = turnedPlane(m.Y, m.YStride, w, h, orientation)
			p.U, _ = turnedPlane(m.Cb, cstride, cw, ch, orientation)
			p.V, p.CStride = turnedPlane(m.Cr, cstride, cw, ch, orientation)
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
			p.Y, p.YStride = turnedPlane(m.Pix, m.Stride, w, h, orientation)
		}
		if orientation >= 5 {
			p.Width, p.Height, p.CStride = h, w, (h+1)/2
		}
		return p, nil
	}
	return nil, nil
}

func turnedPlane(src []byte, stride, w, h, orientation int) (dst []byte, dstStride int) {
	dst, dstStride = make([]byte, w*h), w
	if orientation >= 5 {
		dstStride = h
	}
	turn(dst, dstStride, src, stride, w, h, 1, orientation)
	return dst, dstStride
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
