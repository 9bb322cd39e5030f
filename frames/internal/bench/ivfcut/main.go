// Command ivfcut writes the first frames of an IVF file, as often as wanted one after the other: bench clips are cut and made longer with it.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"

	"sightline/frames/ivf"
)

func main() {
	frames := flag.Int("frames", 0, "frames to take, 0 all")
	repeat := flag.Int("repeat", 1, "how often")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: ivfcut [-frames N] [-repeat N] IN.ivf OUT.ivf")
		os.Exit(2)
	}
	if err := cut(flag.Arg(0), flag.Arg(1), *frames, *repeat); err != nil {
		fmt.Fprintln(os.Stderr, "ivfcut:", err)
		os.Exit(1)
	}
}

func cut(in, out string, frames, repeat int) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	h, all, err := ivf.ReadAll(f)
	if err != nil {
		return err
	}
	if frames > 0 && frames < len(all) {
		all = all[:frames]
	}
	le := binary.LittleEndian
	b := append([]byte("DKIF\x00\x00\x20\x00"), h.FourCC...)
	b = le.AppendUint16(le.AppendUint16(b, uint16(h.Width)), uint16(h.Height))
	b = le.AppendUint32(le.AppendUint32(b, h.Rate), h.Scale)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(all)*repeat)), 0)
	for i := range len(all) * repeat {
		data := all[i%len(all)].Data
		b = le.AppendUint64(le.AppendUint32(b, uint32(len(data))), uint64(i))
		b = append(b, data...)
	}
	return os.WriteFile(out, b, 0o644)
}
