package importer

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chatctx "sightline/context"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is what a dump comes to.
type golden struct {
	Report Report
	Items  chatctx.Items
}

// TestGoldenDumps reads the dumps of every format, written by hand from the formats' documentation, and holds what comes out
// against what a person has looked at.
func TestGoldenDumps(t *testing.T) {
	dumps, err := filepath.Glob("testdata/dumps/*")
	if err != nil || len(dumps) < 20 {
		t.Fatal(dumps, err)
	}
	for _, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			data, err := os.ReadFile(dump)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{}
			if strings.Contains(dump, "finetune") {
				o.Conversation = 2
			}
			items, report, err := Read(Bytes(data), o)
			if err != nil {
				t.Fatal(err)
			}
			if want := Format(strings.SplitN(filepath.Base(dump), "-", 2)[0]); wanted(want) != report.Format {
				t.Errorf("read as %s (%s)", report.Format, report.Why)
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.SetIndent("", " ")
			if err := e.Encode(golden{report, items}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata/golden", filepath.Base(dump)+".json")
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("got %s\nwant %s", b.Bytes(), want)
			}
		})
	}
}

// wanted is the format that a dump's name begins with.
func wanted(name Format) Format {
	switch {
	case name == "pipecat":
		return OpenAI
	case name == "claude":
		return Anthropic
	case name == "transport.json":
		return Transport
	case name == "transcript.txt":
		return Text
	}
	return name
}
