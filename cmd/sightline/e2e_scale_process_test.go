package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is the real binary in a process of its own, so that its memory, its files and its goroutines are the gateway's alone.
type process struct {
	*served
	pid int
}

// builtGateway builds the binary once for all tests, without the race detector: its memory is what is looked at.
var builtGateway = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builtFolder, "sightline")
	out, err := exec.Command("go", "build", "-o", path, "sightline/cmd/sightline").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build sightline: %w\n%s", err, out)
	}
	return path, nil
})

var announced = regexp.MustCompile(`serves (http://localhost:(\d+))`)

// serveProcess starts the gateway on a free loopback port and waits until it says where. It must end with 0 when the test does.
func serveProcess(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := builtGateway()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	p := &process{served: &served{t: t}}
	command.Stderr = &p.stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = command.Process.Pid
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		kill := time.AfterFunc(20*time.Second, func() { _ = command.Process.Kill() })
		defer kill.Stop()
		if err := command.Wait(); err != nil || t.Failed() {
			t.Errorf("sightline serve after SIGINT: %v\n%s", err, p.stderr.tail(8<<10))
		}
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if found := announced.FindStringSubmatch(lines.Text()); found != nil {
			p.URL, p.Port = found[1], found[2]
			break
		}
	}
	if p.URL == "" {
		t.Fatalf("sightline serve did not say where it serves: %s", p.stderr.tail(4<<10))
	}
	return p
}

// holdings is what a process holds.
type holdings struct {
	resident   int // bytes, VmRSS of proc(5)
	files      int
	goroutines int
}

func (u holdings) String() string {
	return fmt.Sprintf("%.1f MB, %d files, %d goroutines", float64(u.resident)/(1<<20), u.files, u.goroutines)
}

func (p *process) holdings() holdings {
	p.t.Helper()
	u := holdings{resident: p.resident()}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	u.files = len(files)
	_, _, metrics := p.call("GET", "/metrics", "", "")
	for line := range strings.Lines(string(metrics)) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, err = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	if err != nil || u.goroutines == 0 {
		p.t.Fatalf("no number of goroutines in the metrics: %v", err)
	}
	return u
}

// resident is the memory of the process, in bytes; 0 and a failed test when it is gone.
func (p *process) resident() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kb, err := strconv.Atoi(strings.Fields(value)[0])
				if err == nil {
					return kb << 10
				}
			}
		}
	}
	p.t.Errorf("the gateway's memory cannot be read: %v", err)
	return 0
}
