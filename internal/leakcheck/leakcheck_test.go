package leakcheck

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestSeesWhatIsLeft(t *testing.T) {
	var c Check
	before := c.look()
	if left := c.left(before); left != "" {
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
	if left := more(before.files, descriptors()); !strings.Contains(left, "1 × socket") || !strings.Contains(left, f.Name()) {
		t.Errorf("a socket and a file are open, and it says %q", left)
	}
	_, _ = l.Close(), f.Close()
	end := make(chan struct{})
	go func() { <-end }()
	if left := c.left(before); !strings.Contains(left, "TestSeesWhatIsLeft") {
		t.Errorf("a goroutine is left, and it says %q", left)
	}
	close(end)
	bytes := int64(cSlack)
	c.CBytes = func() int64 { return bytes }
	if left := c.left(before); left != "" {
		t.Errorf("what libraries keep is no leak, and it says %s", left)
	}
}
