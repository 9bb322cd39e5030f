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
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, tests: map[string]int{}, failures: map[string]int{},
		parents: map[string]bool{}, failedBelow: map[string]bool{}}
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
	for key, lines := range s.output {
		if test, ok := strings.CutPrefix(key, own); ok && test != "" {
			s.show("      "+test+" did not end:", lines)
			delete(s.output, key)
		}
	}
	if s.failures[e.Package] == 0 {
		s.show("", s.output[own])
		s.failed++
	}
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
