package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

func TestLooksAtThisProcess(t *testing.T) {
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE go_goroutines gauge\ngo_goroutines_total 3\ngo_goroutines 42\n")
	}))
	t.Cleanup(metrics.Close)
	p := Process{PID: os.Getpid(), URL: metrics.URL}
	before, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ballast := make([]byte, 64<<20)
	for i := range ballast {
		ballast[i] = byte(i)
	}
	after, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before.Goroutines != 42 || after.Files <= before.Files || after.Resident < before.Resident+48<<20 || before.Threads < 1 {
		t.Errorf("%v, with a file and %d MB more: %v", before, len(ballast)>>20, after)
	}
	start, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 20*time.Second; { // until some CPU time is used, however slow this machine is
		for i := range ballast {
			ballast[i]++
		}
		now, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if now >= start+100*time.Millisecond {
			return
		}
	}
	t.Error("20 s of work took no CPU time")
}

func TestNoSuchProcess(t *testing.T) {
	p := Process{PID: 1 << 30, URL: "http://127.0.0.1:0"}
	if _, err := p.Look(t.Context()); err == nil {
		t.Error("Look finds a process that is not there")
	}
	if _, err := p.CPU(); err == nil {
		t.Error("CPU finds a process that is not there")
	}
}
