// Package leakcheck says, when a package's tests have run, what they have left behind: goroutines, file descriptors, C memory. It is for TestMain only.
package leakcheck

import (
	"fmt"
	"net/http"
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

// Main runs the tests and exits: with 1 also when all passed and something is left. cBytes tells how much C memory is in use; nil
// when the package has none.
func Main(m *testing.M, cBytes func() int64) {
	files := descriptors()
	held := int64(0)
	if cBytes != nil {
		held = cBytes()
	}
	code := m.Run()
	if code == 0 {
		if left := Left(files, cBytes, held); left != "" {
			fmt.Fprintf(os.Stderr, "left after all tests have passed: %s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// Left waits until nothing is left beyond the descriptors and the C memory that there were, or says what is.
func Left(files map[string]int, cBytes func() int64, held int64) string {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil { // waits by itself, less than a second
		time.Sleep(patience / 4)
		if err := goleak.Find(); err != nil {
			return err.Error()
		}
	}
	var left string
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if left = more(files, descriptors()); left == "" && cBytes != nil && cBytes() > held+cSlack {
			left = fmt.Sprintf("%d kB of C memory, %d kB before", cBytes()>>10, held>>10)
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
