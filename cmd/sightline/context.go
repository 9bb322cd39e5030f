package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"sightline/context/importer"
	"sightline/context/project"
	"sightline/context/tokens"
)

// contextTool is `sightline context`: it reads saved conversations of any format. docs/context.md tells how to use it.
type contextTool struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stdout is one, and colours are welcome
}

const contextUsage = `usage: sightline context COMMAND [flags] [FILE|-]

  inspect    a readable transcript: tokens, images, calls and their outputs, problems
  convert    write the conversation in another format (--to)
  validate   say what a provider would refuse (--for), and why
  truncate   keep the newest (--max-items, --max-tokens) without breaking anything
  diff       compare two conversations item by item
  redact     take out addresses, numbers, keys and names

A conversation is read from FILE, or from standard input. Its format is told by what is in it; --from decides otherwise.
Results go to standard output, complaints with line and field to standard error.
sightline context COMMAND --help lists a command's flags.
`

func (p program) context(args []string) int {
	t := contextTool{args: args, stdin: os.Stdin, stdout: p.stdout, stderr: p.stderr}
	if f, ok := p.stdout.(*os.File); ok {
		info, err := f.Stat()
		t.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
	}
	return t.run()
}

func (t contextTool) run() int {
	if len(t.args) == 0 {
		fmt.Fprint(t.stderr, contextUsage)
		return exitUsage
	}
	commands := map[string]func([]string) error{"inspect": t.inspect, "convert": t.convert, "validate": t.validate,
		"truncate": t.truncate, "diff": t.diff, "redact": t.redact}
	name := t.args[0]
	if name == "help" || name == "--help" || name == "-h" {
		fmt.Fprint(t.stdout, contextUsage)
		return exitOK
	}
	command := commands[name]
	if command == nil {
		fmt.Fprintf(t.stderr, "sightline context: unknown command %q\n\n%s", name, contextUsage)
		return exitUsage
	}
	err := command(t.args[1:])
	var bad *importer.Error
	var misuse usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errTold):
		return exitFail
	case errors.As(err, &misuse):
		fmt.Fprintf(t.stderr, "sightline context %s: %v\n", name, err)
		return exitUsage
	case errors.As(err, &bad):
		fmt.Fprintln(t.stderr, err)
		return exitFail
	}
	fmt.Fprintf(t.stderr, "sightline context %s: %v\n", name, err)
	return exitFail
}

// errTold: what is wrong has been said already.
var errTold = errors.New("")

// usageError is a mistake in the command line, or a file that cannot be opened.
type usageError struct{ error }

func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// readFlags are the flags that all commands have.
type readFlags struct {
	*flag.FlagSet
	from         string
	conversation int
	maxElement   int
	quiet        bool
}

func (t contextTool) flags(name, operands, does string) *readFlags {
	f := &readFlags{FlagSet: flag.NewFlagSet("sightline context "+name, flag.ContinueOnError)}
	f.SetOutput(t.stdout)
	f.StringVar(&f.from, "from", "auto", "`format` of the input: "+formatList())
	f.IntVar(&f.conversation, "conversation", 0, "which one, from 1, when the input holds several")
	f.IntVar(&f.maxElement, "max-element-bytes", importer.DefaultMaxElement, "`bytes` that one message may have with its images")
	f.BoolVar(&f.quiet, "quiet", false, "say nothing of what was read otherwise than it stood there")
	f.Usage = func() {
		fmt.Fprintf(t.stdout, "usage: sightline context %s [flags] %s\n\n%s\n\n", name, operands, does)
		f.PrintDefaults()
	}
	return f
}

func formatList() string {
	var names []string
	for _, f := range importer.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// parse reads flags and operands in any order and gives the operands, of which there are at most n.
func (f *readFlags) parse(args []string, n int) ([]string, error) {
	var operands []string
	for {
		f.FlagSet.SetOutput(f.Output())
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usageError{err}
		}
		if f.NArg() == 0 {
			break
		}
		operands = append(operands, f.Arg(0))
		args = f.Args()[1:]
	}
	if len(operands) > n {
		return nil, misuse("at most %d files: what is %q?", n, operands[n])
	}
	if !slices.Contains(importer.Formats(), importer.Format(f.from)) {
		return nil, misuse("--from %q: allowed are %s", f.from, formatList())
	}
	if f.maxElement < 1 || f.conversation < 0 {
		return nil, misuse("--max-element-bytes and --conversation are not negative")
	}
	return operands, nil
}

func (f *readFlags) options() importer.Options {
	return importer.Options{Format: importer.Format(f.from), Conversation: f.conversation, MaxElement: f.maxElement}
}

// given reports whether a flag was on the command line.
func (f *readFlags) given(name string) bool {
	found := false
	f.Visit(func(g *flag.Flag) { found = found || g.Name == name })
	return found
}

// source is an opened input.
type source struct {
	importer.Input
	name  string // for complaints
	close func()
}

// open opens a file, or standard input when there is no name or it is "-". What cannot be read twice goes to a temporary file.
func (t contextTool) open(operands []string, i int) (*source, error) {
	name := "-"
	if i < len(operands) {
		name = operands[i]
	}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			return &source{importer.Input{ReaderAt: f, Size: info.Size()}, name, func() { f.Close() }}, nil
		}
		if err == nil && info.IsDir() {
			f.Close()
			return nil, misuse("%s is a folder", name)
		}
		defer f.Close()
		return spool(f, name)
	}
	return spool(t.stdin, "standard input")
}

func spool(r io.Reader, name string) (*source, error) {
	f, err := os.CreateTemp("", "sightline-context-")
	if err != nil {
		return nil, err
	}
	drop := func() { f.Close(); os.Remove(f.Name()) }
	n, err := io.Copy(f, r)
	if err != nil {
		drop()
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return &source{importer.Input{ReaderAt: f, Size: n}, name, drop}, nil
}

// read streams a source through f and tells how it was understood. An error of the input gets the file's name.
func (t contextTool) read(src *source, o importer.Options, quiet bool, f itemFunc) (importer.Report, error) {
	report, err := importer.Stream(src.Input, o, f)
	if !quiet {
		t.tell(src.name, report)
	}
	return report, named(src, err)
}

// named puts the input's name before an error about it, as compilers do.
func named(src *source, err error) error {
	var bad *importer.Error
	if !errors.As(err, &bad) {
		return err
	}
	sep := ":"
	if bad.Line == 0 {
		sep = ": "
	}
	return fmt.Errorf("%s%s%w", src.name, sep, bad)
}

// tell writes the notes of a report, one a line.
func (t contextTool) tell(name string, r importer.Report) {
	for _, n := range r.Notes {
		fmt.Fprintf(t.stderr, "%s:%s\n", name, n)
	}
	if r.Untold > 0 {
		fmt.Fprintf(t.stderr, "%s: %d more notes\n", name, r.Untold)
	}
}

// counter is how tokens are counted: by heuristic, or for a model.
func counter(model string) (tokens.Counter, error) {
	if model == "" {
		return tokens.Heuristic(), nil
	}
	c, err := tokens.ForModel(model)
	if err != nil {
		return c, usageError{err}
	}
	return c, nil
}

// provider reads the name of a provider's format.
func provider(flagName, s string) (project.Format, error) {
	if !slices.Contains(project.Formats(), project.Format(s)) {
		return "", misuse("--%s %q: allowed are %v", flagName, s, project.Formats())
	}
	return project.Format(s), nil
}

// formatOf gives the format to write what a source holds.
func (t contextTool) formatOf(src *source, f *readFlags) (string, error) {
	format, err := importer.Detect(src.Input, f.options())
	return sameFormat(format), named(src, err)
}
