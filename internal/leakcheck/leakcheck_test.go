package leakcheck

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestSeesWhatIsLeft(t *testing.T) {
	before := descriptors()
	if left := Left(before, nil, 0); left != "" {
		t.Fatalf("nothing is left, and it says %s", left)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(t.TempDir(), "left")
	if err != nil {
		t.Fatal(err)
	}
	if left := more(before, descriptors()); !strings.Contains(left, "1 × socket") || !strings.Contains(left, f.Name()) {
		t.Errorf("a socket and a file are open, and it says %q", left)
	}
	_, _ = l.Close(), f.Close()
	end := make(chan struct{})
	go func() { <-end }()
	if left := Left(before, nil, 0); !strings.Contains(left, "TestSeesWhatIsLeft") {
		t.Errorf("a goroutine is left, and it says %q", left)
	}
	close(end)
	if left := Left(before, func() int64 { return 1 }, 0); left != "" {
		t.Errorf("%s", left)
	}
}
