// Package leakcheck says, when a package's tests have run, what they have left behind: goroutines, file descriptors, C memory. It is for TestMain only.
package leakcheck

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long what is left may take to end: Pion closes some of its goroutines behind Close.
const patience = 10 * time.Second

// cSlack is what C libraries keep for good: tables of the first decoder, buffers of their allocator's threads.
const cSlack = 2 << 20

// Check says what there is to look at besides goroutines and descriptors.
type Check struct {
	CBytes func() int64 // how much C memory is in use; nil: the package has none
	Settle func()       // closes what is kept open on purpose, such as idle HTTP connections; nil: nothing is
}

// Run runs the tests and gives the exit code: 1 also when all passed and something is left.
func Run(m *testing.M, c Check) int {
	before := c.look()
	code := m.Run()
	if code != 0 {
		return code
	}
	if left := c.left(before); left != "" {
		fmt.Fprintf(os.Stderr, "left after all tests have passed: %s\n", left)
		return 1
	}
	return 0
}

// held is what there was before.
type held struct {
	files  map[string]int
	cBytes int64
}

func (c Check) look() held {
	h := held{files: descriptors()}
	if c.CBytes != nil {
		h.cBytes = c.CBytes()
	}
	return h
}

// left waits until nothing is left beyond what there was, or says what is.
func (c Check) left(before held) string {
	if c.Settle != nil {
		c.Settle()
	}
	if goleak.Find() != nil { // it waits by itself, less than a second
		time.Sleep(patience / 4)
		if err := goleak.Find(); err != nil {
			return err.Error()
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		now := c.look()
		left := more(before.files, now.files)
		if left == "" && now.cBytes > before.cBytes+cSlack {
			left = fmt.Sprintf("%d kB of C memory, %d kB before", now.cBytes>>10, before.cBytes>>10)
		}
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}

// descriptors counts the open files of this process by what they are. The runtime's own poller is none of them.
func descriptors() map[string]int {
	kinds := map[string]int{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return kinds // no Linux: nothing is checked
	}
	for _, e := range entries {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(name, "anon_inode:") || strings.HasPrefix(name, "/proc/") {
			continue // closed since, or the folder itself
		}
		kind, _, _ := strings.Cut(name, ":[") // socket:[4711]
		kinds[kind]++
	}
	return kinds
}

// more lists what there is more of than before.
func more(before, now map[string]int) string {
	var list []string
	for kind, n := range now {
		if extra := n - before[kind]; extra > 0 {
			list = append(list, fmt.Sprintf("%d × %s", extra, kind))
		}
	}
	sort.Strings(list)
	return strings.Join(list, ", ")
}
