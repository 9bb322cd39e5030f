// Command policy measures what whole tracks cost under each decode policy: packets pushed in, images taken out, in real time; the sender
// answers requests for key frames at its next frame. The network is left out. It prints a table in Markdown, and writes the stream it has
// sent, for others to be measured with.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"

	"sightline/frames"
)

func main() {
	out := flag.String("out", "", "IVF file to write the stream to")
	seconds := flag.Int("seconds", 12, "of each measurement")
	tracks := flag.Int("tracks", 8, "at once")
	kbps := flag.Int("kbps", 2500, "of the sender")
	only := flag.String("only", "", "print nothing but the ms CPU of one image a second under this policy")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: policy [flags] CLIP.ivf")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *out, *seconds, *tracks, *kbps, frames.Policy(*only)); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

func run(clip, out string, seconds, tracks, kbps int, only frames.Policy) error {
	plain, err := encode(clip, kbps, 1)
	if err != nil {
		return err
	}
	if out != "" {
		if err := plain.write(out); err != nil {
			return err
		}
	}
	if only != "" {
		r, err := measure(plain, only, 1, seconds, tracks)
		if err == nil && (r.images < 0.9 || r.images > 1.1) {
			err = fmt.Errorf("%.2f images a second came, want 1", r.images)
		}
		if err == nil {
			fmt.Printf("%.3f\n", r.cpu*1e3)
		}
		return err
	}
	layered, err := encode(clip, kbps, 3)
	if err != nil {
		return err
	}
	runtime.GC()
	fmt.Printf("| policy | images/s wanted | in effect | CPU, ms of a core for 1 s of video | `full` ÷ it | images/s that came | frames decoded a second | requests a second, answered after | C memory of a track between images, MB |\n|---|---|---|---|---|---|---|---|---|\n")
	full := math.NaN()
	for _, c := range []struct {
		s      *stream
		policy frames.Policy
		fps    float64
	}{
		{plain, frames.PolicyFull, 1}, {layered, frames.PolicyTemporal, 1}, {plain, frames.PolicyAuto, 1}, {plain, frames.PolicyAuto, 0.3}, {plain, frames.PolicyAuto, 3}, {plain, frames.PolicyAuto, 0},
	} {
		n := tracks
		if c.policy == frames.PolicyFull {
			n = max(tracks/4, 1) // as many as one core can do, with room
		}
		r, err := measure(c.s, c.policy, c.fps, seconds, n)
		if err != nil {
			return err
		}
		if c.policy == frames.PolicyFull {
			full = r.cpu
		}
		name := "`" + string(c.policy) + "`"
		if c.s == layered {
			name += ", 3 layers"
		}
		asked := "–"
		if r.plis > 0 {
			asked = fmt.Sprintf("%.2f, %d ms", r.plis, r.answer.Milliseconds())
		}
		fmt.Printf("| %s | %g | `%s`+%d | **%.2f** | %.1f | %.2f | %.1f | %s | %.1f |\n", name, c.fps, r.effect, r.after, r.cpu*1e3, full/r.cpu, r.images, r.decoded, asked, r.memory/1e6)
	}
	return nil
}

// write makes an IVF file of the stream.
func (s *stream) write(name string) error {
	le := binary.LittleEndian
	b := append([]byte("DKIF\x00\x00\x20\x00"), "VP80"...)
	b = le.AppendUint16(le.AppendUint16(b, uint16(s.width)), uint16(s.height))
	b = le.AppendUint32(le.AppendUint32(b, 30), 1)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(s.frames))), 0)
	for i, f := range s.frames {
		b = le.AppendUint64(le.AppendUint32(b, uint32(len(f.Data))), uint64(i))
		b = append(b, f.Data...)
	}
	return os.WriteFile(name, b, 0o600)
}
