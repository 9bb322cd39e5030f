package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func events(lines ...string) string { return strings.Join(lines, "\n") }

func TestCountsAndExitCode(t *testing.T) {
	const (
		passA = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}`
		subtests = `{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/one"}
{"Action":"run","Package":"p","Test":"TestB/two"}
{"Action":"pass","Package":"p","Test":"TestB/one"}
{"Action":"output","Package":"p","Test":"TestB/two","Output":"    b_test.go:9: two is not one\n"}
{"Action":"fail","Package":"p","Test":"TestB/two"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Elapsed":1}`
		skipped = `{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: needs a camera\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}`
		broken = `{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}
{"Action":"fail","Package":"p","Elapsed":0}`
		packageOK = `{"Action":"pass","Package":"p","Elapsed":1.5}`
	)
	tests := []struct {
		name, input, tally string
		code               int
		prints             []string
	}{
		{"all pass", events(passA, packageOK), "1 0 0\n", 0, []string{"ok    p", "1.5s", "1 tests"}},
		{"a failed subtest counts once", events(passA, subtests), "2 1 0\n", 1, []string{"FAIL  p TestB/two", "two is not one"}},
		{"a skip is named with its reason", events(skipped, packageOK), "0 0 1\n", 0, []string{"skip  p TestC: c_test.go:3: needs a camera"}},
		{"a package that does not build is a failure", broken, "0 1 0\n", 1, []string{"undefined: x", "FAIL  p"}},
		{"leaked goroutines after all tests passed", events(passA,
			`{"Action":"output","Package":"p","Output":"goleak: found 1\n"}`, `{"Action":"fail","Package":"p"}`), "1 1 0\n", 1, []string{"goleak"}},
		{"a test that never ended", events(`{"Action":"run","Package":"p","Test":"TestD"}`,
			`{"Action":"output","Package":"p","Test":"TestD","Output":"panic: test timed out\n"}`, `{"Action":"fail","Package":"p"}`),
			"0 1 0\n", 1, []string{"TestD did not end", "timed out"}},
		{"plain text of the go command is kept", "go: no such tool", "0 0 0\n", 0, []string{"no such tool"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tally")
			var out, complaints strings.Builder
			code := run([]string{"-tally", file}, strings.NewReader(test.input), &out, &complaints)
			if code != test.code {
				t.Errorf("exit %d, want %d; %s", code, test.code, complaints.String())
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != test.tally {
				t.Errorf("tally %q (%v), want %q", got, err, test.tally)
			}
			for _, want := range test.prints {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
		})
	}
}

// What is certain when it is seen once is not tried again.
func TestWhatMayBeTriedAgain(t *testing.T) {
	const (
		fails = `{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/two"}
{"Action":"fail","Package":"p","Test":"TestB/two"}
{"Action":"fail","Package":"p","Test":"TestB"}`
		failed = `{"Action":"fail","Package":"p","Elapsed":1}`
	)
	for name, c := range map[string]struct{ input, want string }{
		"a failed test":         {events(fails, failed), "p TestB 1\n"},
		"beside a data race":    {events(fails, `{"Action":"output","Package":"p","Test":"TestR","Output":"WARNING: DATA RACE\n"}`, `{"Action":"fail","Package":"p","Test":"TestR"}`, failed), ""},
		"beside a leak":         {events(fails, `{"Action":"output","Package":"p","Output":"leaked: 1 goroutine\n"}`, failed), ""},
		"beside a broken build": {events(fails, failed, `{"Action":"fail","Package":"q","Elapsed":0}`), ""},
		"beside one unended":    {events(fails, `{"Action":"output","Package":"p","Test":"TestD","Output":"x"}`, failed), ""},
	} {
		file := filepath.Join(t.TempDir(), "again")
		var out, complaints strings.Builder
		run([]string{"-again", file}, strings.NewReader(c.input), &out, &complaints)
		if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
			t.Errorf("%s: %q (%v), want %q; %s", name, got, err, c.want, complaints.String())
		}
	}
}

func TestKeepsTheEndOfLongOutput(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	for range 5000 {
		s.take(event{Action: "output", Package: "p", Test: "T", Output: strings.Repeat("x", 99) + "\n"})
	}
	s.take(event{Action: "output", Package: "p", Test: "T", Output: "the cause\n"})
	s.take(event{Action: "fail", Package: "p", Test: "T"})
	if text := out.String(); !strings.Contains(text, "the cause") || !strings.Contains(text, "left out") || len(text) > 2*outputLimit {
		t.Errorf("%d bytes shown; the end of the output must be, its start must not", len(text))
	}
}
