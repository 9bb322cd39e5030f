// Command still is our side of the stills table: it makes a 1024×1024 JPEG (quality 75) of a still, and tells what that took.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"sightline/frames"
	"sightline/frames/internal/bench"
	"sightline/frames/internal/stilljpeg"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: still FILE time|memory|full|OUT.jpg\n"+
			"time: one image for each line of input, each answered by its CPU ms; memory: the MB above those before, at most, while one is made;\n"+
			"full: the same while the still is decoded at its full size and nothing else")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "still:", err)
		os.Exit(1)
	}
}

func run(name, what string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	o := frames.DefaultRealtimeEncodeOptions()
	image := func() error {
		_, err := frames.Encode(b, &o)
		return err
	}
	switch what {
	case "time":
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			start := bench.ProcessCPU()
			if err := image(); err != nil {
				return err
			}
			fmt.Printf("%.3f\n", (bench.ProcessCPU()-start)*1e3)
		}
		return nil
	case "memory":
		return memory(image)
	case "full":
		return memory(func() error {
			_, _, err := stilljpeg.Decode(b)
			return err
		})
	}
	out, err := frames.Encode(b, &o)
	if err != nil {
		return err
	}
	return os.WriteFile(what, out, 0o644)
}

// memory prints the peak of resident memory while f runs, in MB above that before it.
func memory(f func() error) error {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // sets the peak back (proc(5))
		return err
	}
	before, err := status("VmRSS:")
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	peak, err := status("VmHWM:")
	fmt.Printf("%.2f\n", float64(peak-before)/1024)
	return err
}

// status is a figure of /proc/self/status, in KB.
func status(field string) (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(string(line), field); ok {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return 0, errors.New("/proc/self/status: no " + field)
}
