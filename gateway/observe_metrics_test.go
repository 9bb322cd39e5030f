package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sightline/frames"
	"sightline/gateway/rtc"
)

func parseMetrics(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelsOf(f *dto.MetricFamily) []string {
	names := map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			names[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// checkMetrics: what is exported is named as Prometheus wants it, has bounded labels, and is what PROTOCOL.md lists, word for word.
func checkMetrics(t *testing.T, text []byte) {
	families := parseMetrics(t, text)
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	protocol, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(sightline_[a-z0-9_]+)` \\|.*$").FindAllSubmatch(protocol, -1) {
		documented[string(row[1])] = string(row[0])
	}
	ours := 0
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if !strings.HasPrefix(name, "sightline_") {
			continue
		}
		ours++
		labels := ""
		if l := labelsOf(f); len(l) > 0 {
			labels = "`" + strings.Join(l, "`, `") + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(f.GetType().String()), labels, f.GetHelp())
		if documented[name] != row {
			t.Errorf("PROTOCOL.md has not the line\n%s", row)
		}
		delete(documented, name)
		if len(f.Metric) > 60 {
			t.Errorf("%s has %d series after one call", name, len(f.Metric))
		}
	}
	for name := range documented {
		t.Errorf("PROTOCOL.md lists %s, which is not exported", name)
	}
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total", "go_build_info"} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if ours < 80 {
		t.Errorf("only %d metrics", ours)
	}
	for _, m := range families["sightline_stage_seconds"].GetMetric() {
		if n := m.GetHistogram().GetSampleCount(); n == 0 {
			t.Errorf("nothing was measured of stage %v", m.Label)
		}
	}
}

// uncounted are numbers of snapshots that are no counters, or stand in another metric.
var uncounted = map[string]string{
	"PLIAnswerTime": "of one track", "LastCaptureError": "of one track", "Out.MaxLate": "of one session: /debug/sessions", "Out.Late": "sound_packets_sent_late_total sums those beyond 20 ms",
	"Legs.Switches": "pipeline_switches_total", "Legs.Aborts": "pipeline_switches_total", "Legs.Noops": "pipeline_switches_total", "Legs.Failovers": "pipeline_losses_total",
}

// TestEveryCounterIsExported: each number of what tracks, sound, legs and the media engine count comes out of a metric. Who adds one
// adds a metric.
func TestEveryCounterIsExported(t *testing.T) {
	check(t, videoFigures, frames.TrackStats{})
	check(t, voiceFigures, voiceStats{})
	check(t, mediaFigures, rtc.EngineStats{})
	check(t, stillFigures, frames.StillsStats{})
	check(t, trafficFigures, trafficStats{})
}

func check[T any](t *testing.T, figures []figure[T], zero T) {
	t.Helper()
	numbers(reflect.TypeOf(zero), nil, func(path []int, name string) {
		if uncounted[name] != "" {
			return
		}
		s := zero
		v := reflect.ValueOf(&s).Elem().FieldByIndex(path)
		const much = 3_000_000_000 // three seconds, of a duration
		if v.CanUint() {
			v.SetUint(much)
		} else {
			v.SetInt(much)
		}
		var sum T
		addUp(&sum, s)
		shown := false
		for _, f := range figures {
			if n := f.value(&sum); n == much || n == 3 {
				shown = true
			}
		}
		if !shown {
			t.Errorf("%T.%s is counted and not exported: give it a figure in gateway/metrics*.go and a line in PROTOCOL.md", zero, name)
		}
	})
	ch := make(chan prometheus.Metric, len(figures))
	emit(ch, figures, &zero)
	if len(ch) != len(figures) {
		t.Errorf("%d of %d figures", len(ch), len(figures))
	}
}

// numbers visits all whole numbers of a struct.
func numbers(t reflect.Type, path []int, visit func(path []int, name string)) {
	namedNumbers(t, path, "", visit)
}

func namedNumbers(t reflect.Type, path []int, prefix string, visit func(path []int, name string)) {
	for i := range t.NumField() {
		f := t.Field(i)
		at, name := append(slices.Clone(path), i), prefix+f.Name
		switch {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct:
			namedNumbers(f.Type, at, name+".", visit)
		case f.Type.Kind() == reflect.Uint64 || f.Type.Kind() == reflect.Int64: // what is counted; of an int there is one now
			visit(at, name)
		case f.Type.Kind() == reflect.Array:
			if uncounted[name] == "" {
				visit(at, name) // fails there: arrays need a figure by hand
			}
		}
	}
}

const dashboardFile = "../docs/grafana/sightline.json"

// checkDashboard: every metric and label that the dashboard asks for is there after a real call.
func checkDashboard(t *testing.T, text []byte) {
	families := parseMetrics(t, text)
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Panels     []dashboardPanel
		Templating struct{ List []struct{ Query any } }
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" {
		t.Error("the dashboard has no uid or title")
	}
	used := map[string]bool{}
	panels := 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 || p.Title == "" || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q (%s) has no query, title or unit", p.Title, p.Type)
		}
		for _, target := range p.Targets {
			if err := checkQuery(target.Expr, families, used); err != nil {
				t.Errorf("panel %q: %s: %v", p.Title, target.Expr, err)
			}
		}
	}
	if panels < 30 || len(used) < 50 {
		t.Errorf("%d panels over %d metrics", panels, len(used))
	}
}

type dashboardPanel struct {
	Type, Title string
	Targets     []struct{ Expr string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// TestQueriesAreChecked: the check of queries finds what is wrong.
func TestQueriesAreChecked(t *testing.T) {
	families := parseMetrics(t, []byte("# TYPE a_total counter\na_total{cause=\"x\"} 1\n# TYPE b_seconds histogram\nb_seconds_bucket{le=\"+Inf\",stage=\"y\"} 1\nb_seconds_sum{stage=\"y\"} 1\nb_seconds_count{stage=\"y\"} 1\n"))
	for query, want := range map[string]string{
		`sum by (cause) (rate(a_total{instance=~"$instance"}[$__rate_interval]))`:                             "",
		`histogram_quantile(0.95, sum by (le, stage) (rate(b_seconds_bucket{stage!="z"}[$__rate_interval])))`: "",
		`a_total / ignoring(cause) group_left b_seconds_count > 0.5`:                                          "",
		`rate(b_total[5m])`:                          "no metric b_total",
		`rate(b_seconds[5m])`:                        "no metric b_seconds",
		`rate(a_total[5m]`:                           "bracket",
		`sum by (nothing) (a_total)`:                 "no label nothing",
		`a_total{reason="x"}`:                        "no label reason",
		`a_total{cause="x}`:                          "quote",
		`histogram_quantile(0.9, rate(a_total[1m]))`: "a histogram",
		`frobnicate(a_total)`:                        "no function",
		`a_total{cause="q"}`:                         "",
		``:                                           "empty",
	} {
		err := checkQuery(query, families, map[string]bool{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

var (
	queryToken     = regexp.MustCompile(`^(?:\s+|[a-zA-Z_:][a-zA-Z0-9_:]*|\$[a-zA-Z_]+|"[^"\\]*"|[0-9]+(?:\.[0-9]+)?(?:ms|[smhdwy])?|=~|!~|!=|==|<=|>=|[-+*/%^=<>,()\[\]{}@:])`)
	queryWord      = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	queryFunctions = strings.Fields("sum avg min max count topk rate increase histogram_quantile clamp_min time changes delta max_over_time avg_over_time label_replace vector on ignoring group_left group_right by without")
	queryKeywords  = strings.Fields("bool offset and or unless")
)

// checkQuery takes a PromQL query apart as far as names, labels, brackets and functions go; prometheus' own parser would bring its whole
// server along.
func checkQuery(query string, families map[string]*dto.MetricFamily, used map[string]bool) error {
	var tokens []string
	for rest := query; rest != ""; {
		tok := queryToken.FindString(rest)
		if tok == "" {
			return fmt.Errorf("no token, or an open quote, at %q", rest)
		}
		rest = rest[len(tok):]
		if strings.TrimSpace(tok) != "" {
			tokens = append(tokens, tok)
		}
	}
	var names, grouped []string
	var open []string
	labels := map[string]bool{"instance": true, "job": true, "le": false}
	at := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return tokens[i]
	}
	closing := map[string]string{")": "(", "]": "[", "}": "{"}
	metric := ""
	for i, tok := range tokens {
		switch {
		case tok == "(" || tok == "[" || tok == "{":
			kind := tok
			if w := at(i - 1); tok == "(" && slices.Contains([]string{"by", "without", "on", "ignoring"}, w) {
				kind = w
			}
			open = append(open, kind)
		case closing[tok] != "":
			if len(open) == 0 {
				return fmt.Errorf("a bracket %s that nothing opens", tok)
			}
			if top := open[len(open)-1]; top != closing[tok] && (tok != ")" || !queryWord.MatchString(top)) {
				return fmt.Errorf("bracket %s closes %s", tok, top)
			}
			open = open[:len(open)-1]
		case !queryWord.MatchString(tok):
		case len(open) > 0 && queryWord.MatchString(open[len(open)-1]):
			grouped = append(grouped, tok)
		case len(open) > 0 && open[len(open)-1] == "{":
			if !slices.Contains([]string{"=", "!=", "=~", "!~"}, at(i+1)) || !strings.HasPrefix(at(i+2), `"`) {
				return fmt.Errorf("label %s has no matcher, or its value no quote", tok)
			}
			if !hasLabel(families, metric, tok) && !labels[tok] {
				return fmt.Errorf("%s has no label %s", metric, tok)
			}
		case at(i+1) == "(" || slices.Contains(queryFunctions, tok):
			if !slices.Contains(queryFunctions, tok) {
				return fmt.Errorf("no function %s", tok)
			}
		case slices.Contains(queryKeywords, tok):
		default:
			if familyOf(families, tok) == nil {
				return fmt.Errorf("no metric %s", tok)
			}
			metric = tok
			names = append(names, tok)
			used[tok] = true
		}
	}
	switch {
	case len(open) > 0:
		return fmt.Errorf("bracket %s is not closed", open[len(open)-1])
	case len(names) == 0:
		return fmt.Errorf("it is empty of metrics")
	case strings.Contains(query, "histogram_quantile") && !strings.HasSuffix(names[0], "_bucket"):
		return fmt.Errorf("histogram_quantile wants the buckets of a histogram")
	}
	for _, l := range grouped {
		if !labels[l] && !slices.ContainsFunc(names, func(n string) bool { return hasLabel(families, n, l) }) {
			return fmt.Errorf("no label %s in %v", l, names)
		}
	}
	return nil
}

// familyOf finds the metric of a series' name: those of a histogram have a suffix.
func familyOf(families map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	f := families[name]
	if f != nil && f.GetType() != dto.MetricType_HISTOGRAM && f.GetType() != dto.MetricType_SUMMARY {
		return f
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && suffix != "_bucket" && families[base] != nil && families[base].GetType() == dto.MetricType_SUMMARY {
			return families[base]
		}
		if base, ok := strings.CutSuffix(name, suffix); ok && families[base] != nil && families[base].GetType() == dto.MetricType_HISTOGRAM {
			return families[base]
		}
	}
	return nil
}

func hasLabel(families map[string]*dto.MetricFamily, name, label string) bool {
	f := familyOf(families, name)
	return f != nil && (slices.Contains(labelsOf(f), label) || label == "le" && strings.HasSuffix(name, "_bucket"))
}
