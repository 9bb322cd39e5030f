// Command clip is our side of the peers table: it decodes a VP8 clip and makes a 1024×1024 JPEG (quality 75) of every Nth picture, as a
// live track does, without network. It prints how many and the CPU of each stage.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"sightline/frames/internal/bench"
	"sightline/frames/internal/jpegfast"
	"sightline/frames/internal/vpx"
)

func main() {
	if len(os.Args) < 3 || len(os.Args) > 5 {
		fmt.Fprintln(os.Stderr, "usage: clip FILE.ivf EVERY (0: decode only) [plain|optimize|sharp [FOLDER to write the images to]]")
		os.Exit(2)
	}
	every, err := strconv.Atoi(os.Args[2])
	if err == nil {
		args := append(os.Args[3:], "", "")
		err = run(os.Args[1], every, args[0], args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clip:", err)
		os.Exit(1)
	}
}

func run(name string, every int, kind, folder string) error {
	frames, err := bench.Frames(name)
	if err != nil {
		return err
	}
	dec, err := vpx.NewVP8()
	if err != nil {
		return err
	}
	defer dec.Close()
	enc, err := jpegfast.New()
	if err != nil {
		return err
	}
	defer enc.Close()
	var decoding, encoding float64
	images, size := 0, 0
	for i, f := range frames {
		start := bench.ProcessCPU()
		pic, err := dec.Decode(f)
		if err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		decoded := bench.ProcessCPU()
		decoding += decoded - start
		if every > 0 && (i+1)%every == 0 {
			b, _, _, err := enc.Encode(&pic, jpegfast.Options{Width: 1024, Height: 1024, Quality: 75, Optimize: kind == "optimize", Sharp: kind == "sharp"})
			if err != nil {
				return err
			}
			encoding += bench.ProcessCPU() - decoded
			images++
			size += len(b)
			if folder == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%04d.jpg", i)), b, 0o644); err != nil {
				return err
			}
		}
	}
	fmt.Printf("frames=%d images=%d bytes=%d decode_us=%.0f image_us=%.0f\n", len(frames), images, size,
		decoding/float64(len(frames))*1e6, encoding/float64(max(images, 1))*1e6)
	return nil
}
