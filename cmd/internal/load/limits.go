package load

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
)

// limit is one figure of the report that may not be passed.
type limit struct {
	name, unit, what string
	atLeast          bool
	of               func(*Report) (value float64, known bool)

	set   bool
	bound float64
}

// String implements flag.Value.
func (l *limit) String() string {
	if l == nil || !l.set {
		return ""
	}
	return strconv.FormatFloat(l.bound, 'g', -1, 64)
}

// Set implements flag.Value.
func (l *limit) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || v != v {
		return errors.New("a number is allowed, 0 and more")
	}
	l.set, l.bound = true, v
	return nil
}

// Verdict is a limit of the report.
type Verdict struct {
	Flag     string   `json:"flag"`
	Bound    float64  `json:"bound"`
	Measured *float64 `json:"measured"` // null: nobody could tell
	Broken   bool     `json:"broken"`
	Sentence string   `json:"sentence"`
}

func (l *limit) judge(r *Report) Verdict {
	v := Verdict{Flag: "--" + l.name, Bound: l.bound}
	value, known := l.of(r)
	if !known {
		v.Broken = true
		v.Sentence = fmt.Sprintf("%s: could not be told, allowed are %s %g %s", l.what, l.side(), l.bound, l.unit)
		return v
	}
	v.Measured = &value
	v.Broken = value > l.bound
	if l.atLeast {
		v.Broken = value < l.bound
	}
	v.Sentence = fmt.Sprintf("%s: %.4g %s, allowed are %s %g %s", l.what, value, l.unit, l.side(), l.bound, l.unit)
	return v
}

func (l *limit) side() string {
	if l.atLeast {
		return "at least"
	}
	return "at most"
}

func p99(t Times) (float64, bool) { return t.P99, t.Count > 0 }

// limitFlags are the limits that can be set.
func limitFlags(f *flag.FlagSet) []*limit {
	all := []*limit{
		{name: "max-p99-image-ms", unit: "ms", what: "99 of 100 images were at their agent, after the last packet of their frame was sent, within",
			of: func(r *Report) (float64, bool) { return p99(r.Images.SentToAgent) }},
		{name: "max-p99-append-ms", unit: "ms", what: "99 of 100 messages were acknowledged within",
			of: func(r *Report) (float64, bool) { return p99(r.Context.Append) }},
		{name: "max-p99-switch-ms", unit: "ms", what: "99 of 100 switches were committed within",
			of: func(r *Report) (float64, bool) { return p99(r.Switches.Took) }},
		{name: "min-images-percent", unit: "%", what: "images that came, of those asked for", atLeast: true,
			of: func(r *Report) (float64, bool) {
				return 100 * r.Images.PerSecond / r.Images.Wanted, r.Images.Wanted > 0
			}},
		{name: "max-lost", unit: "packets", what: "RTP packets of video that reached the gateway half a second after their turn, or never",
			of: func(r *Report) (float64, bool) { return r.Gateway.Lost, r.Gateway.VideoKnown }},
		{name: "max-errors", unit: "errors", what: "errors of all kinds",
			of: func(r *Report) (float64, bool) { return float64(countAll(r.Errors)), true }},
		{name: "max-rss-mib", unit: "MiB", what: "memory of the gateway",
			of: func(r *Report) (float64, bool) { return r.Gateway.RSSMaxMiB, r.Gateway.Known }},
		{name: "max-rss-mib-per-session", unit: "MiB", what: "memory of the gateway for one session, beyond what it had without any",
			of: func(r *Report) (float64, bool) {
				return r.Gateway.RSSPerSessionMiB, r.Gateway.Known && r.Gateway.FromEmpty
			}},
		{name: "max-cpu-percent-per-session", unit: "% of a core", what: "CPU of the gateway for one session",
			of: func(r *Report) (float64, bool) { return r.Gateway.CPUPerSessionPercent, r.Gateway.Known }},
	}
	for _, l := range all {
		f.Var(l, l.name, fmt.Sprintf("limit: %s %s so many `%s`", l.what, l.side(), l.unit))
	}
	return all
}

// checkLimits refuses a limit whose figure could never come about.
func checkLimits(o *options) error {
	for _, l := range o.limits {
		switch {
		case !l.set:
		case (l.name == "max-p99-image-ms" || l.name == "min-images-percent") && o.agents == 0:
			return fmt.Errorf("--%s needs agents: nobody would receive an image", l.name)
		case l.name == "max-p99-append-ms" && (o.agents == 0 || o.appendEvery == 0 || o.noContext):
			return fmt.Errorf("--%s needs agents that add messages", l.name)
		case l.name == "max-p99-switch-ms" && o.switchEvery == 0:
			return fmt.Errorf("--%s needs --switch-every", l.name)
		}
	}
	return nil
}

// judge tells every limit that was set.
func (o *options) judge(r *Report) (verdicts []Verdict) {
	for _, l := range o.limits {
		if l.set {
			verdicts = append(verdicts, l.judge(r))
		}
	}
	return verdicts
}

func (o *options) limited(name string) bool {
	for _, l := range o.limits {
		if l.name == name {
			return l.set
		}
	}
	return false
}
