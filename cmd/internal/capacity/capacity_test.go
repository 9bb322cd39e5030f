package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPlotIsWellFormed(t *testing.T) {
	for _, costs := range [][]float64{{3, 1, 0.7, 0.65, 0.64}, {0, 0, 0, 0, 0}} {
		text := plot([]int{1, 10, 50, 100, 200}, costs)
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
		}
		if strings.Contains(text, "NaN") || strings.Count(text, "<circle") != 5 {
			t.Errorf("%s", text)
		}
	}
}

func TestHeld(t *testing.T) {
	for text, want := range map[string]bool{
		`{"images":{"per_second":8.5,"wanted_per_second":10,"sent_to_agent_ms":{"p99":500}}}`:  true,
		`{"images":{"per_second":8.4,"wanted_per_second":10,"sent_to_agent_ms":{"p99":20}}}`:   false,
		`{"images":{"per_second":10,"wanted_per_second":10,"sent_to_agent_ms":{"p99":500.1}}}`: false,
		`{}`: false,
	} {
		var f figures
		if err := json.Unmarshal([]byte(text), &f); err != nil || f.held() != want {
			t.Errorf("%s: held %v, %v", text, f.held(), err)
		}
	}
}

// TestSessionsThatWereNotCheckedAreMissed: 99 exact ones of 99 that were checked are not all of 100.
func TestSessionsThatWereNotCheckedAreMissed(t *testing.T) {
	var f figures
	for exact, want := range map[int]string{100: "all", 99: "**missed**, all", 0: "**missed**, all"} {
		f.Context.Exact, f.Context.Checked = exact, exact
		if got := f.all(100); got != want {
			t.Errorf("%d exact of 100: %q, want %q", exact, got, want)
		}
	}
}

// TestClimbStopsWhereNothingIsHeld plays sightline-load by a script that holds as many sessions as it is told.
func TestClimbStopsWhereNothingIsHeld(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "load")
	text := `#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --publishers) n=$2;; --json) json=$2;; esac; shift; done
if [ "$n" -le 6 ]; then p=20; else p=900; fi
echo '{"images":{"per_second":1,"wanted_per_second":1,"sent_to_agent_ms":{"p99":'$p'}}}' >"$json"
[ "$n" -le 6 ]
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := &capacity{load: script, work: folder, out: &out, progress: io.Discard, seconds: time.Second}
	started := 0
	held, err := c.climb(t.Context(), "it", video{"480p", "x.ivf", 1, 1}, ladder, func(context.Context) (string, []string, func() error, error) {
		started++
		return "http://x", nil, func() error { return nil }, nil
	})
	if err != nil || held != 6 || started != 5 { // 2, 4, 6, and 8 twice
		t.Errorf("held %d after %d starts, %v", held, started, err)
	}
	if !strings.Contains(out.String(), "| it | 8 |") || strings.Contains(out.String(), "| it | 10 |") {
		t.Errorf("%s", out.String())
	}
}
