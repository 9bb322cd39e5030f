package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// event is one line of `go test -json` (go doc test2json), the fields used here.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// outputLimit bounds what is kept of one test's output: the end says why it failed.
const outputLimit = 64 << 10

// summary counts leaf tests: a test with subtests is counted by its subtests, and by itself only when it failed without one of them.
type summary struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[string][]string // per package and test, until its verdict
	tests, failures         map[string]int      // verdicts, and failed ones, per package
	parents                 map[string]bool     // tests that have subtests
	failedBelow             map[string]bool     // tests with a failed subtest
	skips                   []string
	again                   map[failedTest]int // failed leaf tests of each failed top-level test
	final                   bool               // a failure that no second try may excuse
}

// failedTest is a top-level test.
type failedTest struct{ pkg, name string }

// neverAgain marks failures that are certain when they are seen once: whatever a second try says, the fault is there.
var neverAgain = []string{"WARNING: DATA RACE", "panic: ", "goroutine leak", "leaked", "fatal error: ", "SIGSEGV"}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, tests: map[string]int{}, failures: map[string]int{},
		parents: map[string]bool{}, failedBelow: map[string]bool{}, again: map[failedTest]int{}}
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command's own complaints are plain text.
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *summary) take(e event) {
	key := e.Package + "." + e.Test
	switch e.Action {
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			s.parents[e.Package+"."+e.Test[:i]] = true
		}
	case "output":
		s.keep(key, e.Output)
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageDone(e)
		} else {
			s.testDone(e, key)
		}
		delete(s.output, key)
	}
}

func (s *summary) keep(key, text string) {
	kept := append(s.output[key], text)
	size := 0
	for i := len(kept) - 1; i >= 0; i-- {
		if size += len(kept[i]); size > outputLimit {
			kept = append([]string{"... (earlier output left out)\n"}, kept[i+1:]...)
			break
		}
	}
	s.output[key] = kept
}

func (s *summary) testDone(e event, key string) {
	if e.Action == "fail" {
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			s.failedBelow[e.Package+"."+e.Test[:i]] = true
		}
		s.show(fmt.Sprintf("FAIL  %s %s (%.1fs)", e.Package, e.Test, e.Elapsed), s.output[key])
		s.judge(s.output[key])
	}
	if s.parents[key] && (e.Action != "fail" || s.failedBelow[key]) {
		return
	}
	s.tests[e.Package]++
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failures[e.Package]++
		top, _, _ := strings.Cut(e.Test, "/")
		s.again[failedTest{e.Package, top}]++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(s.output[key])))
	}
}

func (s *summary) packageDone(e event) {
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(10 * time.Millisecond)
	switch {
	case e.Action == "skip":
		// "no test files": nothing to say.
	case e.Action == "pass":
		fmt.Fprintf(s.out, "ok    %-40s %8s  %d tests\n", e.Package, took, s.tests[e.Package])
	default:
		s.packageFailed(e, took)
	}
}

// packageFailed also counts a package that failed with no failed test: it did not build, left goroutines behind, or ran out of time.
func (s *summary) packageFailed(e event, took time.Duration) {
	fmt.Fprintf(s.out, "FAIL  %-40s %8s\n", e.Package, took)
	own := e.Package + "."
	s.judge(s.output[own])
	for key, lines := range s.output {
		if test, ok := strings.CutPrefix(key, own); ok && test != "" {
			s.show("      "+test+" did not end:", lines)
			s.final = true
			delete(s.output, key)
		}
	}
	if s.failures[e.Package] == 0 {
		s.show("", s.output[own])
		s.failed++
		s.final = true
	}
}

func (s *summary) judge(lines []string) {
	for _, line := range lines {
		for _, mark := range neverAgain {
			s.final = s.final || strings.Contains(line, mark)
		}
	}
}

// writeAgain lists what may be tried once more, "package test leaves" a line; nothing when any failure is final.
func (s *summary) writeAgain(w io.Writer) error {
	if s.final {
		return nil
	}
	for test, leaves := range s.again {
		if _, err := fmt.Fprintf(w, "%s %s %d\n", test.pkg, test.name, leaves); err != nil {
			return err
		}
	}
	return nil
}

func (s *summary) show(title string, lines []string) {
	if title != "" {
		fmt.Fprintln(s.out, title)
	}
	for _, line := range lines {
		fmt.Fprint(s.out, "      ", line)
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(s.out)
		}
	}
}

// reason is what the test said before it skipped, without the runner's own lines.
func reason(lines []string) string {
	var said []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (s *summary) finish() {
	for _, skip := range s.skips {
		fmt.Fprintln(s.out, "skip ", skip)
	}
}
