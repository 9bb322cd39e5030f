package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"sightline/cmd/internal/gatewaybench/probe"
)

// process is the real binary in a process of its own, so that its memory, its files and its goroutines are the gateway's alone.
type process struct {
	*served
	probe   probe.Process
	command *exec.Cmd
	killed  bool
}

// kill is kill -9: nothing is said, nothing is flushed.
func (p *process) kill() {
	p.t.Helper()
	p.killed = true
	if err := p.command.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.command.Wait() // says that it was killed
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
	command := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", inMemory, "--pipeline", pipelineNone}, args...)...)
	p := &process{served: &served{t: t}, command: command}
	command.Stderr = &p.stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.killed {
			return
		}
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
	p.probe = probe.Process{PID: command.Process.Pid, URL: p.URL}
	return p
}

// look reads what the gateway holds.
func (p *process) look() probe.Holdings {
	p.t.Helper()
	h, err := p.probe.Look(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// resident is the gateway's memory in bytes; 0 and a failed test when it is gone.
func (p *process) resident() int {
	bytes, err := p.probe.Resident()
	if err != nil {
		p.t.Errorf("the gateway's memory cannot be read: %v", err)
	}
	return int(bytes)
}
