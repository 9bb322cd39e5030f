// Package probe looks at a running gateway process from outside (proc(5) and its metrics): what it holds and what it has cost; it changes nothing.
package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is a gateway in a process of this machine.
type Process struct {
	PID int
	URL string // of its HTTP
}

// Holdings is what the process holds at one moment.
type Holdings struct {
	Resident   int64 // bytes, VmRSS
	Files      int   // file descriptors
	Goroutines int
	Threads    int
}

func (h Holdings) String() string {
	return fmt.Sprintf("%.1f MB, %d files, %d goroutines", float64(h.Resident)/(1<<20), h.Files, h.Goroutines)
}

// Look reads what the process holds.
func (p Process) Look(ctx context.Context) (Holdings, error) {
	var h Holdings
	var err error
	if h.Goroutines, err = p.metric(ctx, "go_goroutines"); err != nil {
		return h, err
	}
	if h.Files, err = p.Files(); err != nil {
		return h, err
	}
	status, err := p.status("VmRSS:", "Threads:")
	if err != nil {
		return h, err
	}
	h.Resident, h.Threads = status[0]<<10, int(status[1])
	return h, nil
}

// Files is how many descriptors the process has open.
func (p Process) Files() (int, error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	return len(files), err
}

// Resident is the process's memory in bytes; it costs less than Look.
func (p Process) Resident() (int64, error) {
	status, err := p.status("VmRSS:")
	if err != nil {
		return 0, err
	}
	return status[0] << 10, nil
}

// status reads numbers of proc(5)'s status file.
func (p Process) status(names ...string) ([]int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return nil, err
	}
	values := make([]int64, len(names))
	for i, name := range names {
		_, after, ok := strings.Cut(string(data), "\n"+name)
		fields := strings.Fields(after)
		if !ok || len(fields) == 0 {
			return nil, fmt.Errorf("process %d tells no %s", p.PID, name)
		}
		if values[i], err = strconv.ParseInt(fields[0], 10, 64); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// tick is USER_HZ, in which Linux tells CPU time: 100 a second on every platform that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the user and system time that the process has used since its start, in steps of 10 ms.
func (p Process) CPU() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0, err
	}
	// Behind the name, which may hold anything: the fields from the third on; utime is the 14th, stime the 15th.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("process %d: its stat file has %d fields", p.PID, len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// metric reads one number of /metrics.
func (p Process) metric(ctx context.Context, name string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("the gateway's metrics tell no %s", name)
}
