package load

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantilesAreRightToThreeDigits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := newHistogram()
	samples := make([]float64, 20000)
	for i := range samples {
		d := time.Duration(random.ExpFloat64() * float64(12*time.Millisecond))
		samples[i] = float64(d.Microseconds()) / 1000
		h.add(d)
	}
	slices.Sort(samples)
	got := h.times()
	for q, value := range map[float64]float64{0.5: got.P50, 0.9: got.P90, 0.95: got.P95, 0.99: got.P99, 0.999: got.P999, 1: got.Max} {
		want := samples[int(math.Ceil(q*float64(len(samples))))-1]
		if math.Abs(value-want) > 0.002*want+0.001 {
			t.Errorf("quantile %g is %g, want %g", q, value, want)
		}
	}
	if got.Count != 20000 || math.Abs(got.Mean-12) > 0.5 {
		t.Errorf("%d of %g ms on the average", got.Count, got.Mean)
	}
	counted := int64(0)
	for i, b := range got.Bins {
		counted += b.Count
		if i > 0 && math.Abs(b.UpTo/got.Bins[i-1].UpTo-math.Pow(2, 1.0/perDouble)) > 1e-9 {
			t.Errorf("bin %d ends at %g after %g", i, b.UpTo, got.Bins[i-1].UpTo)
		}
	}
	if counted != 20000 {
		t.Errorf("the bins hold %d", counted)
	}
}

func TestHistogramTakesAnything(t *testing.T) {
	t.Parallel()
	h := newHistogram()
	if got := h.times(); got.Count != 0 || got.P99 != 0 || got.String() != "none" {
		t.Errorf("empty: %+v", got)
	}
	for _, d := range []time.Duration{-time.Second, 0, 1, 1000 * time.Hour} {
		h.add(d)
	}
	if got := h.times(); got.Count != 4 || got.P50 > 0.01 || got.Max < 599_000 {
		t.Errorf("%+v", got)
	}
}

func TestMetricsAreRead(t *testing.T) {
	t.Parallel()
	f := parseMetrics("# HELP a b\n# TYPE a counter\na 3\nb{x=\"1 2\"} 4\nb{x=\"3\"} 1e3\nnonsense\nc NaNx\n")
	if f["a"] != 3 || f["b"] != 1004 || f[`b{x="1 2"}`] != 4 || len(f) != 4 {
		t.Errorf("%v", f)
	}
}

// good is a report in which nothing is wrong.
func good() *Report {
	return &Report{
		Seconds: 10, Publishers: Publishers{Wanted: 2, Sessions: 2, Connected: 2, Frames: 600}, Agents: Agents{Wanted: 2},
		Images:  Images{Received: 20, PerSecond: 1.9, Wanted: 2, SentToAgent: Times{Count: 20, P99: 40}},
		Context: Context{Checked: 2, Exact: 2, Append: Times{Count: 4, P99: 8}}, Switches: Switches{Committed: 3, Took: Times{Count: 3, P99: 30}},
		Gateway: Gateway{Known: true, VideoKnown: true, FromEmpty: true, RSSMaxMiB: 60, RSSPerSessionMiB: 2.5, CPUPerSessionPercent: 4, Lost: 1},
		Errors:  map[string]int{"agent: rate_limited": 2},
	}
}

func TestLimitsAndExitCodes(t *testing.T) {
	t.Parallel()
	all := "--switch-every 1s --max-p99-image-ms 40 --max-p99-append-ms 8 --max-p99-switch-ms 30 --min-images-percent 95 --max-lost 1 " +
		"--max-errors 2 --max-rss-mib 60 --max-rss-mib-per-session 2.5 --max-cpu-percent-per-session 4"
	for _, test := range []struct {
		name, args string
		change     func(*Report)
		code       int
		want       string // in a sentence, once
	}{
		{"all kept", all, func(*Report) {}, exitFine, ""},
		{"no limits", "", func(*Report) {}, exitFine, ""},
		{"images late", all, func(r *Report) { r.Images.SentToAgent.P99 = 40.2 }, exitBroken, "within: 40.2 ms, allowed are at most 40 ms (--max-p99-image-ms)"},
		{"appends late", all, func(r *Report) { r.Context.Append.P99 = 9 }, exitBroken, "(--max-p99-append-ms)"},
		{"switches late", all, func(r *Report) { r.Switches.Took.P99 = 31 }, exitBroken, "(--max-p99-switch-ms)"},
		{"no switch", all, func(r *Report) { r.Switches.Took = Times{} }, exitBroken, "could not be told"},
		{"few images", all, func(r *Report) { r.Images.PerSecond = 1.8 }, exitBroken, "90 %, allowed are at least 95 % (--min-images-percent)"},
		{"lost", all, func(r *Report) { r.Gateway.Lost = 2 }, exitBroken, "(--max-lost)"},
		{"errors", all, func(r *Report) { r.Errors["x"] = 1 }, exitBroken, "(--max-errors)"},
		{"memory", all, func(r *Report) { r.Gateway.RSSMaxMiB = 61 }, exitBroken, "(--max-rss-mib)"},
		{"memory of one", all, func(r *Report) { r.Gateway.RSSPerSessionMiB = 2.6 }, exitBroken, "(--max-rss-mib-per-session)"},
		{"memory with others", all, func(r *Report) { r.Gateway.FromEmpty = false }, exitBroken, "could not be told"},
		{"CPU", all, func(r *Report) { r.Gateway.CPUPerSessionPercent = 5 }, exitBroken, "(--max-cpu-percent-per-session)"},
		{"no metrics", "--max-lost 0", func(r *Report) { r.Gateway = Gateway{} }, exitBroken, "could not be told"},
		{"another server", "--max-lost 0", func(r *Report) { r.Gateway.VideoKnown = false }, exitBroken, "could not be told"},
		{"a publisher failed", "", func(r *Report) { r.Publishers.Failed = 1 }, exitBroken, "1 of 2 publishers failed"},
		{"a publisher failed, within the limit", "--max-errors 2", func(r *Report) { r.Publishers.Failed = 1 }, exitFine, ""},
		{"context", "", func(r *Report) {
			r.Context.Exact, r.Context.Differences = 1, []string{"load-2: agents 1 and 2 were sent different entries 7"}
		}, exitBroken, "different entries 7"},
		{"left", "", func(r *Report) { r.Publishers.Left = 1 }, exitBroken, "could not be deleted"},
		{"no image", "", func(r *Report) { r.Images.Received = 0 }, exitBroken, "no agent received an image"},
		{"nobody", "", func(r *Report) { r.Publishers.Connected = 0 }, exitUsage, "is the gateway running there?"},
		{"nobody is let in", "", func(r *Report) {
			r.Publishers.Connected, r.Errors = 0, map[string]int{"publisher: unauthenticated": 3}
		}, exitUsage, "no publisher could connect to http://127.0.0.1:8080: unauthenticated"},
	} {
		o, err := parse(strings.Fields(test.args), none, io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		r := good()
		test.change(r)
		r.Limits = o.judge(r)
		var out bytes.Buffer
		if code := verdict(&o, r, &out); code != test.code || !strings.Contains(out.String(), test.want) || (test.want == "") != (out.Len() == 0) || strings.Count(out.String(), "\n") > 1 {
			t.Errorf("%s: exit %d, said %q", test.name, code, out.String())
		}
	}
}

func TestPageIsWellFormedAndNeedsNothingElse(t *testing.T) {
	t.Parallel()
	r := good()
	r.Errors["<script>alert(1)</script> & more"] = 3
	r.Asked = "2 publishers of <b>"
	h := newHistogram()
	for i := range 1000 {
		h.add(time.Duration(i) * time.Millisecond)
	}
	r.Images.SentToAgent = h.times()
	for i := range 2000 {
		r.Samples = append(r.Samples, Sample{Seconds: float64(i - 3), Images: float64(i % 7), P99: 30, RSS: 60.5, CPU: 0.25})
	}
	page, err := r.page()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("within the limits")) || bytes.Contains(page, []byte(">-0 s")) || !bytes.Contains(page, []byte(">0 s")) {
		t.Error("the page does not say that all is well, or time has a -0")
	}
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAll(page, -1)
	if len(plots) < 9 {
		t.Errorf("%d plots", len(plots))
	}
	for _, p := range plots {
		for d := xml.NewDecoder(bytes.NewReader(p)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %.300s", err, p)
			}
		}
		if bytes.Contains(p, []byte("NaN")) || bytes.Contains(p, []byte("Inf")) {
			t.Errorf("no number in %.300s", p)
		}
	}
	if outside := regexp.MustCompile(`(?i)https?:|src=|href=|@import|url\(|<script`).Find(page); outside != nil {
		t.Errorf("the page has %q", outside)
	}
	if !bytes.Contains(page, []byte("&lt;script&gt;")) || !bytes.Contains(page, []byte("prefers-color-scheme: dark")) {
		t.Error("an error's text is not escaped, or there is no dark side")
	}
	// Every element that is opened is closed.
	open := regexp.MustCompile(`<(html|head|body|table|tr|th|td|div|section|h1|h2|p|style|title|span)[ >]`).FindAllSubmatch(page, -1)
	closed := regexp.MustCompile(`</(html|head|body|table|tr|th|td|div|section|h1|h2|p|style|title|span)>`).FindAllSubmatch(page, -1)
	count := map[string]int{}
	for _, m := range open {
		count[string(m[1])]++
	}
	for _, m := range closed {
		count[string(m[1])]--
	}
	count["title"] = 0 // of SVG bars, too: parsed above
	for name, n := range count {
		if n != 0 {
			t.Errorf("<%s>: %d more opened than closed", name, n)
		}
	}
	r.Wrong = []string{"1 of 2 publishers failed"} // what no limit is about
	if bad, err := r.page(); err != nil || bytes.Contains(bad, []byte("within the limits")) || !bytes.Contains(bad, []byte("1 of 2 publishers failed")) {
		t.Errorf("the page of a run that went wrong does not say so: %v", err)
	}
	if empty, err := (&Report{Errors: map[string]int{}}).page(); err != nil || len(empty) < 1000 {
		t.Errorf("the page of an empty report: %v", err)
	}
}

func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	w := &watch{every: 1}
	for i := range 20 * maxSamples {
		w.keep(Sample{Seconds: float64(i)})
	}
	if len(w.samples) >= maxSamples || len(w.samples) < maxSamples/2 {
		t.Errorf("%d samples", len(w.samples))
	}
	step := w.samples[1].Seconds - w.samples[0].Seconds
	for i := 1; i < len(w.samples); i++ {
		if got := w.samples[i].Seconds - w.samples[i-1].Seconds; got > 2*step {
			t.Fatalf("a hole of %g s among samples %g s apart", got, step)
		}
	}
}
