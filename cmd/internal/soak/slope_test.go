package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sightline/cmd/internal/gatewaybench/probe"
)

// run1 is a run of half an hour whose memory is a saw with noise on a slope of so many MB an hour.
func run1(perHour float64) *result {
	rng := rand.New(rand.NewPCG(1, 2))
	r := &result{began: time.Now(), loadEnded: 30 * time.Minute}
	for at := time.Duration(0); at < 30*time.Minute; at += 2 * time.Second {
		mb := 200 + perHour*at.Hours() + 20*math.Mod(at.Seconds()/47, 1) + 5*rng.NormFloat64()
		r.samples = append(r.samples, sample{at: at, heap: mb / 2 * mib, c: 40 * mib,
			Holdings: probe.Holdings{Resident: int64(mb * mib), Files: 50 + rng.IntN(20), Goroutines: 300 + rng.IntN(100)}})
	}
	return r
}

func TestTellsASlopeFromNoise(t *testing.T) {
	for perHour, grows := range map[float64]bool{0: false, -100: false, 3: false, 20: true, 500: true} {
		r := run1(perHour)
		if r.grows() != grows {
			t.Errorf("%g MB an hour: grows is %v\n%v", perHour, r.grows(), r.judge())
		}
		if j := r.judge()[0]; math.Abs(j.growth-perHour*(j.to-j.from).Hours()) > 4*j.error+1 {
			t.Errorf("%g MB an hour: %v", perHour, j)
		}
	}
}

func TestTooFewSamplesAreNoVerdict(t *testing.T) {
	r := run1(0)
	r.samples = r.samples[:20]
	if !r.grows() {
		t.Error("twenty samples are taken for a proof")
	}
}

func TestPage(t *testing.T) {
	r := run1(500)
	r.errors = []string{"<b>"}
	if err := r.write(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	r.print(&text)
	if page := r.page(); strings.Count(page, "<svg") != len(all) || strings.Contains(page, "<b>") || !strings.Contains(text.String(), "GROWS") {
		t.Errorf("%s\n%s", text.String(), page[:2000])
	}
}

func TestSumOfAMetric(t *testing.T) {
	const text = "# HELP a b\na_total 4\na{x=\"1\"} 1\na{x=\"2\"} 2.5\nb 7\n"
	if v, err := sum(text, "a"); err != nil || v != 3.5 {
		t.Errorf("%v %v", v, err)
	}
	if v, err := sum(text, `a{x="2"}`); err != nil || v != 2.5 {
		t.Errorf("%v %v", v, err)
	}
	if _, err := sum(text, "c"); err == nil {
		t.Error("a metric that is not there is 0")
	}
}
