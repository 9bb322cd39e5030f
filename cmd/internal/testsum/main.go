// Command testsum reads `go test -json` on standard input and prints what a person wants to see: a line per package, the output of what failed, the skipped tests with their reasons; it runs nothing itself.
//
// With -tally FILE it appends "passed failed skipped" to that file, so that scripts/test can add up several runs. With -again FILE it writes
// there which tests may be tried once more, alone; none when a failure is certain at once (a data race, a panic, a leak, a test without
// an end, a package that does not build). It exits 1 when anything failed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(stderr)
	tally := flags.String("tally", "", "append \"passed failed skipped\" to this file")
	again := flags.String("again", "", "append \"package test failed-leaves\" of what may be tried once more to this file")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	s := newSummary(stdout)
	if err := s.read(stdin); err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return 2
	}
	s.finish()
	if *tally != "" {
		if err := appendLine(*tally, fmt.Sprintf("%d %d %d\n", s.passed, s.failed, s.skipped)); err != nil {
			fmt.Fprintln(stderr, "testsum:", err)
			return 2
		}
	}
	if *again != "" {
		var list strings.Builder
		_ = s.writeAgain(&list) // a builder takes everything
		if err := appendLine(*again, list.String()); err != nil {
			fmt.Fprintln(stderr, "testsum:", err)
			return 2
		}
	}
	if s.failed > 0 {
		return 1
	}
	return 0
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
