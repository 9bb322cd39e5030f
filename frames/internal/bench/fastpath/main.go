//go:build bench

// Command fastpath compares the Go paths with the same steps in a C loop, or with libyuv and libjpeg-turbo: CPU time, order alternating, the
// median of the rounds' ratios. It prints a table in Markdown.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sightline/frames/internal/bench"
	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/vpx"
	"sightline/frames/internal/yuv"
)

const (
	rounds   = 31
	pictures = 12 // of each clip
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fastpath:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runtime.LockOSThread()
	if len(args) == 0 {
		return errors.New("usage: fastpath [libyuv] CLIP.ivf...")
	}
	if args[0] == "libyuv" {
		return againstLibyuv(args[1:])
	}
	fmt.Println("| step | Go, µs | C loop, µs | ratio, calling thread | ratio, whole process | Go allocations |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, name := range args {
		if err := clip(name); err != nil {
			return err
		}
	}
	return nil
}

func clip(name string) error {
	frames, err := bench.Frames(name)
	if err != nil {
		return err
	}
	label := label(name)
	if err := decode(label, frames); err != nil {
		return err
	}
	memory, pics, err := sample(frames)
	if err != nil {
		return err
	}
	o := jpegfast.Options{Width: 1024, Height: 1024, Quality: 75}
	return image(fmt.Sprintf("%s: %d×%d I420 → 1024×1024 JPEG q75", label, pics[0].Width, pics[0].Height), memory, pics, o)
}

// row compares with the same in C and prints its line.
func row(label string, each int, allocs string, ours func() error, limit func() (float64, error)) error {
	r, err := compare(ours, limit)
	if err != nil {
		return err
	}
	us := 1e6 / float64(each)
	fmt.Printf("| %s | %.0f | %.0f | **%.2f** | %.2f | %s |\n", label, r.ours*us, r.other*us, r.thread, r.process, allocs)
	return nil
}

// ratios are medians: seconds of both sides, ours ÷ the other in the calling thread, and ours of the whole process ÷ the other.
type ratios struct{ ours, other, thread, process float64 }

// compare runs both sides in alternating order.
func compare(ours func() error, other func() (float64, error)) (ratios, error) {
	var g, c, thread, process []float64
	for r := range rounds {
		var gt, gp, ct float64
		goSide := func() error {
			t, p := bench.ThreadCPU(), bench.ProcessCPU()
			err := ours()
			gt, gp = bench.ThreadCPU()-t, bench.ProcessCPU()-p
			return err
		}
		otherSide := func() (err error) {
			ct, err = other()
			return err
		}
		first, second := goSide, otherSide
		if r%2 == 1 {
			first, second = otherSide, goSide
		}
		if err := first(); err != nil {
			return ratios{}, err
		}
		if err := second(); err != nil {
			return ratios{}, err
		}
		if r == 0 {
			continue // caches, tables, the allocator
		}
		g, c = append(g, gt), append(c, ct)
		thread, process = append(thread, gt/ct), append(process, gp/ct)
	}
	return ratios{bench.Median(g), bench.Median(c), bench.Median(thread), bench.Median(process)}, nil
}

func label(name string) string { return strings.TrimSuffix(filepath.Base(name), ".vp8.ivf") }

func decode(label string, frames [][]byte) error {
	d, err := vpx.NewVP8()
	if err != nil {
		return err
	}
	defer d.Close()
	ours := func() error {
		for _, f := range frames {
			if _, err := d.Decode(f); err != nil {
				return err
			}
		}
		return nil
	}
	allocs := testing.AllocsPerRun(1, func() { err = ours() })
	if err != nil {
		return err
	}
	return row(label+": VP8 frame → I420", len(frames), fmt.Sprintf("%.0f a frame", allocs/float64(len(frames))), ours, func() (float64, error) { return d.LoopC(frames) })
}

// sample decodes a clip and keeps pictures spread over it, one after the other in one block of memory.
func sample(frames [][]byte) ([]byte, []*yuv.Picture, error) {
	d, err := vpx.NewVP8()
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	var memory []byte
	var like *yuv.Picture
	n := 0
	for i, f := range frames {
		p, err := d.Decode(f)
		if err != nil {
			return nil, nil, err
		}
		if (i+1)*pictures/len(frames) > n {
			like = p.Clone()
			memory = append(append(append(memory, like.Y...), like.U...), like.V...)
			n++
		}
	}
	size := len(memory) / n
	pics := make([]*yuv.Picture, n)
	for i := range pics {
		p := *like
		at := memory[i*size:]
		p.Y, p.U, p.V = at[:len(p.Y)], at[len(p.Y):][:len(p.U)], at[len(p.Y)+len(p.U):][:len(p.V)]
		pics[i] = &p
	}
	return memory, pics, nil
}

var sink []byte

func image(label string, memory []byte, pics []*yuv.Picture, o jpegfast.Options) error {
	e, err := jpegfast.New()
	if err != nil {
		return err
	}
	defer e.Close()
	ours := func() error {
		for _, p := range pics {
			b, _, _, err := e.Encode(p, o)
			if err != nil {
				return err
			}
			sink = b
		}
		return nil
	}
	allocs := testing.AllocsPerRun(3, func() { err = ours() })
	if err != nil {
		return err
	}
	return row(label, len(pics), fmt.Sprintf("%.0f an image: its bytes", allocs/float64(len(pics))), ours,
		func() (float64, error) { return e.LoopC(memory, len(pics), pics[0], o) })
}
