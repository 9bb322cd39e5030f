// Package bench holds what the programs of scripts/bench share: CPU clocks, clips, medians. The product does not use it.
package bench

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"sightline/frames/ivf"
)

// ThreadCPU is the CPU time of the calling thread in seconds: lock the goroutine to it.
func ThreadCPU() float64 { return clock(3) }

// ProcessCPU is the CPU time of the whole process in seconds, the Go runtime's own threads included.
func ProcessCPU() float64 { return clock(2) }

func clock(id uintptr) float64 {
	var t syscall.Timespec
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(fmt.Sprintf("clock_gettime(%d): %v", id, e))
	}
	return float64(t.Sec) + float64(t.Nsec)*1e-9
}

// Frames are the frames of an IVF file.
func Frames(name string) ([][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, all, err := ivf.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := make([][]byte, len(all))
	for i, fr := range all {
		out[i] = fr.Data
	}
	return out, nil
}

// Median of values; it sorts them.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
