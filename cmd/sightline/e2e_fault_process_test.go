package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sightline/cmd/internal/agentclient"
)

// TestE2EFaultStarvedProcess: a gateway with little memory runs out of file descriptors while hundreds of sockets hang on it. The
// call that is there loses nothing; when the sockets are gone, new calls come in. Then it is told to end, under load: what it
// has acknowledged is there after a restart, once.
func TestE2EFaultStarvedProcess(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "64MiB") // of the gateway: this process has read its own long ago
	dir := t.TempDir()
	gateway := serveProcess(t, "--data-dir", dir, "--drain-timeout", "2s")
	s := gateway.served
	reel := readFootage(t, faceClip)
	good := newNeighbour(t, s, reel)
	memory := gateway.watchMemory()

	held := gateway.look().Files
	gateway.limitFiles(uint64(held + 8))
	var idle []net.Conn
	for range 200 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+gateway.Port); err == nil { // the kernel takes them on the gateway's behalf
			idle = append(idle, conn)
		}
	}
	await(t, 10*time.Second, "no descriptors are left", func() (bool, string) {
		files, err := gateway.probe.Files()
		return err == nil && files >= held+8, fmt.Sprint(files, " of ", held+8, " ", err)
	})
	good.agent.forget()
	good.agent.awaitImages(20*time.Second, "images without a descriptor to spare", 20, nil)
	refused := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if res, err := refused.Get(gateway.URL + "/healthz"); err == nil {
		res.Body.Close()
		t.Error("a new connection is served without a descriptor for it: the fault did not happen")
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	later := s.publish("later", reel, cameraOptions{})
	s.attach("later", "watcher", 5).awaitImages(20*time.Second, "images of a call that begins afterwards", 2, func(agentclient.Image) bool { return true })
	later.leave()
	good.unharmed(t)
	memory.flat(t, 48<<20)
	gateway.limitFiles(4096)

	s.open("call")
	acked, begun := map[string]int{}, make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { writeUntilKilled(gateway.URL, 0, acked, begun) })
	<-begun
	good.agent.leave()
	good.writer.leave()
	good.camera.leave()
	gateway.terminate(30 * time.Second)
	writer.Wait()
	again := serveProcess(t, "--data-dir", dir)
	_, _, body := again.call("GET", "/v1/sessions/call/context", "", "")
	for op := range acked {
		if n := strings.Count(string(body), `"`+op+`"`); n != 1 {
			t.Errorf("%s was acknowledged before SIGTERM and is there %d times after it", op, n)
		}
	}
	if len(acked) < 150 {
		t.Errorf("only %d entries acknowledged", len(acked))
	}
	if state := again.session("good"); state.Seq != uint64(good.acked) {
		t.Errorf("the good call's log ends with %d, %d were acknowledged", state.Seq, good.acked)
	}
}

// limitFiles sets how many descriptors the gateway may have (prlimit(2)).
func (p *process) limitFiles(n uint64) {
	p.t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(p.probe.PID, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		p.t.Fatal(err)
	}
	if err := unix.Prlimit(p.probe.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(n, old.Max), Max: old.Max}, nil); err != nil {
		p.t.Fatal(err)
	}
}

// terminate sends SIGTERM and demands exit code 0.
func (p *process) terminate(within time.Duration) {
	p.t.Helper()
	p.killed = true
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.command.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			p.t.Errorf("after SIGTERM: %v\n%s", err, p.stderr.tail(4<<10))
		}
	case <-time.After(within):
		p.t.Error(errors.Join(errors.New("still there after SIGTERM"), p.command.Process.Kill()))
		<-ended
	}
}
