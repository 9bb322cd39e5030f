//go:build bench

package main

import (
	"bytes"
	"errors"
	"fmt"
	goimage "image"
	"image/jpeg"
	"math"

	"sightline/frames/internal/bench"
	"sightline/frames/internal/bench/libyuv"
	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/resample"
	"sightline/frames/internal/yuv"
)

const side, quality = 1024, 75

// againstLibyuv compares images of the same pictures: time, closeness, bytes.
func againstLibyuv(names []string) error {
	fmt.Println("| I420 → 1024×1024 JPEG q75 | ours, µs | libyuv + libjpeg-turbo, µs | ratio | PSNR-Y, ours · libyuv, dB | before JPEG, dB | bytes, ours ÷ libyuv's |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, name := range names {
		frames, err := bench.Frames(name)
		if err != nil {
			return err
		}
		_, pics, err := sample(frames)
		if err != nil {
			return err
		}
		if err := libyuvRow(label(name), pics); err != nil {
			return err
		}
	}
	return nil
}

func libyuvRow(label string, pics []*yuv.Picture) error {
	ours, err := jpegfast.New()
	if err != nil {
		return err
	}
	defer ours.Close()
	theirs, err := libyuv.New(side, side, quality)
	if err != nil {
		return err
	}
	o := jpegfast.Options{Width: side, Height: side, Quality: quality}
	r, err := compare(func() error {
		for _, p := range pics {
			b, _, _, err := ours.Encode(p, o)
			if err != nil {
				return err
			}
			sink = b
		}
		return nil
	}, func() (float64, error) {
		start := bench.ThreadCPU()
		for _, p := range pics {
			b, err := theirs.Encode(p)
			if err != nil {
				return 0, err
			}
			sink = b
		}
		return bench.ThreadCPU() - start, nil
	})
	if err != nil {
		return err
	}
	var q [4]float64 // our JPEG, their JPEG, our planes, their planes
	var size [2]int
	for _, p := range pics {
		want, err := lanczos(p)
		if err != nil {
			return err
		}
		a, _, _, err := ours.Encode(p, o)
		if err != nil {
			return err
		}
		b, err := theirs.Encode(p)
		if err != nil {
			return err
		}
		planes, err := ours.Scale(p, o)
		if err != nil {
			return err
		}
		size[0], size[1] = size[0]+len(a), size[1]+len(b)
		ay, err := luma(a)
		if err != nil {
			return err
		}
		by, err := luma(b)
		if err != nil {
			return err
		}
		for i, y := range [][]byte{ay, by, planes.Y, theirs.Planes().Y} {
			q[i] += psnr(y, want) / float64(len(pics))
		}
	}
	us := 1e6 / float64(len(pics))
	fmt.Printf("| %s: %d×%d | %.0f | %.0f | **%.2f×** | %.2f · %.2f | %.1f · %.1f | %.2f |\n", label, pics[0].Width, pics[0].Height,
		r.ours*us, r.other*us, 1/r.thread, q[0], q[1], q[2], q[3], float64(size[0])/float64(size[1]))
	return nil
}

// lanczos is the picture's luma in the image's size and full range, as good as it gets.
func lanczos(p *yuv.Picture) ([]byte, error) {
	y := make([]byte, side*side)
	src := resample.Source{Pix: p.Y, Stride: p.YStride, Width: p.Width, Height: p.Height, Channels: 1}
	if err := resample.Scale(y, side, side, side, src); err != nil {
		return nil, err
	}
	if !p.FullRange {
		for i, v := range y {
			y[i] = byte(min(max(math.Round((float64(v)-16)*255/219), 0), 255))
		}
	}
	return y, nil
}

func luma(jpg []byte) ([]byte, error) {
	m, err := jpeg.Decode(bytes.NewReader(jpg))
	if err != nil {
		return nil, err
	}
	y, ok := m.(*goimage.YCbCr)
	if !ok || y.YStride != side {
		return nil, errors.New("not the picture that was encoded")
	}
	return y.Y, nil
}

func psnr(a, b []byte) float64 {
	sum := 0.0
	for i := range b {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return 10 * math.Log10(255*255*float64(len(b))/max(sum, 1e-9))
}
