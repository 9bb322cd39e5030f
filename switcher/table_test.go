package switcher

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const docsPath = "../docs/switcher.md"

// tableText is the transition table as docs/switcher.md has it: drawn, and as a table.
func tableText() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> registered\n")
	for _, t := range transitions {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", t.from, t.to, t.on)
	}
	b.WriteString("```\n\n| state | on | next | what is done |\n|---|---|---|---|\n")
	for _, t := range transitions {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.from, t.on, t.to, t.does)
	}
	return b.String()
}

// TestDocsHaveTheTable: docs/switcher.md shows the table that the core goes by. UPDATE_DOCS=1 writes it.
func TestDocsHaveTheTable(t *testing.T) {
	data, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	const open, shut = "<!-- transitions: written by go test -run TestDocsHaveTheTable ./switcher -->\n", "<!-- end of transitions -->"
	before, rest, ok1 := strings.Cut(string(data), open)
	old, after, ok2 := strings.Cut(rest, shut)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table: %q … %q", docsPath, open, shut)
	}
	if old == tableText() {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s shows another table than the code; UPDATE_DOCS=1 go test -run TestDocsHaveTheTable ./switcher writes it", docsPath)
	}
	if err := os.WriteFile(docsPath, []byte(before+open+tableText()+shut+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTableIsSound: one transition for a state and step, and from everywhere there is a way to the end.
func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range transitions {
		k := string(x.from) + " " + string(x.on)
		if seen[k] {
			t.Errorf("two transitions for %s", k)
		}
		seen[k] = true
		if x.from != runNew && !can(x.from, onEnd) {
			t.Errorf("the session cannot end while a leg is %s", x.from)
		}
		if x.from == runFailed || x.from == runStopped {
			t.Errorf("%s is not the end of a leg", x.from)
		}
	}
	for _, s := range []runState{runPreparing, runReady, runSettling, runCommitting, runActive} {
		if !can(s, onDied) {
			t.Errorf("a leg that is %s cannot die", s)
		}
		if !slices.ContainsFunc(transitions, func(x transition) bool { return x.to == s }) {
			t.Errorf("no way to %s", s)
		}
	}
}
