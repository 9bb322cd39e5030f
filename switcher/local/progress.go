package local

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// patience is how many times the stall a process may work on without an end.
const patience = 6

// watch tells a process that hangs from one that only gets little of a busy machine: it hangs when it sleeps and has used no
// processor time for the length of a stall, or when it has not got on for patience stalls, whatever it does.
type watch struct {
	pid          int
	stall        time.Duration
	begun, moved time.Time // begun: since when it owes something
	used         string
}

func newWatch(p *process, stall time.Duration, now time.Time) *watch {
	return &watch{pid: p.pid, stall: stall, begun: now, moved: now}
}

// every is how often to look.
func (w *watch) every() time.Duration { return max(w.stall/8, time.Millisecond) }

// hangs is asked at intervals of every.
func (w *watch) hangs(now time.Time) bool {
	state, used, err := usage(w.pid)
	if err != nil { // it is gone; somebody else sees that
		return now.Sub(w.begun) >= patience*w.stall
	}
	if used != w.used || state == "R" || state == "D" {
		w.used, w.moved = used, now
	}
	return now.Sub(w.moved) >= w.stall || now.Sub(w.begun) >= patience*w.stall
}

// usage reads the state of a process and its processor time, in ticks of 10 ms (proc(5), stat).
func usage(pid int) (state, used string, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	_, after, _ := strings.Cut(string(b), ") ") // the name before it may have spaces
	f := strings.Fields(after)
	if len(f) < 13 {
		return "", "", fmt.Errorf("unknown form of stat: %q", b)
	}
	return f[0], f[11] + " " + f[12], nil
}
